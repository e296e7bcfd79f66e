# SPDX-License-Identifier: GPL-2.0-only
"""import_image.py FOLDER MODULE writes the image of a program in FOLDER to the standard output.

That is (version of Python, {module: (file, folder of a package or None, byte code as marshal writes it)}) of all that
the program imports from FOLDER and from Python's own library, also of what it names in ALSO as it may import it later.
Paths in FOLDER are relative to it, as the code may lie anywhere. What this one imports would be in the image, too.
Debian's packages (Mininet, of process 1) are found and left out: they may be others tomorrow.
"""
import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types

_BEFORE = set(sys.modules)
_PACKAGES = "/usr/lib/python3/dist-packages"
#: of a file of byte code (PEP 552)
_HEADER_BYTES = 16


def _main(folder: str, module: str) -> None:
    sys.path.insert(0, folder)
    sys.path.append(_PACKAGES)
    sys.modules["pexpect"] = None               # type: ignore[assignment]      # as for process 1
    __import__(module)
    for name in getattr(sys.modules[module], "ALSO", ()):
        __import__(name)
    library = sys._stdlib_dir + "/"                                                 # type: ignore[attr-defined]
    found = {}
    for name, loaded in sorted(sys.modules.items()):
        spec = getattr(loaded, "__spec__", None)
        if name in _BEFORE or not spec or name != spec.name or not spec.has_location:
            continue
        if not spec.origin.startswith((library, folder + "/")) or not hasattr(spec.loader, "get_code"):
            continue
        package, code = spec.submodule_search_locations, spec.loader.get_code(name)
        if code is not None:                    # an extension module has none
            found[name] = (spec.origin.removeprefix(folder + "/"),
                           package[0].removeprefix(folder + "/") if package else None, _written(spec, code))
    sys.stdout.buffer.write(marshal.dumps((sys.version, found)))


def _written(spec: object, code: "types.CodeType") -> bytes:
    """Byte code as it lies in a file, if it does: what marshal makes of the same code is not always the same."""
    try:
        data: bytes = spec.loader.get_data(spec.cached)[_HEADER_BYTES:]             # type: ignore[attr-defined]
        return data if marshal.loads(data) == code else marshal.dumps(code)
    except OSError:
        return marshal.dumps(code)


if __name__ == "__main__":
    _main(*sys.argv[1:])

# SPDX-License-Identifier: GPL-2.0-only
"""start.py IMAGE MODULE ARGUMENT... does what `python3 -m MODULE ARGUMENT...` does, with what it imports from one file.

A file that is looked for, opened, read and closed is a dozen system calls of a guest, and a program imports seventy.
The image (testbed/runs/import_image.py) has the byte code of all; what is not in it is found as usual.
"""
import marshal
import sys
from importlib.machinery import ModuleSpec

#: the folder that paths in an image are relative to: that of the code, wherever it lies
_CODE = __file__.rpartition("/testbed/guest/")[0]


class Image:
    """A finder and loader of the modules in an image, {name: (file, folder of a package or None, byte code)}."""

    def __init__(self, modules: dict[str, tuple[str, str | None, bytes]]) -> None:
        self.modules = modules

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        file, folder, _ = self.modules[name]
        spec = ModuleSpec(name, self, origin=_there(file), is_package=folder is not None)  # type: ignore[arg-type]
        spec.has_location = True
        if folder is not None:
            spec.submodule_search_locations = [_there(folder)]
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """As usual."""

    def exec_module(self, module: object) -> None:
        # not kept: each program of a guest would hold its image twice
        _, _, code = self.modules.pop(module.__name__)                                  # type: ignore[attr-defined]
        exec(marshal.loads(code), module.__dict__)                                      # type: ignore[attr-defined]


def _there(path: str) -> str:
    return path if path.startswith("/") else f"{_CODE}/{path}"


def load(path: str) -> Image:
    """Have what is imported from here on looked for in an image first; nothing is in one of another Python."""
    with open(path, "rb", 0) as file:
        version, modules = marshal.loads(file.read())
    image = Image(modules if version == sys.version else {})
    sys.meta_path.insert(0, image)                                                  # type: ignore[arg-type]
    return image


def main() -> None:
    _, path, name, *arguments = sys.argv
    image = load(path)
    if name not in image.modules:
        import runpy
        sys.argv = [name, *arguments]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    file, code = _there(image.modules[name][0]), image.modules[name][2]
    sys.argv = [file, *arguments]
    package = name.rpartition(".")[0]
    __import__(package)
    names = sys.modules["__main__"].__dict__
    names.update(__file__=file, __package__=package, __spec__=image.find_spec(name), __doc__=None)
    exec(marshal.loads(code), names)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only
"""Which ns-3 there is: Debian's, or with `--ns3 PATH` a built tree or an installation of the user's own."""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import re

from testbed.core.errors import EnvironmentProblem, UsageError

#: Debian's
SYSTEM = pathlib.Path("/usr")
_MODULES = ("internet", "traffic-control", "network", "core")
#: below a prefix, or below a tree that ns-3's own build has filled
_HEADERS = ("build/include/ns3", "include/ns3")
_LIBRARIES = ("build/lib", "lib", "lib64", "lib/*-linux-gnu")
#: libns3-core.so, libns3.43-core-default.so, libns3-dev-core-debug.so
_CORE = re.compile(r"(?P<before>libns(?P<version>3(?:\.\d+)*)(?:-dev)?-)core"
                   r"(?P<after>(?:-(?:debug|default|release|optimized|minsizerel|relwithdebinfo))?\.so)")
#: ns-3's headers want a newer language from this version on, and do not compile with it before
_CXX20_FROM = (3, 41)
#: characters of a path that an error shows
_SHOWN = 200
#: what a linker takes for something else in the path of a library
_NO_PATH = re.compile(r"[:;$]")


@dataclasses.dataclass(frozen=True)
class Installation:
    """One ns-3. headers: the folder `ns3` of them; libraries: absolute paths, one for each module."""
    path: pathlib.Path
    headers: pathlib.Path
    libraries: tuple[pathlib.Path, ...]
    version: tuple[int, int]

    @functools.cached_property
    def sha256(self) -> str:
        """Of all headers and of the libraries."""
        digest = hashlib.sha256()
        for file in [*sorted(filter(pathlib.Path.is_file, self.headers.rglob("*.h"))), *self.libraries]:
            with open(file, "rb") as content:
                digest.update(file.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    @property
    def options(self) -> list[str]:
        """What the compiler is told of it; the driver finds its libraries by itself."""
        standard = "gnu++20" if self.version >= _CXX20_FROM else "gnu++17"
        folder = str(self.libraries[0].parent)
        return [f"-std={standard}", "-I", str(self.headers.parent), *map(str, self.libraries), "-Xlinker", "-rpath",
                "-Xlinker", folder]


def find(text: str) -> Installation:
    """The ns-3 of a path that a user named. UsageError, one line, if there is none."""
    path = pathlib.Path(text).expanduser()
    if not text.strip() or not text.isprintable() or _NO_PATH.search(text):
        raise UsageError(f"--ns3 {ascii(text[:_SHOWN])}: a path without : ; $ and control characters expected")
    try:
        path = path.resolve(strict=True)
        found = _look(path)
    except (OSError, RuntimeError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "cannot be read"
        raise UsageError(f"--ns3 {text[:_SHOWN]}: {reason}") from None
    if isinstance(found, str):
        raise UsageError(f"--ns3 {text[:_SHOWN]}: {found}; a built ns-3 tree, or the prefix that it was installed to, "
                         "expected")
    return found


def system() -> Installation | None:
    """Debian's, None if it is not installed."""
    try:
        found = _look(SYSTEM)
    except OSError:
        return None
    return None if isinstance(found, str) else found


def of(option: str | None) -> Installation:
    """What `--ns3` says, or Debian's. UsageError or EnvironmentProblem if there is none."""
    found = system() if option is None else find(option)
    if found is None:
        raise EnvironmentProblem("ns-3's library is missing (apt-get install libns3-dev)")
    return found


def _look(path: pathlib.Path) -> Installation | str:
    """What is at a path, or what is missing there."""
    if not path.is_dir():
        return "no folder"
    headers = next((path / name for name in _HEADERS if (path / name / "core-module.h").is_file()), None)
    if headers is None:
        return "no headers of ns-3 (include/ns3/core-module.h)"
    wrong = f"no libraries of ns-3 ({', '.join(_MODULES)}) in {', '.join(_LIBRARIES)}"
    for core in sorted(file for name in _LIBRARIES for folder in sorted(path.glob(name)) for file in folder.glob(
            "libns3*core*.so")):
        named = _CORE.fullmatch(core.name)
        if named is None:
            continue
        libraries = tuple(core.with_name(f"{named['before']}{module}{named['after']}") for module in _MODULES)
        if not all(library.is_file() for library in libraries):
            continue
        version = _version(path, headers, named["version"])
        if version is None:
            return "its version is not told, neither by version-defines.h nor by its libraries' names or a file VERSION"
        return Installation(path, headers, libraries, version)
    return wrong


def _version(path: pathlib.Path, headers: pathlib.Path, named: str) -> tuple[int, int] | None:
    """Such as (3, 37): from the headers, the names of the libraries, or the tree's file VERSION."""
    texts = []
    for file, pattern in ((headers / "version-defines.h", r"NS3_VERSION_MAJOR (\d+)(?:.|\n)*?NS3_VERSION_MINOR (\d+)"),
                          (path / "VERSION", r"\s*(3)\.(\d+)")):
        if file.is_file():
            texts.append((pattern, file.read_text(encoding="utf-8", errors="replace")[:100_000]))
    texts.insert(1, (r"(3)\.(\d+)", named))
    for pattern, text in texts:
        if match := re.search(pattern, text):
            return int(match[1]), int(match[2])
    return None

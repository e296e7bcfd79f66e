# SPDX-License-Identifier: GPL-2.0-only
"""Out-of-tree modules: built against a guest kernel, loaded once on trial, kept in the cache.

The sources are copied into the cache and built there: nothing is written to the user's
folder, and the sources of a run that has been made stay at hand. Of a .c file its sources are the file and what it
includes from its own folder.
"""
from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence

from kernel import built_files, compiling, includes, trial
from kernel.build import Kernel
from kernel.source import KernelError, cache_dir

_NOT_SOURCES = ("*.md", "*.o", "*.ko", "*.mod", "*.mod.c", ".*.cmd", "*.a", "Module.symvers",
                "modules.order", ".git", ".gitignore", ".tmp_versions")
_MOST_BYTES = 32 << 20
#: what may be a path, a label of a figure and a word on the command line
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,14}")
#: what registers a name of the kernel becomes cubic_2, or up to cubic_9
_MOST_NAMES, _LONGEST_NAME = 9, 15


class ModuleError(KernelError):
    """A module cannot be built or loaded; the message has the compiler's or the kernel's words."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One .ko of a module's sources; needs: names of the parts that are loaded before it."""
    name: str                                   # as in lsmod: tcp_mine
    file: pathlib.Path
    congestion_controls: tuple[str, ...]        # names that it registers
    needs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Module:
    """A module that was built and has been loaded on trial, or several that were built of one folder."""
    parts: tuple[Part, ...]                     # in the order in which they are loaded
    source: str                                 # where the sources were
    sha256: str                                 # of the sources
    warnings: str = ""                          # what the compiler warned of
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)    # {name: that in its source, which is taken}

    @property
    def congestion_controls(self) -> tuple[str, ...]:
        """Names that it registers."""
        return tuple(name for part in self.parts for name in part.congestion_controls)

    @property
    def name(self) -> str:
        return self.part().name

    @property
    def file(self) -> pathlib.Path:
        return self.part().file

    def part(self, congestion_control: str | None = None) -> Part:
        """The part that registers this, or anything; else the last."""
        return next((part for part in self.parts if congestion_control in part.congestion_controls
                     or congestion_control is None and part.congestion_controls), self.parts[-1])

    def part_name(self, congestion_control: str) -> str:
        """What the part is called that registers this."""
        return self.part(congestion_control).name

    def loaded_for(self, congestion_control: str) -> list[Part]:
        """The part that registers this, after those that it needs."""
        wanted = {self.part(congestion_control).name}
        for part in reversed(self.parts):
            if part.name in wanted:
                wanted.update(part.needs)
        return [part for part in self.parts if part.name in wanted]


def build(kernel: Kernel, source: str | pathlib.Path, report: Callable[[str], None] = print) -> Module:
    """The module of `source` for a guest kernel: a .c file, or a folder with a Kbuild or Makefile.

    Raises ModuleError, with paths as the user knows them.
    """
    return build_for(kernel, source, report, lambda built: trial.load(kernel, built))


def build_for(kernel: compiling.Target, source: str | pathlib.Path, report: Callable[[str], None],
              load: Callable[[Sequence[pathlib.Path]], list[list[str]]]) -> Module:
    """The same for any kernel; load(files): loads modules on trial -> names that each registers, or TrialError.

    Raises ModuleError, with paths as the user knows them.
    """
    source = pathlib.Path(os.path.realpath(source))
    files = sources(source)
    digest = _digest(source, files)
    folder = cache_dir() / "modules" / f"{_safe(source.stem)}-{_key(kernel.key, digest, compiling.recipe(kernel))}"
    found = _load(folder, source)
    if not found and not kernel.takes_modules:
        raise ModuleError(f"{source}: cannot be compiled for the kernel {kernel.key}: its tree has gone on to another "
                          "kernel; build that revision again")
    found = found or _build_into(folder, kernel, source, files, digest, report, load)
    for name, taken in found.renamed.items():
        report(f"{source.name}: the kernel has a congestion control {taken} of its own: this one is called {name}")
    return found


def _build_into(folder: pathlib.Path, kernel: compiling.Target, source: pathlib.Path, files: list[pathlib.Path],
                digest: str, report: Callable[[str], None],
                load: Callable[[Sequence[pathlib.Path]], list[list[str]]]) -> Module:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _load(folder, source)
        if found:
            return found
        shutil.rmtree(folder, ignore_errors=True)
        for left in folder.parent.glob(".new-*"):           # of a build that was killed: this one has the lock
            shutil.rmtree(left, ignore_errors=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            report(f"compiling {source.name} for {kernel.release}, loading it once")
            try:
                made = _compiled(kernel, source, files, partial)
                parts, renamed = _tried(made.files, load)
            except (compiling.CompileError, trial.TrialError) as problem:
                raise ModuleError(f"{source}{problem}") from None
            for name in (name for part in parts for name in part.congestion_controls):
                if not _NAME.fullmatch(name):
                    raise ModuleError(f"{source}: registers a congestion control of the name {name!r}: letters, "
                                      "digits, - and _ expected, at most 15, a letter or digit first")
            (partial / "module.json").write_text(json.dumps(
                {"parts": [{"file": part.file.name, "congestion_controls": part.congestion_controls,
                            "needs": part.needs} for part in parts],
                 "source": str(source), "sha256": digest, "warnings": made.warnings, "renamed": renamed}, indent=1),
                encoding="utf-8")
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    found = _load(folder, source)
    if not found:
        raise ModuleError(f"{source}: what was built has gone from {folder}")
    return found


def find(kernel_key: str, sha256: str) -> Module | None:
    """The built module with these sources for this kernel, wherever they came from; None if there is none."""
    for recipe in compiling.RECIPES:
        for folder in sorted((cache_dir() / "modules").glob(f"*-{_key(kernel_key, sha256, recipe)}")):
            module = _load(folder, None)
            if module and module.sha256 == sha256:
                return module
    return None


def digest_of(source: str | pathlib.Path) -> str:
    """SHA-256 of the sources of a module, as `Module.sha256`. Raises ModuleError."""
    source = pathlib.Path(os.path.realpath(source))
    return _digest(source, sources(source))


def _key(kernel_key: str, digest: str, recipe: str) -> str:
    return hashlib.sha256(f"{kernel_key}\0{digest}\0{recipe}".encode()).hexdigest()[:16]


def _safe(stem: str) -> str:
    """`stem` as a name that neither make nor a shell nor C takes for anything else."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)[:40]
    return name if re.match("[A-Za-z]", name) else f"tcp_{name}"


def _load(folder: pathlib.Path, source: pathlib.Path | None) -> Module | None:
    """The module in this folder of the cache; None if there is none, or not a whole one."""
    try:
        facts = json.loads((folder / "module.json").read_text(encoding="utf-8"))
        module = Module(
            tuple(Part(str(part["file"]).removesuffix(".ko").replace("-", "_"), folder / part["file"],
                       tuple(map(str, part["congestion_controls"])), tuple(map(str, part["needs"])))
                  for part in facts["parts"]),
            str(source or facts["source"]), str(facts["sha256"]), str(facts["warnings"]),
            {str(name): str(taken) for name, taken in facts["renamed"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return module if module.parts and all(part.file.is_file() for part in module.parts) else None


def sources(source: pathlib.Path) -> list[pathlib.Path]:
    """Relative paths of the files a module is built from: in `source`, or beside it if that is a file. ModuleError."""
    if source.is_file():
        if source.suffix != ".c":
            raise ModuleError(f"{source}: a .c file or a folder with a Kbuild or Makefile expected")
        if source.stat().st_size > _MOST_BYTES:
            raise ModuleError(f"{source}: more than {_MOST_BYTES >> 20} MB: is this the source of a module?")
        return [pathlib.Path(source.name), *_included(source)]
    if not source.is_dir():
        raise ModuleError(f"{source}: no such file or folder")
    if not any((source / name).is_file() for name in ("Kbuild", "Makefile")):
        raise ModuleError(f"{source}: neither a Kbuild nor a Makefile in it "
                          f"(a line such as `obj-m := {_safe(source.name)}.o` will do)")
    files, size = [], 0
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and not any(part.match(p) for part in (relative, *relative.parents) for p in _NOT_SOURCES):
            files.append(relative)
            size += path.stat().st_size
            if size > _MOST_BYTES:
                raise ModuleError(f"{source}: more than {_MOST_BYTES >> 20} MB of files: "
                                  "is this the folder of a module?")
    return files


def _included(source: pathlib.Path) -> list[pathlib.Path]:
    try:
        return includes.beside(source, _MOST_BYTES)
    except includes.TooMuch as problem:
        raise ModuleError(f"{source}: {problem}") from None


def _digest(source: pathlib.Path, files: list[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for relative in files:
        try:
            data = (_folder(source) / relative).read_bytes()
        except OSError as problem:
            raise ModuleError(f"{problem.filename}: {problem.strerror}") from None
        digest.update(os.fsencode(relative) + f"\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _folder(source: pathlib.Path) -> pathlib.Path:
    """What the paths of its files begin in."""
    return source.parent if source.is_file() else source


def _compiled(kernel: compiling.Target, source: pathlib.Path, files: list[pathlib.Path],
              folder: pathlib.Path) -> compiling.Made:
    """What is built in `folder`. CompileError."""
    _copy(source, files, folder)
    made = compiling.make_modules(kernel, folder, _readable(source, folder))
    other = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        _copy(source, files, other)
        compiling.check_private_state(kernel, other, _readable(source, other))
    finally:
        shutil.rmtree(other, ignore_errors=True)
    return made


def _tried(files: Sequence[pathlib.Path], load: Callable[[Sequence[pathlib.Path]], list[list[str]]]
           ) -> tuple[list[Part], dict[str, str]]:
    """(modules that were loaded on trial, {name: that of the source}).

    Names that the kernel has already are changed in the files: an edited copy of one of the kernel's own can be
    tried as it is. TrialError.
    """
    renamed: dict[str, str] = {}
    files = built_files.in_order(files)
    while True:
        try:
            names = load(files)
            break
        except trial.TakenName as problem:
            try:
                files = _renamed(files, problem, renamed)
            except built_files.NotFound as reason:
                raise trial.TrialError(f"{problem} ({reason})") from None
    there = {file.stem.replace("-", "_") for file in files}
    parts = [Part(file.stem.replace("-", "_"), file, tuple(registered),
                  tuple(need for need in built_files.needs(file) if need in there))
             for file, registered in zip(files, names)]
    return parts, renamed


def _renamed(files: list[pathlib.Path], problem: trial.TakenName, renamed: dict[str, str]) -> list[pathlib.Path]:
    """`files` with another name where the kernel has one already. TrialError, NotFound."""
    taken = problem.congestion_control
    if not taken:
        others = [file for file in files if file != problem.module]
        if any(problem.module.stem in built_files.needs(file) for file in others):
            raise trial.TrialError(str(problem))            # they say by name what they need
        new = built_files.rename_module(problem.module, f"{problem.module.stem.replace('-', '_')[:50]}_given")
        return [new if file == problem.module else file for file in files]
    first = renamed.pop(taken, taken)
    number = 2 if taken == first else int(taken[-1]) + 1
    if number > _MOST_NAMES:
        raise trial.TrialError(str(problem))
    name = f"{first[:_LONGEST_NAME - 2]}_{number}"
    built_files.rename_congestion_control(problem.module, taken, name)
    renamed[name] = first
    return files


def _copy(source: pathlib.Path, files: list[pathlib.Path], target: pathlib.Path) -> None:
    """Put the sources of a module where they are built: a file under a name that is no command."""
    for relative in files:
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_folder(source) / relative, target / relative)
    if source.is_file():
        name = _safe(source.stem)
        os.replace(target / source.name, target / f"{name}.c")
        (target / "Kbuild").write_text(f"obj-m := {name}.o\n", encoding="utf-8")


def _readable(source: pathlib.Path, folder: pathlib.Path) -> Callable[[str], str]:
    """What turns paths of the copy in `folder` into those the user knows."""
    if source.is_file():
        built = str(folder / f"{_safe(source.stem)}.c")
        return lambda text: text.replace(built, str(source)).replace(str(folder), str(source.parent))
    return lambda text: text.replace(str(folder), str(source))

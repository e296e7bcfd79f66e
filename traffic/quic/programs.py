# SPDX-License-Identifier: GPL-2.0-only
"""The QUIC stacks that flows can have, and their programs: stacks/<name>/ has a stack.yaml and the sources.

A program is made once, in the cache, when a run first needs it. `make quic` makes all that can be made here.
"""
import dataclasses
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable

from kernel.source import cache_dir
from testbed.core import cache_dirs, fields, guesses
from testbed.core.errors import EnvironmentProblem, ScenarioError
from testbed.core.fields import FieldError
from testbed.core.yaml_file import YamlFile

FOLDER = pathlib.Path(__file__).with_name("stacks")
PROGRAM = "program"
_NAME = r"[a-z0-9][a-z0-9-]*"
_TOOLS = {"cargo": "cargo", "go": "go", "c": "gcc", "python": "python3"}
#: where a tool comes from of which Debian has none, or an old one
_FROM = {"cargo": "https://rustup.rs", "go": "https://go.dev/dl"}
#: those that run with libraries of the machine
_OF_DEBIAN = ("c", "python")
_LONGEST_BUILD_S = 3600
_LAST_LINES = 4


@dataclasses.dataclass(frozen=True)
class Stack:
    """What stack.yaml says; see stacks/README.md."""
    title: str = fields.text()
    build: str = fields.word(choices=tuple(_TOOLS))
    ccas: tuple[str, ...] = fields.listing(fields.word(pattern=_NAME, example="cubic"), least=1, distinct=True)
    needs: str = fields.word(default="", pattern=r"\d+(\.\d+)*", example="1.85")
    libraries: tuple[str, ...] = fields.listing(fields.word(pattern=r"[A-Za-z0-9_.+-]+", example="gnutls"), default=())
    packages: tuple[str, ...] = fields.listing(fields.word(pattern=r"[a-z0-9.+-]+", example="golang"), default=())
    environment: dict[str, str] = fields.mapping(fields.text(), keys="[A-Za-z_][A-Za-z0-9_]*", example="NAME",
                                                 default={})
    rtt_unit: str = fields.word(default="ms", choices=("s", "ms", "us"))


class NotBuilt(EnvironmentProblem):
    """A program cannot be made here; the message says why, and what to do, in a line."""


def names() -> list[str]:
    """The stacks that there are."""
    return sorted(path.parent.name for path in FOLDER.glob("*/stack.yaml"))


@functools.cache
def read(name: str) -> Stack:
    """A stack. FieldError if there is none of this name; ScenarioError if its file makes no sense."""
    if name not in names():
        raise FieldError("", f"no QUIC stack {fields.show(name)}; {guesses.alternatives(name, names())}")
    file = YamlFile(FOLDER / name / "stack.yaml", {field.name for field in dataclasses.fields(Stack)})
    try:
        return fields.decode(Stack, file.tree)
    except FieldError as problem:
        raise file.error(problem.field, str(problem)) from None


def command(name: str) -> list[str]:
    """How its program begins, in a folder that has it as PROGRAM."""
    return ["/usr/bin/python3", PROGRAM] if read(name).build == "python" else [PROGRAM]


def program(name: str, report: Callable[[str], None]) -> pathlib.Path:
    """The program of a stack, made if need be. NotBuilt if that is not possible; EnvironmentProblem of the cache."""
    target = cache_dir() / "quic" / f"{name}-{_digest(name)}"
    cache_dirs.ensure(target, lambda folder: _make(name, folder / PROGRAM, report))
    return target / PROGRAM


def is_built(name: str) -> bool:
    """Whether its program is in the cache, whole, and what it runs with is there."""
    there = cache_dirs.whole(cache_dir() / "quic" / f"{name}-{_digest(name)}")
    return there and not (read(name).build == "python" and missing(name))


def missing(name: str, versions: bool = True) -> str:
    """What this machine lacks to make its program, and what to do; '' if nothing. versions: tools are asked for theirs,
    which may write to the user's home."""
    stack = read(name)
    tool = _TOOLS[stack.build]
    if shutil.which(tool) is None:
        remedy = f"install it from {_FROM[tool]}" if tool in _FROM else "./setup.sh quic"
        return f"there is no {tool} in PATH: {remedy}"
    if versions and stack.needs and (version := _version(tool)) < _numbers(stack.needs):
        had = ".".join(map(str, version)) or "of an unknown version"
        return f"{tool} {had} is too old: {stack.needs} or newer is needed, from {_FROM[tool]}"
    absent = [one for one in stack.packages if not _installed_version(one)] if shutil.which("dpkg-query") else []
    return f"{', '.join(absent)} missing: ./setup.sh quic" if absent else ""


def _version(tool: str) -> tuple[int, ...]:
    """(1, 85, 0) of a tool; () if it says none."""
    said = subprocess.run([tool, "version" if tool == "go" else "--version"], capture_output=True, text=True,
                          check=False)
    found = re.search(r"\d+(\.\d+)+", said.stdout)
    return _numbers(found.group()) if found else ()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _installed_version(package: str) -> str:
    """Of a Debian package; '' if it is not installed."""
    if shutil.which("dpkg-query") is None:
        return ""
    said = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package], capture_output=True,
                          text=True, check=False).stdout
    return said.removeprefix("installed ") if said.startswith("installed ") else ""


def _files(name: str) -> list[pathlib.Path]:
    own = sorted(path for path in (FOLDER / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return own + _shared(name)


def _shared(name: str) -> list[pathlib.Path]:
    """The sources that all stacks of a language have, beside their folders."""
    return sorted(FOLDER.glob("*.rs")) if read(name).build == "cargo" else []


@functools.cache
def _digest(name: str) -> str:
    """Of all files of a stack, and of the versions of Debian's libraries that its program runs with."""
    stack = read(name)
    versions = map(_installed_version, stack.packages if stack.build in _OF_DEBIAN else ())
    state = hashlib.sha256("".join(versions).encode())
    for path in _files(name):
        data = path.read_bytes()
        state.update(f"{path.relative_to(FOLDER)}\0{len(data)}\0".encode() + data)
    return state.hexdigest()[:16]


def _make(name: str, target: pathlib.Path, report: Callable[[str], None]) -> None:
    if why := missing(name):
        raise NotBuilt(f"{name}: {why}")
    report(f"making the program of the QUIC stack {name} (once; it may take minutes)")
    with tempfile.TemporaryDirectory(prefix="testbed-quic-") as scratch:
        sources, made = pathlib.Path(scratch, "sources"), pathlib.Path(scratch, "made")
        shutil.copytree(FOLDER / name, sources, ignore=shutil.ignore_patterns("__pycache__"))
        for path in _shared(name):
            shutil.copyfile(path, pathlib.Path(scratch, path.name))
        made.mkdir()
        built = _BUILDERS[read(name).build](name, sources, made)
        shutil.copyfile(built, target)


def _cargo(name: str, sources: pathlib.Path, made: pathlib.Path) -> pathlib.Path:
    _run(name, ["cargo", "build", "--release", "--locked", "--target-dir", str(made)], sources)
    programs = [path for path in (made / "release").iterdir() if path.is_file() and os.access(path, os.X_OK)]
    if len(programs) != 1:
        raise NotBuilt(f"{name}: cargo made {len(programs)} programs; one expected")
    return programs[0]


def _go(name: str, sources: pathlib.Path, made: pathlib.Path) -> pathlib.Path:
    _run(name, ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(made / PROGRAM), "."], sources)
    return made / PROGRAM


def _c(name: str, sources: pathlib.Path, made: pathlib.Path) -> pathlib.Path:
    flags = _run(name, ["pkg-config", "--cflags", "--libs", *read(name).libraries], sources).split()
    _run(name, ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(made / PROGRAM),
                *sorted(path.name for path in sources.glob("*.c")), *flags], sources)
    return made / PROGRAM


def _python(_name: str, sources: pathlib.Path, _made: pathlib.Path) -> pathlib.Path:
    return sources / "program.py"


_BUILDERS = {"cargo": _cargo, "go": _go, "c": _c, "python": _python}


def _run(name: str, words: list[str], folder: pathlib.Path) -> str:
    """What a command prints. NotBuilt with its last lines if it fails."""
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              errors="replace", timeout=_LONGEST_BUILD_S)
    except OSError as problem:
        raise NotBuilt(f"{name}: {words[0]}: {problem.strerror}") from None
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{name}: {words[0]} did not end within {_LONGEST_BUILD_S} s") from None
    if done.returncode:
        last = " ".join(" ".join(done.stderr.splitlines()[-_LAST_LINES:]).split())
        raise NotBuilt(f"{name}: {words[0]} failed: {last}")
    return done.stdout


def main() -> None:
    """Make the programs of all stacks; those that cannot be made are named. Status 1 if that is all of them."""
    made = 0
    for name in names():
        try:
            print(f"{name}: {program(name, print)}", flush=True)
            made += 1
        except (NotBuilt, ScenarioError) as problem:
            print(f"not made: {problem}", flush=True)
    raise SystemExit(0 if made else 1)


if __name__ == "__main__":
    main()

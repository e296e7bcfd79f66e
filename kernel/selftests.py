# SPDX-License-Identifier: GPL-2.0-only
"""A kernel tree's own tests (tools/testing/selftests), each in a guest of its own, in virtual time.

They are compiled and installed by the tree's own Makefiles, with the user's rights, as the kernel itself is; the guest
is confined as runs are. What the tests write stays in the guest, or in a folder that is removed afterwards.
"""
from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence

from kernel import build, crash, guest, make, modinfo, source as sources
from kernel.build import Kernel
from kernel.make import Report
from kernel.source import KernelError

_INIT = pathlib.Path(__file__).with_name("selftest_boot.py")
_FOLDER = "tools/testing/selftests"
_COLLECTION = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_MEMORY_MB = 1024
#: what their scripts use and their files `config` do not ask for, since every distribution has it
_TAKEN_FOR_GRANTED = b"\nCONFIG_IP_ROUTE_MULTIPATH=y\n"
#: what the tests' own runner gives those without a file `settings`
_USUAL_LONGEST_S = 45
#: as kselftest has it
_SKIPPED = 4
_SCRIPTS = (".sh", ".py", ".pl")
_TROUBLE = re.compile(r"^(?:\[ *[\d.]+\] )?((?:WARNING|BUG|INFO): .*|Oops.*)", re.M)


class NoSuchTest(KernelError):
    """What was asked for is no collection, or none of its tests."""


@dataclasses.dataclass(frozen=True)
class Collection:
    """Tests of one folder, compiled and installed. tests: all that the folder has, in order."""
    name: str
    kernel: Kernel
    installed: pathlib.Path
    tests: tuple[str, ...]
    longest_s: float
    not_compiled: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Result:
    """Of one test. virtual_s: the time that it took in the guest; output: what it printed; trouble: what the kernel
    complained of, or why there is no exit code."""
    test: str
    exit_code: int | None
    virtual_s: float
    output: str
    trouble: str = ""

    @property
    def skipped(self) -> bool:
        return self.exit_code == _SKIPPED and not self.trouble

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.trouble


def prepare(spec: str | None, name: str, report: Report, options: Sequence[str] = (),
            patterns: Sequence[str] = ()) -> Collection:
    """Build the kernel that a collection such as net/mptcp asks for, and the collection itself. KernelError.

    A pattern that names a script of which the tree has none is refused before anything is built.
    """
    if not _COLLECTION.fullmatch(name):
        raise NoSuchTest(f"{name}: a folder of {_FOLDER} expected, such as net/mptcp")
    if not shutil.which("rsync"):               # what the trees' Makefiles install with
        raise KernelError("to install the tests, first: apt-get install rsync")
    usual = build.ensure(spec, report, options=options)
    folder = usual.source_dir / _FOLDER / name
    if not (folder / "Makefile").is_file():
        known = sorted(str(path.parent.relative_to(usual.source_dir / _FOLDER))
                       for path in (usual.source_dir / _FOLDER).glob("net/**/Makefile"))
        raise NoSuchTest(f"{name}: {usual.source} has no such tests; of the network it has {', '.join(known)}")
    for pattern in patterns:
        if pattern.endswith(_SCRIPTS) and not any(fnmatch.fnmatchcase(path.name, pattern)
                                                  for path in (usual.source_dir / _FOLDER).rglob("*.*")):
            scripts = sorted(path.name for path in folder.iterdir() if path.name.endswith(_SCRIPTS))
            raise NoSuchTest(f"{name} has no test {pattern}; its scripts are {', '.join(scripts) or 'none'}")
    config = folder / "config"
    kernel = build.ensure(spec, report, options=[*options, _kept(config)]) if config.is_file() else usual
    installed = kernel.program.parent / "selftests" / name.replace("/", "-")
    with make.lock(report, f"{kernel.key}-selftests"):
        if not (installed / "done").is_file():
            report(f"compiling the tests of {name}")
            _install(kernel, name, installed)
    said = (installed / "done").read_text(encoding="utf-8").splitlines()
    tests = _listed(installed, name)
    if not tests:
        raise KernelError(f"{name}: none of its tests could be compiled; see {installed / 'make.log'}")
    return Collection(name, kernel, installed / "tests", tests, _longest_s(installed / "tests" / name / "settings"),
                      tuple(said))


def choose(collection: Collection, patterns: Sequence[str]) -> list[str]:
    """The tests that any pattern such as tcp_* names; all without patterns. KernelError if one names none."""
    for pattern in patterns:
        if not fnmatch.filter(collection.tests, pattern):
            raise NoSuchTest(f"{collection.name} has no test {pattern}; it has {', '.join(collection.tests)}")
    return [test for test in collection.tests
            if not patterns or any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)]


def run(collection: Collection, test: str, longest_s: float | None = None, seed: int = 1,
        stop: threading.Event | None = None, wall_s: float = 3600) -> Result:
    """Run one test in a new guest. longest_s: of virtual time (None: what the collection says, 0: without end); seed:
    of the guest's randomness; stop: ends it."""
    longest_s = collection.longest_s if longest_s is None else longest_s
    with tempfile.TemporaryDirectory(prefix="testbed-selftest-") as name:
        work, code = pathlib.Path(name) / "work", pathlib.Path(name) / "code"
        code.mkdir()
        shutil.copyfile(_INIT, code / "init.py")
        (code / "built-in").write_text("\n".join(modinfo.built_in(collection.kernel)) + "\n", encoding="utf-8")
        shutil.copytree(collection.installed, work / "tests", symlinks=True)
        (work / "tests" / collection.name / test).chmod(0o755)     # tarballs and patches make files without that right
        log = guest.run_briefly(collection.kernel.program, code, [
            "init.py", collection.name, test, str(longest_s or 1e9)], work, wall_s, _MEMORY_MB, seed, stop)
        output = _text(work / "output.txt")
        if log is None:
            return Result(test, None, 0, output, f"stopped after {wall_s:.0f} s of wall time")
        try:
            said = json.loads((work / "result.json").read_text(encoding="utf-8"))
            exit_code, virtual_s = said["exit_code"], float(said["virtual_s"])
        except (OSError, ValueError, KeyError, TypeError):
            return Result(test, None, 0, output, crash.describe(log) or f"the guest ended early: {log.strip()[-500:]}")
    trouble = crash.describe(log) or "; ".join(dict.fromkeys(_TROUBLE.findall(log)))
    if exit_code is None and not trouble:
        trouble = f"not over after {longest_s:g} s of virtual time"
    return Result(test, exit_code, virtual_s, output, trouble)


def _kept(config: pathlib.Path) -> str:
    """A copy in the cache of what a collection wants to be configured, known by its content."""
    data = config.read_bytes() + _TAKEN_FOR_GRANTED
    kept = sources.cache_dir() / "configs" / f"{hashlib.sha256(data).hexdigest()[:16]}.config"
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_bytes(data)
    os.replace(partial, kept)
    return str(kept)


def _install(kernel: Kernel, name: str, target: pathlib.Path) -> None:
    """Compile a collection and install it into target/tests. What does not compile is left out, and listed in done."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    headers, objects = target / "headers", target / "objects"
    headers.mkdir()
    objects.mkdir()
    tree = kernel.source_dir
    _make(target, ["-C", str(tree), f"O={headers}", "ARCH=x86", "headers"], "headers of the kernel")
    flags = f"-isystem {headers}/usr/include"
    _make(target, ["-C", str(tree / _FOLDER), f"TARGETS={name}", f"O={objects}", f"KHDR_INCLUDES={flags}",
                   "FORCE_TARGETS=0", "-k", "-i", "install", f"INSTALL_PATH={target / 'tests'}"], f"tests of {name}")
    wanted = re.findall(r"Error \d+.*|.*: fatal error: .*", _text(target / "make.log"))
    for folder in (headers, objects):
        shutil.rmtree(folder, ignore_errors=True)
    missing = dict.fromkeys(line.strip() for line in wanted if "fatal error" in line)
    (target / "done").write_text("\n".join(missing), encoding="utf-8")


def _make(target: pathlib.Path, words: Sequence[str], what: str) -> None:
    with open(target / "make.log", "ab") as log:
        done = subprocess.run(["make", f"-j{os.cpu_count()}", *words], stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, env=make.make_environment(), check=False)
    if done.returncode:
        raise KernelError(f"{what} cannot be compiled; see {target / 'make.log'}")


def _listed(installed: pathlib.Path, name: str) -> tuple[str, ...]:
    """What kselftest-list.txt says: lines of COLLECTION:TEST."""
    found = [line.partition(":") for line in _text(installed / "tests" / "kselftest-list.txt").splitlines()]
    return tuple(test for collection, _, test in found
                 if collection == name and (installed / "tests" / name / test).is_file())


def _longest_s(settings: pathlib.Path) -> float:
    """The file `settings` of a collection says `timeout=SECONDS`, 0 for no limit."""
    said = re.search(r"^timeout=(\d+)", _text(settings), re.M)
    return float(said[1]) if said else _USUAL_LONGEST_S


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

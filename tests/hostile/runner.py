# SPDX-License-Identifier: GPL-2.0-only
"""Carries a case out and looks at what it left, everywhere it could leave something."""
from __future__ import annotations

import ctypes
import functools
import io
import os
import pathlib
import re
import resource
import shutil
import signal
import sys
import time

import kernel
import kernel.apt
from tests.hostile.case import Case

PROJECT = pathlib.Path(__file__).resolve().parents[2]
_PR_SET_CHILD_SUBREAPER = 36
#: no case needs a tenth of it; only a hang does
_MOST_S = 100
_MEMORY_BYTES = 6 << 30
_NOT_OURS = {".git", "results", "__pycache__", ".mypy_cache", ".hypothesis", ".pytest_cache"}


class Ended:
    """How a command ended."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.stdout[-3000:]}\n--- stderr\n{self.stderr[-3000:]}"


def adopt_orphans() -> None:
    """Processes that a command leaves behind become children of this one, so that they are found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def snapshot(folder: pathlib.Path, without: frozenset[str] = frozenset()) -> dict[str, tuple[object, ...]]:
    """Every file below a folder, with what changes when it is written to."""
    found: dict[str, tuple[object, ...]] = {}
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        for name in [*folders, *files]:
            about = os.lstat(os.path.join(path, name))
            is_folder = os.path.isdir(os.path.join(path, name))
            found[os.path.join(path, name)] = (about.st_mode, about.st_ino) + \
                (() if is_folder else (about.st_size, about.st_mtime_ns))
    return found


def checkout() -> dict[str, tuple[object, ...]]:
    """The project's files, without what Python and the tools keep between them."""
    return snapshot(PROJECT, frozenset(_NOT_OURS))


def environment(case: Case, folder: pathlib.Path) -> dict[str, str]:
    """What a case sees: a home, a place for temporary files and for results of its own, and the kernels there are."""
    cache = os.environ.get("TESTBED_CACHE") or os.path.expanduser("~/.cache/tcp-testbed")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TESTBED_", "LC_", "XDG_",
                                                                                       "PYTHON"))}
    wanted = {**plain, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "LANG": "C.UTF-8", "COLUMNS": "100",
              "TESTBED_RESULTS": str(folder / "work/results"), "TESTBED_CACHE": cache,
              "TESTBED": str(PROJECT / "bin/testbed"), **case.environment}
    return {name: value for name, value in wanted.items() if value is not None}


def carry_out(case: Case, folder: pathlib.Path, results: pathlib.Path | None) -> Ended:
    """Run a case in folder/work and check everything but its answer: AssertionError if it left something."""
    work = folder / "work"
    for path in (work, folder / "home", folder / "tmp", folder / "sentinel/results/runs"):
        path.mkdir(parents=True)
    (folder / "sentinel/zz").write_text("somebody else's")
    (folder / "zz").mkdir()
    (folder / "zz/precious").write_text("somebody else's")
    if case.with_results:
        assert results is not None
        shutil.copytree(results, work / "results", symlinks=True)
    for name, content in case.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content() if callable(content) else content
        path.write_bytes(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
    if case.prepare:
        case.prepare(work)
    around = {path: about for path, about in snapshot(folder).items() if not _below(path, work)}
    _candidate("linux-source-6.12")
    ours, children = checkout(), _descendants()
    pid = os.fork()
    if not pid:
        _become(case, folder)                       # does not return
    code = _wait(pid)
    left = _leftovers(children)
    for leftover in left:
        os.kill(leftover, signal.SIGKILL)
    ended = Ended(code, *((folder / name).read_bytes().decode("utf-8", "replace") for name in (".stdout", ".stderr")))
    for name in (".stdout", ".stderr"):
        (folder / name).unlink()
    assert not left, f"processes are left: {left}\n{ended}"
    after = {path: about for path, about in snapshot(folder).items() if not _below(path, work)}
    assert after == around, f"changed around it: {_difference(around, after)}\n{ended}"
    assert checkout() == ours, f"changed in the checkout: {_difference(ours, checkout())}\n{ended}"
    assert str(folder) not in pathlib.Path("/proc/self/mountinfo").read_text(), f"mounts are left\n{ended}"
    scratch = [str(path) for pattern in ("**/*.part", "results/.[!.]*",
                                         "results/*/.[!.]*") for path in work.glob(pattern)
               if str(path.relative_to(work)) not in case.files]
    assert scratch == [], f"scratch is left: {scratch}\n{ended}"
    return ended


def check_answer(case: Case, ended: Ended) -> None:
    """The exit code, the message, and that nobody was shown a traceback."""
    said = ended.stdout + ended.stderr
    assert "Traceback (most recent call last)" not in said, str(ended)
    assert "a bug in the testbed" not in said, str(ended)
    assert "Exception ignored" not in said, str(ended)
    assert ended.code in case.codes(), str(ended)
    assert re.search(case.says, said, re.DOTALL), f"does not say {case.says!r}: {ended}"
    if ended.code in (1, 2, 3):
        assert len(ended.stderr) < 4000, str(ended)


def _become(case: Case, folder: pathlib.Path) -> None:
    """In the child: a fresh process of the testbed, but for the modules it has already loaded."""
    code = 99
    try:
        os.setsid()
        for number, name in ((1, ".stdout"), (2, ".stderr")):
            fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(fd, number)
            os.close(fd)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.chdir(folder / "work")
        wanted = environment(case, folder)
        os.umask(case.umask)
        if not case.guest:
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        if isinstance(case.command, str):
            os.execve("/bin/sh", ["sh", "-c", case.command], wanted)
        os.environ.clear()
        os.environ.update(wanted)
        sys.stdin = open(0, closefd=False)
        sys.stdout, sys.stderr = (io.TextIOWrapper(open(number, "wb", closefd=False), encoding="utf-8",
                                                   line_buffering=number == 2)
                                  for number in (1, 2))
        import tempfile
        tempfile.tempdir = None
        from testbed import cli
        if "PATH" not in case.environment:
            kernel.apt.candidate = _candidate
        try:
            code = cli.main(case.command)
        except SystemExit as wanted_exit:
            code = wanted_exit.code if isinstance(wanted_exit.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


_ask_apt = kernel.apt.candidate


@functools.cache
def _candidate(package: str) -> str | None:
    """What apt says, asked once: that takes longer than most cases do."""
    return _ask_apt(package)


def _wait(pid: int) -> int:
    end = time.monotonic() + _MOST_S
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGKILL


def _leftovers(before: set[int]) -> set[int]:
    """Descendants that were not there before and do not end by themselves within some seconds."""
    end = time.monotonic() + 8
    while True:
        new = _descendants() - before
        for pid in new:
            try:
                os.waitpid(pid, os.WNOHANG)         # one that has ended and that nobody else waits for
            except ChildProcessError:
                pass
        if not new or time.monotonic() > end:
            return new
        time.sleep(0.02)


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat", "rb") as file:
                    parents[int(entry.name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    found: set[int] = set()
    while new := {pid for pid, parent in parents.items() if parent in {os.getpid(), *found}} - found:
        found |= new
    return found


def _below(path: str, folder: pathlib.Path) -> bool:
    return path.startswith(f"{folder}/")


def _difference(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> list[str]:
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))[:20]

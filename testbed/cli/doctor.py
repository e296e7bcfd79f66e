# SPDX-License-Identifier: GPL-2.0-only
"""Say what this machine lacks, and the command that fixes it.

PROBLEM: runs need it, and the exit code is 3.
optional: only another engine needs it.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

from testbed import PROJECT_DIR, engines
from testbed.core import guesses
from testbed.core.errors import TestbedError, UsageError, what_failed
from testbed.core.files import existing, why_unwritable
from testbed.runs import store

HELP = "what is missing on this machine, and what fixes it"
GROUP = "Set up and explore"
_ROOM_MB = 2000
_CACHE_ROOM_MB = 200

#: what was looked at: good, what, message, fix
_Finding = tuple[bool, str, str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", help="only this engine (default: all)")
    parser.add_argument("--repair", action="store_true",
                        help="first undo the changes that killed runs of engine host left behind (as root)")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 if the default engine (or the one asked for) can run, 3 otherwise."""
    if arguments.engine and arguments.engine not in engines.names():
        raise UsageError(f"no engine {arguments.engine!r}; {guesses.alternatives(arguments.engine, engines.names())}")
    chosen = [arguments.engine] if arguments.engine else engines.names()
    if arguments.repair:
        for name in chosen:
            _repair(name)
    good = _show("Debian packages", _packages)
    for name in chosen:
        required = name in (arguments.engine, engines.DEFAULT)
        usable = _show(f"engine {name}", lambda: _engine(name), required)
        good = good and (usable or not required)
    _show("QUIC stacks", _quic, required=False)
    for what, look in (("cache folder", _cache), ("results folder", _results)):
        good = _show(what, look) and good
    return 0 if good else 3


def _show(what: str, look: Callable[[], Iterator[_Finding]], required: bool = True) -> bool:
    """Print what was found; True if all is well. Whatever keeps one from being looked at is a problem of it. required:
    whether runs on the default engine, or on the one asked for, need it."""
    try:
        findings = list(look())
    except (OSError, ValueError, RuntimeError, TestbedError) as problem:
        why = what_failed(problem) if isinstance(problem, OSError) else str(problem)
        findings = [(False, what, f"cannot be looked at: {why}", "")]
    for good, name, message, fix in findings:
        print(f"  {'ok' if good else 'PROBLEM' if required else 'optional':8} {name}: {message}")
        if fix and not good:
            print(f"           fix: {fix}")
    return all(good for good, *_ in findings)


def _packages() -> Iterator[_Finding]:
    lines = [line.split("#")[0].split() for line in (PROJECT_DIR / "packages.txt").read_text().splitlines()]
    purposes = {words[1]: words[0] for words in lines if words}
    optional = {words[1] for words in lines if "optional" in words}
    if not shutil.which("dpkg-query"):
        yield False, "Debian packages", "this is not a Debian system", "install the equivalents of packages.txt by hand"
        return
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *purposes],
                          capture_output=True, text=True)
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    missing = [name for name in purposes
               if name not in installed and purposes[name] in ("run", "kernel", "unit", "test")]
    needed = [name for name in missing if purposes[name] in ("run", "kernel") and name not in optional]
    some = [name for name in missing if purposes[name] == "run" and name in optional]
    if needed:
        yield False, "Debian packages", f"missing: {', '.join(needed)}", "make setup"
        return
    said = [f"without {', '.join(some)}, which some scenarios and commands need (make setup)"] if some else []
    if for_tests := [name for name in missing if name not in some]:
        said.append(f"`make test` will install {', '.join(for_tests)}")
    yield True, "Debian packages", "; ".join(["all there" if not some else "all there that every run needs", *said]), ""


def _repair(name: str) -> None:
    """TestbedError if something cannot be put back."""
    engine = engines.load(name)
    left = engine.leftovers()
    if left:
        print(f"engine {name}: {left}; putting that back may take some minutes", file=sys.stderr, flush=True)
        engine.repair()
        print(f"  ok      engine {name}: {left}: put back")


def _engine(name: str) -> Iterator[_Finding]:
    engine = engines.load(name)
    left = engine.leftovers()
    if left:                                    # to look further would put it back
        yield False, f"engine {name}", left, "testbed doctor --repair, or the next run, puts everything back"
        return
    problems = engine.problems()
    for problem in problems:
        yield False, f"engine {name}", problem.message, problem.fix
    if not problems:
        yield True, f"engine {name}", f"{engine.state()} ({engine.capabilities.clock} time)", ""


def _quic() -> Iterator[_Finding]:
    from traffic.quic import programs
    for name in programs.names():
        why = "" if programs.is_built(name) else programs.missing(name, versions=False)
        yield not why, f"QUIC stack {name}", why or programs.read(name).title + (
            "" if programs.is_built(name) else ", made when a run needs it"), ""


def _results() -> Iterator[_Finding]:
    yield from _folder("results folder", store.results_dir(), _ROOM_MB, "TESTBED_RESULTS")


def _cache() -> Iterator[_Finding]:
    from kernel.source import cache_dir
    yield from _folder("cache folder", cache_dir().absolute(), _CACHE_ROOM_MB, "TESTBED_CACHE")


def _folder(what: str, wanted: pathlib.Path, room_mb: int, variable: str) -> Iterator[_Finding]:
    """Whether a folder is there with room, or can be made."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.lstat(wanted)                        # a name that no file system takes is an error of its own
    if unwritable := why_unwritable(wanted):
        yield False, what, unwritable, f"set {variable} to a folder of yours"
    else:
        free_mb = shutil.disk_usage(existing(wanted)).free >> 20
        yield free_mb >= room_mb, what, f"{wanted}, {free_mb} MB free", f"free some space, or set {variable}"

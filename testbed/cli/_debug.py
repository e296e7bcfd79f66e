# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run --gdb`: one run in gdb, kept apart from the others, and whether it is still the same run."""
from __future__ import annotations

import argparse
import os
import pathlib
import re
from typing import TYPE_CHECKING

from testbed.cli import _repetition, _shared
from testbed.cli._experiment import Asked
from testbed.cli._kernels import Level
from testbed.cli._parser import Container
from testbed.core import units
from testbed.core.errors import RunFailed, UsageError
from testbed.runs import run
from testbed.runs.engine import OnProgress
from testbed.runs.store import Store, results_dir

if TYPE_CHECKING:
    from kernel import Stop

#: kernel.debugger.CALLS, without the time that importing it takes
CALLS = "functions.csv.gz"
#: folder of the results with runs that gdb had: somebody may have changed something in them
_APART = "debug"
_NS_PER_US = 1000
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_TIME_FIRST = re.compile(r"\s*([0-9.][0-9.]*\s*[A-Za-z]+)\b\s*(.*)", re.S)


def add_arguments(parser: Container) -> None:
    parser.add_argument("--gdb", metavar="[TIME] [PLACE]",
                        help="stop the run in gdb: at a virtual time (12.345s), in a function ('tcp_enter_loss'), or "
                        "both, and go on from there; one run only")
    parser.add_argument("--gdb-commands", metavar="FILE", type=pathlib.Path,
                        help="with --gdb: what gdb does then, instead of asking you")
    parser.add_argument("--function-trace", metavar="FUNCTION", action="append", default=[], dest="functions",
                        help="write down each call of a kernel function, with its virtual time, caller and socket; may "
                        "be repeated; one run only")


def asked_for(arguments: argparse.Namespace) -> Stop | None:
    """Where the run is to stop; None if nobody wants that. UsageError."""
    commands: pathlib.Path | None = arguments.gdb_commands
    if arguments.gdb is None and commands:
        raise UsageError("--gdb-commands: only with --gdb, which says where to stop, such as --gdb 2s")
    if arguments.gdb is None and not arguments.functions:
        return None
    from kernel import Stop
    for function in arguments.functions:
        if not _FUNCTION.fullmatch(function):
            raise UsageError(f"--function-trace {function}: the name of a function expected, such as tcp_enter_loss")
    functions = tuple(dict.fromkeys(arguments.functions))
    if arguments.gdb is None:
        return Stop(None, functions=functions, stops=False)
    if commands and not commands.is_file():
        raise UsageError(f"--gdb-commands {commands}: no such file")
    at_ns, place = _parsed(arguments.gdb)
    return Stop(at_ns, place, commands.absolute() if commands else None, functions)


def _parsed(text: str) -> tuple[int | None, str]:
    """'12.345s tcp_ack if $now() > 5' -> (12345000000, 'tcp_ack if $now() > 5')"""
    if not text.strip() or not text.isprintable():
        raise UsageError(f"--gdb {text!r}: a virtual time such as 12.345s, a function, or both expected")
    match = _TIME_FIRST.fullmatch(text)
    if not match:
        if text.lstrip()[:1] in "0123456789.-+":
            raise UsageError(f"--gdb {text}: a time with a unit expected, such as 12.345s")
        return None, text.strip()
    try:
        found = units.parse(match.group(1))
    except ValueError as problem:
        raise UsageError(f"--gdb {text}: {problem}") from None
    if not found or found[0] != "us":
        raise UsageError(f"--gdb {text}: a time expected first, such as 12.345s")
    return int(found[1]) * _NS_PER_US, match.group(2).strip()


def main(asked: Asked, levels: list[Level], stop: Stop) -> int:
    """Carry out the one run in gdb, and say whether it left what it leaves without."""
    count = len(levels) * len(asked.points) * len(asked.subjects) * len(asked.seeds)
    if count != 1 or asked.arguments.slowdown or asked.arguments.precision is not None:
        raise UsageError(f"{'--gdb' if stop.stops else '--function-trace'}: one run at a time, and this asks for "
                         f"{max(count, 2)}: name one congestion control (--cca), one seed (--seed) and one engine")
    duration_ns = asked.first.timing.duration_us * _NS_PER_US
    if stop.at_ns is not None and stop.at_ns >= duration_ns:
        raise UsageError(f"--gdb: the run lasts {duration_ns / 1e9:g} s of virtual time; an earlier one expected")
    engine = levels[0].engine
    engine.debug(stop)
    (plan,) = asked.plans(levels)
    store = Store(results_dir() / _APART)
    store.create()
    with store.shared_folder() as shared_dir:
        outcome = run.execute(run.Job(plan, again=True, keep_work=asked.arguments.keep_work), engine, store, shared_dir,
                              min(os.sched_getaffinity(0)), _steps())
    folder = store.run_dir(plan.id)
    if outcome.error:
        raise RunFailed(f"{outcome.error}; its log is in {folder}")
    print(f"{folder}: finished, {outcome.verdict}")
    if stop.functions:
        print(f"calls: {folder / CALLS}")
    print(_compared(Store(results_dir()), store, plan.id))
    return 0


def _steps() -> OnProgress:
    """What shows each phase of the run once."""
    report, before = _shared.reporter(), [""]

    def show(phase: str, _t_us: int) -> None:
        if phase != before[0]:
            before[0] = phase
            report(phase)
    return show


def _compared(usual: Store, apart: Store, run_id: str) -> str:
    """Whether the run without gdb, if there is one, left the same, in words."""
    there, here = usual.finished(run_id), apart.finished(run_id)
    if there is None or here is None:
        return "the same run was not made without gdb yet: nothing to compare with"
    one, other = there.raw_files_sha256 or {}, here.raw_files_sha256 or {}
    different = _repetition.different_files(one, other)
    return f"not the data of {usual.run_dir(run_id)}: {', '.join(different)}" if different else \
        f"the data of {usual.run_dir(run_id)}, to the byte: {len(one)} raw files"

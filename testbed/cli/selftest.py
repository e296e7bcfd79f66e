# SPDX-License-Identifier: GPL-2.0-only
"""Run a kernel tree's own network tests in guests, in virtual time.

  testbed selftest net/mptcp                     all tests of the collection
  testbed selftest net/mptcp:simult_flows.sh     one of them
  testbed selftest 'net:tcp_*' --kernel ~/linux  those of a tree of yours
  testbed selftest net/mptcp:diag.sh --repeat 5  the same output each time?

The kernel is built with what the collection's file `config` asks for. Each test
is root in a guest of its own; nothing of this machine is touched. A busy
machine changes nothing: time passes in the guest only when it is idle.

Exit code 0: no test failed. 1: some failed. 2: wrong usage. 3: something is
missing here (docs/howto/selftests.md).
"""
from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from testbed.cli import _expectations, _shared
from testbed.core.errors import UsageError
from testbed.core.files import why_unwritable

if TYPE_CHECKING:
    from analysis.read.junit import Case
    from kernel.selftests import Collection, Result

HELP = "run a kernel tree's own network tests, in virtual time"
GROUP = "Run experiments"
#: it says what it finds, and keeps nothing
NO_RESULTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tests", metavar="COLLECTION[:TEST]", nargs="+",
                        help="a folder of tools/testing/selftests, such as net/mptcp; one of its tests, or a pattern")
    _shared.add_engine_options(parser, ("kernel", "kernel_options"))
    parser.add_argument("--repeat", metavar="N", type=int, default=1,
                        help="run each test N times, and say whether the outputs are the same")
    parser.add_argument("--seed", metavar="N", type=int, default=1,
                        help="what the guest's randomness starts from (default: 1)")
    parser.add_argument("--timeout", metavar="SECONDS", type=float,
                        help="virtual time that a test may take (default: what the collection says; 0: no limit)")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1,
                        help="guests at a time (default: one for each CPU)")
    parser.add_argument("--output", metavar="DIR", type=pathlib.Path,
                        help="put the output of each test into this folder")
    parser.add_argument("--junit", metavar="FILE", type=pathlib.Path, help="write the results as JUnit XML, too")


def main(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.seed < 1 << 31:
        raise UsageError("--seed: a number from 1 expected")
    for name in ("repeat", "jobs"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name}: 1 or more expected")
    if arguments.timeout is not None and not 0 <= arguments.timeout < 1e9:
        raise UsageError("--timeout: seconds expected, 0 for no limit")
    _expectations.check(arguments)
    if arguments.output is not None:
        if reason := why_unwritable(arguments.output):
            raise UsageError(f"--output {arguments.output}: {reason}")
        arguments.output.mkdir(parents=True, exist_ok=True)
    asked: dict[str, list[str]] = {}
    for word in arguments.tests:
        collection, _, pattern = word.partition(":")
        asked.setdefault(collection, []).extend([pattern] if pattern else [])
    from kernel import selftests
    failed, number, cases = 0, 0, list["Case"]()
    stop = threading.Event()
    try:
        for name, patterns in asked.items():
            collection = selftests.prepare(arguments.kernel, name, _shared.reporter(), arguments.kernel_options,
                                           patterns)
            for line in collection.not_compiled:
                print(f"# not compiled: {line}")
            for results in _carried_out(arguments, collection, selftests.choose(collection, patterns), stop):
                number += 1
                failed += _tell(number, name, results)
                cases.append(_case(name, results))
                if arguments.output is not None:
                    _keep(arguments.output, name, results)
    finally:
        stop.set()
    print(f"1..{number}")
    if arguments.junit is not None:
        from analysis.read import junit
        junit.write_cases(arguments.junit, "selftests", cases)
    if failed:
        print(f"testbed: {failed} of {number} tests failed", file=sys.stderr)
    return 1 if failed else 0


def _carried_out(arguments: argparse.Namespace, collection: Collection, tests: Sequence[str],
                 stop: threading.Event) -> Iterator[list[Result]]:
    """The results of each test, in order; guests end when `stop` is set, as when somebody presses Ctrl-C."""
    from kernel import selftests
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        try:
            waiting = [[pool.submit(selftests.run, collection, test, arguments.timeout, arguments.seed, stop)
                        for _ in range(arguments.repeat)] for test in tests]
            for futures in waiting:
                yield [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _tell(number: int, collection: str, results: Sequence[Result]) -> bool:
    """Print the TAP line of a test, with what it said if it failed -> whether it failed."""
    first = next((result for result in results if not (result.passed or result.skipped)), results[0])
    name = f"{number} {collection}:{first.test} # {_said(first)}"
    outputs = {(result.exit_code, result.output) for result in results}
    if len(results) > 1:
        name += f"; {len(results)} times, " + ("the same output" if len(outputs) == 1 else
                                               f"{len(outputs)} different outputs")
    failed = not (first.passed or first.skipped)
    if failed:
        for line in first.output.splitlines():
            print(f"# {line}")
    print(f"{'not ok' if failed else 'ok'} {name}", flush=True)
    return failed


def _said(result: Result) -> str:
    if result.trouble:
        return result.trouble.replace("\n", "; ")
    if result.skipped:
        return "SKIP " + (result.output.strip().splitlines() or [""])[-1]
    return f"{result.virtual_s:.3f} s of virtual time" + (f", exit code {result.exit_code}" if result.exit_code else "")


def _case(collection: str, results: Sequence[Result]) -> Case:
    from analysis.read.junit import Case
    first = next((result for result in results if not (result.passed or result.skipped)), results[0])
    kind = "skipped" if first.skipped else "" if first.passed else "failure"
    return Case(collection, first.test, kind, f"{_said(first)}\n{first.output}" if kind else first.output)


def _keep(folder: pathlib.Path, collection: str, results: Sequence[Result]) -> None:
    for place, result in enumerate(results, 1):
        number = f"-{place}" if len(results) > 1 else ""
        path = folder / f"{collection.replace('/', '-')}-{result.test}{number}.txt"
        path.write_text(result.output, encoding="utf-8")

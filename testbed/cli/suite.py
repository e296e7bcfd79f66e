# SPDX-License-Identifier: GPL-2.0-only
"""Run a suite of scenarios, and make one report that says where a congestion control is better than the baseline.

  testbed suite iccrg --quick --cca docs/examples/tcp_mine.c      your own module: built, run, judged
  testbed suite iccrg --cca cubic,bbr --seeds 5                   in full: hours
  testbed suite iccrg --list                                      what would be run, what is left, how long that takes

Each part of the suite (a file in suites/) is an ordinary experiment with a report of its own; the baseline runs beside
the congestion controls under test. Says before each part how much time is left. The same command after an interruption
goes on where it was; a part that fails does not keep the others from running, and the report says so. docs/suite.md
says how to read it.
"""
from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from testbed.cli import _kernels, _process, _runs, _series, _shared, run
from testbed.cli._experiment import Asked, Done
from testbed.core import fields
from testbed.core.errors import RunFailed, UsageError
from testbed.core.progress import print_error
from testbed.runs.plan import Plan
from testbed.runs.store import Store, results_dir
from testbed.scenario import ccas, suites

HELP = "run a suite of scenarios, and judge congestion controls against its baseline"
#: wall seconds of a run before its traffic begins
_START_S = 2.0
_LONGEST_NAME = 120


class _Step(NamedTuple):
    """A part that is to be run: its command and its runs, or why there are none."""
    part: suites.Part
    words: list[str]
    plans: list[Plan]
    speed: float        # seconds of virtual time in a second of wall time, as far as is known
    problem: str
    unknown: str = ""   # why it is not known which runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", help=f"one of {', '.join(suites.names())}, or the path of a .yaml file")
    parser.add_argument("--cca", metavar="A,B", help="congestion controls under test, as for `testbed run` (default: "
                        "the suite's)")
    parser.add_argument("--baseline", metavar="NAME", help="what they are compared with, instead of the suite's")
    parser.add_argument("--quick", action="store_true", help="the short version")
    parser.add_argument("--seeds", metavar="N|A,B,C", help="how many seeds, or which, instead of the suite's")
    parser.add_argument("--only", metavar="A,B", help="only these parts")
    parser.add_argument("--list", action="store_true", help="only say what would be run, and what is left of it")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="runs at a time (default: one per CPU)")
    _shared.add_margin_argument(parser)
    _shared.add_kernel_argument(parser)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 4 if a part could not be run to its end, 6 if results of some are only not as expected."""
    suite = suites.load(arguments.suite)
    if arguments.seeds is not None:
        _runs.seeds(arguments.seeds)                # what is wrong with them is told once
    chosen = _chosen(suite, arguments.only)
    if not arguments.list:
        Store(results_dir()).require_writable()
    subjects = _subjects(suite, arguments)
    steps = [_step(suite, part, _words(suite, part, subjects[0], arguments), arguments)
             for part in chosen if part.scenario]
    if arguments.list:
        return _list(chosen, steps, arguments.jobs)
    if not steps:
        raise UsageError(f"nothing to run: {'; '.join(f'{part.name}: {part.not_run}' for part in chosen)}")
    for step in steps:
        if step.problem:
            print_error(step.problem)
    done: dict[str, Done] = {}
    problems = {step.part.name: step.problem for step in steps if step.problem}
    codes = dict.fromkeys(problems, UsageError.exit_code)
    for place, step in enumerate(steps):
        if step.problem:
            continue
        _series.announce(place, len(steps), "part", step.part.name, step.words,
                         [_left(one, arguments.jobs) for one in steps[place:] if not one.problem])

        def carry_out(step: _Step = step) -> int:
            asked = _series.parsed(step.words)
            done[step.part.name] = Asked(asked).carry_out(_kernels.levels(asked), among_others=False)
            return run.conclude(asked, done[step.part.name])
        code, message = _process.contained(carry_out)
        if code:
            problems[step.part.name], codes[step.part.name] = message, code
    _report(suite, chosen, steps, done, problems, subjects, arguments)
    if problems:
        raise _series.failure("parts", len(steps), codes)
    return 0


def _chosen(suite: suites.Suite, only: str | None) -> list[suites.Part]:
    """In the order of the suite."""
    known = [part.name for part in suite.parts]
    names = known if only is None else [name for name in map(str.strip, only.split(",")) if name]
    if not names:
        raise UsageError(f"--only: names of parts expected; there are: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise UsageError(f"--only {name}: no such part of {suite.name}; there are: {', '.join(known)}")
    return [part for part in suite.parts if part.name in names]


def _baseline(suite: suites.Suite, arguments: argparse.Namespace) -> str:
    return suite.baseline if arguments.baseline is None else str(arguments.baseline)


def _ccas(suite: suites.Suite, arguments: argparse.Namespace) -> str:
    """The baseline first: what is compared with it comes behind."""
    return ",".join([_baseline(suite, arguments), arguments.cca if arguments.cca is not None else ",".join(suite.ccas)])


def _subjects(suite: suites.Suite, arguments: argparse.Namespace) -> list[str]:
    """Names of the baseline and of those under test. RunFailed before anything runs if one of them cannot be used;
    with --list, for which no kernel is built, only as far as that is known."""
    if len(ccas.parse(_baseline(suite, arguments))) != 1:
        raise UsageError(f"--baseline {_baseline(suite, arguments)}: one congestion control expected")
    if arguments.kernel and "," in arguments.kernel and not os.path.exists(arguments.kernel):
        raise UsageError(f"--kernel {arguments.kernel}: one kernel expected")
    asked = ccas.parse(_ccas(suite, arguments))
    if len(asked) < 2:
        raise UsageError(f"--cca: a congestion control besides the baseline, {asked[0].name}, expected")
    levels = _kernels.levels(_series.parsed(["run", suite.name, *_kernel_words(arguments)]))
    if arguments.list and not _runs.is_ready(levels[0].engine, []):
        return [subject.name for subject in asked]
    ready = _runs.prepare(levels[0].engine, asked, [])
    if ready.broken:
        raise RunFailed(f"nothing was run, as these cannot be used: {', '.join(ready.broken)}")
    return [subject.name for subject in ready.subjects]


def _words(suite: suites.Suite, part: suites.Part, baseline: str, arguments: argparse.Namespace) -> list[str]:
    """The command of a part; baseline: its name."""
    seeds = arguments.seeds or str(suite.quick.seeds if arguments.quick and suite.quick.seeds else suite.seeds)
    words = ["run", *part.words(arguments.quick, baseline), "--cca", _ccas(suite, arguments)]
    words += ["--seeds", seeds, *_kernel_words(arguments)]
    return words + (["--jobs", str(arguments.jobs)] if arguments.jobs else [])


def _kernel_words(arguments: argparse.Namespace) -> list[str]:
    """Options that say which kernel, as they were given."""
    words = []
    for name in ("kernel", "hz"):
        words += [f"--{name}", str(getattr(arguments, name))] if getattr(arguments, name) else []
    for name in sorted(set(arguments.kernel_options)):
        words += ["--kernel-option", name]
    return words


def _step(suite: suites.Suite, part: suites.Part, words: list[str], arguments: argparse.Namespace) -> _Step:
    """What a part would run; what is wrong with it costs the other parts nothing."""
    found: list[Plan] = []
    unknown: list[str] = []

    def plan() -> int:
        try:
            found.extend(_series.plans(words, build=not arguments.list))
        except _series.NotReady as problem:
            unknown.append(str(problem))
        except UsageError as problem:
            raise UsageError(suite.in_file(part, arguments.quick, problem)) from None
        return 0
    _, message = _process.explained(plan)
    return _Step(part, words, found, part.expected_speed(arguments.quick), message, "".join(unknown))


def _left(step: _Step, jobs: int | None) -> _series.Left:
    left = _series.left(step.plans, lambda plan: _START_S + plan.timing["duration_us"] / 1e6 / step.speed, jobs)
    return left._replace(unknown=step.unknown)


def _list(chosen: Sequence[suites.Part], steps: Sequence[_Step], jobs: int | None) -> int:
    by_name = {step.part.name: step for step in steps}
    for part in chosen:
        if part.not_run:
            print(f"{part.name}: not run: {part.not_run}")
        elif by_name[part.name].problem:
            print(f"{part.name}: cannot be run: {by_name[part.name].problem}")
        else:
            step = by_name[part.name]
            print(f"{shlex.join(['bin/testbed', *step.words])}    {_series.say(_left(step, jobs))}")
    print(f"all: {_series.say(_series.total([_left(step, jobs) for step in steps if not step.problem]))}")
    broken = [step.part.name for step in steps if step.problem]
    if broken:
        raise UsageError(f"{len(broken)} of {len(steps)} parts cannot be run: {', '.join(broken)}")
    return 0


def _report(suite: suites.Suite, chosen: Sequence[suites.Part], steps: Sequence[_Step], done: dict[str, Done],
            problems: dict[str, str], subjects: list[str], arguments: argparse.Namespace) -> None:
    from analysis.compare import suite as judged
    from analysis.pages import suite_report
    from testbed.cli._overview import build
    store = Store(results_dir())
    store.create()
    plans = {step.part.name: step.plans for step in steps}
    description = {
        "schema": 1, "name": suite.name, "title": suite.title, "source": suite.source, "quick": arguments.quick,
        "description": suite.description, "baseline": subjects[0], "subjects": subjects[1:],
        "command": _command(arguments), "deviations": fields.encode(suite.deviations),
        "left_out": [part.title or part.name for part in suite.parts if part not in chosen],
        "parts": [_described(part, done.get(part.name), plans.get(part.name, []), problems.get(part.name, ""))
                  for part in chosen]}
    found = judged.Suite(description, store.results, arguments.margin)
    page = suite_report.write(found, store.results / _folder(suite, subjects[0], subjects[1:], arguments))
    for line in filter(None, [*found.sentences(), found.seeds_to_decide()]):
        print(line)
    print(f"suite: {page}")
    print(f"all reports: {build(store.results, problems)}")


def _described(part: suites.Part, done: Done | None, plans: Sequence[Plan], problem: str) -> dict[str, Any]:
    return {"name": part.name, "title": part.title, "section": part.section, "not_run": part.not_run,
            "problem": problem, "experiment": done.folder.name if done else None,
            "runs": [plan.id for plan in plans], **{name: fields.encode(getattr(part, name))
                                                    for name in ("outputs", "parameters", "deviations")}}


def _folder(suite: suites.Suite, baseline: str, under_test: Sequence[str], arguments: argparse.Namespace) -> str:
    """suite-iccrg-quick-mine-cubic"""
    words = ["suite", suite.name, *["quick"] * arguments.quick, *under_test]
    words += ["against", baseline] if arguments.baseline else []
    words += ["only", *sorted(set(filter(None, map(str.strip, arguments.only.split(",")))))] if arguments.only else []
    if arguments.kernel:
        words.append("kernel" + pathlib.Path(arguments.kernel).name)
    words += [f"hz{arguments.hz}"] * bool(arguments.hz) + sorted(arguments.kernel_options)
    name = "-".join(words)
    return name if len(name) <= _LONGEST_NAME else \
        f"{name[:_LONGEST_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _command(arguments: argparse.Namespace) -> list[str]:
    """As it can be typed again."""
    words = ["bin/testbed", "suite", arguments.suite]
    for name in ("cca", "baseline", "seeds", "only"):
        if getattr(arguments, name):
            words += [f"--{name}", str(getattr(arguments, name))]
    words += ["--quick"] * arguments.quick
    words += _shared.margin_words(arguments)
    return words + _kernel_words(arguments)

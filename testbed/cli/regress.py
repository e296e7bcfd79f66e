# SPDX-License-Identifier: GPL-2.0-only
"""Say what a kernel tree changes: short scenarios with it and with its base.

  testbed regress --kernel ~/linux --quick
  testbed regress --kernel ~/linux --base 6.12 --cca cubic --only aqm,on-off
  testbed regress --kernel ~/linux --quick --junit regress.xml

Each scenario of suites/regress.yaml runs with both kernels and the same seeds.
Two seeds come first. Where they leave the same raw data to the byte, there is
no change in this scenario. Only what differs runs with more seeds. One page and
regress.md say what changed, by how much, and whether it is better or worse. Run
the same command again to resume.

Exit code 0: no metric changed. 1: something changed, better or worse. 2: wrong
usage. 3: something is missing here. 4: a scenario could not be compared.
"""
from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import kernel
from testbed.cli import _estimates, _expectations, _kernels, _process, _runs, _series, _shared
from testbed.cli._experiment import Asked, Done
from testbed.core import guesses, progress
from testbed.core.errors import RunFailed, TestbedError, UsageError
from testbed.core.units import show_duration
from testbed.runs.store import Store, results_dir
from testbed.scenario import ccas, suite_parts, suites

if TYPE_CHECKING:
    from analysis.compare.kernels import Level
    from analysis.compare.regress import Event, Outcome
    from testbed.packet_scripts import results

HELP = "say what a kernel tree changes, for continuous integration"
GROUP = "Run experiments"
SUITE = "regress"
_SCRIPTS = "packet-scripts"
#: seeds that settle a scenario if both kernels leave the same bytes in them
SETTLED_BY = 2
_KERNEL_OPTIONS = ("hz", "kernel_options")
_LONGEST_NAME = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kernels = parser.add_argument_group("kernels")
    kernels.add_argument("--kernel", metavar="PATH|VERSION", required=True,
                         help="the kernel under test: a tree, a tarball or a version")
    kernels.add_argument("--base", metavar="PATH|VERSION", default=kernel.source.DEFAULT_VERSION,
                         help="what it is compared with (default: %(default)s)")
    _shared.add_engine_options(kernels, _KERNEL_OPTIONS)
    what = parser.add_argument_group("what to run")
    what.add_argument("--quick", action="store_const", const="quick", default="", dest="version",
                      help="the short version of each scenario: some minutes for all of them")
    what.add_argument("--cca", metavar="A,B", help="congestion controls, as for `testbed run` (default: the suite's)")
    _runs.add_seed_arguments(what, " where data differ (default: the suite's, 5)")
    what.add_argument("--only", metavar="A,B", help="only these scenarios")
    what.add_argument("--scripts", action="store_true", help="also run the packet scripts; their kernels have TUN and "
                      "IPv6, and are builds of their own")
    what.add_argument("--suite", metavar="SUITE", default=SUITE,
                      help="another list of scenarios: a suite without a baseline (default: %(default)s)")
    what.add_argument("--yes", action="store_true", help="begin a long comparison without asking")
    _shared.add_margin_argument(parser)
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="runs at a time (default: one per CPU)")
    parser.add_argument("--junit", metavar="FILE", type=pathlib.Path,
                        help="write a test case for each scenario and congestion control, in JUnit XML")


@dataclasses.dataclass
class _Compared:
    """What was found so far. kernels: what is known of them, as soon as a scenario ran."""
    outcomes: list[Outcome] = dataclasses.field(default_factory=list)
    kernels: list[Level] = dataclasses.field(default_factory=list)


def main(arguments: argparse.Namespace) -> int:
    try:
        return _compare(arguments)
    except TestbedError as problem:
        if problem.exit_code == TestbedError.exit_code:         # 1 says that something changed
            raise RunFailed(str(problem)) from None
        raise


def _compare(arguments: argparse.Namespace) -> int:
    _runs.check(arguments)
    _expectations.check(arguments)
    suite = suites.load(arguments.suite)
    if suite.baseline:
        raise UsageError(f"--suite {suite.name}: it compares congestion controls; one without a baseline expected")
    parts = _chosen(suite, arguments.only)
    for option, spec in (("--kernel", arguments.kernel), ("--base", arguments.base)):
        if "," in spec:
            raise UsageError(f"{option} {spec}: one kernel expected, whose name has no comma")
    if os.path.realpath(arguments.kernel) == os.path.realpath(arguments.base):
        raise UsageError(f"--kernel and --base are both {arguments.base}; two different kernels expected")
    Store(results_dir()).require_writable()
    typed = _command(arguments)
    base, other = _kernels.names([arguments.base, arguments.kernel])
    arguments.kernel = f"{arguments.base},{arguments.kernel}"
    found = _Compared()
    for compare in SOURCES:
        compare(found, suite, parts, arguments)
    return _conclude(found, suite, base, other, typed, arguments)


def _chosen(suite: suites.Suite, only: str | None) -> list[suite_parts.Part]:
    known = [part.name for part in suite.parts if part.scenario]
    names = known if only is None else [name for name in map(str.strip, only.split(",")) if name]
    if not names:
        raise UsageError(f"--only: names of scenarios expected; there are: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise UsageError(f"--only {name}: no such scenario in suite {suite.name}; "
                             f"{guesses.alternatives(name, known)}")
    return [part for part in suite.parts if part.name in names]


def _scenarios(found: _Compared, suite: suites.Suite, parts: Sequence[suite_parts.Part],
               arguments: argparse.Namespace) -> None:
    """The scenarios of the suite. What goes wrong in one keeps nothing from the others."""
    seeds = _runs.seeds(arguments.seeds or str(suite.seeds or 5))
    first, short = seeds[:SETTLED_BY], bool(arguments.version)
    plans = {part.name: _series.plans(_words(suite, part, first, (), arguments)) for part in parts}

    def left(part: suite_parts.Part) -> _estimates.Left:
        return _estimates.left(plans[part.name], lambda plan: _estimates.START_S + plan.timing.duration_us / 1e6
                               / part.expected_speed(short), arguments.jobs)
    total = _estimates.total([left(part) for part in parts])
    most_s = total.wall_s * len(seeds) / len(first)
    progress.step(f"{_estimates.say(total)}, with seeds {', '.join(map(str, first))}; up to {show_duration(most_s)} "
                  "where everything differs" if total.missing else _estimates.say(total))
    _estimates.confirm(total._replace(wall_s=most_s if total.missing else 0), arguments.yes)
    for place, part in enumerate(parts):
        words = _words(suite, part, first, (), arguments)
        _series.announce(place, len(parts), "scenario", part.name, words, [left(one) for one in parts[place:]])

        def carry_out(part: suite_parts.Part = part) -> int:
            _one_scenario(found, suite, part, seeds, arguments)
            return 0
        code, message = _process.contained(carry_out)
        if code:
            from analysis.compare.regress import Outcome
            found.outcomes.append(Outcome(part.name, part.title, message or f"it ended with exit code {code}"))


def _one_scenario(found: _Compared, suite: suites.Suite, part: suite_parts.Part, seeds: list[int],
                  arguments: argparse.Namespace) -> None:
    """Run it with few seeds, then with all where the kernels differ."""
    from analysis.compare import regress
    from analysis.pages.report import build_report
    done = _carried_out(_words(suite, part, seeds[:SETTLED_BY], (), arguments))
    ids = {*done.ids}
    differing = regress.unsettled(done.folder, ids)
    if differing and len(seeds) > SETTLED_BY:
        progress.step(f"{part.name}: other data of {', '.join(differing)}: {len(seeds)} seeds")
        ids |= {*_carried_out(_words(suite, part, seeds, differing, arguments)).ids}
    outcome, kernels = regress.of_experiment(part.name, part.title, done.folder, ids, arguments.margin)
    found.kernels = found.kernels or kernels
    if outcome.state != regress.SAME:
        outcome = outcome._replace(report=os.path.relpath(build_report(done.folder, arguments.margin).path,
                                                          results_dir() / "x"))
    if done.not_run:
        outcome = outcome._replace(problem="; ".join(f"{name}: {why}" for name, why in done.not_run.items()))
    found.outcomes.append(outcome)
    progress.step(f"{part.name}: {outcome.words}")


def _carried_out(words: Sequence[str]) -> Done:
    asked = _series.parsed(words)
    return Asked(asked).carry_out(_kernels.levels(asked), among_others=False)


def _scripts(found: _Compared, suite: suites.Suite, parts: Sequence[suite_parts.Part], arguments: argparse.Namespace) \
        -> None:
    """The packet scripts, each with both kernels: whether they pass, and with which packets."""
    if not arguments.scripts:
        return
    from analysis.compare.regress import Outcome

    def carry_out() -> int:
        from testbed.packet_scripts import runner
        sources = [runner.read(str(path), {}, ()) for path in sorted(runner.FOLDER.glob("*.pkt"))]
        options = {name: value for name in _KERNEL_OPTIONS if (value := getattr(arguments, name)) not in (None, [])}

        def outcomes(spec: str) -> dict[str, results.Outcome]:
            carried_out = runner.runner({**options, "kernel": spec}, _shared.reporter())
            return {one.file: one for one in carried_out.run(sources, None)}
        before, after = map(outcomes, arguments.kernel.split(","))
        events = [event for name in before if (event := _of_script(before[name], after[name]))]
        count = f"{len(before) - len(events)} of {len(before)}"
        same = f"{count} packet scripts: no change, the same packets at the same times"
        found.outcomes.append(Outcome(_SCRIPTS, "Packet scripts", events=events, same=same))
        return 0
    code, message = _process.contained(carry_out)
    if code:
        found.outcomes.append(Outcome(_SCRIPTS, "Packet scripts", message or f"it ended with exit code {code}"))


def _of_script(before: results.Outcome, after: results.Outcome) -> Event | None:
    """What changed of a packet script; None if nothing."""
    from analysis.compare import regress
    name = pathlib.PurePath(before.file).stem
    if before.skipped or after.skipped:
        return None if bool(before.skipped) == bool(after.skipped) else regress.Event(
            name, f"not run with one of the kernels: {before.skipped or after.skipped}", regress.DIFFERENT)
    if before.ok and not after.ok:
        return regress.Event(name, f"passes no more: {after.problem[0]}", regress.WORSE)
    if after.ok and not before.ok:
        return regress.Event(name, f"passes now; before: {before.problem[0]}", regress.BETTER)
    return regress.Event(name, f"{'passes' if after.ok else 'fails'} with both, and sends other packets",
                         regress.DIFFERENT) if before.trace != after.trace else None


#: What is compared, one after the other: each adds what it found.
SOURCES: tuple[Callable[[_Compared, suites.Suite, Sequence[suite_parts.Part], argparse.Namespace], None], ...] = (
    _scenarios, _scripts)


def _words(suite: suites.Suite, part: suite_parts.Part, seeds: Sequence[int], only: Collection[str],
           arguments: argparse.Namespace) -> list[str]:
    """The command of a scenario. only: subjects that are run, all without any."""
    asked = arguments.cca.split(",") if arguments.cca else part.ccas or suite.ccas
    entries = [entry for entry in part.subjects(asked).split(",") if entry.strip()]
    if only:
        entries = [entry for entry in entries if ccas.parse(entry)[0].name in only]
    words = ["run", *part.words(arguments.version, "")]
    words += ["--cca", ",".join(entries)] if entries else []
    words += ["--seeds", ",".join(map(str, seeds)) + "," * (len(seeds) == 1)]
    words += _shared.engine_words(arguments, ("kernel", *_KERNEL_OPTIONS))
    return words + (["--jobs", str(arguments.jobs)] if arguments.jobs else [])


def _conclude(found: _Compared, suite: suites.Suite, base: str, other: str, typed: list[str],
              arguments: argparse.Namespace) -> int:
    from analysis.compare import regress
    from analysis.pages import regress_report
    from analysis.read import junit
    result = regress.Regression(base, other, found.kernels, found.outcomes)
    page = regress_report.write(result, results_dir() / _folder(suite, base, other, arguments), typed,
                                arguments.margin, suite.description)
    if arguments.junit is not None:
        junit.write_cases(arguments.junit, f"{other} against {base}", regress_report.test_cases(result))
    sys.stderr.flush()
    for line in result.lines():
        print(line)
    print(f"page: {page}")
    if arguments.junit is not None:
        print(f"test cases: {arguments.junit}")
    if result.state in regress.CHANGED:
        return 1
    if broken := [one.name for one in result.outcomes if one.state == regress.BROKEN]:
        raise RunFailed(f"not compared: {', '.join(broken)}")
    return 0


def _folder(suite: suites.Suite, base: str, other: str, arguments: argparse.Namespace) -> str:
    """regress-6.12-linux-quick"""
    words = [SUITE, *([suite.name] if suite.name != SUITE else []), base, other, *filter(None, [arguments.version])]
    words += [pathlib.PurePath(word).stem for word in (arguments.cca or "").split(",") if word]
    words += ["only", *sorted(filter(None, map(str.strip, arguments.only.split(","))))] if arguments.only else []
    words += ["scripts"] * arguments.scripts
    words += [f"hz{arguments.hz}"] * bool(arguments.hz) + sorted(arguments.kernel_options)
    name = "-".join(words).replace(os.sep, "-").replace("+", "-")
    return name if len(name) <= _LONGEST_NAME else \
        f"{name[:_LONGEST_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _command(arguments: argparse.Namespace) -> list[str]:
    """As it can be typed again."""
    words = ["bin/testbed", "regress", "--base", arguments.base, "--kernel", arguments.kernel]
    for name in ("cca", "seeds", "only"):
        if getattr(arguments, name):
            words += [f"--{name}", str(getattr(arguments, name))]
    words += ["--suite", arguments.suite] if arguments.suite != SUITE else []
    words += [f"--{arguments.version}"] if arguments.version else []
    words += ["--scripts"] * arguments.scripts
    return words + _shared.margin_words(arguments) + _shared.engine_words(arguments, _KERNEL_OPTIONS)

# SPDX-License-Identifier: GPL-2.0-only
"""Run a list of scenarios, and judge or compare by what the suite says.

  testbed suite list                      the suites there are
  testbed suite list studies              what would run, what is left, how long
  testbed suite run all --quick           every scenario, in its short version
  testbed suite run studies               repeat the published studies: hours
  testbed suite run iccrg --quick --cca docs/examples/tcp_mine.c

Each part of a suite is an experiment with a report of its own. Before each part
the command prints the remaining time. A part that fails does not stop the
others. Run the same command again to resume.

In the suite `published`, runs are compared with what others measured, cell by
cell (docs/howto/suite.md).

In the suite `bbr-ietf`, test cases of a draft are judged by the state of the
congestion control and by the wire (docs/howto/bbr-cases.md).

In a suite with a baseline, the baseline runs beside the congestion controls
under test, and one report says where they are better (docs/howto/suite.md).
"""
from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernel.source import DEFAULT_VERSION, NEWEST
from testbed import engines, executors
from testbed.cli import (_cases, _estimates, _kernels, _more_seeds, _overview, _process, _runs, _series, _shared,
                         _suite_pages, list as listing, run)
from testbed.cli._experiment import Asked
from testbed.core import guesses, progress
from testbed.core.errors import RunFailed, UsageError
from testbed.core.progress import print_error
from testbed.core.quic_sender import QuicSender
from testbed.core.units import show_duration
from testbed.engines import _features
from testbed.guest.tuning import Hosts
from testbed.runs.plan import Plan
from testbed.runs.store import Store, results_dir
from testbed.scenario import ccas, criteria, published, quic_flows, scenario, suite_parts, suites

HELP = "run a list of scenarios: all, studies, an evaluation suite"
GROUP = "Run experiments"
VERBS = ("list", "run")
#: of a run on an engine on whose clock nothing is skipped
LONGEST_REAL_S = 900
#: than greedy flows in their place: two flows of quinn over 20 Mbit/s took 31 times as long
_QUIC_SLOWER = 30


class _Step(NamedTuple):
    """A part that is to be run: its command and its runs, or why there are none."""
    part: suite_parts.Part
    words: list[str]
    plans: list[Plan]
    speed: float        # seconds of virtual time in a second of wall time, as far as is known
    problem: str
    unknown: str = ""   # why it is not known which runs


def names() -> list[str]:
    """Suites that come with the testbed."""
    return suites.names()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    show = verbs.add_parser("list", help="list the suites, or what a suite would run and what is left of it")
    show.add_argument("suite", nargs="?", metavar="SUITE", help="a suite, or the path of a .yaml file (default: list "
                      "all suites)")
    carry_out = verbs.add_parser("run", help="run a suite; run it again to resume")
    carry_out.add_argument("suite", metavar="SUITE", help=f"one of {', '.join(suites.names())}, or the path of a "
                           ".yaml file")
    carry_out.add_argument("--yes", action="store_true", help="begin a long suite without asking")
    for verb in (show, carry_out):
        _add_options(verb)


def _add_options(parser: argparse.ArgumentParser) -> None:
    versions = parser.add_mutually_exclusive_group()
    versions.add_argument("--quick", action="store_const", const="quick", dest="version", default="",
                          help="the short version of each scenario that has one")
    versions.add_argument("--smoke", action="store_const", const="smoke", dest="version",
                          help="the smallest versions; scenarios without one are left out")
    parser.add_argument("--cca", metavar="A,B", help="congestion controls under test, as for `testbed run` (default: "
                        "the suite's, or each scenario's)")
    _runs.add_seed_arguments(parser, " (default: the suite's, or each scenario's)")
    add_most_seeds_argument(parser)
    parser.add_argument("--only", metavar="A,B", help="only these parts")
    parser.add_argument("--baseline", metavar="NAME", help="compare with this congestion control, not the suite's")
    parser.add_argument("--against", metavar="A,B", help="assess against these congestion controls, not the suite's")
    _shared.add_margin_argument(parser)
    parser.add_argument("--engine", metavar="ENGINE", help="where runs take place (default: the suite's, or "
                        f"{engines.DEFAULT})")
    _shared.add_engine_options(parser, _shared.KERNEL_OPTIONS)
    _runs.add_executor_arguments(parser)


def add_most_seeds_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--most-seeds", type=_shared.positive, metavar="N",
                        help="where a verdict needs more seeds, add as many again as at first, up to N of a criterion "
                        "(default: the suite's, without --quick and --seeds)")


def main(arguments: argparse.Namespace, command: Sequence[str] = ()) -> int:
    """Exit code 0; 4 if a part could not be run to its end, 6 if results of some are only not as expected.

    command: what was typed, as reports show it, if it was not `testbed suite`."""
    if arguments.suite is None:
        listing.show("suites")
        return 0
    suite = suites.load(arguments.suite)
    _more_seeds.limit(suite, arguments)                         # before anything runs
    executors.choose(arguments.executor, arguments.cluster)     # before anything runs
    if suite.cases:
        if arguments.executor or arguments.cluster:
            raise UsageError(f"suite {suite.name}: its cases run on this machine, without --executor and --cluster")
        return _cases.main(suite, arguments, results_dir())
    suite, chosen, steps, subjects = _planned(suite, arguments)
    if arguments.verb == "list":
        return _list(chosen, steps, arguments)
    if not steps:
        raise UsageError(f"nothing to run: {'; '.join(f'{part.name}: {_why_not(part, arguments)}' for part in chosen)}")
    return _run(suite, chosen, steps, subjects, arguments, command or _command(arguments))


def _planned(suite: suites.Suite, arguments: argparse.Namespace) \
        -> tuple[suites.Suite, list[suite_parts.Part], list[_Step], list[str]]:
    """The suite, the parts of it that were asked for, what they would run, and the subjects of a baseline."""
    arguments.kernel = arguments.kernel or suite.kernel or None
    if suite.criteria:
        arguments.cca = arguments.cca or ",".join(suite.ccas) or None
        suite = _with_references(suite, arguments)
    if arguments.seeds is not None:
        _runs.seeds(arguments.seeds)                # one message, not one for each part
    if suite.page:
        from analysis import pages
        pages.module_of(suite.page)                 # before anything runs
    if (suite.page or suite.results) and arguments.cca:
        raise UsageError(f"--cca: suite {suite.name} has congestion controls of its own")
    chosen = _without_missing_stacks(_without_the_longest(_chosen(suite, arguments.only), arguments))
    if suite.criteria and arguments.cca:
        chosen = _fitting(chosen, ccas.parse(",".join([arguments.cca, *suite.against])), arguments.version)
    if arguments.verb == "run":
        Store(results_dir()).require_writable()
    chosen = _with_newer_kernels(_of_kernel(chosen, suite, arguments), suite, arguments)
    if suite.criteria:
        _check_usable(chosen, arguments)
    subjects = _subjects(suite, arguments)
    steps = [_step(suite, part, subjects[:1], arguments) for one in chosen for part in _with_switches(one, arguments)
             if part.scenario and not _lacks_version(part, arguments.version)]
    return suite, chosen, steps, subjects


def _check_usable(parts: Sequence[suite_parts.Part], arguments: argparse.Namespace) -> None:
    """UsageError or RunFailed for a candidate or references that cannot be used: of them there is nothing to say."""
    scenario_name = next((part.scenario for part in parts if part.scenario), "")
    names = [arguments.cca, *filter(None, map(str.strip, (arguments.against or "").split(",")))]
    try:
        for name in names if scenario_name else []:
            _series.plans(["run", scenario_name, "--cca", name, *_engine_words(arguments)],
                          build=arguments.verb == "run")
    except _series.NotReady:
        pass                    # for a list no kernel is built


class Cost(NamedTuple):
    """What a part costs. runs, wall_s: all of it; left: what is left of it; why_not: why there is nothing to run;
    shares: parts before it that have some of its runs, too, which cost nothing here."""
    part: suite_parts.Part
    runs: int
    wall_s: float
    left: _estimates.Left
    why_not: str = ""
    shares: Sequence[str] = ()


def costs(arguments: argparse.Namespace) -> list[Cost]:
    """Of the parts that were asked for, as if none of their runs was there; runs that parts share cost the first."""
    _, chosen, steps, _ = _planned(suites.load(arguments.suite), arguments)
    first: dict[str, str] = {}          # run: the part that it costs
    by_name = {step.part.name: step for step in steps}
    found = []
    for part in chosen:
        step = by_name.get(part.name)
        if step is None or step.problem:
            why_not = step.problem if step else _why_not(part, arguments)
            found.append(Cost(part, 0, 0.0, _estimates.Left(0, 0, 0.0), why_not))
            continue
        own = [plan for plan in step.plans if plan.id not in first]
        shares = list(dict.fromkeys(first[plan.id] for plan in step.plans if plan.id in first))
        first |= {plan.id: part.name for plan in own}
        wall_s = sum(_usual_s(step, plan) for plan in own) / (arguments.jobs or len(os.sched_getaffinity(0)))
        found.append(Cost(part, len(own), wall_s, _left(step._replace(plans=own), arguments.jobs), shares=shares))
    return found


def _run(suite: suites.Suite, chosen: Sequence[suite_parts.Part], steps: Sequence[_Step], subjects: list[str],
         arguments: argparse.Namespace, command: Sequence[str]) -> int:
    for step in steps:
        if step.problem:
            print_error(step.problem)
    found = _estimates.total(_lefts(steps, arguments.jobs))
    progress.step(_estimates.say(found))
    _estimates.confirm(found, arguments.yes)
    store = Store(results_dir())
    first = {step.part.name: len({plan.seed for plan in step.plans}) for step in steps if step.plans}
    most = _more_seeds.limit(suite, arguments)
    ran = _suite_pages.Ran(suite, chosen, {step.part.name: step.plans for step in steps}, subjects, {},
                           {step.part.name: step.problem for step in steps if step.problem}, store.results, arguments,
                           command, _more_seeds.looks(first.values(), most))
    codes = dict.fromkeys(ran.problems, UsageError.exit_code)
    _carry_out(steps, ran, codes)

    def carry_out(counts: Mapping[str, int]) -> None:
        with_seeds = {name: argparse.Namespace(**{**vars(arguments), "seeds": f"{count}"})
                      for name, count in counts.items()}
        _carry_out([_step(suite, part, subjects[:1], with_seeds[part.name])
                    for part in chosen if part.name in counts], ran, codes)
    if most:
        _more_seeds.until_decided(first, most, ran.looks, lambda: _suite_pages.assessments(ran), carry_out)
    store.create()
    _suite_pages.write(ran)
    print(f"all reports: {_overview.build(store.results, ran.problems)}")
    if ran.problems:
        raise _series.failure("parts", len(steps), codes)
    return 0


def _carry_out(steps: Sequence[_Step], ran: _suite_pages.Ran, codes: dict[str, int]) -> None:
    """The runs and the report of each step; ran.done, ran.problems and codes get what came of it."""
    for place, step in enumerate(steps):
        if step.problem:
            continue
        _series.announce(place, len(steps), "part", step.part.name, step.words,
                         _lefts(steps[place:], ran.arguments.jobs))

        def carry_out(step: _Step = step) -> int:
            asked = _series.parsed(step.words)
            if not _suite_pages.has_one(ran.suite):
                return run.main(asked)
            levels = _kernels.levels(asked)
            ran.done[step.part.name] = Asked(asked).carry_out(levels, among_others=False, say_how_long=False)
            return run.conclude(asked, ran.done[step.part.name])
        code, message = _process.contained(carry_out)
        if code:
            ran.problems[step.part.name], codes[step.part.name] = message, code


def _with_switches(part: suite_parts.Part, arguments: argparse.Namespace) -> list[suite_parts.Part]:
    """What a part runs: of a published result, its switches, too."""
    return [part, *part.switched(bool(arguments.version)).values()] if isinstance(part, published.Result) else [part]


def _lacks_version(part: suite_parts.Part, version: str) -> bool:
    """Whether a part is left out: only of the smallest versions, where its scenario has none."""
    return version == "smoke" and version not in scenario.versions(part.scenario)


def _why_not(part: suite_parts.Part, arguments: argparse.Namespace) -> str:
    return part.not_run or f"{part.scenario} has no {arguments.version} version"


def _without_the_longest(parts: Sequence[suite_parts.Part], arguments: argparse.Namespace) -> list[suite_parts.Part]:
    """The parts, but for those whose runs would last too long on an engine in real time; these are named."""
    found = engines.load_several(arguments.engine or engines.DEFAULT, {})
    if not any(engine.capabilities.clock == "real" for engine in found):
        return list(parts)
    kept = []
    for part in parts:
        duration_s = 0.0
        if part.scenario:
            version = arguments.version if arguments.version in scenario.versions(part.scenario) else False
            duration_s = scenario.load(part.scenario, quick=version).timing.duration_us / 1e6
        if duration_s <= LONGEST_REAL_S:
            kept.append(part)
        else:
            words = ["run", *part.words(arguments.version, ""), "--engine", arguments.engine]
            print(f"{part.name}: left out, a run lasts {show_duration(duration_s)} of real time; "
                  f"{shlex.join(['bin/testbed', *words])}", file=sys.stderr)
    return kept


def _without_missing_stacks(parts: Sequence[suite_parts.Part]) -> list[suite_parts.Part]:
    """The parts without the QUIC stacks whose programs cannot be made here; these are named."""
    asked = {part.name: _stacks(part) for part in parts}
    if not any(asked.values()):
        return list(parts)
    from traffic.quic import programs
    why = {name: "" if programs.is_built(name) else programs.missing(name)
           for name in sorted(set().union(*asked.values())) if name in programs.names()}
    absent = {name for name, lacks in why.items() if lacks}
    for name in sorted(absent):
        print(f"{name} is left out: {why[name]}", file=sys.stderr)
    found = []
    for part in parts:
        sweep = {axis: tuple(value for value in values if not (
            _is_of_stacks(axis) and QuicSender.of(value).stack in absent)) for axis, values in part.sweep.items()}
        if not all(sweep.values()) or (sweep == part.sweep and asked[part.name] & absent):
            lacking = ", ".join(sorted(asked[part.name] & absent))
            part = dataclasses.replace(part, scenario="", sweep={}, choices={}, set={},
                                       not_run=f"no program of {lacking}: make quic")
        found.append(dataclasses.replace(part, sweep=sweep) if part.scenario else part)
    return found


def _stacks(part: suite_parts.Part) -> set[str]:
    """The QUIC stacks of a part: of its sweep, or else of its scenario."""
    swept = {value for axis, values in part.sweep.items() if _is_of_stacks(axis) for value in values}
    if not swept and part.scenario:
        swept = {str(one["stack"]) for one in scenario.load(part.scenario).traffic if one["kind"] == "quic"}
    return {QuicSender.of(value).stack for value in swept}


def _fitting(parts: Sequence[suite_parts.Part], subjects: Sequence[ccas.Subject], version: str) \
        -> list[suite_parts.Part]:
    """The criteria as they are for a candidate and its references: where one is a QUIC program with metrics that it
    has, and not where it cannot send the traffic."""
    programs = [one for one in subjects if any(variant.quic for variant in one.variants)]
    if not programs:
        return list(parts)
    found: list[suite_parts.Part] = []
    for part in parts:
        if isinstance(part, criteria.Criterion) and part.scenario:
            asked = part.selection(bool(version))
            short = version if version in scenario.versions(part.scenario) else ""
            loaded = scenario.load(part.scenario, dict(asked.choices), short, [
                f"{key}={value}" for key, value in asked.set.items()])
            part = part.of_programs(quic_flows.refusal(loaded, programs[0]))
        found.append(part)
    return found


def _of_kernel(parts: Sequence[suite_parts.Part], suite: suites.Suite, arguments: argparse.Namespace) \
        -> list[suite_parts.Part]:
    """The parts, without the criteria for which the kernel lacks something; for a list no kernel is built."""
    if not any(isinstance(part, criteria.Criterion) and part.needs for part in parts):
        return list(parts)
    engine = _kernels.levels(_series.parsed(["run", suite.name, *_engine_words(arguments)]))[0].engine
    if arguments.verb == "list" and not _runs.is_ready(engine, []):
        return list(parts)
    if arguments.verb == "run":
        _runs.make_engine_ready(engine, [])
    found: list[suite_parts.Part] = []
    for part in parts:
        lacks = isinstance(engine, _features.LinuxEngine) and isinstance(part, criteria.Criterion) and part.needs \
            and engine.lacks_feature(part.needs)
        found.append(part.left_out(lacks) if lacks and isinstance(part, criteria.Criterion) else part)
    return found


def _with_newer_kernels(parts: Sequence[suite_parts.Part], suite: suites.Suite, arguments: argparse.Namespace) \
        -> list[suite_parts.Part]:
    """Of all scenarios, those that need what the usual kernel lacks have the newest, unless somebody chose one."""
    if suite.name != suites.ALL or arguments.kernel or arguments.engine not in (None, engines.DEFAULT):
        return list(parts)
    version = tuple(map(int, DEFAULT_VERSION.split(".")))
    found = []
    for part in parts:
        loaded = scenario.load(part.scenario).resolved()
        needed = _features.features_needed(loaded.network, int(Hosts(loaded.hosts).ecn))
        newer = any(_features.FEATURES[name][1] > version for name in needed)
        found.append(dataclasses.replace(part, kernel=NEWEST) if newer else part)
    return found


def _is_of_stacks(axis: str) -> bool:
    return axis.startswith("traffic.") and axis.endswith(".stack")


def _chosen(suite: suites.Suite, only: str | None) -> list[suite_parts.Part]:
    """In the order of the suite."""
    known = [part.name for part in suite.parts]
    names = known if only is None else [name for name in map(str.strip, only.split(",")) if name]
    if not names:
        raise UsageError(f"--only: names of parts expected; there are: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise UsageError(f"--only {name}: no such part of {suite.name}; {guesses.alternatives(name, known)}")
    return [part for part in suite.parts if part.name in names]


def _baseline(suite: suites.Suite, arguments: argparse.Namespace) -> str:
    return suite.baseline if arguments.baseline is None else str(arguments.baseline)


def _ccas(suite: suites.Suite, arguments: argparse.Namespace, part: suite_parts.Part | None = None) -> str:
    """What `--cca` is for each part, or one; '' if it is what the scenario says. The baseline comes first: the others
    are compared with it."""
    if not suite.baseline:
        asked = arguments.cca.split(",") if arguments.cca else []
        return part.subjects(asked or part.ccas or suite.ccas) if part else ",".join(asked)
    return ",".join([_baseline(suite, arguments), arguments.cca if arguments.cca is not None else ",".join(suite.ccas)])


def _subjects(suite: suites.Suite, arguments: argparse.Namespace) -> list[str]:
    """Names of the baseline and of those under test; none of a suite without a baseline. RunFailed before anything
    runs if one of them cannot be used; for `list`, which builds no kernel, only as far as that is known."""
    asked = ccas.parse(_ccas(suite, arguments)) if _ccas(suite, arguments) else []
    if not suite.baseline:
        if arguments.baseline is not None:
            raise UsageError(f"--baseline {arguments.baseline}: suite {suite.name} compares nothing; `testbed run` "
                             "takes the first congestion control of --cca as the reference")
        return []
    if len(ccas.parse(_baseline(suite, arguments))) != 1:
        raise UsageError(f"--baseline {_baseline(suite, arguments)}: one congestion control expected")
    if arguments.kernel and "," in arguments.kernel and not os.path.exists(arguments.kernel):
        raise UsageError(f"--kernel {arguments.kernel}: one kernel expected")
    if arguments.engine and "," in arguments.engine:
        raise UsageError(f"--engine {arguments.engine}: one engine expected")
    if len(asked) < 2:
        raise UsageError(f"--cca: a congestion control besides the baseline, {asked[0].name}, expected")
    levels = _kernels.levels(_series.parsed(["run", suite.name, *_engine_words(arguments)]))
    if arguments.verb == "list" and not _runs.is_ready(levels[0].engine, []):
        return [subject.name for subject in asked]
    ready = _runs.prepare(levels[0].engine, asked, [])
    if ready.broken:
        raise RunFailed(f"nothing was run, as these cannot be used: {', '.join(ready.broken)}")
    return [subject.name for subject in ready.subjects]


def _words(suite: suites.Suite, part: suite_parts.Part, baseline: str, arguments: argparse.Namespace) -> list[str]:
    """The command of a part; baseline: its name."""
    of_suite = part.seeds or (suite.quick.seeds if arguments.version and suite.quick.seeds else suite.seeds)
    words = ["run", *part.words(arguments.version, baseline)]
    for option, value in (("--cca", _ccas(suite, arguments, part)), ("--seeds", arguments.seeds or of_suite)):
        words += [option, str(value)] if value else []
    if part.engines and not arguments.engine and [*part.engines] != [engines.DEFAULT]:
        words += ["--engine", ",".join(part.engines)]
    words += ["--kernel", part.kernel] if part.kernel else []
    words += _engine_words(arguments, without_kernel=bool(part.kernel))
    return words + _runs.executor_words(arguments)


def _engine_words(arguments: argparse.Namespace, without_kernel: bool = False) -> list[str]:
    """Options that say which engine and which kernel, as they were given."""
    words = ["--engine", arguments.engine] if arguments.engine not in (None, engines.DEFAULT) else []
    return words + _shared.engine_words(arguments, set(engines.options()) - {"kernel"} if without_kernel else None)


def _step(suite: suites.Suite, part: suite_parts.Part, baseline: Sequence[str], arguments: argparse.Namespace) -> _Step:
    """What a part would run; what is wrong with it costs the other parts nothing."""
    words = ["run", part.scenario]
    found: list[Plan] = []
    unknown: list[str] = []

    def plan() -> int:
        words[:] = _words(suite, part, "".join(baseline), arguments)
        try:
            found.extend(_series.plans(words, build=arguments.verb == "run"))
        except _series.NotReady as problem:
            unknown.append(str(problem))
        except UsageError as problem:
            raise UsageError(suite.in_file(part, bool(arguments.version), problem)) from None
        return 0
    _, message = _process.explained(plan)
    return _Step(part, words, found, part.expected_speed(bool(arguments.version)), message, "".join(unknown))


def _usual_s(step: _Step, plan: Plan) -> float:
    """Wall seconds of a run of which none like it is there."""
    known: float | None = step.part.engines.get(plan.engine)
    in_place = isinstance(step.part, criteria.Criterion) and any(
        component["kind"] == "quic" for component in plan.scenario.traffic)
    return known or _estimates.START_S + plan.timing.duration_us / 1e6 / step.speed * (_QUIC_SLOWER if in_place else 1)


def _left(step: _Step, jobs: int | None) -> _estimates.Left:
    return _estimates.left(step.plans, functools.partial(_usual_s, step), jobs)._replace(unknown=step.unknown)


def _lefts(steps: Sequence[_Step], jobs: int | None) -> list[_estimates.Left]:
    """Of the steps that can be run; a run that several have counts for the first only."""
    counted: set[str] = set()
    found = []
    for step in steps:
        if not step.problem:
            found.append(_left(step._replace(plans=[plan for plan in step.plans if plan.id not in counted]), jobs))
            counted.update(plan.id for plan in step.plans)
    return found


def _list(chosen: Sequence[suite_parts.Part], steps: Sequence[_Step], arguments: argparse.Namespace) -> int:
    by_name = {step.part.name: step for step in steps}
    for part in chosen:
        step = by_name.get(part.name)
        if step is None:
            print(f"{part.name}: not run: {_why_not(part, arguments)}")
        elif step.problem:
            print(f"{part.name}: cannot be run: {step.problem}")
        else:
            print(f"{shlex.join(['bin/testbed', *step.words])}    {_estimates.say(_left(step, arguments.jobs))}")
    print(f"all: {_estimates.say(_estimates.total(_lefts(steps, arguments.jobs)))}")
    broken = [step.part.name for step in steps if step.problem]
    if broken:
        raise UsageError(f"{len(broken)} of {len(steps)} parts cannot be run: {', '.join(broken)}")
    return 0


def _with_references(suite: suites.Suite, arguments: argparse.Namespace) -> suites.Suite:
    """Criteria are assessed against what was asked for."""
    if arguments.verb == "run":
        _check_candidate(arguments)
    if not arguments.against:
        return suite
    against = tuple(name for name in map(str.strip, arguments.against.split(",")) if name)
    ccas.parse(arguments.against)
    if {*against} == {one.name for one in ccas.parse(arguments.cca or "")}:
        raise UsageError(f"--against {arguments.against}: that is the candidate; another congestion control expected")
    return dataclasses.replace(suite, against=against, parts=tuple(
        dataclasses.replace(part, against=against) if isinstance(part, criteria.Criterion) else part
        for part in suite.parts))


def _check_candidate(arguments: argparse.Namespace) -> None:
    """UsageError unless one congestion control is to be assessed."""
    found = ccas.parse(arguments.cca or "")
    if len(found) != 1 or "+" in found[0].name:
        raise UsageError("--cca: one congestion control, which is assessed, expected")


def _command(arguments: argparse.Namespace) -> list[str]:
    """As it can be typed again."""
    words = ["bin/testbed", "suite", "run", arguments.suite]
    for name in ("cca", "baseline", "against", "seeds", "most_seeds", "only"):
        if getattr(arguments, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    words += [f"--{arguments.version}"] if arguments.version else []
    words += _shared.margin_words(arguments)
    return words + _engine_words(arguments)

# SPDX-License-Identifier: GPL-2.0-only
"""Run a scenario with other settings, and say which conclusions survive.

  testbed sensitivity access-link --cca reno,cubic --quick
  testbed sensitivity access-link --cca reno,cubic --only jitter,initcwnd,hz
  testbed sensitivity rtt-fairness --cca reno,libra \\
      --metric throughput_ratio_short_long

Each round changes one knob (a file in knobs/): jitter of hosts, initial window,
offloads, CPU costs, timer ticks and others. Knobs that do not concern the
scenario's traffic are left out. Congestion controls are compared with the first
one. There are five seeds, with --quick three. Another kernel (hz) is used if it
is built, or if --only asks for it. Run the same command again to resume
(docs/howto/sensitivity.md).
"""
from __future__ import annotations

import argparse
import pathlib
import shlex
import sys
from collections.abc import Sequence

from testbed import engines, executors
from testbed.cli import _runs, _shared
from testbed.core.errors import RunFailed, UsageError
from testbed.core.fields import FieldError
from testbed.runs import campaign, experiment
from testbed.runs.engine import EngineBase
from testbed.runs.plan import Plan
from testbed.runs.store import Store, results_dir
from testbed.scenario import ccas, knobs, scenario

HELP = "say which conclusions survive other settings"
GROUP = "Run experiments"
SEEDS = 5
#: with --quick, of runs shortened to so many seconds: a dozen knobs stay within ten minutes on two CPUs
QUICK_SEEDS, QUICK_S = 3, 15
_PARTS = ("prefill", "warmup", "test")
#: as the analysis calls the axis and the scenario that is not changed
_AXIS, _AS_IT_IS = "knob", "as-it-is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_scenario_arguments(parser)
    parser.add_argument("--only", metavar="KNOBS", help=f"only these, separated by commas: {', '.join(knobs.names())}")
    parser.add_argument("--metric", metavar="NAME", action="append", default=[],
                        help="draw conclusions from this metric (docs/reference/metrics.md) instead of the usual ones; "
                        "may be repeated")
    _shared.add_margin_argument(parser)
    _runs.add_execution_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    _runs.check(arguments)
    if arguments.metric:
        from testbed.runs import queries
        for name in arguments.metric:
            queries.check_metric(name)
    chosen = [knobs.load(name) for name in _only(arguments.only)]
    options = _shared.engine_options(arguments)
    base = knobs.Base(arguments.scenario, _runs.choices(arguments), arguments.quick,
                      [*_short(arguments), *arguments.settings], (), options)
    subjects = ccas.parse(arguments.cca if arguments.cca is not None else ",".join(base.scenario.default_ccas))
    if len(subjects) < 2:
        raise UsageError("--cca: two congestion controls or more are needed to compare")
    seeds = _runs.seeds(arguments.seeds or str(QUICK_SEEDS if arguments.quick else SEEDS))
    executor_class = executors.choose(arguments.executor, arguments.cluster)
    store = Store(results_dir())
    store.require_writable()
    engine = engines.load(arguments.engine, options)
    variations, left_out = base.variations(chosen)
    if not variations:
        raise UsageError("no knob is left to turn: " + "; ".join(f"{one.label}: {one.reason}" for one in left_out))
    ready = _runs.prepare(engine, subjects,
                          [base.scenario, *(one.scenario for one in variations if one.engine == options)])
    if len(ready.subjects) < 2:
        raise RunFailed(f"nothing to compare {ready.subjects[0].name} with: not run: {', '.join(ready.broken)}")
    groups: list[tuple[EngineBase, list[Plan]]] = [(engine, _plans(
        [(_AS_IT_IS, base.scenario), *((one.label, one.scenario) for one in variations if one.engine == options)],
        ready.subjects, seeds, engine))]
    for one in [one for one in variations if one.engine != options]:
        other, reason = _other(arguments, one)
        if other is None:
            left_out.append(knobs.LeftOut(one.label, reason))
        else:
            groups.append((other, _plans(
                [(one.label, one.scenario)], _runs.prepare(other, subjects, [one.scenario]).subjects, seeds, other)))
    plans = [plan for _, of_group in groups for plan in of_group]
    store.create()
    _tell_of_sweep(arguments, base)
    # called as what was asked for, whatever its times were shortened to
    labels = scenario.load(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings).labels()
    folder = experiment.add(store.results, experiment.Description(
        labels=labels, base=base.scenario.resolved(), engine=engine.name, kernel_spec=arguments.kernel,
        hz=arguments.hz, kernel_key=engine.kernel_key(), command=_command(arguments),
        kernel_options=sorted(set(arguments.kernel_options)),
        axes={_AXIS: list(dict.fromkeys(plan.point[_AXIS] for plan in plans))}), plans)
    print(f"{base.scenario.title}: {', '.join(one.name for one in ready.subjects)}; as it is and with "
          f"{len({plan.point[_AXIS] for plan in plans}) - 1} variations, {len(seeds)} seeds, "
          f"{base.scenario.timing.duration_us / 1e6:.0f} s of virtual time each, {len(plans)} runs -> {folder}",
          file=sys.stderr)
    failures: dict[str, str] = {}
    for of_engine, of_group in groups:
        failures |= campaign.carry_out(of_group, executor_class(of_engine, store, arguments.jobs), store,
                                       arguments.again)
    _runs.note_experiment(store, folder)
    _runs.tell(failures)
    titles = {_AS_IT_IS: "the scenario as it is", **{one.label: one.knob.title for one in variations}}
    judged = _report(folder, arguments, titles, left_out, plans)
    if failures:
        raise RunFailed(f"{len(failures)} of {len(plans)} runs failed; their logs are in {folder}/runs")
    if ready.broken:
        raise RunFailed(f"not run: {', '.join(ready.broken)}; the others are in {folder}")
    if not judged:
        raise RunFailed("no variation could be judged: none has usable runs of two congestion controls; `testbed runs "
                        f"query experiment={folder.name}` has their verdicts")
    return 0


def _tell_of_sweep(arguments: argparse.Namespace, base: knobs.Base) -> None:
    """A scenario with a sweep of its own is looked at in one place."""
    points = scenario.expand(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings)
    if len(points) > 1:
        print(f"{base.scenario.name}: its sweep has {len(points)} points ({', '.join(points[0][0])}); "
              "this is about the scenario without it, and --choose and --set say what that is", file=sys.stderr)


def _only(text: str | None) -> list[str]:
    names = knobs.names() if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--only: names of knobs expected: {', '.join(knobs.names())}")
    return list(dict.fromkeys(names))


def _short(arguments: argparse.Namespace) -> list[str]:
    """With --quick, settings that make the short version short enough; times that are asked for stay."""
    if not arguments.quick:
        return []
    timing = scenario.load(arguments.scenario, _runs.choices(arguments), True, arguments.settings).timing
    factor = min(1.0, QUICK_S * 1e6 / timing.duration_us)
    asked = {setting.partition("=")[0].strip() for setting in arguments.settings}
    if factor == 1 or asked & {f"timing.{part}" for part in _PARTS} or "timing" in asked:
        return []
    return [f"timing.{part}={round(factor * getattr(timing, f'{part}_us') / 1000)} ms" for part in _PARTS]


def _plans(points: Sequence[tuple[str, scenario.Scenario]], subjects: Sequence[ccas.Subject], seeds: Sequence[int],
           engine: EngineBase) -> list[Plan]:
    return campaign.make_plans([({_AXIS: label}, one) for label, one in points], subjects, seeds, engine,
                               _shared.reporter())


def _other(arguments: argparse.Namespace, one: knobs.Variation) -> tuple[EngineBase | None, str]:
    """The engine of a variation that needs another one, or why it is left out."""
    try:
        engine = engines.load(arguments.engine, one.engine)
        engine.require(one.scenario.kernel_options)
    except (UsageError, FieldError) as problem:
        return None, str(problem)
    if arguments.only is None and not engine.find():
        return None, (f"{engine.state()}; --only {one.knob.name} prepares it" if engine.state() else
                      f"--only {one.knob.name} prepares it")
    return engine, ""


def _report(folder: pathlib.Path, arguments: argparse.Namespace, titles: dict[str, str],
            left_out: Sequence[knobs.LeftOut], plans: Sequence[Plan]) -> bool:
    """Page and lines about these runs, whatever else the experiment lists. Whether anything was judged."""
    from analysis.compare.sensitivity import Sensitivity
    from analysis.pages import sensitivity_report
    from analysis.read.experiment import Experiment
    found = Sensitivity(Experiment(folder, only={plan.id for plan in plans}), arguments.margin, tuple(arguments.metric),
                        order=tuple(dict.fromkeys(plan.subject for plan in plans)))
    path = sensitivity_report.write(found, titles, [(one.label, one.reason) for one in left_out],
                                    shlex.join(_command(arguments)), arguments.quick)
    for line in sensitivity_report.lines(found):
        print(line)
    for one in left_out:
        print(f"not tried: {one.label}: {one.reason}")
    print(f"page: {path}")
    return any(found.of(knob) for knob in found.knobs)


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command as it can be typed again, word by word."""
    words: list[object] = ["bin/testbed", "sensitivity", arguments.scenario]
    for name in ("cca", "load", "seeds", "only"):
        if getattr(arguments, name):
            words += [f"--{name}", getattr(arguments, name)]
    words += [*_shared.engine_words(arguments), *_runs.version_words(arguments), *_shared.margin_words(arguments)]
    words += ["--engine", arguments.engine] if arguments.engine != engines.DEFAULT else []
    for option, values in (("choose", arguments.choose), ("set", arguments.settings), ("metric", arguments.metric)):
        for value in values:
            words += [f"--{option}", value]
    return [str(word) for word in words]

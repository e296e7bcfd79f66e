# SPDX-License-Identifier: GPL-2.0-only
"""What commands that make runs have in common: which scenario, which seeds, a ready engine, what failed."""
from __future__ import annotations

import argparse
import pathlib
import sqlite3
from collections.abc import Sequence

import traffic
from testbed import engines, executors
from testbed.cli import _shared
from testbed.cli._parser import Container
from testbed.core import guesses
from testbed.core.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.core.fields import FieldError, decode
from testbed.core.progress import print_error
from testbed.runs import campaign, index
from testbed.runs.engine import EngineBase
from testbed.runs.store import Store
from testbed.scenario import ccas
from testbed.scenario.scenario import Scenario

_MOST_SEEDS = 1000
#: failures told one by one; the rest is counted
_MOST_TOLD = 10


def add_scenario_arguments(parser: Container) -> None:
    """The scenario, what of it may be chosen, and seeds."""
    add_choice_arguments(parser)
    add_setting_arguments(parser)
    add_seed_arguments(parser, "")


def add_seed_arguments(parser: Container, default: str) -> None:
    """default: what is taken without them, for the help."""
    seeds_given = parser.add_mutually_exclusive_group()
    seeds_given.add_argument("--seeds", metavar="N|A,B,C",
                             help=f"how many seeds (1..N), or which; a repetition is a seed{default}")
    seeds_given.add_argument("--seed", metavar="N", dest="seeds", type=_one_seed, help="only this seed")


def add_choice_arguments(parser: Container, with_ccas: bool = True, several: bool = True) -> None:
    """several: whether the command takes more than one congestion control."""
    parser.add_argument("scenario", help="a scenario (see `testbed list`), or the path of a .yaml file")
    if with_ccas:
        parser.add_argument("--cca", metavar="A,B" if several else "CCA",
                            help=("congestion controls: names" if several else "congestion control: a name")
                            + " (see `testbed list ccas`), modules (./tcp_mine.c or a "
                            "folder), variant files (./mine.yaml); a+b: odd flows use a, even flows use b; "
                            "new=./tcp_mine.c: call it new; quic:quinn:cubic: greedy flows of this QUIC stack")
    parser.add_argument("--load", metavar="PERCENT", type=_percent,
                        help="offered load, if the scenario lets you choose it")
    parser.add_argument("--choose", metavar="NAME=OPTION", action="append", default=[],
                        help="another choice of the scenario (see `testbed list scenarios`); may be repeated")


def _one_seed(text: str) -> str:
    """As --seeds has it: '3' -> '3,'"""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r}: one number expected; --seeds takes several")
    return f"{text},"


def _percent(text: str) -> str:
    """'60%' -> '60'"""
    return text.strip().removesuffix("%").rstrip() or text


def add_setting_arguments(parser: Container) -> None:
    versions = parser.add_mutually_exclusive_group()
    versions.add_argument("--quick", action="store_true", help="the scenario's short version")
    versions.add_argument("--smoke", action="store_const", const="smoke", dest="quick",
                          help="its smallest version, if it has one, for slow virtual machines")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], dest="settings",
                        help="change a field of the scenario, such as traffic.load=70%%; may be repeated")


def add_execution_arguments(parser: Container) -> None:
    _shared.add_engine_arguments(parser)
    add_executor_arguments(parser)
    parser.add_argument("--again", action="store_true", help="rerun finished runs")


def add_executor_arguments(parser: Container) -> None:
    """On which machines, and how many runs at a time."""
    parser.add_argument("--executor", help=f"where to run (default: {executors.DEFAULT}, on this machine)")
    parser.add_argument("--cluster", metavar="WHERE", help="run on a Dask cluster: local[:N] starts N workers, "
                        "tcp://scheduler:8786 uses those of a cluster (docs/howto/clusters.md)")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="runs at a time (default: one per CPU)")


def executor_words(arguments: argparse.Namespace) -> list[str]:
    """These options as they were given."""
    return [word for name in ("executor", "cluster", "jobs") if (value := getattr(arguments, name))
            for word in (f"--{name}", str(value))]


def check(arguments: argparse.Namespace) -> None:
    """UsageError for what is empty."""
    if arguments.cca is not None and not arguments.cca.strip():
        raise UsageError("--cca: at least one congestion control is needed")
    seeds_given = getattr(arguments, "seeds", None)         # not every command has seeds
    if seeds_given is not None and not seeds_given.strip():
        raise UsageError("--seeds: a number, or numbers separated by commas, expected")


def choices(arguments: argparse.Namespace) -> dict[str, str | None]:
    """{choice: option} of --load and --choose."""
    found: dict[str, str | None] = {}
    if arguments.load is not None:
        found["load"] = arguments.load
    for text in arguments.choose:
        name, separator, option = text.partition("=")
        if not name or not separator or not option:
            raise UsageError(f"--choose {text}: NAME=OPTION expected, such as load=85")
        if found.get(name, option) != option:
            raise UsageError(f"--choose {text}: {name} {found[name]} is asked for, too; which of them?")
        found[name] = option
    return found


def version_words(arguments: argparse.Namespace) -> list[str]:
    """--quick or --smoke as they were given."""
    return [f"--{'quick' if arguments.quick is True else arguments.quick}"] if arguments.quick else []


def seeds(text: str) -> list[int]:
    """'3' -> [1, 2, 3]; '4,7' -> [4, 7]; '4,' -> [4]."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"--seeds {text}: a number, or numbers separated by commas, expected") from None
    if not numbers or min(numbers) < 1 or max(numbers) >= 2**63:
        raise UsageError(f"--seeds {text}: numbers from 1 to 2^63 - 1 expected")
    if "," in text:
        return list(dict.fromkeys(numbers))
    if numbers[0] > _MOST_SEEDS:
        raise UsageError(f"--seeds {text}: that many repetitions? For the one seed {text}, write {text},")
    return list(range(1, numbers[0] + 1))


def prepare(engine: EngineBase, subjects: Sequence[ccas.Subject], scenarios: Sequence[Scenario],
            lenient: bool = False) -> campaign.Ready:
    """An engine ready for runs of these scenarios and subjects; says which subjects cannot be used. RunFailed if
    none can.

    All get one kernel, with the options of all. lenient: a congestion control that the engine does not have is no
    error.
    """
    _check_names(engine, subjects, scenarios, lenient)
    make_engine_ready(engine, scenarios)
    ready = campaign.make_ready(subjects, engine, _shared.reporter(), lenient)
    for name, reason in ready.broken.items():
        print_error(reason if reason.startswith(f"{name}:") else f"{name}: {reason}")
    if not ready.subjects:
        raise RunFailed(f"not run: {', '.join(ready.broken)}")
    # a module may have trace points of its own
    if not any(variant.module_sha256 for subject in ready.subjects for variant in subject.variants):
        _check_trace_events(engine, scenarios)
    return ready


def _check_trace_events(engine: EngineBase, scenarios: Sequence[Scenario]) -> None:
    """ScenarioError for events of the probe `trace` that the engine's kernel does not have."""
    asking = [one for one in scenarios if "trace" in one.probes]
    known = engine.trace_events() if asking else None
    if known is None:
        return
    from testbed.probes import trace
    for one in asking:
        for text in decode(trace.Options, one.probes["trace"]).events:
            event = trace.parsed(text).event
            if event not in known:
                raise one.error("probes.trace.events", f"{engine.kernel_release()} has no event {event}"
                                                       f"{guesses.question(event, sorted(known))}")


def _check_names(engine: EngineBase, subjects: Sequence[ccas.Subject], scenarios: Sequence[Scenario],
                 lenient: bool) -> None:
    """UsageError for congestion controls that the engine will not have, before a kernel is built for them. lenient:
    only if it will have none of the subjects."""
    problems: list[UsageError] = []
    for subject in subjects:
        try:
            ccas.check_known(subject.variants, engine)
        except UsageError as problem:
            problems.append(problem)
    if problems and (not lenient or len(problems) == len(subjects)):
        raise problems[0]
    under_test = [variant for subject in subjects for variant in subject.variants]
    # what a module is called is known when it is built
    if lenient or not all(variant.named for variant in under_test):
        return
    for one in scenarios:
        for name in sorted({*traffic.component_ccas(one.traffic)} - {variant.name for variant in under_test}):
            try:
                ccas.check_known([ccas.find(name)], engine)
            except UsageError as problem:
                where = f"{one.cca_places[name]}: " if name in one.cca_places else ""
                raise type(problem)(where + str(problem)) from None


def is_ready(engine: EngineBase, scenarios: Sequence[Scenario]) -> bool:
    """Whether make_engine_ready would find all that it needs; nothing is built for the answer."""
    _require(engine, scenarios)
    return engine.find()


def make_engine_ready(engine: EngineBase, scenarios: Sequence[Scenario]) -> None:
    """An engine ready for runs of these scenarios, with a kernel that has the options of all. EnvironmentProblem."""
    _require(engine, scenarios)
    problems = engine.problems()
    if problems:
        raise EnvironmentProblem("; ".join(f"{p.message} ({p.fix})" for p in problems) + "; see `testbed doctor`")
    engine.prepare(_shared.reporter())


def _require(engine: EngineBase, scenarios: Sequence[Scenario]) -> None:
    for one in scenarios:
        if one.network.cells and not engine.RADIOS:
            raise one.error("topology.kind",
                            f"a network with radios, which engine {engine.name} has not: {engines.DEFAULT} has")
        try:
            # where there is no kernel, `cannot` speaks of networks that need one
            engine.require(one.kernel_options if engine.capabilities.kernel else one.asked_options)
        except FieldError as problem:
            raise one.error(problem.field, str(problem)) from None


def note_experiment(store: Store, folder: pathlib.Path) -> None:
    """Put an experiment into the index, which is only there for looking things up."""
    try:
        index.note_experiment(store.results, folder)
    except (sqlite3.Error, OSError) as problem:
        print_error(f"index.sqlite: {problem}")


def tell(failures: dict[str, str]) -> None:
    """Each distinct error once, with the runs that had it."""
    by_error: dict[str, list[str]] = {}
    for name, error in failures.items():
        by_error.setdefault(error, []).append(name)
    for error, names in list(by_error.items())[:_MOST_TOLD]:
        print_error(f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {error}")
    if len(by_error) > _MOST_TOLD:
        print_error(f"and {len(by_error) - _MOST_TOLD} other errors")

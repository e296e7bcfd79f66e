# SPDX-License-Identifier: GPL-2.0-only
"""List scenarios, congestion controls, engines, and other parts.

  testbed list                     scenarios, congestion controls, engines
  testbed list ccas probes
  testbed list runs --json                for programs
"""
import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.cli import _shared, _tables
from testbed.core import guesses
from testbed.core.errors import UsageError
from traffic.workload import records

if TYPE_CHECKING:
    from testbed.runs.engine import EngineBase
    from testbed.scenario.ccas import Variant

HELP = "scenarios, congestion controls, engines ..."
GROUP = "Set up and explore"
_KINDS = ("scenarios", "ccas", "engines", "topologies", "traffic", "probes", "knobs", "suites", "runs")
#: columns for which a narrow terminal has no room
_DETAILS = ("set to", "source", "parameters")

#: heading, names of the columns, rows
_Listing = tuple[str, tuple[str, ...], Sequence[tuple[object, ...]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="*", metavar="WHAT",
                        help=f"one or more of: {', '.join(_KINDS)} (default: the first three)")
    parser.add_argument("--json", action="store_true", help="as JSON: {kind: [{column: value}]}")
    _shared.add_engine_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    for kind in arguments.what:
        if kind not in _KINDS:
            raise UsageError(f"list {kind}: one of {', '.join(_KINDS)} expected{guesses.question(kind, _KINDS)}")
    kinds = [*dict.fromkeys(arguments.what)] or _KINDS[:3]
    listings = {kind: _ccas(arguments) if kind == "ccas" else globals()[f"_{kind}"]() for kind in kinds}
    if arguments.json:
        print(json.dumps({kind: [dict(zip(columns, row)) for row in rows]
                          for kind, (_, columns, rows) in listings.items()}, indent=1))
        return 0
    for listing in listings.values():
        heading, columns, rows = listing
        _tables.show(heading, columns, rows, _DETAILS)
    return 0


def show(kind: str) -> None:
    """One listing that needs no engine."""
    heading, columns, rows = globals()[f"_{kind}"]()
    _tables.show(heading, columns, rows, _DETAILS)


def _scenarios() -> _Listing:
    from testbed.scenario import scenario
    rows = []
    for name in scenario.names():
        loaded = scenario.load(name)
        choices = "; ".join(f"{key} {value} (of {', '.join(loaded.choices[key])})"
                            for key, value in loaded.parameters.items())
        rows.append((name, loaded.title, f"{loaded.timing.duration_us / 1e6:.0f} s", choices,
                     ", ".join(loaded.default_ccas)))
    return "Scenarios", ("name", "title", "virtual time", "choices", "congestion controls"), rows


def _ccas(arguments: argparse.Namespace) -> _Listing:
    """Named variants, and what the kernel has without a file of ours."""
    from testbed import engines
    from testbed.scenario import ccas
    engine = engines.load(arguments.engine, _shared.engine_options(arguments))
    there = engine.find()
    variants = [ccas.load(ccas.CCA_DIR / f"{name}.yaml") for name in ccas.names()]
    heading = f"Congestion controls ({engine.state()})"
    if there:
        release = engine.kernel_release()
        heading = f"Congestion controls on {release} ({engine.name})" if release else \
            f"Congestion controls of {engine.name}"
        named = {variant.kernel_cca for variant in variants}
        variants = [variant.on_kernel(release) for variant in variants]
        whose = "of this kernel" if release else "of this engine"
        variants += [ccas.Variant(name, name, whose) for name in engine.congestion_controls() if name not in named]
    rows = [(v.name, v.title, _settings(v), v.source, *_parameters_and_state(v, engine, there)) for v in variants]
    return heading, ("name", "what", "set to", "source", "parameters", "here"), sorted(rows)


def _settings(variant: "Variant") -> str:
    """What makes it different from the kernel's congestion control of that name."""
    words = [] if variant.kernel_cca == variant.name else [str(variant.kernel_cca)]
    words += [f"{name.removeprefix('net.ipv4.')}={value}" for name, value in variant.sysctls.items()]
    words += [f"{name}={value}" for name, value in variant.parameters.items()]
    return " ".join(words)


def _parameters_and_state(variant: "Variant", engine: "EngineBase", there: bool) -> tuple[str, str]:
    """(names of its parameters, whether it works on this engine)."""
    import kernel
    if not there:
        return "", "not prepared yet"
    if variant.module is None:
        if variant.kernel_cca not in engine.congestion_controls():
            return "", "not in this kernel" if engine.capabilities.kernel else "not in this engine"
        if refusal := engine.refusal(records.Variant(variant.record())):
            return "", refusal
        return ", ".join(engine.parameters(str(variant.kernel_cca))), "ready"
    if not engine.capabilities.modules:
        return "", "this engine loads no modules"
    try:
        module = engine.find_module(kernel.modules.digest_of(variant.module))
    except kernel.ModuleError as problem:
        return "", str(problem)
    if module is None or module.file is None:
        return "", "built on first use"
    return ", ".join(kernel.modinfo.of_module(module.loaded_for(str(variant.kernel_cca))[-1].file)), "ready"


def _engines() -> _Listing:
    from testbed import engines
    rows = []
    for name in engines.names():
        engine = engines.load(name)
        state = "; ".join(f"{problem.message}: {problem.fix}" for problem in engine.problems())
        rows.append((name, engine.capabilities.clock, state or engine.state()))
    return "Engines", ("name", "clock", "state here"), rows


def _topologies() -> _Listing:
    import topologies
    modules = [(name, sys.modules[topologies.load(name).__module__]) for name in topologies.names()]
    return "Topologies", ("name", "what"), [(name, _summary(module)) for name, module in modules]


def _traffic() -> _Listing:
    import traffic
    return "Traffic", ("kind", "what"), [(name, _summary(traffic.kind(name))) for name in traffic.names()]


def _probes() -> _Listing:
    from testbed import probes
    return "Probes", ("name", "what"), [(name, _summary(probes.load(name))) for name in probes.names()]


def _knobs() -> _Listing:
    from testbed.scenario import knobs
    rows = [(knob.name, knob.title, ", ".join(value.name for value in knob.values))
            for knob in map(knobs.load, knobs.names())]
    return "Knobs", ("name", "what", "values"), rows


def _suites() -> _Listing:
    from testbed.scenario import suites
    rows = [(suite.name, suite.title, suite.baseline, ", ".join(part.name for part in suite.parts))
            for suite in map(suites.load, suites.names())]
    return "Suites", ("name", "title", "baseline", "parts"), rows


def _runs() -> _Listing:
    from testbed.runs import index, store
    folder = store.results_dir()
    columns = ("experiment", "name", "id", "status", "verdict", "virtual_s", "wall_s")
    rows = [tuple(row[column] for column in columns) for row in index.rows(folder, columns)]
    return f"Runs in {folder}" + ("" if rows else ": none"), columns, rows


def _summary(module: object) -> str:
    """The first sentence of a module's description, without the names of its files."""
    paragraph = " ".join((module.__doc__ or "").split("\n\n")[0].split())
    sentence = re.match(r".*?[.](?= [A-Z]|$)", paragraph)
    return re.sub(r" \(->[^)]*\)", "", sentence.group() if sentence else paragraph)

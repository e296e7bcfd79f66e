# SPDX-License-Identifier: GPL-2.0-only
"""List what there is: scenarios, congestion controls, engines, topologies, traffic, probes, runs."""
import contextlib
import os
import sqlite3

from rich.console import Console
from rich.table import Table
from rich.text import Text

import kernel.modinfo
import kernel.modules
import topologies
import traffic
from testbed import ccas, engines, probes, results, scenario
from testbed.cli import _shared

HELP = "list scenarios, congestion controls, engines ..."
#: columns for which a narrow terminal has no room, and from which width it has
_DETAILS, _DETAILS_FROM = ("set to", "source", "parameters"), 140
#: for programs that read it: nothing is folded
_UNFOLDED = 400
_KINDS = ("scenarios", "ccas", "engines", "topologies", "traffic", "probes", "runs")


def add_arguments(parser):
    parser.add_argument("what", nargs="*", choices=[[], *_KINDS], metavar="WHAT",
                        help=f"one or more of: {', '.join(_KINDS)} (default: the first three)")
    _shared.add_engine_arguments(parser)


def main(arguments):
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=_UNFOLDED)
    for kind in arguments.what or _KINDS[:3]:
        heading, columns, rows = _ccas(arguments) if kind == "ccas" else globals()[f"_{kind}"]()
        # not as the table's title: that would be wrapped at the table's width
        console.print(Text(heading, style="bold"), soft_wrap=True)
        shown = [i for i, column in enumerate(columns) if console.width >= _DETAILS_FROM or column not in _DETAILS]
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for i in shown:
            table.add_column(columns[i], overflow="fold")
        for row in rows:
            table.add_row(*(str(row[i]) for i in shown))
        console.print(table)
        if len(shown) < len(columns):
            console.print(Text(f"(more columns from {_DETAILS_FROM} characters on: "
                               f"{', '.join(c for c in columns if c in _DETAILS)})", style="dim"))
        console.print()
    return 0


def _scenarios():
    rows = []
    for name in scenario.names():
        loaded = scenario.load(name)
        choices = "; ".join(f"{k} {v} (of {', '.join(loaded.choices[k])})" for k, v in loaded.parameters.items())
        rows.append((name, loaded.title, f"{loaded.timing.duration_us / 1e6:.0f} s", choices,
                     ", ".join(loaded.default_ccas)))
    return "Scenarios", ("name", "title", "virtual time", "choices", "congestion controls"), rows


def _ccas(arguments):
    """Named variants, and what the kernel has without a file of ours."""
    engine = engines.load(arguments.engine)(_shared.engine_options(arguments))
    there = engine.find()
    variants = [ccas.load(ccas.CCA_DIR / f"{name}.yaml") for name in ccas.names()]
    if there:
        named = {v.kernel_cca for v in variants}
        variants += [ccas.Variant(name, name, "of this kernel") for name in engine.congestion_controls() if name not in named]
    heading = f"Congestion controls on {engine.environment()['kernel_release']} ({arguments.engine})" if there else \
        "Congestion controls (the guest kernel is not built yet: `testbed kernel`)"
    if there:
        variants = [v.on_kernel(engine.environment()["kernel_release"]) for v in variants]
    rows = [(v.name, v.title, _settings(v), v.source, *_parameters_and_state(v, engine, there)) for v in variants]
    return heading, ("name", "what", "set to", "source", "parameters", "here"), sorted(rows)


def _settings(variant):
    """What makes it different from the kernel's congestion control of that name."""
    words = [] if variant.kernel_cca == variant.name else [variant.kernel_cca]
    words += [f"{name.removeprefix('net.ipv4.')}={value}" for name, value in variant.sysctls.items()]
    words += [f"{name}={value}" for name, value in variant.parameters.items()]
    return " ".join(words)


def _parameters_and_state(variant, engine, there):
    """(names of its parameters, whether it works on this engine)."""
    if not there:
        return "", "kernel not built yet"
    if variant.module is None:
        if variant.kernel_cca not in engine.congestion_controls():
            return "", "not in this kernel"
        return ", ".join(engine.parameters(variant.kernel_cca)), "ready"
    try:
        module = engine.find_module(kernel.modules.digest_of(variant.module))
    except kernel.ModuleError as problem:
        return "", str(problem)
    if module is None:
        return "", "built on first use"
    return ", ".join(kernel.modinfo.of_module(module.file)), "ready"


def _engines():
    rows = []
    for name in engines.names():
        engine = engines.load(name)({})
        problems = engine.problems()
        rows.append((name, engine.clock, "; ".join(f"{p.message}: {p.fix}" for p in problems) or "ready"))
    return "Engines", ("name", "clock", "state here"), rows


def _first_line(module):
    return (module.__doc__ or "").strip().splitlines()[0]


def _topologies():
    import importlib
    return "Topologies", ("name", "what"), [
        (n, _first_line(importlib.import_module(topologies.load(n).__module__))) for n in topologies.names()]


def _traffic():
    return "Traffic", ("kind", "what"), [(n, _first_line(traffic.load(n))) for n in traffic.names()]


def _probes():
    return "Probes", ("name", "what"), [(n, _first_line(probes.load(n))) for n in probes.names()]


def _runs():
    path = results.results_dir() / "index.sqlite"
    columns = ("experiment", "run", "status", "verdict", "virtual_s", "wall_s")
    if not path.exists():
        return f"Runs in {path.parent}: none", columns, []
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute(f"SELECT {', '.join(columns)} FROM runs ORDER BY experiment, run").fetchall()
    return f"Runs in {path.parent}", columns, [tuple("" if v is None else v for v in row) for row in rows]

# SPDX-License-Identifier: GPL-2.0-only
"""List what there is: scenarios, congestion controls, engines, topologies, traffic, probes, runs."""
import contextlib
import sqlite3

from rich.console import Console
from rich.table import Table
from rich.text import Text

import kernel
import topologies
import traffic
from testbed import engines, probes, results, scenario

HELP = "list scenarios, congestion controls, engines ..."
_KINDS = ("scenarios", "ccas", "engines", "topologies", "traffic", "probes", "runs")


def add_arguments(parser):
    parser.add_argument("what", nargs="*", choices=[[], *_KINDS], metavar="WHAT",
                        help=f"one or more of: {', '.join(_KINDS)} (default: the first three)")


def main(arguments):
    console = Console(highlight=False)
    for kind in arguments.what or _KINDS[:3]:
        heading, columns, rows = globals()[f"_{kind}"]()
        # not as the table's title: that would be wrapped at the table's width
        console.print(Text(heading, style="bold"), soft_wrap=True)
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(str, row))
        console.print(table)
        console.print()
    return 0


def _scenarios():
    rows = []
    for name in scenario.names():
        loaded = scenario.load(name)
        choices = ", ".join(f"{k} {v}" for k, v in loaded.parameters.items())
        rows.append((name, loaded.title, f"{loaded.timing.duration_us / 1e6:.0f} s", choices,
                     ", ".join(loaded.default_ccas)))
    return "Scenarios", ("name", "title", "virtual time", "defaults", "congestion controls"), rows


def _ccas():
    built = kernel.find()
    if built is None:
        return "Congestion controls (the guest kernel is not built yet: `testbed kernel`)", ("name",), []
    return f"Congestion controls of {built.release}", ("names",), [(", ".join(built.congestion_controls),)]


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

# SPDX-License-Identifier: GPL-2.0-only
"""Look up runs and their metrics, whatever experiment made them.

  testbed query "scenario=access-link cca=cubic,bbr kernel>=6.12" --metric throughput,p95_delay
  testbed query "scenario=access-link load=85 verdict=valid" --metric throughput_mean:left_to_right --csv > runs.csv
  testbed query "limit>=100 seed<=3" --json       limit: an axis of a sweep, or an end of its name

Conditions: FIELD=A,B (any of them), !=, <, <=, >, >=; all must hold. Fields: scenario, cca, seed, engine, kernel,
status, verdict, id, experiment, name, listed, pinned, virtual_s, wall_s, choices of the scenario and axes of sweeps.
Metrics: names of docs/metrics.md, or enough words of one. docs/queries.md has the rest, and the same from Python.
"""
from __future__ import annotations

import argparse
import json
from typing import Any

from testbed.cli import _tables
from testbed.core.errors import UsageError
from testbed.core.progress import print_error

HELP = "look up runs and their metrics"
_SCOPE = "_scope"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conditions", nargs="*", help="such as cca=cubic,bbr; without any, all runs")
    parser.add_argument("--metric", metavar="A,B", action="append", default=[],
                        help="metrics, separated by commas, each with :SCOPE if not of `all` or the main bottleneck")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV")
    form.add_argument("--json", action="store_true",
                      help='as JSON: {"units": {column: unit}, "runs": [{column: value}]}')


def main(arguments: argparse.Namespace) -> int:
    from testbed import api
    metrics = [name.strip() for text in arguments.metric for name in text.split(",")]
    if "" in metrics:
        raise UsageError(f"--metric {','.join(arguments.metric)}: names separated by commas expected")
    problems: list[str] = []
    found = api.query(" ".join(arguments.conditions), *metrics, report=problems.append)
    units = found.attrs["units"]
    if arguments.csv:
        print(found.to_csv(index=False), end="")
    elif arguments.json:
        print(json.dumps({"units": units, "runs": json.loads(found.to_json(orient="records"))}, indent=1))
    else:
        _show(found)
    for text in problems:
        print_error(text)
    return 1 if problems else 0


def _show(found: Any) -> None:
    """A table that fits a terminal: what is the same for all runs stands in the heading."""
    units = found.attrs["units"]
    plain = [name for name in found if name not in units and not name.endswith(_SCOPE)]
    same = {name: found[name].iloc[0] for name in plain if name != "id" and len(found) and found[name].nunique() == 1
            and found[name].notna().all()}
    columns: dict[str, list[str]] = {name: [_text(value) for value in found[name]] for name in plain
                                     if name not in same and name != "experiment"}
    for name in (name for name in found if name in units):
        scopes = found[name + _SCOPE]
        one = scopes.nunique() == 1
        # names are long: their last word has a line of its own
        title = "\n_".join(name.rsplit("_", 1)) + f"\n({units[name]})"
        title += f"\n{scopes.dropna().iloc[0]}" if one and ":" not in name else ""
        columns[title] = [_text(value) + (f" {scope}" if not one and isinstance(scope, str) else "")
                          for value, scope in zip(found[name], scopes)]
    _tables.show(f"{len(found)} run{'s'[:len(found) != 1]}"
                 + (": " + ", ".join(f"{name} {_text(value)}" for name, value in same.items()) if same else ""),
                 list(columns), list(zip(*columns.values())))


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value).removesuffix("-testbed")

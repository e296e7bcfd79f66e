# SPDX-License-Identifier: GPL-2.0-only
"""List runs with the disk space they take, and pin those that are to be kept.

  testbed runs                                    all of them
  testbed runs listed=no                          those that no experiment lists
  testbed runs experiment=access-link-load60 --pin "figure 3 of the paper"
  testbed runs id=0123456789abcdef --unpin

`testbed rm` leaves pinned runs alone. Conditions are those of `testbed query` (docs/queries.md).
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sqlite3
from typing import Any

from testbed.cli import _tables
from testbed.core.errors import TestbedError, UsageError
from testbed.core.progress import print_error
from testbed.runs.store import Store, results_dir

HELP = "list runs with their disk space, pin runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conditions", nargs="*", help="such as verdict=invalid; without any, all runs")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--pin", metavar="WHY", help="keep these runs from being removed")
    action.add_argument("--unpin", action="store_true", help="no longer")
    action.add_argument("--rebuild", action="store_true", help="make index.sqlite again from the run folders")
    parser.add_argument("--json", action="store_true", help="as JSON: [{column: value}]")


def main(arguments: argparse.Namespace) -> int:
    from testbed.runs import conditions, index
    results = results_dir()
    store = Store(results)
    if (arguments.pin is not None or arguments.unpin) and not arguments.conditions:
        raise UsageError("--pin and --unpin: which runs? Conditions such as experiment=access-link-load60 expected")
    if arguments.rebuild:
        if not store.runs.is_dir():
            raise UsageError(f"{store.runs}: there are no runs")
        try:
            print(f"{index.path_of(results)}: {index.rebuild(results)} runs")
        except (sqlite3.Error, OSError) as problem:
            raise TestbedError(f"{index.path_of(results)}: cannot be written: {problem}") from None
    text = " ".join(arguments.conditions)
    chosen = conditions.select(index.runs(results, print_error), conditions.parse(text))
    if not chosen and text:
        raise UsageError(f"no run with {text} in {results}")
    for run in chosen:
        if arguments.pin is not None:
            run["pinned"] = " ".join(arguments.pin.split())
            store.pin(run["id"], run["pinned"])
        elif arguments.unpin:
            store.unpin(run["id"])
            run["pinned"] = None
    rows = [_row(run, store.run_dir(run["id"])) for run in chosen]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    total = sum(row["bytes"] for row in rows)
    shown = [{**row, "experiments": ", ".join(row["experiments"]), "MB": f"{row['bytes'] / 1e6:.1f}"} for row in rows]
    columns = ("id", "scenario", "cca", "seed", "status", "verdict", "MB", "pinned", "experiments")
    heading = f"{len(rows)} run{'s'[:len(rows) != 1]} in {results}, {total / 1e6:.1f} MB" if rows else \
        f"Runs in {results}: none"
    _tables.show(heading, columns, [[row[column] for column in columns] for row in shown])
    return 0


def _row(run: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    return {"id": run["id"], "scenario": run["scenario"], "cca": run["subject"], "seed": run["seed"],
            "status": run["status"], "verdict": run["verdict"], "bytes": disk_use(folder), "pinned": run["pinned"],
            "experiments": list(run["experiments"])}


def disk_use(folder: pathlib.Path) -> int:
    """Bytes that a folder takes on disk, without what it links to."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in ("", *files):
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:               # a run that is being replaced or removed
                continue
    return total

# SPDX-License-Identifier: GPL-2.0-only
"""Judge runs again, and measure them again, from their raw data.

Nothing is simulated and no raw data is touched: verdict.json, metrics.csv and derived.json are made anew,
with the checks and metrics of this version.
"""
from __future__ import annotations

import argparse
import pathlib

from testbed import experiment
from testbed.errors import TestbedError, UsageError
from testbed.progress import print_error
from testbed.store import RUNS, read_record, results_dir

HELP = "make verdict and metrics of runs again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+",
                        help="runs or experiments, by folder, name or id; `all` for every run there is")


def main(arguments: argparse.Namespace) -> int:
    from analysis.metrics import measure_run
    from testbed import fidelity
    failed = 0
    for run_dir in dict.fromkeys(found for what in arguments.what for found in _runs(what)):
        record = read_record(run_dir)
        if not record or record.get("status") != "finished":
            why = (record or {}).get("error") or "there is no run.json to be read"
            print_error(f"{run_dir}: this run did not finish: {why}")
            failed += 1
            continue
        try:
            verdict = fidelity.judge_run(run_dir)
            measure_run(run_dir)
        except TestbedError as problem:             # a damaged run does not keep the others from being judged
            print_error(str(problem))
            failed += 1
            continue
        print(f"{run_dir.name}  {verdict['verdict']}")
        for reason in verdict["reasons"]:
            print(f"  {reason['level']}: {reason['message']}")
    return 1 if failed else 0


def _runs(what: str) -> list[pathlib.Path]:
    """The run folders that a name stands for."""
    if what == "all":
        return sorted(path for path in (results_dir() / RUNS).glob("[!.]*") if path.is_dir())
    try:
        return [experiment.find_run(what)]
    except UsageError:
        folder = experiment.find(what)
    described = experiment.read(folder)
    return [folder.parent / RUNS / run["id"] for run in [*described["runs"], *described.get("idle", [])]]

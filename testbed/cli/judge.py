# SPDX-License-Identifier: GPL-2.0-only
"""Judge runs again, and measure them again, from their raw data.

Nothing is simulated and no raw data is touched: verdict.json, metrics.csv and derived.json are made anew,
with the checks and metrics of this version. --edited judges what somebody has changed: it names the raw files that are
not what the run left, says what the checks find in them, and writes nothing. Exit code 4 if a run did not finish (the
others are judged), 1 if one is damaged.
"""
from __future__ import annotations

import argparse
import pathlib
from typing import Any

from testbed.core.errors import RunFailed, TestbedError, UsageError
from testbed.core.progress import print_error
from testbed.runs import experiment
from testbed.runs.store import RUNS, read_record, results_dir

HELP = "make verdict and metrics of runs again"
#: unfinished runs, by name
_MOST_TOLD = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+",
                        help="runs or experiments, by folder, name or id; `all` for every run there is")
    parser.add_argument("--edited", action="store_true",
                        help="judge raw files that were changed, on their content alone; name them, write nothing")


def main(arguments: argparse.Namespace) -> int:
    from analysis.metrics import measure_run
    from testbed import checks
    unfinished: list[str] = []
    damaged = 0
    names = {path: name for what in arguments.what for path, name in _runs(what).items()}
    for run_dir, name in names.items():
        record = read_record(run_dir)
        if not record or record.get("status") != "finished":
            unfinished.append(f"{name} ({_why_unfinished(run_dir, record)})")
            continue
        try:
            changes: list[str] = []
            if arguments.edited:
                changes, verdict = checks.judge_edited(run_dir)
            else:
                verdict = checks.judge_run(run_dir)
                measure_run(run_dir)
        except TestbedError as problem:             # a damaged run does not keep the others from being judged
            print_error(str(problem))
            damaged += 1
            continue
        print(f"{run_dir.name}  {verdict['verdict']}")
        for change in changes:
            print(f"  edited: {change}")
        # several checks may say the same, of a file that none of them can read
        for reason in dict.fromkeys(f"{reason['level']}: {reason['message']}" for reason in verdict["reasons"]):
            print(f"  {reason}")
    if unfinished:
        more = f" and {len(unfinished) - _MOST_TOLD} more" if len(unfinished) > _MOST_TOLD else ""
        raise RunFailed(f"not judged, {len(unfinished)} of {len(names)} runs did not finish: "
                        f"{', '.join(unfinished[:_MOST_TOLD])}{more}")
    return 1 if damaged else 0


def _why_unfinished(run_dir: pathlib.Path, record: dict[str, Any] | None) -> str:
    if record:
        return next(iter(str(record.get("error") or record.get("status")).splitlines()), "")
    return "there is no run.json to be read" if run_dir.is_dir() else "it is not there"


def _runs(what: str) -> dict[pathlib.Path, str]:
    """The run folders that a name stands for, and what the runs are called."""
    if what == "all":
        return {path: path.name for path in sorted((results_dir() / RUNS).glob("[!.]*")) if path.is_dir()}
    try:
        return {experiment.find_run(what): what}
    except UsageError as no_run:
        try:
            folder = experiment.find(what)
        except UsageError as no_experiment:
            raise (no_run if pathlib.Path(what).is_dir() else no_experiment) from None
    described = experiment.read(folder)
    return {folder.parent / RUNS / run["id"]: run["name"] for run in [*described["runs"], *described.get("idle", [])]}

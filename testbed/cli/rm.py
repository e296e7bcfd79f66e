# SPDX-License-Identifier: GPL-2.0-only
"""Remove runs, or an experiment with its report.

  testbed rm listed=no                            all runs that no experiment lists
  testbed rm access-link-load60-quick             an experiment: its list and its report; the runs stay
  testbed rm 0123456789abcdef                     a run, by id or folder
  testbed rm verdict=invalid --listed             also runs that experiments list: their reports will miss them

A run that is pinned, is being carried out at this moment, or is listed by an experiment stays. --pinned and --listed
say otherwise. A run that is named itself and has to stay is an error, and then nothing is removed. docs/queries.md
"""
from __future__ import annotations

import argparse
import pathlib
from typing import Any

from testbed.cli.runs import disk_use
from testbed.core.errors import RunFailed, UsageError
from testbed.core.progress import print_error
from testbed.runs import experiment
from testbed.runs.store import Store, results_dir

HELP = "remove runs or experiments"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+", help="runs or experiments, by folder, name or id; or conditions on runs, "
                        "such as listed=no")
    parser.add_argument("--listed", action="store_true", help="also runs that an experiment lists")
    parser.add_argument("--pinned", action="store_true", help="also runs that are pinned")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def main(arguments: argparse.Namespace) -> int:
    from testbed.runs import conditions, index
    store = Store(results_dir())
    runs = {run["id"]: run for run in index.runs(store.results, print_error)}
    texts = [what for what in arguments.what if set("=<>") & set(what) and not pathlib.Path(what).exists()]
    experiments: list[pathlib.Path] = []
    named: list[str] = []
    for what in arguments.what:
        if what not in texts:
            run_id = _run_id(what, store, runs)
            if run_id is None:
                experiments += {_experiment(what, store)} - set(experiments)
            else:
                named.append(run_id)
    gone = {folder.name for folder in experiments}
    for run in runs.values():           # an experiment that goes lists nothing any more
        run["experiments"] = {name: at for name, at in run["experiments"].items() if name not in gone}
    for run_id in named:
        if reason := _protection(runs[run_id], arguments):
            raise UsageError(f"{run_id}: {reason}")
    matching = conditions.select(list(runs.values()), conditions.parse(" ".join(texts))) if texts else []
    chosen = {run_id: runs[run_id] for run_id in named}
    kept = 0
    for run in matching:
        if _protection(run, arguments):
            kept += 1
        else:
            chosen[run["id"]] = run
    for folder in experiments:
        if not arguments.dry_run:
            store.remove_folder(folder)
        print(f"{folder}")
    if experiments and not named and not texts:
        return 0
    return _remove(store, list(chosen), kept, arguments.dry_run)


def _remove(store: Store, chosen: list[str], kept: int, dry_run: bool) -> int:
    freed, removed = 0, 0
    busy: list[str] = []
    for run_id in chosen:
        size = disk_use(store.run_dir(run_id))
        if dry_run:
            print(store.run_dir(run_id))
        elif not store.remove(run_id):
            busy.append(run_id)
            continue
        freed, removed = freed + size, removed + 1
    print(f"{removed} runs, {freed / 1e6:.1f} MB {'would be ' * dry_run}removed"
          + (f"; {kept} stay that are listed or pinned" if kept else ""))
    if busy:
        raise RunFailed(f"being carried out at this moment: {', '.join(busy)}")
    return 0


def _protection(run: dict[str, Any], arguments: argparse.Namespace) -> str:
    """Why a run has to stay; '' if it has not."""
    if run["pinned"] is not None and not arguments.pinned:
        return f"pinned ({run['pinned']}); --pinned removes it all the same"
    if run["experiments"] and not arguments.listed:
        return f"listed by {', '.join(run['experiments'])}; --listed removes it all the same"
    return ""


def _run_id(what: str, store: Store, runs: dict[str, dict[str, Any]]) -> str | None:
    """The id of a run of the results folder; None if it is not a run."""
    if what in runs:
        return what
    for folder in (pathlib.Path(what), store.results / what):
        resolved = folder.resolve()
        if resolved.parent == store.runs.resolve() and resolved.name in runs:
            return resolved.name
    return None


def _experiment(what: str, store: Store) -> pathlib.Path:
    """The folder of an experiment below the results folder."""
    try:
        folder = experiment.find(what)
    except UsageError:
        raise UsageError(f"{what}: neither a run nor an experiment in {store.results}") from None
    if folder.parent != store.results.resolve():
        raise UsageError(f"{what}: not in the results folder {store.results}; set TESTBED_RESULTS to remove it there")
    return folder

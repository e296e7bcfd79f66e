# SPDX-License-Identifier: GPL-2.0-only
"""List, look up, pin, remove and judge runs, whatever experiment made them.

  testbed runs list                       all runs and the disk space they take
  testbed runs list listed=no             runs that no experiment lists
  testbed runs query cca=cubic,bbr --metric drops
  testbed runs pin experiment=access-link-load60 --why "figure 3 of the paper"
  testbed runs rm listed=no               remove runs that no experiment lists
  testbed runs drop access-link-load60 cubic-seed3 --why "the disk was full"
  testbed runs judge access-link-load60-quick

A condition is FIELD=A,B (any of them), !=, <, <=, > or >=; all must hold.
Fields: scenario, cca, seed, engine, kernel, status, verdict, id, experiment,
name, listed, pinned, virtual_s, wall_s, choices of the scenario and axes of
sweeps (docs/howto/queries.md).
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from testbed.cli import _runs, _tables
from testbed.core.errors import EnvironmentProblem, RunFailed, TestbedError, UsageError
from testbed.core.progress import print_error
from testbed.core.run_files import RunRecord
from testbed.runs import experiment
from testbed.runs.store import RUNS, Store, read_record, results_dir

if TYPE_CHECKING:
    import pandas as pd

    from testbed.runs.index import IndexedRun

HELP = "list, look up, pin, remove and judge runs"
GROUP = "Look at results"
VERBS = ("list", "query", "pin", "unpin", "rm", "drop", "judge")
_SCOPE = "_scope"
#: unfinished runs, by name
_MOST_TOLD = 3
_RM = """Remove runs, or an experiment with its report.

  testbed runs rm listed=no                    runs that no experiment lists
  testbed runs rm access-link-load60-quick     an experiment; its runs stay
  testbed runs rm 0123456789abcdef             a run, by id or folder
  testbed runs rm verdict=invalid --listed     also runs that experiments list

A run stays if it is under way, pinned, or listed by an experiment; --pinned and
--listed remove the latter two. If a run that you name has to stay, nothing is
removed."""
_DROP = """Take runs off the list of an experiment: trials that failed, say.

  testbed runs drop access-link-load60 cubic-seed3 --why "the disk was full"
  testbed runs drop access-link-load60 --failed --why "of an older kernel"

The runs stay; the same `testbed run` lists them again. The report names them
and says why. `testbed report EXPERIMENT` makes it again."""
_JUDGE = """Make verdicts and metrics of runs again, from their raw data.

Nothing runs and no raw data changes: verdict.json, metrics.csv and derived.json
are made again, with the checks and metrics of this version.

Exit code 4: a run did not finish (the others are judged). 1: a run is damaged.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_list(verbs.add_parser("list", help="runs and the disk space they take"))
    _add_query(verbs.add_parser("query", help="runs and their metrics, as a table, CSV or JSON"))
    pin = verbs.add_parser("pin", help="keep runs from being removed")
    pin.add_argument("--why", metavar="TEXT", required=True, help="why they are kept, such as 'figure 3 of the paper'")
    unpin = verbs.add_parser("unpin", help="let pinned runs be removed again")
    for verb in (pin, unpin):
        verb.add_argument("conditions", nargs="+", metavar="CONDITION", help="such as experiment=access-link-load60")
    _add_rm(verbs.add_parser("rm", help="remove runs, or an experiment with its report", description=_RM))
    _add_drop(verbs.add_parser("drop", help="take runs off the list of an experiment", description=_DROP))
    _add_judge(verbs.add_parser("judge", help="make verdicts and metrics again, from raw data",
                                description=_JUDGE))


def main(arguments: argparse.Namespace) -> int:
    verbs = {"list": _list, "query": _query, "pin": _pin, "unpin": _pin, "rm": _rm, "drop": _drop, "judge": _judge}
    return verbs[arguments.verb](arguments)


def _selected(store: Store, words: list[str]) -> list["IndexedRun"]:
    """The runs that meet conditions. UsageError if there are conditions and none does."""
    from testbed.runs import conditions, index
    text = " ".join(words)
    chosen = conditions.select(index.runs(store.results, print_error), conditions.parse(text))
    if not chosen and text:
        raise UsageError(f"no run with {text} in {store.results}")
    return chosen


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conditions", nargs="*", metavar="CONDITION",
                        help="such as verdict=invalid (default: all runs)")
    parser.add_argument("--rebuild", action="store_true", help="first make index.sqlite again from the run folders")
    parser.add_argument("--json", action="store_true", help="as JSON: [{column: value}]")


def _list(arguments: argparse.Namespace) -> int:
    store = Store(results_dir())
    if arguments.rebuild:
        _rebuild(store)
    _show_runs(store, _selected(store, arguments.conditions), arguments.json)
    return 0


def _rebuild(store: Store) -> None:
    from testbed.runs import index
    if not store.runs.is_dir():
        raise UsageError(f"{store.runs}: there are no runs")
    try:
        print(f"{index.path_of(store.results)}: {index.rebuild(store.results)} runs")
    except (sqlite3.Error, OSError) as problem:
        raise EnvironmentProblem(f"{index.path_of(store.results)}: cannot be written: {problem}") from None


def _pin(arguments: argparse.Namespace) -> int:
    store = Store(results_dir())
    chosen = _selected(store, arguments.conditions)
    for run in chosen:
        if arguments.verb == "pin":
            run["pinned"] = why = _reason(arguments.why)
            store.pin(run["id"], why)
        else:
            store.unpin(run["id"])
            run["pinned"] = None
    _show_runs(store, chosen, as_json=False)
    return 0


def _show_runs(store: Store, chosen: Sequence["IndexedRun"], as_json: bool) -> None:
    rows = [_row(run, store.run_dir(run["id"])) for run in chosen]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    total = sum(row["bytes"] for row in rows)
    shown: list[dict[str, object]] = [
        {**row, "verdict": row["verdict"] or row["status"], "experiments": ", ".join(row["experiments"]),
         "MB": f"{row['bytes'] / 1e6:.1f}"} for row in rows]
    columns = ("id", "scenario", "cca", "seed", "verdict", "MB", "pinned", "experiments")
    heading = f"{len(rows)} run{'s'[:len(rows) != 1]} in {store.results}, {total / 1e6:.1f} MB" if rows else \
        f"Runs in {store.results}: none"
    _tables.show(heading, columns, [[row[column] for column in columns] for row in shown])


class _Row(TypedDict):
    id: str
    scenario: str | None
    cca: str | None
    seed: int | None
    status: str
    verdict: str | None
    bytes: int
    pinned: str | None
    experiments: list[str]


def _row(run: "IndexedRun", folder: pathlib.Path) -> _Row:
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


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conditions", nargs="*", metavar="CONDITION",
                        help="such as cca=cubic,bbr (default: all runs)")
    parser.add_argument("--metric", metavar="A,B", action="append", default=[],
                        help="metrics, separated by commas; NAME:SCOPE for a scope other than `all` or the main "
                        "bottleneck")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV")
    form.add_argument("--json", action="store_true",
                      help='as JSON: {"units": {column: unit}, "runs": [{column: value}]}')


def _query(arguments: argparse.Namespace) -> int:
    from testbed.runs import queries
    metrics = [name.strip() for text in arguments.metric for name in text.split(",")]
    if "" in metrics:
        raise UsageError(f"--metric {','.join(arguments.metric)}: names separated by commas expected")
    problems: list[str] = []
    found = queries.query(" ".join(arguments.conditions), *metrics, report=problems.append)
    units = found.attrs["units"]
    if arguments.csv:
        print(found.to_csv(index=False), end="")
    elif arguments.json:
        print(json.dumps({"units": units, "runs": json.loads(found.to_json(orient="records"))}, indent=1))
    else:
        _show_metrics(found)
    for text in problems:
        print_error(text)
    return 1 if problems else 0


def _show_metrics(found: "pd.DataFrame") -> None:
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
        title = f"{name}\n({units[name]})"
        title += f"\n{scopes.dropna().iloc[0]}" if one and ":" not in name else ""
        columns[title] = [_text(value) + (f" {scope}" if not one and isinstance(scope, str) else "")
                          for value, scope in zip(found[name], scopes)]
    _tables.show(f"{len(found)} run{'s'[:len(found) != 1]}"
                 + (": " + ", ".join(f"{name} {_text(value)}" for name, value in same.items()) if same else ""),
                 list(columns), list(zip(*columns.values())))


def _text(value: object) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value).removesuffix("-testbed")


def _add_rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+", metavar="WHAT", help="runs or experiments, by folder, name or id; "
                        "or conditions on runs, such as listed=no")
    parser.add_argument("--listed", action="store_true", help="also runs that an experiment lists")
    parser.add_argument("--pinned", action="store_true", help="also runs that are pinned")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _rm(arguments: argparse.Namespace) -> int:
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
    print(f"{removed} run{'s'[:removed != 1]}, {freed / 1e6:.1f} MB {'would be ' * dry_run}removed"
          + (f"; {kept} stay that are listed or pinned" if kept else ""))
    if busy:
        raise RunFailed(f"being carried out at this moment: {', '.join(busy)}")
    return 0


def _protection(run: "IndexedRun", arguments: argparse.Namespace) -> str:
    """Why a run has to stay; '' if it has not."""
    if run["pinned"] is not None and not arguments.pinned:
        return f"pinned ({run['pinned']}); --pinned removes it all the same"
    if run["experiments"] and not arguments.listed:
        return f"listed by {', '.join(run['experiments'])}; --listed removes it all the same"
    return ""


def _run_id(what: str, store: Store, runs: Mapping[str, "IndexedRun"]) -> str | None:
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
        raise UsageError(f"{what}: not in the results folder {store.results}; --results FOLDER removes it there")
    return folder


def _add_drop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="folder or name, such as access-link-load60-quick")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="their names there, such as cubic-seed3")
    parser.add_argument("--failed", action="store_true", help="all that did not finish")
    parser.add_argument("--why", metavar="TEXT", required=True, help="why, for the report")


def _drop(arguments: argparse.Namespace) -> int:
    folder = experiment.find(arguments.experiment)
    names = list(arguments.runs)
    if arguments.failed:
        for run in experiment.read(folder).runs:
            record = read_record(folder.parent / RUNS / run.id)
            if not record or record.status != "finished":
                names.append(run.name)
    if not names:
        raise UsageError("drop: which runs? Name them, or --failed" if not arguments.failed else
                         f"{folder.name}: all of its runs finished")
    for name in experiment.drop(folder, names, _reason(arguments.why)):
        print(name)
    _runs.note_experiment(Store(folder.parent), folder)
    return 0


def _reason(why: str) -> str:
    """Of --why, in one line. UsageError if a terminal would take it for commands."""
    reason = " ".join(why.split())
    if not reason.isprintable():
        raise UsageError(f"--why {reason!a}: printable text expected")
    return reason


def _add_judge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="+", metavar="WHAT",
                        help="runs or experiments, by folder, name or id; `all` for every run there is")
    parser.add_argument("--edited", action="store_true",
                        help="judge raw files that somebody changed: name them, print what checks find, write "
                        "nothing")


def _judge(arguments: argparse.Namespace) -> int:
    from analysis.metrics import measure_run
    from testbed import checks
    unfinished: list[str] = []
    damaged = 0
    names = {path: name for what in arguments.what for path, name in _run_folders(what).items()}
    for run_dir, name in names.items():
        record = read_record(run_dir)
        if not record or record.status != "finished":
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


def _why_unfinished(run_dir: pathlib.Path, record: RunRecord | None) -> str:
    if record:
        return next(iter(str(record.error or record.status).splitlines()), "")
    return "there is no run.json to be read" if run_dir.is_dir() else "it is not there"


def _run_folders(what: str) -> dict[pathlib.Path, str]:
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
    return {folder.parent / RUNS / run.id: run.name for run in [*described.runs, *described.idle]}

# SPDX-License-Identifier: GPL-2.0-only
"""index.sqlite: a table of all runs of a results folder, for looking things up.

It is made from the run folders and can be made again from them at any time; nothing depends on it. One
that is damaged, or of another version, is made again. Whoever reads it first has it follow the folders:
runs that were copied, removed or judged by hand since.
"""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import TypedDict, cast

from testbed.core import derived
from testbed.core.run_files import RunRecord
from testbed.runs.store import RUNS, Store, read_record

#: of the tables below; kept in the file's user_version
SCHEMA = 4
_COLUMNS = ("id", "scenario", "parameters", "point", "subject", "modules", "seed", "engine", "kernel_key", "kernel",
            "kernel_tree", "kernel_spec", "status", "verdict", "error", "raw_sha256", "virtual_s", "wall_s", "stamp")
_SHOWN = ("experiment", "name", "id", "status", "verdict", "virtual_s", "wall_s")
_TABLES = f"""\
CREATE TABLE runs ({', '.join(_COLUMNS)}, PRIMARY KEY (id));
CREATE TABLE listed (experiment, name, id, PRIMARY KEY (experiment, name));
PRAGMA user_version = {SCHEMA};
"""
_LOCKED_S = 20

Report = Callable[[str], None]


class IndexedRun(TypedDict):
    """A run in the index. modules: hash of the modules under test, None without any; kernel: its release; kernel_tree:
    the tree, tarball or package that it was built from; kernel_spec: as given to --kernel; experiments: {experiment:
    name}; pinned: why it is, None if it is not; stamp: times of the files that the row is made from."""
    id: str
    scenario: str | None
    parameters: dict[str, object]
    point: dict[str, str]
    subject: str | None
    modules: str | None
    seed: int | None
    engine: str | None
    kernel_key: str | None
    kernel: str | None
    kernel_tree: str | None
    kernel_spec: str | None
    status: str
    verdict: str | None
    error: str | None
    raw_sha256: str | None
    virtual_s: float | None
    wall_s: float | None
    stamp: str
    experiments: dict[str, str]
    pinned: str | None


def path_of(results: pathlib.Path) -> pathlib.Path:
    return results / "index.sqlite"


def rows(results: pathlib.Path, columns: tuple[str, ...] = _SHOWN) -> list[dict[str, object]]:
    """All runs as experiments list them, those that none lists (experiment '') last."""
    query = ("SELECT coalesce(experiment, '') AS experiment, coalesce(name, '') AS name, runs.* FROM runs "
             "LEFT JOIN listed USING (id) ORDER BY experiment = '', experiment, name, id")
    return [{column: row[column] for column in columns} for row in _read(results, query)]


def runs(results: pathlib.Path, report: Report | None = None) -> list[IndexedRun]:
    """All runs, each once.

    report: told in one line each of an index that had to be made again, and of lists and verdicts that are damaged.
    """
    listed: dict[str, dict[str, str]] = {}
    pins = Store(results).pins()
    query = "SELECT runs.*, experiment, name FROM runs LEFT JOIN listed USING (id) ORDER BY scenario, id, experiment"
    found: dict[str, IndexedRun] = {}
    for row in _read(results, query, report):
        run = {column: row[column] for column in _COLUMNS}
        experiments = listed.setdefault(run["id"], {})
        if row["experiment"] is not None:
            experiments.setdefault(row["experiment"], row["name"])
        found[run["id"]] = cast(IndexedRun, {
            **run, "parameters": _parsed(run["parameters"]), "point": _parsed(run["point"]),
            "experiments": experiments, "pinned": pins.get(run["id"])})
    for one in found.values():
        verdict = results / RUNS / str(one["id"]) / "verdict.json"
        if report and one["status"] == "finished" and one["verdict"] is None and verdict.exists():
            report(f"{verdict}: damaged; `testbed runs judge {one['id']}` makes it again")
    return list(found.values())


def _read(results: pathlib.Path, query: str, report: Report | None = None) -> list[sqlite3.Row]:
    """Rows of a query, after the index has followed the folders.

    Where the index on disk is of no use and cannot be replaced, from one in memory.
    """
    try:
        with _open(results, report) as database:
            with database:
                _follow(database, results)
            for folder in _experiment_dirs(results):
                if report and _listed(folder) is None:
                    report(f"{folder / 'experiment.json'}: damaged; the runs that {folder / 'runs'} links count as "
                           "listed")
            return database.execute(query).fetchall()
    except (sqlite3.Error, OSError):
        # read-only results, or a file that is no database and cannot be replaced: read the runs themselves
        with contextlib.closing(_connect(":memory:")) as database:
            _fill(database, results)
            return database.execute(query).fetchall()


def rebuild(results: pathlib.Path) -> int:
    """Make the index from the run folders; returns the number of runs in it."""
    target = path_of(results)
    temporary = target.with_name(f".index-{os.getpid()}.part")
    try:
        temporary.unlink(missing_ok=True)
        with contextlib.closing(_connect(str(temporary))) as database:
            count = _fill(database, results)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def note_run(results: pathlib.Path, run_id: str) -> None:
    """Put a run into the index, or what it is now. sqlite3.Error or OSError if that cannot be."""
    with _open(results) as database, database:
        _put_run(database, results / RUNS / run_id)


def note_experiment(results: pathlib.Path, folder: pathlib.Path) -> None:
    """Put the runs that an experiment lists into the index. sqlite3.Error or OSError if that cannot be."""
    with _open(results) as database, database:
        _put_experiment(database, folder)


@contextlib.contextmanager
def _open(results: pathlib.Path, report: Report | None = None) -> Iterator[sqlite3.Connection]:
    """The index; made (again) if there is none of this version."""
    path = path_of(results)
    was_there, count = os.path.lexists(path), None
    if not _usable(path):
        # one at a time: nobody writes to a file in whose place another is put
        folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if not _usable(path):
                count = rebuild(results)
        finally:
            os.close(folder)
        if was_there and report and count is not None:
            report(f"{path}: damaged, or of another version: made again from {count} runs")
    with contextlib.closing(_connect(str(path))) as database:
        yield database


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_LOCKED_S)
    database.row_factory = sqlite3.Row
    return database


def _usable(path: pathlib.Path) -> bool:
    if not path.is_file():
        return False
    try:
        with contextlib.closing(_connect(str(path))) as database:
            version, = database.execute("PRAGMA user_version").fetchone()
            tables = {name for name, in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            intact, = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as problem:
        if "locked" in str(problem):
            raise
        return False
    except sqlite3.Error:
        return False
    return bool(version == SCHEMA and tables >= {"runs", "listed"} and intact == "ok")


def _fill(database: sqlite3.Connection, results: pathlib.Path) -> int:
    database.executescript(_TABLES)
    with database:
        for run_dir in _run_dirs(results):
            _put_run(database, run_dir)
        for folder in _experiment_dirs(results):
            _put_experiment(database, folder)
    count, = database.execute("SELECT count(*) FROM runs").fetchone()
    return int(count)


def _follow(database: sqlite3.Connection, results: pathlib.Path) -> None:
    """Put in what is new or changed in the folders, take out what is gone."""
    noted = {row["id"]: row["stamp"] for row in database.execute("SELECT id, stamp FROM runs")}
    there = {run_dir.name: run_dir for run_dir in _run_dirs(results)}
    for run_id in noted.keys() - there.keys():
        database.execute("DELETE FROM runs WHERE id = ?", (run_id,))
    for run_id, run_dir in there.items():
        if noted.get(run_id) != _stamp(run_dir):
            _put_run(database, run_dir)
    database.execute("DELETE FROM listed")
    for folder in _experiment_dirs(results):
        _put_experiment(database, folder)


def _run_dirs(results: pathlib.Path) -> list[pathlib.Path]:
    """Folders that may be runs; SQLite takes no name that is not text, and no run has one."""
    return sorted(path for path in (results / RUNS).glob("[!.]*") if path.name.isprintable())


def _experiment_dirs(results: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path.parent for path in results.glob("*/experiment.json") if path.parent.name.isprintable())


def _stamp(run_dir: pathlib.Path) -> str:
    """What changes whenever the files that a row is made from are written again."""
    stamps = []
    for name in ("plan.json", "run.json", "verdict.json", "environment.json", derived.NAME):
        try:
            stamps.append(str((run_dir / name).stat().st_mtime_ns))
        except OSError:
            stamps.append("")
    return " ".join(stamps)


def _put_run(database: sqlite3.Connection, run_dir: pathlib.Path) -> None:
    stamp = _stamp(run_dir)         # before they are read: what is written meanwhile is read once more
    plan, verdict = _object(run_dir / "plan.json"), _object(run_dir / "verdict.json")
    record = read_record(run_dir)
    labels = plan.get("labels") if isinstance(plan.get("labels"), dict) else {}
    assert isinstance(labels, dict)
    environment = _object(run_dir / "environment.json")
    said = verdict.get("verdict")
    if said == "valid" and derived.errors_of(derived.noted(run_dir, "metrics.csv")):
        said = "suspect"            # as whoever reads the verdict is told (testbed/checks)
    values = {"id": run_dir.name, "scenario": labels.get("name"), "parameters": labels.get("parameters"),
              "point": labels.get("point"), "status": "damaged", "error": None, "verdict": said,
              "modules": _modules(plan), "kernel": environment.get("kernel_release") or None,
              "kernel_tree": environment.get("kernel_source") or None,
              "kernel_spec": environment.get("kernel_spec") or None, "stamp": stamp,
              **{key: plan.get(key) for key in ("subject", "seed", "engine", "kernel_key")},
              **{key: vars(record or RunRecord({})).get(key) for key in ("raw_sha256", "virtual_s", "wall_s")}}
    if record and plan.get("id") == run_dir.name:
        values.update(status=record.status or None, error=record.error)
    database.execute(f"INSERT OR REPLACE INTO runs ({', '.join(_COLUMNS)}) "
                     f"VALUES ({', '.join(':' + column for column in _COLUMNS)})",
                     {key: _plain(value) for key, value in values.items()})


def _modules(plan: dict[str, object]) -> str | None:
    """A hash of the modules under test, which a name alone does not tell from those it stood for before an edit."""
    variants = plan.get("variants")
    hashes = [str(one["module_sha256"]) for one in variants if isinstance(one, dict) and one.get("module_sha256")
              and one.get("under_test", True)] if isinstance(variants, list) else []
    if len(hashes) < 2:
        return hashes[0] if hashes else None
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def _plain(value: object) -> object:
    """What SQLite takes as it is; everything else as JSON."""
    if value is None or isinstance(value, (str, float)) or isinstance(value, int) and abs(value) < 2**63:
        return value
    return json.dumps(value, sort_keys=True)


def _parsed(text: object) -> dict[str, object]:
    """The object of a column that holds one as JSON, {} if it holds none."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _put_experiment(database: sqlite3.Connection, folder: pathlib.Path) -> None:
    listed = _listed(folder)
    database.execute("DELETE FROM listed WHERE experiment = ?", (folder.name,))
    for name, run_id in (_linked(folder) if listed is None else listed):
        database.execute("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", (folder.name, name, run_id))


def _listed(folder: pathlib.Path) -> list[tuple[str, str]] | None:
    """(name, id) of the runs that an experiment lists; None if its list is damaged."""
    described = _object(folder / "experiment.json")
    if not isinstance(described.get("runs"), list):
        return None
    return [(str(run.get("name")), run["id"]) for key in ("runs", "idle") if isinstance(of := described.get(key), list)
            for run in of if isinstance(run, dict) and isinstance(run.get("id"), str)]


def _linked(folder: pathlib.Path) -> list[tuple[str, str]]:
    """The same of the links in its folder: what a damaged list may have listed is not to be taken for forgotten."""
    return [(link.name, pathlib.Path(os.readlink(link)).name) for link in sorted((folder / "runs").glob("*"))
            if link.is_symlink() and link.name.isprintable()]


def _object(path: pathlib.Path) -> dict[str, object]:
    """The JSON object in a file, {} if there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

# SPDX-License-Identifier: GPL-2.0-only
"""Damaged runs, experiments and indexes: whoever reads them says which file it is and goes on with the rest."""
from __future__ import annotations

import contextlib
import gzip
import json
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable
from typing import Any

from tests.hostile.case import Case, packed

Damage = Callable[[pathlib.Path], None]
Change = Callable[[dict[str, Any]], None]


def _write(data: bytes) -> Damage:
    def damage(path: pathlib.Path) -> None:
        path.write_bytes(data)
    return damage


def _truncate(path: pathlib.Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2])


def _remove(path: pathlib.Path) -> None:
    path.unlink()


def _folder_instead(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()


def _loop_instead(path: pathlib.Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _words_for_numbers(path: pathlib.Path) -> None:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    path.write_bytes(packed("\n".join([*lines[:3], ",".join("x" * len(lines[3].split(","))), *lines[4:]])))


_DAMAGES: dict[str, Damage] = {
    "empty": _write(b""), "truncated": _truncate, "list": _write(b"[]"), "null": _write(b"null"),
    "garbage": _write(bytes(range(256))), "missing": _remove, "folder": _folder_instead,
    "loop": _loop_instead, "nested": _write(b"[" * 100_000),
    "strings": _write(b'{"schema": "2", "runs": "x", "raw_files_sha256": "x", "status": 5, "scenario": "x"}')}
_PLAIN = ("empty", "truncated", "list", "null", "garbage", "missing")


def _first_run(work: pathlib.Path) -> pathlib.Path:
    """The run of Reno."""
    described, = (work / "results").glob("*/experiment.json")
    run, = (run for run in json.loads(described.read_text())["runs"] if run["subject"] == "reno")
    return work / "results/runs" / run["id"]


def _damaged(command: list[str], name: str, damage: str, code: int | tuple[int, ...], says: str) -> Case:
    def prepare(work: pathlib.Path) -> None:
        run_dir = _first_run(work)
        (work / "run").symlink_to(run_dir)
        experiment, = (path.parent for path in (work / "results").glob("*/experiment.json"))
        (work / "experiment").symlink_to(experiment)
        make = _words_for_numbers if damage == "words" else _DAMAGES[damage]
        make(experiment / name if name == "experiment.json" else run_dir / name)
    return Case(f"results-{'-'.join(command[:-1])}-{name.replace('/', '-')}-{damage}", command, code, says,
                prepare=prepare, with_results=True)


def _json(change: Change, name: str) -> Damage:
    def damage(run_dir: pathlib.Path) -> None:
        record = json.loads((run_dir / name).read_text())
        change(record)
        (run_dir / name).write_text(json.dumps(record))
    return damage


def _edited(name: str, command: list[str], file: str, change: Change, code: int | tuple[int, ...], says: str) -> Case:
    """A case with one JSON file of the run of Reno changed by hand."""
    def prepare(work: pathlib.Path) -> None:
        (work / "run").symlink_to(_first_run(work))
        _json(change, file)(_first_run(work))
    return Case(f"results-{name}", command, code, says, prepare=prepare, with_results=True)


def _index(name: str, make: Damage, says: str = "reno-seed1.*finished", code: int = 0) -> Case:
    def prepare(work: pathlib.Path) -> None:
        make(work / "results/index.sqlite")
    return Case(f"results-index-{name}", ["list", "runs"], code, says, prepare=prepare, with_results=True)


def _old_index(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE runs (experiment, run, status)")
        database.execute("INSERT INTO runs VALUES ('old', 'x', 'finished')")


def _later_index(path: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


def _strange_tables(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE runs (x); CREATE TABLE listed (y); PRAGMA user_version = 2;")


def _runs_are_a_file(work: pathlib.Path) -> None:
    shutil.rmtree(work / "results/runs")
    (work / "results/runs").write_text("")


def _old_results(work: pathlib.Path) -> None:
    """As the first version left them."""
    run = work / "results/access-link-load60/runs/cubic-seed1"
    (run / "raw").mkdir(parents=True)
    (run / "run.json").write_text('{"status": "finished", "cca": "cubic", "seed": 1, "raw_files_sha256": {}}')
    (run / "scenario.json").write_text("{}")
    (work / "results/access-link-load60/experiment.json").write_text(
        '{"scenario": "access-link", "ccas": ["cubic"], "seeds": [1], "runs": ["runs/cubic-seed1"]}')


def _strange_folders(work: pathlib.Path) -> None:
    for name in ("x" * 200, "a b", "\udcff", "..hidden", "0123456789abcdef", "-rf"):
        (work / "results/runs" / name).mkdir()
    (work / "results/runs/file").write_text("")
    (work / "results/runs/loop").symlink_to("loop")
    os.mkfifo(work / "results/runs/fifo")


def _set(key: str, value: object) -> Change:
    return lambda record: record.update({key: value})


_RUN_FILES = ("plan.json", "environment.json", "run.json", "raw/network.json", "raw/workload.json", "raw/checks.json",
              "raw/counters.json", "raw/tcp_info.csv.gz", "raw/queue.csv.gz")
_SURVIVES = ("verdict.json", "metrics.csv", "derived.json", "log.txt")
CASES = [
    # raw data or records: said, and the exit code says so
    *[_damaged(["runs", "judge", "run"], "plan.json", damage, (1, 2), "testbed: .*") for damage in _DAMAGES],
    *[_damaged(["runs", "judge", "run"], "run.json", damage, (1, 2, 4), "testbed: .*") for damage in _DAMAGES],
    *[_damaged(["verify", "run"], name, damage, (1, 2, 5), "testbed: .*")
      for name in _RUN_FILES if name != "environment.json" for damage in _PLAIN],
    *[_damaged(["verify", "run"], "run.json", damage, (1, 2), "testbed: .*") for damage in ("folder", "loop", "nested",
                                                                                            "strings")],
    *[_damaged(["runs", "judge", "run"], name, damage, (0, 1, 2), "")
      for name in _RUN_FILES[3:] for damage in ("truncated", "garbage")],
    *[_damaged(["runs", "judge", "run"], name, "missing", (0, 1, 2), "") for name in _RUN_FILES[3:]],
    *[_damaged(["report", "experiment"], name, damage, 1, "testbed: .*reno-seed1")
      for name, damage in (("plan.json", "truncated"), ("plan.json", "missing"), ("run.json", "null"),
                           ("run.json", "missing"),
                           ("raw/network.json", "garbage"), ("raw/queue.csv.gz", "truncated"))],
    # changed on purpose: judged on what is there, each unreadable file told by name, once
    *[_damaged(["runs", "judge", "--edited", "run"], name, damage, 0,
               f"suspect.*edited: .*{name}.*suspect: {name}[ :](?!.*{name})")
      for name in _RUN_FILES[3:] for damage in ("truncated", "garbage")],
    *[_damaged(["runs", "judge", "--edited", "run"], name, "missing", 0,
               f"edited: .*{name}: file is missing.*suspect: ")
      for name in _RUN_FILES[3:]],
    _damaged(["runs", "judge", "--edited", "run"], "raw/queue.csv.gz", "words", 0,
             "suspect: raw/queue.csv.gz: column t_us: numbers expected"),
    _damaged(["runs", "judge", "--edited", "run"], "raw/queue.csv.gz", "folder", 1,
             "testbed: .*queue.csv.gz: Is a directory"),
    _damaged(["runs", "judge", "--edited", "run"], "plan.json", "missing", 1, "testbed: .*plan.json: file is missing"),
    Case("results-judge-edited-no-run", ["runs", "judge", "--edited", "."], 2, "^testbed: .: not a run "),
    Case("results-judge-edited-version-1",
         ["runs", "judge", "--edited", "results/access-link-load60/runs/cubic-seed1"], 2,
         "testbed: .*older version of the testbed", prepare=_old_results),
    # what can be made again is made again
    *[_damaged(["runs", "judge", "run"], name, damage, 0,
               "valid") for name in _SURVIVES for damage in ("truncated", "garbage", "nested", "strings")],
    *[_damaged(["report", "experiment"], name, damage, 0, "report/index.html")
      for name, damage in (("verdict.json", "garbage"), ("metrics.csv", "truncated"), ("derived.json", "nested"))],
    *[_damaged(["report", "experiment"], "experiment.json", damage, (1, 2),
               "testbed: .*experiment") for damage in _DAMAGES],
    *[_damaged(["list", "runs"], name, damage, 0, "cubic-seed1.*finished")
      for name in ("plan.json", "run.json", "verdict.json") for damage in ("garbage", "nested", "folder", "strings")],
    _edited("verify-other-schema", ["verify", "run"], "run.json", _set("schema", 1), 2,
            "did not finish|another version|schema"),
    _edited("verify-unfinished", ["verify", "run"], "run.json", _set("status", "failed"), 2, "did not finish"),
    _edited("verify-edited-hash", ["verify", "run"], "run.json", _set("raw_files_sha256", {"queue.csv.gz": "0"}), 5,
            "not as the run left them"),
    _edited("verify-unknown-engine", ["verify", "run"], "plan.json", _set("engine", "moon"), (1, 2),
            "moon|damaged|plan.json"),
    _edited("verify-path-engine", ["verify", "run"], "plan.json", _set("engine", "../../x"), (1, 2),
            "x|damaged|plan.json"),
    _edited("verify-seed-text", ["verify", "run"], "plan.json", _set("seed", "many"), (1, 2), "plan.json|seed"),
    _edited("verify-no-scenario", ["verify", "run"], "plan.json", _set("scenario", {}), (1, 2), "plan.json|scenario"),
    _edited("verify-subject-path", ["verify", "run"], "plan.json", _set("subject", "../../../zz"), (1, 2),
            "plan.json|subject"),
    _index("garbage", _write(bytes(range(256)) * 100)),
    _index("empty", _write(b"")),
    _index("missing", lambda path: path.unlink(missing_ok=True)),
    _index("truncated", _truncate),
    _index("old", _old_index),
    _index("later", _later_index),
    _index("strange-tables", _strange_tables),
    _index("text", _write(b"SQLite format 3\0 and then nothing")),
    _index("link-to-itself", _loop_instead),
    Case("results-strange-folders", ["list", "runs"], 0, "reno-seed1.*finished", prepare=_strange_folders,
         with_results=True),
    Case("results-judge-all-strange-folders", ["runs", "judge", "all"], 4, "testbed: .*valid|valid.*testbed: ",
         prepare=_strange_folders,
         with_results=True),
    Case("results-runs-are-a-file", ["list", "runs"], 0, "", prepare=_runs_are_a_file, with_results=True),
    Case("results-runs-are-gone", ["report", "small-load60"], 1, "testbed: .*none of its 2 runs is there",
         prepare=lambda work: shutil.rmtree(work / "results/runs"), with_results=True),
    Case("results-of-version-1-report", ["report", "access-link-load60"], (1, 2),
         "testbed: .*(version|schema|0.1|older)", prepare=_old_results),
    Case("results-of-version-1-verify", ["verify", "results/access-link-load60/runs/cubic-seed1"], (1, 2),
         "testbed: .*older version of the testbed", prepare=_old_results),
    Case("results-of-version-1-list", ["list", "runs"], 0, "", prepare=_old_results),
    Case("results-report-of-a-run", ["report", "results/runs"], 2, "no experiment", with_results=True),
    Case("results-verify-the-folder-of-runs", ["verify", "results/runs"], 2, "not a run", with_results=True),
    Case("results-judge-the-folder-of-runs", ["runs", "judge", "results/runs"], 2, "no experiment|not a run",
         with_results=True),
    Case("results-good-judge", ["runs", "judge", "all"], 0, "valid", with_results=True),
    Case("results-good-report", ["report", "small-load60"], 0, "report/index.html", with_results=True),
]

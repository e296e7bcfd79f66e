# SPDX-License-Identifier: GPL-2.0-only
"""The index follows the run folders, whoever changed them, and can be made again."""
import json
import os
import shutil
import sqlite3

import pytest

from testbed.runs import index
from testbed.runs.store import Store

ID = "0123456789abcdef"


@pytest.fixture
def results(tmp_path):
    write(tmp_path, ID)
    return tmp_path


def write(results, run_id, **plan):
    folder = results / "runs" / run_id
    folder.mkdir(parents=True)
    facts = {"plan.json": {"id": run_id, "subject": "cubic", "seed": 1, "engine": "uml", "kernel_key": "k",
                           "labels": {"name": "demo", "parameters": {"load": "60"}, "point": {}}, **plan},
             "run.json": {"schema": 2, "id": run_id, "status": "finished", "raw_sha256": "x"},
             "environment.json": {"kernel_release": "6.12.1"}, "verdict.json": {"verdict": "valid"}}
    for name, value in facts.items():
        (folder / name).write_text(json.dumps(value))
    return folder


def listed(results, name, *ids):
    (results / name).mkdir()
    (results / name / "experiment.json").write_text(json.dumps(
        {"runs": [{"id": run_id, "name": f"run-{run_id}"} for run_id in ids]}))


def test_a_run_is_there_once_whoever_lists_it(results):
    listed(results, "one", ID)
    listed(results, "two", ID)
    run, = index.runs(results)
    assert run["experiments"] == {"one": f"run-{ID}", "two": f"run-{ID}"}
    assert {key: run[key] for key in ("scenario", "kernel", "parameters", "point", "verdict", "pinned")} == {
        "scenario": "demo", "kernel": "6.12.1", "parameters": {"load": "60"}, "point": {}, "verdict": "valid",
        "pinned": None}
    assert [row["experiment"] for row in index.rows(results)] == ["one", "two"]


@pytest.mark.parametrize("content", ["{", "", "[]", "{}", '{"runs": 3}'])
def test_what_a_damaged_list_may_list_counts_as_listed(results, content):
    """Else `rm listed=no` would remove it."""
    listed(results, "one", ID)
    (results / "one" / "runs").mkdir()
    (results / "one" / "runs" / "cubic-seed1").symlink_to(f"../../runs/{ID}")
    (results / "one" / "experiment.json").write_text(content)
    said = []
    run, = index.runs(results, said.append)
    assert run["experiments"] == {"one": "cubic-seed1"}
    assert said == [f"{results}/one/experiment.json: damaged; the runs that {results}/one/runs links count as listed"]
    assert index.runs(results)[0]["experiments"]            # nobody is told, and it is the same


def test_a_damaged_verdict_is_told(results):
    said = []
    (results / "runs" / ID / "verdict.json").write_text("")
    assert [run["verdict"] for run in index.runs(results, said.append)] == [None]
    assert said == [f"{results}/runs/{ID}/verdict.json: damaged; `testbed runs judge {ID}` makes it again"]
    (results / "runs" / ID / "verdict.json").unlink()       # not judged yet
    assert [run["verdict"] for run in index.runs(results, said.append)] == [None] and len(said) == 1


def test_a_metric_that_failed_makes_a_valid_run_suspect(results):
    assert index.runs(results)[0]["verdict"] == "valid"
    noted = {"metrics.csv": {"errors": [{"where": "metric mine", "message": "KeyError", "traceback": ""}]}}
    (results / "runs" / ID / "derived.json").write_text(json.dumps(noted))
    assert index.runs(results)[0]["verdict"] == "suspect"
    (results / "runs" / ID / "verdict.json").write_text('{"verdict": "invalid"}')
    assert index.runs(results)[0]["verdict"] == "invalid"


def test_it_follows_what_is_done_by_hand(results):
    said = []
    listed(results, "one", ID)
    assert len(index.runs(results, said.append)) == 1
    other = write(results, "fedcba9876543210", subject="reno")
    assert [run["subject"] for run in index.runs(results)] == ["cubic", "reno"]
    verdict = other / "verdict.json"
    verdict.write_text('{"verdict": "invalid"}')
    os.utime(verdict, ns=(1, 1))
    assert [run["verdict"] for run in index.runs(results)] == ["valid", "invalid"]
    shutil.rmtree(results / "runs" / ID)
    shutil.rmtree(results / "one")
    run, = index.runs(results)
    assert (run["subject"], run["experiments"], said) == ("reno", {}, [])


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000, b"SQLite format 3\0" + bytes(4000)])
def test_a_damaged_index_is_made_again_and_told(results, content):
    index.path_of(results).write_bytes(content)
    said = []
    assert len(index.runs(results, said.append)) == 1
    assert said == [f"{index.path_of(results)}: damaged, or of another version: made again from 1 runs"]
    assert index.runs(results, said.append) and len(said) == 1


def test_an_index_of_an_older_version(results):
    with sqlite3.connect(index.path_of(results)) as database:
        database.execute("CREATE TABLE runs (id)")
        database.execute("PRAGMA user_version = 2")
    said = []
    assert len(index.runs(results, said.append)) == 1 and len(said) == 1


def test_where_nothing_can_be_written_the_folders_are_read(results):
    index.path_of(results).mkdir()
    assert [run["id"] for run in index.runs(results)] == [ID]


def test_pins_outlive_what_replaces_a_run(results):
    store = Store(results)
    store.pin(ID, "the paper")
    shutil.rmtree(store.run_dir(ID))
    write(results, ID)
    store.create()
    assert index.runs(results)[0]["pinned"] == "the paper" and store.pins() == {ID: "the paper"}
    store.unpin(ID)
    store.unpin(ID)
    assert index.runs(results)[0]["pinned"] is None


def test_a_run_is_removed_with_its_pin_unless_it_is_carried_out(results):
    store = Store(results)
    store.pin(ID, "x")
    with store.claim(ID, again=True):
        assert not store.remove(ID)
    assert store.run_dir(ID).exists()
    assert store.remove(ID) and index.runs(results) == [] and list(store.runs.iterdir()) == []
    outside = results / "elsewhere"
    outside.mkdir()
    store.run_dir(ID).symlink_to(outside)
    assert store.remove(ID) and outside.exists() and list(store.runs.iterdir()) == []

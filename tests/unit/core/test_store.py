# SPDX-License-Identifier: GPL-2.0-only
"""Runs appear when they are complete; claims keep two processes from the same run."""
import json
import multiprocessing
import os
import threading
import time

import pytest

from testbed.core.errors import EnvironmentProblem, TestbedError
from testbed.runs import store as stores

ID = "0123456789abcdef"
FINISHED = {"schema": 2, "id": ID, "status": "finished"}


@pytest.fixture
def store(tmp_path):
    made = stores.Store(tmp_path / "results")
    made.create()
    return made


def fill(folder, text="data"):
    (folder / "raw").mkdir()
    (folder / "raw" / "a.json").write_text(text)


def make(store, text="data", again=False, **record):
    with store.claim(ID, again) as folder:
        if folder is not None:
            fill(folder, text)
            store.seal(folder, ID, {**FINISHED, "ended_at": time.time(), **record})
    return folder is not None


def hidden(store):
    return sorted(path.name for path in store.runs.glob(".*"))


def test_a_sealed_run_has_its_hashes_and_nothing_else_is_left(store):
    assert make(store)
    record = store.finished(ID)
    assert list(record["raw_files_sha256"]) == ["a.json"] and len(record["raw_sha256"]) == 64 and hidden(store) == []
    assert not make(store, "other")  # it is there
    assert (store.run_dir(ID) / "raw/a.json").read_text() == "data"


def test_again_replaces_it_when_complete(store):
    make(store)
    with pytest.raises(ZeroDivisionError), store.claim(ID, again=True) as folder:
        fill(folder, "half")
        raise ZeroDivisionError
    assert (store.run_dir(ID) / "raw/a.json").read_text() == "data" and hidden(store) == []
    assert make(store, "second", again=True) and (store.run_dir(ID) / "raw/a.json").read_text() == "second"


def test_a_failed_run_is_kept_and_repeated_but_never_replaces_a_finished_one(store):
    assert make(store, status="failed", error="x")
    assert store.finished(ID) is None and stores.read_record(store.run_dir(ID))["error"] == "x"
    assert make(store, "good") and not make(store)
    assert (
        make(store, "bad", again=True, status="failed") and (store.run_dir(ID) / "raw/a.json").read_text() == "good"
    )


def test_two_processes_do_not_make_the_same_run(store):
    order = []

    def second():
        order.append(("second made it", make(store, "second")))

    with store.claim(ID) as folder:
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.2)
        assert other.is_alive() and order == []
        fill(folder)
        store.seal(folder, ID, {**FINISHED, "ended_at": time.time()})
    other.join(10)
    assert order == [("second made it", False)] and (store.run_dir(ID) / "raw/a.json").read_text() == "data"


def _hold_and_die(store):
    with store.claim(ID) as folder:
        fill(folder)
        os._exit(9)


def test_what_a_killed_process_leaves_is_cleared_away(store):
    process = multiprocessing.get_context("fork").Process(target=_hold_and_die, args=(store,))
    process.start()
    process.join()
    assert len(hidden(store)) == 2  # its claim and its folder
    assert make(store, "next") and (store.run_dir(ID) / "raw/a.json").read_text() == "next"
    store.create()
    assert hidden(store) == []


def test_another_host_has_its_claim_until_the_lease_ends(store):
    claim = store.runs / f".claim-{ID}"
    claim.write_text("elsewhere-12345678-1-1")
    assert stores._alive(claim)
    os.utime(claim, (1, time.time() - stores.LEASE_S - 1))
    assert not stores._alive(claim) and make(store)
    other = store.runs / f".partial-{ID}-elsewhere-12345678-1-1"
    other.mkdir()
    store.create()
    assert other.exists()  # who knows what goes on there


def test_a_claim_is_renewed(store, monkeypatch):
    monkeypatch.setattr(stores, "LEASE_S", 0.4)
    claim = store.runs / f".claim-{ID}"
    with store.claim(ID):
        os.utime(claim, (1, 1))
        deadline = time.time() + 10
        while claim.stat().st_mtime == 1 and time.time() < deadline:
            time.sleep(0.02)
        assert claim.stat().st_mtime > 1


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", "3", '{"status": "finished"}', '{"schema": 1, "status": "finished"}', "[" * 9999]
)
def test_damaged_records_are_no_records(store, text):
    make(store)
    (store.run_dir(ID) / "run.json").write_text(text)
    assert stores.read_record(store.run_dir(ID)) is None and store.finished(ID) is None


def test_hashes_are_of_data_not_of_its_compression(tmp_path):
    import gzip

    from testbed.core.files import hash_raw

    sums = []
    for level in (1, 9):
        folder = tmp_path / str(level) / "raw"
        folder.mkdir(parents=True)
        (folder / "a.csv.gz").write_bytes(gzip.compress(b"x" * 1000, level, mtime=level))
        sums.append(hash_raw(folder.parent))
    assert sums[0] == sums[1]
    (folder / "a.csv.gz").rename(folder / "b.csv.gz")
    assert hash_raw(folder.parent)[1] != sums[0][1]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(TestbedError, match="cannot make .*results/runs: Not a directory"):
        stores.Store(tmp_path / "results").create()


@pytest.mark.parametrize("results, why", [
    ("file", "/file is not a folder"), ("file/results", "/file is not a folder"),
    ("/proc/results", "/proc/results: cannot write in /proc: "), ("there", "/there/runs is not a folder")])
def test_results_that_cannot_be_written_are_told_before_anything_is_made(tmp_path, results, why):
    (tmp_path / "file").write_text("")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/runs").write_text("")
    with pytest.raises(EnvironmentProblem, match=f"results cannot be written: .*{why}.*; --results FOLDER names"):
        stores.Store(tmp_path / results).require_writable()
    stores.Store(tmp_path / "new/results").require_writable()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "runs", "there"]


def test_records_are_json(store):
    make(store)
    assert json.loads((store.run_dir(ID) / "run.json").read_text())["id"] == ID

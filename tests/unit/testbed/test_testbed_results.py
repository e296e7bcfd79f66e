# SPDX-License-Identifier: GPL-2.0-only
"""Run folders: complete or absent; hashes of data; the index."""
import contextlib
import gzip
import json
import os
import sqlite3
import types

import pytest

from testbed import files, results
from testbed.errors import TestbedError, UsageError


@pytest.fixture
def experiment(tmp_path):
    made = results.Experiment(tmp_path / "results" / "demo")
    made.create({"ccas": ["reno"], "seeds": [1], "runs": ["runs/reno-seed1"]})
    return made


def everything_in(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_run_appears_when_it_is_complete(experiment):
    with experiment.new_run("reno", 1) as folder:
        (folder / "run.json").write_text("{}")
        assert not experiment.run_dir("reno", 1).exists()
    assert everything_in(experiment.folder) == ["experiment.json", "runs", "runs/reno-seed1", "runs/reno-seed1/run.json"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_run_that_raises_leaves_nothing(experiment, problem):
    with pytest.raises(problem):
        with experiment.new_run("reno", 1) as folder:
            (folder / "raw").mkdir()
            raise problem
    assert everything_in(experiment.folder) == ["experiment.json", "runs"]


def test_a_repeated_run_replaces_the_old_one_only_when_complete(experiment):
    for content in ("first", "second"):
        with experiment.new_run("reno", 1) as folder:
            (folder / content).write_text(content)
    assert everything_in(experiment.run_dir("reno", 1)) == ["second"]
    with pytest.raises(ValueError), experiment.new_run("reno", 1) as folder:
        raise ValueError
    assert everything_in(experiment.run_dir("reno", 1)) == ["second"]


def test_partial_folders_of_dead_processes_are_removed(experiment):
    living, dead = experiment.folder / f".partial-{os.getpid()}", experiment.folder / ".partial-4194999"
    for folder in (living, dead):
        (folder / "reno-seed1" / "raw").mkdir(parents=True)
    experiment.create({"ccas": [], "seeds": [], "runs": []})
    assert living.exists() and not dead.exists()


def test_experiments_are_merged(experiment):
    experiment.create({"ccas": ["cubic", "reno"], "seeds": [1, 2], "runs": ["runs/cubic-seed1", "runs/reno-seed1"], "title": "new"})
    record = json.loads((experiment.folder / "experiment.json").read_text())
    assert record == {"ccas": ["reno", "cubic"], "seeds": [1, 2], "runs": ["runs/reno-seed1", "runs/cubic-seed1"], "title": "new"}


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TestbedError, match="cannot make .*Not a directory"):
        results.Experiment(tmp_path / "file" / "x").create({"ccas": [], "seeds": [], "runs": []})


def write_raw(folder, level, mtime, content=b"t_us,link\n0,x\n" * 1000, name="queue.csv.gz"):
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    with open(folder / "raw" / name, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=level, mtime=mtime) as packed:
        packed.write(content)
    (folder / "raw" / "network.json").write_text("{}")
    return results.hash_raw(folder)


def test_hashes_are_of_the_data_not_of_its_compression(tmp_path):
    fast, slow = write_raw(tmp_path / "a", 1, 0), write_raw(tmp_path / "b", 9, 12345)
    assert fast == slow
    assert (tmp_path / "a/raw/queue.csv.gz").read_bytes() != (tmp_path / "b/raw/queue.csv.gz").read_bytes()
    assert fast[0]["network.json"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_hashes_change_with_data_and_names(tmp_path):
    totals = {write_raw(tmp_path / "a", 3, 0)[1], write_raw(tmp_path / "b", 3, 0, content=b"t_us,link\n1,x\n")[1],
              write_raw(tmp_path / "c", 3, 0, name="queue2.csv.gz")[1]}
    assert len(totals) == 3


def test_records(tmp_path):
    assert results.read_record(tmp_path) is None and results.finished(tmp_path) is None
    for text, record, done in [("{", None, False), ('{"status": "failed"}', {"status": "failed"}, False),
                               ('{"status": "finished"}', {"status": "finished"}, True)]:
        (tmp_path / "run.json").write_text(text)
        assert results.read_record(tmp_path) == record and bool(results.finished(tmp_path)) is done
    (tmp_path / "verdict.json").write_text('{"verdict": "suspect"}')
    assert results.read_verdict(tmp_path) == "suspect"


def test_index(tmp_path):
    folder = tmp_path / "demo"
    record = {"scenario": "s", "parameters": {"load": "60"}, "engine": "uml", "cca": "reno", "seed": 1, "status": "failed"}
    results.index_run(folder, folder / "runs/reno-seed1", record, None)
    results.index_run(folder, folder / "runs/cubic-seed1", {**record, "cca": "cubic"}, "valid")
    results.index_run(folder, folder / "runs/reno-seed1", {**record, "status": "finished", "wall_s": 2.5, "raw_sha256": "ab"}, "suspect")
    with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as database:
        rows = database.execute("SELECT run, cca, status, verdict, wall_s, raw_sha256, parameters FROM runs ORDER BY run").fetchall()
    assert rows == [("cubic-seed1", "cubic", "failed", "valid", None, None, '{"load": "60"}'),
                    ("reno-seed1", "reno", "finished", "suspect", 2.5, "ab", '{"load": "60"}')]


def test_equal_parameters_equal_name():
    def name(engine="uml", **parameters):
        return results.experiment_name(types.SimpleNamespace(name="access-link", parameters=parameters), engine)
    assert name(load="60") == "access-link-load60" and name(load="60", quick=True) == "access-link-load60-quick"
    assert name("host") == "access-link-host"
    assert name(set={"a": "1", "b": "2"}) == name(set={"b": "2", "a": "1"}) != name(set={"a": "1", "b": "3"})
    assert results.run_name("bbr", 12) == "bbr-seed12"


def test_finding_experiments_and_runs(experiment, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(experiment.folder.parent))
    assert results.results_dir() == experiment.folder.parent
    assert results.find_experiment("demo") == results.find_experiment(str(experiment.folder)) == experiment.folder
    with pytest.raises(UsageError, match="no experiment 'dmeo' .*there are: demo"):
        results.find_experiment("dmeo")
    with experiment.new_run("reno", 1) as folder:
        (folder / "run.json").write_text("{}")
    run_dir = experiment.run_dir("reno", 1)
    assert results.find_run("demo/runs/reno-seed1") == results.find_run(str(run_dir)) == run_dir
    with pytest.raises(UsageError, match="not a run folder"):
        results.find_run("demo/runs")


def test_files_are_written_whole_or_not_at_all(tmp_path):
    files.write_json(tmp_path / "x.json", {"a": "é"})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": "é"}
    with pytest.raises(TypeError):
        files.write_json(tmp_path / "x.json", {"a": object()})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": "é"} and everything_in(tmp_path) == ["x.json"]

# SPDX-License-Identifier: GPL-2.0-only
"""Experiments list runs by id; names are views of them."""
import contextlib
import json
import os
import sqlite3

import pytest

from testbed.core.errors import UsageError
from testbed.core.files import write_json
from testbed.core.run_files import Labels
from testbed.runs import experiment, index
from tests.unit.core.simple_plans import VARIANT, plan


def described(base=None, axes=None, name="demo", **changes):
    fields = dict(
        labels={
            "name": name,
            "title": "Demo",
            "source": "",
            "description": "",
            "parameters": {"load": "60", "quick": True},
        },
        base=base or {"a": 1},
        engine="uml",
        kernel_spec=None,
        hz=None,
        kernel_key="kernel-1",
        command=["bin/testbed", "run"],
        axes=axes or {},
    )
    fields |= changes
    return experiment.Description(**fields | {"labels": Labels(fields["labels"])})


def read(folder):
    return json.loads((folder / "experiment.json").read_text())


def test_runs_are_listed_and_seen_by_name(tmp_path):
    folder = experiment.add(tmp_path, described(), [plan("reno"), plan("cubic")])
    assert folder.name == "demo-load60-quick"
    assert [(run["name"], run["id"]) for run in read(folder)["runs"]] == [
        ("reno-seed1", plan("reno").id),
        ("cubic-seed1", plan("cubic").id),
    ]
    assert os.readlink(folder / "runs/cubic-seed1") == f"../../runs/{plan('cubic').id}"
    experiment.add(tmp_path, described(), [plan("cubic"), plan("cubic", 2)])
    assert [run["name"] for run in read(folder)["runs"]] == ["reno-seed1", "cubic-seed1", "cubic-seed2"]
    assert (
        read(folder)["subjects"] == ["reno", "cubic"]
        and read(folder)["seeds"] == [1, 2]
        and read(folder)["superseded"] == []
    )


def test_axes_keep_their_units(tmp_path):
    folder = experiment.add(tmp_path, described(axes={"buffer": ["1"]}, units={"buffer": "BDP"}), [plan("reno")])
    assert read(folder)["units"] == {"buffer": "BDP"}
    assert "units" not in read(experiment.add(tmp_path / "plain", described(), [plan("reno")]))


def test_the_commands_that_listed_the_runs_are_kept_until_one_lists_them_all(tmp_path):
    def listed(command, *plans):
        folder = experiment.add(tmp_path, described(command=command.split()), list(plans))
        return [" ".join(words) for words in [*read(folder).get("earlier_commands", []), read(folder)["command"]]]

    assert listed("run reno", plan("reno")) == ["run reno"]
    assert listed("run cubic", plan("cubic")) == ["run reno", "run cubic"]
    assert listed("run cubic", plan("cubic", 2)) == ["run reno", "run cubic"], "a further seed of --precision"
    assert listed("run reno", plan("reno")) == ["run cubic", "run reno"]
    assert listed("run both", plan("reno"), plan("cubic"), plan("cubic", 2)) == ["run both"]


def test_companion_runs_are_listed_apart_and_replaced_by_newer_ones(tmp_path):
    def companion(seed=1, **changes):
        return plan("reno", seed, labels={**plan().labels, "parameters": {"idle": True}}, kernel_key="idle", **changes)
    assert "idle" not in read(experiment.add(tmp_path, described(), [plan("cubic")]))
    folder = experiment.add(tmp_path, described(), [plan("cubic", 2)], [companion(), companion(2)])
    assert [run["name"] for run in read(folder)["idle"]] == ["idle-reno-seed1", "idle-reno-seed2"]
    assert [run["name"] for run in read(folder)["runs"]] == ["cubic-seed1", "cubic-seed2"]
    assert os.readlink(folder / "runs/idle-reno-seed2") == f"../../runs/{companion(2).id}"
    newer = companion(guest_code="other")
    experiment.add(tmp_path, described(), [plan("cubic")], [newer])
    assert [run["id"] for run in read(folder)["idle"]] == [newer.id, companion(2).id]
    assert [run["name"] for run in read(experiment.add(tmp_path, described(), [plan("cubic")]))["idle"]] == [
        "idle-reno-seed1", "idle-reno-seed2"]


@pytest.mark.parametrize("change", [{"base": {"a": 2}}, {"kernel_key": "kernel-2"}])
def test_the_same_name_for_something_else_is_another_experiment(tmp_path, change):
    """Two scenario files of one name, two trees called linux."""
    first = experiment.add(tmp_path, described(), [plan()])
    second = experiment.add(tmp_path, described(**change), [plan(kernel_key="kernel-2")])
    assert second.name.startswith("demo-load60-quick-") and second != first
    assert experiment.add(tmp_path, described(**change), [plan(kernel_key="kernel-2")]) == second


def test_an_edited_module_supersedes_and_nothing_is_lost(tmp_path):
    old, new = (plan(variants=({**VARIANT, "module_sha256": digest},)) for digest in ("a", "b"))
    experiment.add(tmp_path, described(), [old])
    folder = experiment.add(tmp_path, described(), [new])
    assert [run["id"] for run in read(folder)["runs"]] == [new.id]
    assert [(run["id"], run["by"]) for run in read(folder)["superseded"]] == [(old.id, new.id)]
    assert os.readlink(folder / "runs/reno-seed1").endswith(new.id)
    experiment.add(tmp_path, described(), [old])  # and back
    assert [run["id"] for run in read(folder)["superseded"]] == [new.id]


def test_points_of_a_sweep(tmp_path):
    axes = {"topology.central.queue.limit": ["85", "170"], "traffic.load": ["60 %"]}
    plans = [
        plan(point={"topology.central.queue.limit": limit, "traffic.load": "60 %"}, inputs={"x": limit})
        for limit in ("85", "170")
    ]
    folder = experiment.add(tmp_path, described(axes=axes), plans)
    assert folder.name == "demo-load60-quick-sweep-limit-load"
    assert [run["name"] for run in read(folder)["runs"]] == [
        "reno-limit85-load60-seed1",
        "reno-limit170-load60-seed1",
    ]
    assert read(folder)["axes"] == axes


def test_names_that_read_alike_are_told_apart(tmp_path):
    plans = [plan(point={"k": value}, inputs={"x": value}) for value in ("a b", "a_b")]
    folder = experiment.add(tmp_path, described(axes={"k": ["a b", "a_b"]}), plans)
    assert len({run["name"] for run in read(folder)["runs"]}) == 2 and len(list((folder / "runs").iterdir())) == 2


def test_an_experiment_called_runs_does_not_get_into_the_runs(tmp_path):
    labels = {**described().labels, "name": "runs", "parameters": {}}
    assert experiment.add(tmp_path, described(labels=labels), [plan()]).name != "runs"


def test_another_number_of_ticks_is_in_the_name(tmp_path):
    folder = experiment.add(tmp_path, described(hz=250, kernel_key="kernel-2"), [plan()])
    assert folder.name == "demo-load60-quick-hz250"
    assert experiment.add(tmp_path, described(), [plan()]).name == "demo-load60-quick"


def test_hostile_words_stay_in_the_folder(tmp_path):
    labels = {**described().labels, "parameters": {"x": "../../evil"}}
    folder = experiment.add(
        tmp_path,
        described(labels=labels, kernel_spec="/tmp/../..", axes={"../k": ["v"]}),
        [plan("reno", point={"../k": "../../v"})],
    )
    assert folder.parent == tmp_path and all(path.parent == folder / "runs" for path in (folder / "runs").iterdir())


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": 2}', '{"schema": 1, "runs": ["runs/a"]}', '{"schema": 2, "runs": [3]}']
)
def test_damaged_or_old_experiments_are_one_line(tmp_path, text):
    folder = experiment.add(tmp_path, described(), [plan()])
    (folder / "experiment.json").write_text(text)
    with pytest.raises(UsageError, match=r"experiment.json: not ") as caught:
        experiment.add(tmp_path, described(), [plan()])
    assert "\n" not in str(caught.value)


def test_finding(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    folder = experiment.add(tmp_path, described(), [plan()])
    run_dir = tmp_path / "runs" / plan().id
    run_dir.mkdir(parents=True)
    plan().write(run_dir)
    assert experiment.find(folder.name) == experiment.find(str(folder)) == folder
    for name in (plan().id, str(run_dir), f"{folder.name}/runs/reno-seed1", str(folder / "runs/reno-seed1")):
        assert experiment.find_run(name) == run_dir
    with pytest.raises(UsageError, match=r"no experiment 'x' in .*; there are: demo-load60-quick"):
        experiment.find("x")
    with pytest.raises(UsageError, match="x: not a run"):
        experiment.find_run("x")


# -- the index ------------------------------------------------------------------------------------


def made_run(results, made, **record):
    run_dir = results / "runs" / made.id
    run_dir.mkdir(parents=True)
    made.write(run_dir)
    write_json(run_dir / "run.json", {"schema": 2, "status": "finished", "virtual_s": 6.0, "wall_s": 1.5, **record})
    write_json(run_dir / "verdict.json", {"verdict": "valid"})


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 1000, b"SQLite format 3\0" + b"x" * 5000])
def test_an_index_is_made_from_the_runs_whatever_was_there(tmp_path, content):
    made_run(tmp_path, plan())
    experiment.add(tmp_path, described(), [plan()])
    if content is not None:
        (tmp_path / "index.sqlite").write_bytes(content)
    assert index.rows(tmp_path) == [
        {
            "experiment": "demo-load60-quick",
            "name": "reno-seed1",
            "id": plan().id,
            "status": "finished",
            "verdict": "valid",
            "virtual_s": 6.0,
            "wall_s": 1.5,
        }
    ]
    with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (index.SCHEMA,)


def test_an_index_of_another_version_is_made_again(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as database:
        database.executescript("CREATE TABLE runs (experiment, run); PRAGMA user_version = 1")
    made_run(tmp_path, plan())
    assert [row["id"] for row in index.rows(tmp_path)] == [plan().id]


def test_noting_a_run_and_an_experiment(tmp_path):
    index.rebuild(tmp_path)
    made_run(tmp_path, plan(), status="failed", error="x")
    index.note_run(tmp_path, plan().id)
    assert [(row["experiment"], row["status"]) for row in index.rows(tmp_path)] == [("", "failed")]
    index.note_experiment(tmp_path, experiment.add(tmp_path, described(), [plan()]))
    assert [row["name"] for row in index.rows(tmp_path)] == ["reno-seed1"]


@pytest.mark.parametrize("name", ["plan.json", "run.json", "verdict.json"])
@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "null",
        "{",
        '{"schema": 2, "status": {}, "seed": 1e400}',
        '{"labels": 3, "seed": [' + "9" * 400 + "]}",
    ],
)
def test_damaged_runs_are_in_the_index_too(tmp_path, name, damage):
    made_run(tmp_path, plan())
    (tmp_path / "runs" / plan().id / name).write_text(damage)
    (row,) = index.rows(tmp_path)
    assert row["id"] == plan().id and (row["status"] == "finished") == (name == "verdict.json")

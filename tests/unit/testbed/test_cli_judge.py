# SPDX-License-Identifier: GPL-2.0-only
"""`testbed runs judge`: what cannot be judged keeps nothing from being judged, and is told in one line."""
import json
import os
import pathlib

import pandas as pd
import pytest

from analysis import metrics
from testbed import checks, cli
from testbed.core.errors import DamagedRun
from testbed.core.files import sha256_of
from testbed.runs import experiment
from testbed.runs.store import Store
from tests.unit.core.simple_plans import plan
from tests.unit.testbed import evidence_files

SEEDS = (1, 2, 3, 4, 5, 6)


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """judge(experiment) of six runs -> exit code; .record(seed, run.json); .damaged: ids of damaged ones."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    store = Store(tmp_path)
    store.create()
    plans = {seed: plan(seed=seed) for seed in SEEDS}
    base = plans[1]
    experiment.add(tmp_path, experiment.Description(
        labels=base.labels, base=base.scenario, engine="uml", kernel_spec=None, hz=None, kernel_key="k",
        command=["bin/testbed"], axes={}), list(plans.values()))

    def call(*words):
        return cli.main(["runs", "judge", *(words or ("demo",))])

    def record(seed, **fields):
        folder = store.run_dir(plans[seed].id)
        folder.mkdir(exist_ok=True)
        plans[seed].write(folder)
        described = {"schema": 2, "id": plans[seed].id, "status": "finished", **fields}
        (folder / "run.json").write_text(json.dumps(described))
    call.record, call.damaged, call.plans = record, set(), plans

    def judge_run(run_dir):
        if run_dir.name in call.damaged:
            raise DamagedRun(f"{run_dir}/raw/a: file is missing")
        return {"verdict": "valid", "reasons": []}
    monkeypatch.setattr(checks, "judge_run", judge_run)
    monkeypatch.setattr(metrics, "measure_run", lambda run_dir: None)
    for seed in SEEDS:
        record(seed)
    return call


def test_finished_runs_are_judged_and_the_others_told_in_one_line(judge, capsys):
    judge.record(2, status="failed", error="the guest kernel crashed\nat some place")
    Store(pathlib.Path(experiment.results_dir())).remove(judge.plans[5].id)
    assert judge() == 4
    shown = capsys.readouterr()
    assert shown.out.count("  valid\n") == 4
    assert shown.err == ("testbed: not judged, 2 of 6 runs did not finish: reno-seed2 (the guest kernel crashed), "
                         "reno-seed5 (it is not there)\n")


def test_of_many_the_first_are_named(judge, capsys):
    for seed in SEEDS:
        judge.record(seed, status="failed", error="x")
    assert judge("all") == 4 and capsys.readouterr().err.endswith(" (x) and 3 more\n")


@pytest.mark.parametrize("unfinished, code", [((), 1), ((3,), 4)])
def test_a_damaged_run_is_told_by_itself(judge, capsys, unfinished, code):
    judge.damaged = {judge.plans[1].id}
    for seed in unfinished:
        judge.record(seed, status="failed", error="x")
    assert judge() == code
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0].endswith("raw/a: file is missing")
    assert shown.out.count("valid") == 5 - len(unfinished)


def test_all_is_well(judge, capsys):
    assert judge() == 0 and capsys.readouterr().err == ""


@pytest.fixture
def good_run(tmp_path):
    """The folder of a run whose raw data is good, sealed."""
    files = evidence_files.good_files()
    evidence = evidence_files.write(tmp_path, files)
    described = {"plan.json": {"scenario": evidence.scenario.content(), "labels": {},
                               "variants": [one.content() for one in evidence.variants]},
                 "environment.json": {"clock": evidence.clock},
                 "run.json": {"schema": 2, "status": "finished", "raw_sha256": "of all", "raw_files_sha256": {
                     path.name: sha256_of(path) for path in (tmp_path / "raw").iterdir()}}}
    for name, value in described.items():
        (tmp_path / name).write_text(json.dumps(value))
    return tmp_path


def edit(run_dir):
    """Seven more drops at the end, with the old date; a file more, and one less."""
    raw = run_dir / "raw"
    queue = pd.read_csv(raw / "queue.csv.gz")
    queue.loc[queue.index[-1], "drops"] += 7
    queue.to_csv(raw / "queue.csv.gz", index=False)
    os.utime(raw / "queue.csv.gz", ns=(0, 0))
    (raw / "ss.txt.gz").write_bytes(b"")
    (raw / "adus.csv.gz").unlink()


def test_edited_files_are_named_and_judged_on_their_content(good_run, capsys):
    assert cli.main(["runs", "judge", "--edited", str(good_run)]) == 0
    assert capsys.readouterr().out == f"{good_run.name}  valid\n"
    edit(good_run)
    assert cli.main(["runs", "judge", "--edited", str(good_run)]) == 0
    verdict, *lines = capsys.readouterr().out.splitlines()
    assert verdict == f"{good_run.name}  invalid"
    assert lines[:3] == [f"  edited: {good_run}/raw/adus.csv.gz: file is missing",
                         f"  edited: {good_run}/raw/queue.csv.gz: not what the run left (its hash is not the one in "
                         "run.json)",
                         f"  edited: {good_run}/raw/ss.txt.gz: the run did not leave this file; remove it"]
    assert any("drops in the last row of queue" in line for line in lines[3:])
    assert not any(line.startswith("  edited") for line in lines[3:])


def test_an_edited_run_is_only_read(good_run, capsys):
    edit(good_run)
    left = {path: path.read_bytes() for path in good_run.rglob("*") if path.is_file()}
    cli.main(["runs", "judge", "--edited", str(good_run)])
    assert {path: path.read_bytes() for path in good_run.rglob("*") if path.is_file()} == left
    capsys.readouterr()
    assert cli.main(["runs", "judge", str(good_run)]) == 1
    shown = capsys.readouterr()
    assert not shown.out and "adus.csv.gz: file is missing" in shown.err

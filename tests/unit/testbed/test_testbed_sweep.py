# SPDX-License-Identifier: GPL-2.0-only
"""Many runs at a time, with runs that take no time."""
import contextlib
import json
import os
import signal
import sqlite3
import types

import pytest

from testbed import ccas, progress, results, sweep
from testbed.errors import RunFailed
from testbed.files import write_json


@pytest.fixture
def run_all(tmp_path, monkeypatch, capsys):
    """run_all(outcomes, names, seeds, ...) -> (failures, lines shown); outcomes: run name -> what happens in it."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    experiment = results.Experiment(tmp_path / "results" / "demo")
    resolved = {"topology": {"kind": "pipe"}, "traffic": {}, "timing": {"test_us": 6_000_000}, "hosts": {}, "probes": {}}
    scenario = types.SimpleNamespace(timing=types.SimpleNamespace(duration_us=6_000_000), resolved=lambda: resolved)
    environment = {"kernel_key": "first"}
    engine = types.SimpleNamespace(guest_dir=lambda folder: "/run", environment=lambda: environment)
    calls = tmp_path / "calls"

    def note(*words):
        with open(calls, "a") as f:
            f.write(" ".join(map(str, words)) + "\n")

    def prepare(_scenario, seed, _guest_dir, folder):
        note("prepare", seed)
        folder.mkdir()

    def carry_out(spec, _engine, workload_dir, run_dir, cpu, on_phase):
        name = results.run_name(spec.cca, spec.seed)
        note("run", name)
        assert workload_dir.is_dir() and os.sched_getaffinity(0) == {cpu}
        on_phase("traffic", 1_500_000)
        outcome = outcomes.get(name)
        record = {"status": "failed" if outcome else "finished", "cca": spec.cca, "seed": spec.seed, "parameters": {}}
        write_json(run_dir / "run.json", record)
        write_json(run_dir / "scenario.json", {**spec.scenario.resolved(), "variants": spec.subject.record()})
        write_json(run_dir / "environment.json", _engine.environment())
        if outcome:
            outcome()
        write_json(run_dir / "verdict.json", {"verdict": "valid"})

    monkeypatch.setattr(sweep, "prepare_workload", prepare)
    monkeypatch.setattr(sweep, "carry_out", carry_out)
    outcomes = {}

    def run(given, names, seeds, jobs=2, **options):
        outcomes.clear()
        outcomes.update(given)
        calls.write_text("")
        experiment.create({"ccas": [], "seeds": [], "runs": []})
        subjects = [ccas.Subject(name, (run.variant(name),)) for name in names]
        failures = sweep.run_all(experiment, scenario, engine, subjects, seeds, jobs, **options)
        assert not list(experiment.folder.glob(".*")), "scratch folders are left"
        return failures, sorted(calls.read_text().splitlines()), capsys.readouterr().err
    run.experiment, run.resolved, run.environment = experiment, resolved, environment
    run.variant = lambda name: ccas.Variant(name, name)
    return run


def test_runs_of_another_scenario_kernel_or_module_are_repeated(run_all):
    """The experiment's name does not change when its file is edited or its kernel rebuilt."""
    run_all({}, ["a"], [1])
    assert run_all({}, ["a"], [1])[1] == []
    run_all.resolved["topology"] = {"kind": "bus"}
    _, calls, shown = run_all({}, ["a"], [1])
    assert "run a-seed1" in calls and "1 runs were made from another scenario, module or kernel" in shown
    run_all.environment["kernel_key"] = "second"
    assert "run a-seed1" in run_all({}, ["a"], [1])[1]
    run_all.variant = lambda name: ccas.Variant(name, name, module_sha256="changed")
    assert "run a-seed1" in run_all({}, ["a"], [1])[1]
    assert run_all({}, ["a"], [1])[1] == []


def test_every_run_once_and_every_workload_once(run_all):
    failures, calls, shown = run_all({}, ["reno", "cubic"], [1, 2])
    assert failures == {}
    assert calls == ["prepare 1", "prepare 2", "run cubic-seed1", "run cubic-seed2", "run reno-seed1", "run reno-seed2"]
    assert shown.count("finished, valid") == 4 and "run 4 of 4" in shown
    for cca in ("reno", "cubic"):
        for seed in (1, 2):
            assert results.finished(run_all.experiment.run_dir(cca, seed))
    with contextlib.closing(sqlite3.connect(run_all.experiment.folder.parent / "index.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM runs WHERE status = 'finished' AND verdict = 'valid'").fetchone() == (4,)


def test_runs_that_are_there_are_not_repeated(run_all):
    run_all({}, ["reno"], [1])
    failures, calls, shown = run_all({}, ["reno", "cubic"], [1])
    assert failures == {} and calls == ["prepare 1", "run cubic-seed1"] and "1 runs are already there" in shown
    assert run_all({}, ["reno", "cubic"], [1])[1] == []
    assert run_all({}, ["reno"], [1], again=True)[1] == ["prepare 1", "run reno-seed1"]


def raising(problem):
    def outcome():
        raise problem
    return outcome


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_failure_does_not_stop_the_others_and_is_repeated_next_time(run_all):
    failures, calls, shown = run_all(
        {"a-seed1": raising(RunFailed("first line\nsecond line")), "b-seed1": raising(OSError(28, "No space left", "raw/x")),
         "c-seed1": raising(ZeroDivisionError("division")), "d-seed1": die}, ["a", "b", "c", "d", "e"], [1])
    assert failures["a-seed1"] == "first line\nsecond line" and failures["b-seed1"] == "No space left: raw/x"
    assert "a bug in the testbed" in failures["c-seed1"] and "ZeroDivisionError" in failures["c-seed1"]
    assert failures["d-seed1"] == "its process ended with status -9"
    assert failures.keys() == {"a-seed1", "b-seed1", "c-seed1", "d-seed1"}
    assert "a-seed1: failed: first line (" in shown and "second line" not in shown and "e-seed1: finished, valid" in shown
    assert results.read_record(run_all.experiment.run_dir("a", 1))["status"] == "failed"
    failures, calls, _ = run_all({}, ["a", "b", "c", "d", "e"], [1])
    assert failures == {} and [c for c in calls if c.startswith("run")] == [f"run {cca}-seed1" for cca in "abcd"]


def test_a_workload_that_cannot_be_made_ends_the_sweep_cleanly(run_all, monkeypatch):
    def refuse(*_):
        raise ValueError("no such trace")
    monkeypatch.setattr(sweep, "prepare_workload", refuse)
    with pytest.raises(ValueError, match="no such trace"):
        run_all({}, ["reno"], [1])
    assert not list(run_all.experiment.folder.glob(".*"))


def test_one_cpu_per_job(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {7, 3, 5})
    assert sweep._cpus(None) == [3, 5, 7] and sweep._cpus(1) == [3] and sweep._cpus(5) == [3, 5, 7, 3, 5]


def test_the_contents_of_experiment_json():
    scenario = types.SimpleNamespace(name="s", title="S", source="draft", description="d", parameters={"load": "60"})
    record = sweep.describe_experiment(scenario, "uml", ["reno", "bbr"], [3, 4], "bin/testbed run s")
    assert record.pop("code_version")
    assert json.loads(json.dumps(record)) == {
        "scenario": "s", "title": "S", "source": "draft", "description": "d", "parameters": {"load": "60"}, "engine": "uml",
        "ccas": ["reno", "bbr"], "seeds": [3, 4], "command": "bin/testbed run s",
        "runs": ["runs/reno-seed3", "runs/bbr-seed3", "runs/reno-seed4", "runs/bbr-seed4"]}


# -- progress -------------------------------------------------------------------------------

class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "time", made)
    return made


def test_plain_progress_is_one_line_per_phase_and_now_and_then(clock, capsys):
    with progress.open_display(2, 600) as display:
        display.start("reno-seed1")
        display.update("reno-seed1", "start", 0)
        display.update("reno-seed1", "start", 0)
        for _ in range(30):
            display.update("reno-seed1", "traffic", int((clock.now - 1000) * 5e6))
            clock.now += 1
        display.update("reno-seed1", "collect", 0)
        display.end("reno-seed1", "finished, valid")
    assert capsys.readouterr().err.splitlines() == [
        "reno-seed1: start", "reno-seed1: traffic 0 of 600 s",
        "reno-seed1: traffic 50 of 600 s virtual, 5.0x real time, 1:50 left",
        "reno-seed1: traffic 100 of 600 s virtual, 5.0x real time, 1:40 left",
        "reno-seed1: collect", "reno-seed1: finished, valid (30.0 s of wall time; run 1 of 2)"]


def test_plain_lines_are_neither_wrapped_nor_interpreted(clock, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with progress.open_display(1, 1) as display:
        display.note("[bold]what[/bold] :smile: " + "x" * 100)
    assert capsys.readouterr().err == "[bold]what[/bold] :smile: " + "x" * 100 + "\n"


def test_speed_is_that_of_each_run(clock):
    display = progress._Plain(None, 2, 100)
    display._began = {"a": 1000, "b": 1000}
    assert display.describe("a", "collect", 5) == "collect"
    assert display.describe("a", "traffic", 0) == "traffic 0 of 100 s"
    clock.now += 10
    assert display.describe("b", "traffic", 0) == "traffic 0 of 100 s"
    clock.now += 10
    assert display.describe("a", "traffic", 40_000_000) == "traffic 40 of 100 s virtual, 2.0x real time, 30.0 s left"
    assert display.describe("b", "traffic", 40_000_000) == "traffic 40 of 100 s virtual, 4.0x real time, 15.0 s left"


def test_errors_are_one_line_on_standard_error(capsys):
    progress.print_error("no such thing")
    assert capsys.readouterr() == ("", "testbed: no such thing\n")

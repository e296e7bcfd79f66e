# SPDX-License-Identifier: GPL-2.0-only
"""Many runs at a time, with runs that take no time."""
import errno
import gc
import json
import os
import signal
import sys
import types

import pytest

import testbed.runs.run
from testbed.cli import _process
from testbed.core.errors import EnvironmentProblem, RunFailed
from testbed.executors import _cpus, local
from testbed.runs import campaign, experiment, index
from testbed.runs.store import Store, read_record
from tests.unit.core.simple_plans import QuickEngine, plan


@pytest.fixture
def carry_out(tmp_path, monkeypatch, capsys):
    """carry_out(outcomes, plans, ...) -> (failures, names of the runs that were made, lines shown)."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(
        testbed.runs.run, "_prepare", lambda _plan, _engine, work_dir, *_: (work_dir / "workload.json").write_text("{}")
    )
    monkeypatch.setattr(testbed.runs.run, "judge_and_measure", lambda run_dir: "valid")
    monkeypatch.setattr(testbed.runs.run, "read_verdict", lambda run_dir: "valid")
    store, calls = Store(tmp_path / "results"), tmp_path / "calls"

    def run(outcomes, plans, jobs=2, **options):
        calls.write_text("")
        store.create()
        engine = QuickEngine(calls, outcomes)
        failures = campaign.carry_out(plans, local.Executor(engine, store, jobs), store, **options)
        assert not list(store.runs.glob(".*")), "scratch folders are left"
        return failures, sorted(calls.read_text().split()), capsys.readouterr().err

    run.store = store
    return run


def plans_of(*subjects, seeds=(1,)):
    return [plan(subject, seed) for seed in seeds for subject in subjects]


def test_every_run_once(carry_out):
    plans = plans_of("reno", "cubic", seeds=(1, 2))
    failures, made, shown = carry_out({}, plans + plans)
    assert failures == {} and made == ["cubic-seed1", "cubic-seed2", "reno-seed1", "reno-seed2"]
    assert shown.count("finished, valid") == 4 and "run 4 of 4" in shown
    assert all(carry_out.store.finished(one.id) for one in plans)
    assert gc.get_freeze_count() == 0           # hypothesis warns of what is frozen
    assert len(index.rows(carry_out.store.results)) == 4
    assert json.loads((carry_out.store.run_dir(plans[0].id) / "environment.json").read_text())["clock"] == "virtual"


@pytest.fixture
def execute(carry_out, tmp_path):
    """execute(engine, **options of a job) -> outcome of a run on one CPU"""
    before = os.sched_getaffinity(0)
    carry_out.store.create()

    def run(engine, **options):
        os.sched_setaffinity(0, {min(before)})
        return testbed.runs.run.execute(testbed.runs.run.Job(plan(), **options), engine, carry_out.store, tmp_path,
                                        min(before), lambda *_: None)
    yield run
    os.sched_setaffinity(0, before)


def test_a_guest_that_is_too_large_is_told_and_nothing_is_done(carry_out, execute, tmp_path):
    store, engine = carry_out.store, QuickEngine(tmp_path / "calls")
    engine.memory_mb = lambda plan, workload_dir: 2000 if (workload_dir / "workload.json").exists() else 0
    assert execute(engine, most_memory_mb=1999) == testbed.runs.run.Outcome(plan().id, needs_mb=2000)
    assert list(store.runs.iterdir()) == []
    assert execute(engine, most_memory_mb=2000).needs_mb == 0 and store.finished(plan().id)


_at_next_fork: list[int] = []
os.register_at_fork(before=lambda: _at_next_fork and signal.raise_signal(_at_next_fork.pop()))


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_around_a_fork_is_heard(carry_out, monkeypatch, number, code):
    """Python forks all the same; what it says of what was raised there is kept from the terminal."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda problem: said.append(problem.exc_type))
    plans = plans_of("a", "b", "c", "d", "e", "f")
    inherited = signal.signal(number, signal.SIG_DFL)       # whoever runs the tests may ignore it (nohup)
    _at_next_fork.append(number)
    try:
        assert _process.guarded(lambda: len(carry_out({}, plans)[0]), resumes=True) == code
        assert _at_next_fork == [], "it was raised around a fork"
    finally:
        _at_next_fork.clear()
        signal.signal(number, inherited)
    assert said == []
    finished = {one.subject for one in plans if carry_out.store.finished(one.id)}
    assert len(finished) <= 2, "two had been started, or were about to be"
    assert carry_out({}, plans)[1] == sorted(f"{name}-seed1" for name in {*"abcdef"} - finished)


def test_runs_that_are_there_are_not_repeated(carry_out):
    carry_out({}, plans_of("reno"))
    _, made, shown = carry_out({}, plans_of("reno", "cubic"))
    assert made == ["cubic-seed1"] and "1 run is already there" in shown
    assert carry_out({}, plans_of("reno", "cubic"))[1] == []
    assert carry_out({}, plans_of("reno"), again=True)[1] == ["reno-seed1"]


@pytest.mark.parametrize("damage, why", [
    (lambda raw: (raw / "workload.json").unlink(), "raw/workload.json: file is missing"),
    (lambda raw: (raw / "workload.json").write_text("edited"), "raw/workload.json: not what the run left"),
    (lambda raw: (raw / "other.json").write_text("{}"), "raw/other.json: the run did not leave this file"),
])
def test_a_run_whose_raw_data_is_damaged_is_made_again_and_told(carry_out, damage, why):
    """A copy, whose files all look new, is no damage."""
    carry_out({}, plans_of("reno", "cubic"))
    for path in (carry_out.store.run_dir(plan("cubic").id) / "raw").iterdir():
        os.utime(path)
    damage(carry_out.store.run_dir(plan("reno").id) / "raw")
    failures, made, shown = carry_out({}, plans_of("reno", "cubic"))
    assert failures == {} and made == ["reno-seed1"] and "1 run is already there" in shown
    line, = (line for line in shown.splitlines() if "damaged" in line)
    assert "1 run is damaged and made again: " in line and why in line
    assert carry_out({}, plans_of("reno", "cubic"))[1] == []


@pytest.mark.parametrize(
    "change", [{"kernel_key": "kernel-2"}, {"scenario__topology": {"kind": "bus"}}, {"guest_code": "code-2"}]
)
def test_what_is_made_from_something_else_is_another_run_beside_it(carry_out, change):
    carry_out({}, [plan()])
    assert carry_out({}, [plan(**change)])[1] == ["reno-seed1"]
    assert carry_out.store.finished(plan().id) and carry_out.store.finished(plan(**change).id)


def test_what_all_runs_and_their_report_need_is_done_once_and_not_at_all_without_runs(carry_out, monkeypatch):
    warmed = []
    monkeypatch.setattr(local, "warm_up", lambda: warmed.append(os.getpid()))
    for _ in range(2):
        carry_out({}, plans_of("reno", "cubic", "bbr"), jobs=2)
        assert warmed == [os.getpid()]


def raising(problem):
    def outcome():
        raise problem

    return outcome


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_failure_does_not_stop_the_others_and_is_repeated_next_time(carry_out):
    plans = plans_of("a", "b", "c", "d", "e")
    failures, _, shown = carry_out(
        {
            "a-seed1": raising(RunFailed("first line\nsecond line")),
            "b-seed1": raising(OSError(28, "No space left", "raw/x")),
            "c-seed1": raising(ZeroDivisionError("division")),
            "d-seed1": die,
        },
        plans,
    )
    assert failures == {
        "a-seed1": "first line\nsecond line",
        "b-seed1": "No space left: raw/x",
        "c-seed1": "traffic: ZeroDivisionError: division",
        "d-seed1": "its process ended with status -9",
    }
    assert (
        "a-seed1: failed: first line (" in shown
        and "second line" not in shown
        and "e-seed1: finished, valid" in shown
    )
    record = read_record(carry_out.store.run_dir(plans[2].id))
    assert (
        record["status"] == "failed" and "ZeroDivisionError" in record["traceback"] and record["phase"] == "traffic"
    )
    failures, made, _ = carry_out({}, plans)
    assert failures == {} and made == [f"{subject}-seed1" for subject in "abcd"]


def test_traffic_that_cannot_be_made_fails_its_own_runs_only(carry_out, monkeypatch):
    def refuse_seed_2(made, _engine, work_dir, *_):
        if made.seed == 2:
            raise RunFailed("no such trace")
        (work_dir / "workload.json").write_text("{}")

    monkeypatch.setattr(testbed.runs.run, "_prepare", refuse_seed_2)
    failures, made, _ = carry_out({}, plans_of("reno", seeds=(1, 2, 3)))
    assert failures == {"reno-seed2": "no such trace"} and made == ["reno-seed1", "reno-seed3"]


@pytest.mark.parametrize("problem", [EnvironmentProblem("why"), OSError(errno.ENOSPC, "why"), RunFailed("why")])
def test_an_error_of_a_run_is_told_whatever_its_kind(execute, tmp_path, problem):
    outcome = execute(QuickEngine(tmp_path / "calls", {f"{plan().subject}-seed{plan().seed}": raising(problem)}))
    assert outcome.error == "why"


def test_a_full_disk_while_a_run_is_sealed(carry_out, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "raw/x")

    monkeypatch.setattr(Store, "seal", full)
    failures, _, _ = carry_out({}, plans_of("reno"))
    assert failures["reno-seed1"].startswith("No space left on device: raw/x")


def test_a_defect_in_what_comes_after_keeps_the_run(carry_out, monkeypatch):
    monkeypatch.setattr(testbed.runs.run, "judge_and_measure", lambda _: [][0])
    failures, _, _ = carry_out({}, plans_of("reno"))
    assert "IndexError" in failures["reno-seed1"] and carry_out.store.finished(plan().id)
    assert carry_out({}, plans_of("reno"))[1] == []  # the simulation is not repeated


def test_as_many_jobs_as_cpus_and_one_where_runs_disturb_each_other(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {7, 3, 5})

    def most(jobs, parallel=True):
        engine = types.SimpleNamespace(capabilities=types.SimpleNamespace(parallel=parallel))
        return local.Executor(engine, None, jobs)._most

    assert (most(None), most(1), most(5), most(5, parallel=False)) == (3, 1, 5, 1)


def test_a_cpu_that_no_other_command_has_claimed(monkeypatch):
    """Numbers that no machine has: claims of this machine's commands do not matter."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {7007, 7003, 7005})
    first, mark = _cpus.claim([])
    second, other = _cpus.claim([])
    assert (first, second) == (7003, 7005)
    # our own runs count first, then what others claim, then numbers
    assert [_cpus.claim(in_use)[0] for in_use in ([7007], [7003, 7005], [7005, 7007], [7003, 7003, 7005, 7007])] \
        == [7003, 7007, 7003, 7007]
    with mark, other:
        pass
    assert _cpus.claim([])[0] == 7003


def test_a_claim_ends_with_the_last_process_that_has_it(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {7013, 7015})
    _, mark = _cpus.claim([])
    waiting, held = os.pipe()
    child = os.fork()
    if not child:
        os.close(held)
        os.read(waiting, 1)
        os._exit(0)
    mark.close()
    assert _cpus.claim([])[0] == 7015
    os.close(held)
    os.waitpid(child, 0)
    assert _cpus.claim([])[0] == 7013


def test_names_of_runs():
    assert experiment.run_name(plan("libra+bic", 4, {"traffic.load": "60 %"})) == "libra+bic-load60-seed4"

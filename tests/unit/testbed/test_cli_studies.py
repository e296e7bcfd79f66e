# SPDX-License-Identifier: GPL-2.0-only
"""`testbed suite run studies`: which commands, in which order, and how much time is left."""
import pytest

from testbed import cli
from testbed.cli import _estimates, _series, run, suite
from testbed.core import errors
from testbed.core.run_files import RunRecord
from testbed.scenario import scenario, suite_parts, suites


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    (tmp_path / "results").mkdir()


@pytest.fixture
def carried_out(monkeypatch):
    """[(scenario, engines, version, seeds)] of what was run; each study has ten runs of 6 s until it was run."""
    calls: list = []

    def main(arguments):
        calls.append((arguments.scenario, arguments.engine, arguments.quick, arguments.seeds))
        if arguments.scenario == "tcp-on-off":
            raise errors.RunFailed("1 of 10 runs failed")
        return 0

    def left(step, jobs):
        there = step.part.name in [name for name, *_ in calls]
        return _estimates.Left(10, 0 if there else 10, 0 if there else 60 / (jobs or 1))

    monkeypatch.setattr(run, "main", main)
    monkeypatch.setattr(_series, "plans", lambda words, build=True: [])      # without a kernel
    monkeypatch.setattr(suite, "_left", left)
    return calls


def test_every_study_is_a_scenario_and_runs_in_its_engines(carried_out, capsys):
    studies = suites.load("studies")
    names = [part.scenario for part in studies.parts]
    assert set(names) <= set(scenario.names()) and len(set(names)) == len(names)
    only = ",".join(set(names) - {"tcp-on-off"})
    assert cli.main(["suite", "run", "studies", "--quick", "--seeds", "5", "--only", only]) == 0
    by_name = {part.scenario: part for part in studies.parts}
    assert carried_out == [(name, ",".join(by_name[name].engines), True, "5") for name in names if name != "tcp-on-off"]
    assert all(part.engines["uml"] > 0 for part in studies.parts)
    assert cli.main(["suite", "run", "studies", "--engine", "ns2", "--cca", "reno", "--only", "h-shape-1"]) == 0
    assert carried_out[-1] == ("h-shape-1", "ns2", False, None)


def test_time_left_is_told_and_a_failure_keeps_nobody_from_running(carried_out, capsys):
    assert cli.main(["suite", "run", "studies", "--only", "tcp-on-off,h-shape-3"]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert "== h-shape-3: 10 of 10 runs, about 1:00; all that is left: 20 of 20 runs, about 2:00" in lines
    assert "== tcp-on-off: 10 of 10 runs, about 1:00; all that is left: 10 of 10 runs, about 1:00" in lines
    assert [name for name, *_ in carried_out] == ["h-shape-3", "tcp-on-off"]
    assert lines[-1].endswith("1 of 2 parts failed: tcp-on-off")


def test_a_study_named_twice_is_run_once_and_none_is_an_error(carried_out, capsys):
    assert cli.main(["suite", "run", "studies", "--only", "h-shape-3,,h-shape-3 "]) == 0
    assert [name for name, *_ in carried_out] == ["h-shape-3"]
    assert cli.main(["suite", "run", "studies", "--only", " , "]) == 2
    assert "--only: names of parts expected; there are: h-shape-3" in capsys.readouterr().err


def test_the_list_runs_nothing(carried_out, capsys):
    assert cli.main(["suite", "list", "studies", "--jobs", "2", "--only", "h-shape-3,libra-bic"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "bin/testbed run h-shape-3 --engine ns2,uml --jobs 2    10 of 10 runs, about 30.0 s",
        "bin/testbed run libra-bic --jobs 2    10 of 10 runs, about 30.0 s",
        "all: 20 of 20 runs, about 1:00"]
    assert carried_out == []


def test_a_study_that_does_not_exist(capsys):
    assert cli.main(["suite", "run", "studies", "--only", "h-shape-9"]) == 2
    assert "--only h-shape-9: no such part of studies; did you mean h-shape-3 or" in capsys.readouterr().err


def test_what_is_missing_takes_as_long_as_what_is_there(monkeypatch, capsys):
    """Of h-shape-3 with one seed in ns-2, four plans: one is there after the first look."""
    from testbed.runs.store import Store
    there: set = set()
    monkeypatch.setattr(Store, "finished", lambda self, run_id: RunRecord({"wall_s": 4.0}) if run_id in there else None)
    part = suite_parts.Part(name="h-shape-3", scenario="h-shape-3", engines={"ns2": 10.0})
    plans = _series.plans(["run", "h-shape-3", "--engine", "ns2", "--seeds", "1"])
    step = suite._Step(part, [], plans, 1.0, "")
    assert suite._left(step, 1) == _estimates.Left(4, 4, 40.0)
    there.add(plans[0].id)
    assert suite._left(step, 2) == _estimates.Left(4, 3, 6.0)


def test_the_list_builds_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    assert cli.main(["suite", "list", "studies", "--only", "libra-bic"]) == 0
    line, total = capsys.readouterr().out.splitlines()
    assert "libra-bic    the guest kernel is not built yet: `testbed kernel` or the first run" in line
    assert total.startswith("all: the guest kernel is not built yet")
    # what apt has said may be remembered
    assert {path.name for path in (tmp_path / "cache").glob("*")} <= {"apt.json"}

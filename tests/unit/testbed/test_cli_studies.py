# SPDX-License-Identifier: GPL-2.0-only
"""`testbed studies`: which commands, in which order, and how much time is left."""
import pytest

from testbed import cli
from testbed.cli import run, studies
from testbed.core import errors
from testbed.scenario import scenario


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

    def left(study, _words, jobs, build=True):
        there = study.scenario in [name for name, *_ in calls]
        return studies.Left(10, 0 if there else 10, 0 if there else 60 / (jobs or 1))

    monkeypatch.setattr(run, "main", main)
    monkeypatch.setattr(studies, "_left", left)
    return calls


def test_every_study_is_a_scenario_and_runs_in_its_engines(carried_out, capsys):
    names = [study.scenario for study in studies.STUDIES]
    assert set(names) <= set(scenario.names()) and len(set(names)) == len(names)
    assert cli.main(["studies", "--quick", "--seeds", "5", "--only", ",".join(set(names) - {"tcp-on-off"})]) == 0
    by_name = {study.scenario: study for study in studies.STUDIES}
    assert sorted(carried_out) == sorted((name, ",".join(by_name[name].engines), True, "5")
                                         for name in names if name != "tcp-on-off")
    assert all(study.engines["uml"] > 0 for study in studies.STUDIES)


def test_time_left_is_told_and_a_failure_keeps_nobody_from_running(carried_out, capsys):
    assert cli.main(["studies", "--only", "tcp-on-off,h-shape-3"]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert "== tcp-on-off: 10 of 10 runs, about 1:00; all that is left: 20 of 20 runs, about 2:00" in lines
    assert "== h-shape-3: 10 of 10 runs, about 1:00; all that is left: 10 of 10 runs, about 1:00" in lines
    assert [name for name, *_ in carried_out] == ["tcp-on-off", "h-shape-3"]
    assert lines[-1].endswith("1 of 2 studies failed: tcp-on-off")


def test_a_study_named_twice_is_run_once_and_none_is_an_error(carried_out, capsys):
    assert cli.main(["studies", "--only", "h-shape-3,,h-shape-3 "]) == 0
    assert [name for name, *_ in carried_out] == ["h-shape-3"]
    assert cli.main(["studies", "--only", " , "]) == 2
    assert "--only: names of studies expected; there are: h-shape-3" in capsys.readouterr().err


def test_the_list_runs_nothing(carried_out, capsys):
    assert cli.main(["studies", "--list", "--jobs", "2", "--only", "h-shape-3,libra-bic"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "bin/testbed run h-shape-3 --engine ns2,uml --jobs 2    10 of 10 runs, about 30.0 s",
        "bin/testbed run libra-bic --engine uml --jobs 2    10 of 10 runs, about 30.0 s",
        "all: 20 of 20 runs, about 1:00"]
    assert carried_out == []


def test_a_study_that_does_not_exist(capsys):
    assert cli.main(["studies", "--only", "h-shape-9"]) == 2
    assert "--only h-shape-9: no such study; there are: h-shape-3, tcp-on-off" in capsys.readouterr().err


def test_what_is_missing_takes_as_long_as_what_is_there(monkeypatch, capsys):
    """Of h-shape-3 with one seed in ns-2, four plans: one is there after the first look."""
    from testbed.runs.store import Store
    there: set = set()
    monkeypatch.setattr(Store, "finished", lambda self, run_id: {"wall_s": 4.0} if run_id in there else None)
    study = studies.Study("h-shape-3", {"ns2": 10.0})
    words = ["run", "h-shape-3", "--engine", "ns2", "--seeds", "1"]
    assert studies._left(study, words, 1) == studies.Left(4, 4, 40.0)
    monkeypatch.setattr(Store, "finished", lambda self, run_id: (
        {"wall_s": 4.0} if run_id in there or not there and not there.add(run_id) else None))
    assert studies._left(study, words, 2) == studies.Left(4, 3, 6.0)


def test_the_list_builds_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    assert cli.main(["studies", "--list", "--only", "libra-bic"]) == 0
    line, total = capsys.readouterr().out.splitlines()
    assert "libra-bic --engine uml    the guest kernel is not built yet: `testbed kernel` or the first run" in line
    assert total.startswith("all: the guest kernel is not built yet")
    # what apt has said may be remembered
    assert {path.name for path in (tmp_path / "cache").glob("*")} <= {"apt.json"}

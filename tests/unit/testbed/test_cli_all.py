# SPDX-License-Identifier: GPL-2.0-only
"""`testbed suite run all` and run_all.sh: every scenario there is, whatever becomes of one of them."""
import pathlib
import subprocess
import tempfile

import pytest

from testbed import cli
from testbed.cli import _series, run
from testbed.core import errors
from testbed.scenario import scenario
from tests.unit.analysis import fixture

PROJECT = pathlib.Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("quic_programs")
NAMES = sorted(path.stem for path in (PROJECT / "scenarios").glob("*.yaml"))


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def carried_out(monkeypatch, tmp_path):
    """[(scenario, its version, engine, jobs)] of what was run; `.problems`: {scenario: what it raises}."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))     # where tracebacks of bugs are left

    class Calls(list):
        problems: dict = {}

    calls = Calls()

    def main(arguments):
        calls.append((arguments.scenario, arguments.quick, arguments.engine, arguments.jobs))
        if arguments.scenario in calls.problems:
            raise calls.problems[arguments.scenario]
        return 0

    monkeypatch.setattr(run, "main", main)
    monkeypatch.setattr(_series, "plans", lambda words, build=True: [])      # without a kernel
    return calls


@pytest.fixture
def listed(monkeypatch, capsys):
    """listed(*words) -> the commands that `suite list all` names, and what is left out."""
    monkeypatch.setattr(_series, "plans", lambda words, build=True: [])

    def call(*words):
        assert cli.main(["suite", "list", "all", *words]) == 0
        *lines, total = capsys.readouterr().out.splitlines()
        assert total == "all: all 0 runs are there"
        return [line.removesuffix("    all 0 runs are there") for line in lines]
    return call


def test_every_scenario_is_in_the_list(listed):
    lines = listed("--quick")
    assert [line.split()[2] for line in lines] == NAMES
    for name, line in zip(NAMES, lines):
        assert ("--quick" in line) == ("quick" in scenario.versions(name))


def test_what_lasts_long_is_left_out_where_time_is_real(monkeypatch, capsys):
    monkeypatch.setattr(_series, "plans", lambda words, build=True: [])
    assert cli.main(["suite", "list", "all", "--quick", "--engine", "host"]) == 0
    said = capsys.readouterr()
    left_out = [line.split(":")[0] for line in said.err.splitlines()]
    assert "dial-up" in left_out and "bin/testbed run dial-up --quick --engine host" in said.err
    assert sorted([*left_out, *(line.split()[2] for line in said.out.splitlines()[:-1])]) == NAMES


def test_full_versions_with_an_engine(listed, capsys):
    assert listed("--engine", "ns3", "--jobs", "2") == [
        f"bin/testbed run {name} --engine ns3 --jobs 2" for name in NAMES]
    assert listed("--seeds", "4,7")[0] == f"bin/testbed run {NAMES[0]} --seeds 4,7"
    assert cli.main(["suite", "run", "all", "--seeds", "none"]) == 2
    assert capsys.readouterr().err.count("--seeds none: a number, or numbers separated by commas, expected") == 1


def test_what_the_usual_kernel_lacks_is_run_with_the_newest(listed):
    newer = [line.split()[2] for line in listed("--quick") if "--kernel newest" in line]
    assert newer == ["coupled-queues", "l4s", "l4s-overload"]
    assert not any("newest" in line for line in listed("--quick", "--kernel", "6.12"))


def test_the_smallest_versions_are_those_of_scenarios_that_have_one(listed):
    lines = [line for line in listed("--smoke") if "has no smoke version" not in line]
    assert {"access-link", "rtt-fairness"} <= {line.split()[2] for line in lines}
    assert all(line.endswith(" --smoke") for line in lines)
    for line in lines:
        small = scenario.load(line.split()[2], quick="smoke")
        assert len(small.default_ccas) == 2 and "libra" in small.default_ccas
        assert small.timing.duration_us <= 30_000_000
        assert [link["rate_bps"] for link in small.network["links"] if link["bottleneck"]] == 2 * [10_000_000]


def test_a_choice_that_a_version_takes_back_is_not_in_the_name():
    assert scenario.load("rtt-fairness", quick="smoke").parameters == {"buffer": "short", "smoke": True}
    assert scenario.load("rtt-fairness", quick=True).parameters == {"buffer": "short", "rate": "100", "quick": True}
    assert scenario.load("access-link", quick="smoke").parameters == {"load": "60", "smoke": True}


def test_a_version_that_is_not_there_or_one_too_many(capsys):
    assert cli.main(["run", "loss-recovery", "--smoke"]) == 2
    assert "--smoke: scenario loss-recovery has no smoke version" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["run", "access-link", "--smoke", "--quick"])
    assert "not allowed with" in capsys.readouterr().err


def test_what_is_run(carried_out):
    assert cli.main(["suite", "run", "all", "--smoke", "--engine", "ns2", "--jobs", "1"]) == 0
    assert carried_out == [(name, "smoke", "ns2", 1) for name in NAMES if "smoke" in scenario.versions(name)]


def test_one_that_fails_does_not_keep_the_others_from_running(carried_out, results, capsys):
    carried_out.problems = {NAMES[0]: errors.RunFailed("1 of 2 runs failed <b>"), NAMES[1]: IndexError("a bug")}
    assert cli.main(["suite", "run", "all"]) == 4
    assert [name for name, *_ in carried_out] == NAMES
    said = capsys.readouterr()
    assert f"2 of {len(NAMES)} parts failed: {NAMES[0]}, {NAMES[1]}" in said.err
    assert "a bug in the testbed: IndexError: a bug" in said.err
    page = (results / "index.html").read_text()
    assert "2 scenarios could not be run to the end" in page and "1 of 2 runs failed &lt;b&gt;" in page


def test_an_interruption_ends_all_of_them(carried_out, results, capsys):
    carried_out.problems = {NAMES[1]: KeyboardInterrupt()}
    assert cli.main(["suite", "run", "all"]) == 130
    assert len(carried_out) == 2 and not results.exists()
    assert "the same command goes on from here" in capsys.readouterr().err


def test_an_engine_that_is_not_there_is_told_once(carried_out, capsys):
    assert cli.main(["suite", "run", "all", "--engine", "nowhere"]) == 2
    assert carried_out == [] and capsys.readouterr().err.count("no engine 'nowhere'") == 1


def test_the_page_of_all_reports(carried_out, results):
    fixture.write_experiment(results / "demo", ccas=["reno", "cubic"], seeds=[1, 2], shapes={},
                             failed={"cubic-seed2": "Oops"})
    (results / "demo" / "report" / "figures").mkdir(parents=True)
    (results / "demo" / "report" / "index.html").write_text("")
    (results / "demo" / "report" / "figures" / "throughput.svg").write_text("")
    (results / "broken").mkdir()
    (results / "broken" / "experiment.json").write_text("[]")
    (results / "a b").mkdir()
    (results / "a b" / "index.html").write_text("a comparison")
    assert cli.main(["suite", "run", "all", "--smoke"]) == 0
    page = (results / "index.html").read_text()
    assert 'href="demo/report/index.html"' in page and 'src="demo/report/figures/throughput.svg"' in page
    assert "4 runs, 2 seeds" in page and "3 valid" in page and "1 failed" in page
    assert "broken/experiment.json" in page and 'href="a%20b/index.html"' in page
    assert not list(results.glob(".index-*"))


@pytest.mark.parametrize("version, command", [
    ("--smoke", "bin/testbed run access-link --smoke "), ("--full", "bin/testbed run access-link "),
    ("", "bin/testbed run access-link --quick ")])
def test_the_script_runs_the_command_from_anywhere(tmp_path, version, command):
    words = [PROJECT / "run_all.sh", *filter(None, [version]), "--list", "--only", "access-link"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    # a module that is not in the cache is compiled
    assert done.returncode == 0 and all(line.startswith("compiling ") for line in done.stderr.splitlines())
    assert done.stdout.startswith(command + "   ")

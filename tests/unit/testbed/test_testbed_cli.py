# SPDX-License-Identifier: GPL-2.0-only
"""The command line, as far as it needs no guest."""
import argparse
import json
import shlex
import signal

import pytest

import kernel
from testbed import cli, engines, errors, results, scenario, sweep
from testbed.cli import _shared, run
from testbed.engines.base import Problem

SMALL = """\
name: small
topology: {kind: dumbbell, central: {rate: 20 Mbit/s}, edge: {rate: 100 Mbit/s}, left_delays: [0 ms], right_delays: [2 ms]}
traffic: {kind: greedy, target: right_to_left}
timing: {test: 2 s}
defaults: {ccas: [reno, cubic], seeds: 2}
choices: {load: {default: 60, options: {60: {traffic.flows: 1}, 85: {traffic.flows: 2}}}}
quick: {timing.test: 1 s}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing outside of the test's folder is touched, and signal handlers stay as they are."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small.yaml").write_text(SMALL)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("text, seeds", [("1", [1]), ("3", [1, 2, 3]), ("4,7", [4, 7]), ("7,4", [7, 4]), ("4,", [4]), (" 4 , 5 ", [4, 5]), ("4,4,4", [4]), ("99999999999,", [99999999999])])
def test_seeds(text, seeds):
    assert run._seeds(text) == seeds


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ",", "", "1,x", "0,1", "1,-2", str(2**63) + ",", "99999999999", "1-3"])
def test_refused_seeds(text):
    with pytest.raises(errors.UsageError, match="--seeds"):
        run._seeds(text)


def parse(*words):
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("words", [
    [], ["--cca", "reno,bbr"], ["--choose", "load=85", "--choose", "colour=red"], ["--load", "85", "--quick"], ["--seeds", "4,7", "--kernel", "/src/my linux"],
    ["--set", "traffic.load=70 %", "--set", "hosts.ecn=1", "--probe", "tcp_probe", "--engine", "host"]])
def test_the_command_noted_in_the_experiment_gives_the_same_run_again(words):
    arguments = parse("small", *words, "--jobs", "3", "--again")
    typed = shlex.split(run._command(arguments))
    assert typed[:2] == ["bin/testbed", "run"]
    again = vars(parse(*typed[2:]))
    assert again == {**vars(arguments), "jobs": None, "again": False}


def test_jobs_are_a_number_from_one(capsys):
    assert parse("small", "--jobs", "2").jobs == 2
    for text in ("0", "-1", "x", "1.5"):
        with pytest.raises(SystemExit):
            parse("small", "--jobs", text)
    assert "a number from 1 expected" in capsys.readouterr().err


class FakeEngine:
    clock = "virtual"
    trouble = []
    failures = {}

    def __init__(self, options):
        self.options = options

    def problems(self):
        return self.trouble

    def prepare(self, report):
        report("ready")

    def environment(self):
        return {"kernel_release": "6.12.0-testbed"}

    def congestion_controls(self):
        return ("bbr", "cubic", "reno")


@pytest.fixture
def sweeps(monkeypatch):
    """The sweeps that commands start: [(experiment, scenario, engine, subjects, seeds, jobs, keep work, again)]."""
    started = []
    monkeypatch.setattr(engines, "load", lambda name: FakeEngine)
    monkeypatch.setattr(FakeEngine, "failures", {})
    monkeypatch.setattr(sweep, "run_all", lambda *arguments: started.append(arguments) or FakeEngine.failures)
    return started


def test_run_with_defaults(tmp_path, sweeps):
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report"]) == 0
    (experiment, chosen, engine, subjects, seeds, jobs, keep_work, again), = sweeps
    assert ([s.name for s in subjects], seeds, jobs, keep_work, again) == (["reno", "cubic"], [1, 2], None, False, False)
    assert experiment.folder == tmp_path / "results/small-load60" and engine.options == {"kernel": None}
    record = json.loads((experiment.folder / "experiment.json").read_text())
    assert record["runs"] == ["runs/reno-seed1", "runs/cubic-seed1", "runs/reno-seed2", "runs/cubic-seed2"]
    assert record["command"] == f"bin/testbed run {tmp_path}/small.yaml" and record["parameters"] == {"load": "60"}


def test_run_with_options(tmp_path, sweeps):
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report", "--cca", "bbr", "--seeds", "5,", "--load", "85", "--quick", "--jobs", "1",
                     "--probe", "queue", "--set", "hosts.ecn=1", "--again", "--keep-work", "--kernel", "6.12"]) == 0
    (experiment, chosen, engine, subjects, *rest), = sweeps
    assert [s.name for s in subjects] == ["bbr"] and rest == [[5], 1, True, True] and engine.options == {"kernel": "6.12"}
    assert chosen.traffic["flows"] == 2 and chosen.timing.test_us == 10**6 and chosen.hosts["ecn"] == 1 and chosen.probes == {"queue": {}}
    assert experiment.folder.name.startswith("small-load85-quick-set")


def test_failed_runs(tmp_path, sweeps, capsys):
    FakeEngine.failures["reno-seed1"] = "the guest kernel crashed"
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report"]) == 4
    shown = capsys.readouterr().err
    assert "testbed: reno-seed1: the guest kernel crashed" in shown and "1 of 4 runs failed" in shown


def test_what_is_missing_here(tmp_path, sweeps, monkeypatch, capsys):
    monkeypatch.setattr(FakeEngine, "trouble", [Problem("gcc is missing", "apt-get install gcc")])
    assert cli.main(["run", str(tmp_path / "small.yaml")]) == 3 and not sweeps
    assert capsys.readouterr().err == "testbed: gcc is missing (apt-get install gcc); see `testbed doctor`\n"


@pytest.mark.parametrize("words, code, message", [
    (["run", "nosuch"], 2, "no scenario 'nosuch'; there are: access-link"),
    (["run", "SMALL", "--cca", "nosuch"], 2, "no congestion control 'nosuch' in this kernel; there are: bbr, bic, "),
    (["run", "SMALL", "--cca", "a b"], 2, "is not a name"), (["run", "SMALL", "--seeds", "0"], 2, "--seeds 0"), (["run", "SMALL", "--load", "61"], 2, "has load 60, 85"),
    (["run", "SMALL", "--set", "x"], 2, "key=value expected"), (["run", "SMALL", "--probe", "nosuch"], 2, "no such probe"),
    (["report", "nosuch"], 2, "no experiment 'nosuch'"), (["verify", "nosuch"], 2, "not a run folder"),
    (["tmix", "info", "nosuch.cvec"], 2, "no such file"), (["tmix", "synth", "/nonexistent/x", "--duration", "0"], 2, "--duration: seconds above 0"),
    (["tmix", "synth", "/nonexistent/x", "--duration", "1"], 1, "No such file or directory"),
    (["kernel", "--kernel", "/nonexistent"], 3, "neither a version"),
])
def test_errors_are_one_line_and_a_code(tmp_path, sweeps, capsys, words, code, message):
    assert cli.main([str(tmp_path / "small.yaml") if word == "SMALL" else word for word in words]) == code
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("testbed: ") and message in error
    assert not sweeps


@pytest.mark.parametrize("words", [["nosuch"], ["run"], ["run", "x", "--nosuch"], ["list", "nosuch"], ["tmix"], ["tmix", "shuffle", "a", "b"]])
def test_usage_errors_of_the_parser(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2 and "usage: testbed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in cli.command_names())])
def test_help(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0 and "testbed" in capsys.readouterr().out


@pytest.mark.parametrize("problem, code", [
    (KeyboardInterrupt(), 130), (errors.RunFailed("x"), 4), (errors.NotReproducible("x"), 5), (errors.EnvironmentProblem("x"), 3),
    (errors.TestbedError("x"), 1), (errors.ScenarioError("x"), 2), (kernel.KernelError("x"), 3)])
def test_exit_codes(monkeypatch, capsys, problem, code):
    def fail(_name):
        raise problem
    monkeypatch.setattr(results, "find_experiment", fail)
    assert cli.main(["report", "x"]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_sigterm_is_an_interruption(monkeypatch, capsys):
    monkeypatch.setattr(results, "find_experiment", lambda _name: signal.raise_signal(signal.SIGTERM))
    assert cli.main(["report", "x"]) == 143
    assert capsys.readouterr().err == "testbed: ended by SIGTERM\n"


def test_list(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(kernel, "find", lambda spec=None: None)
    assert cli.main(["list", "scenarios", "ccas", "topologies", "traffic", "probes", "runs"]) == 0
    shown = capsys.readouterr().out
    for word in (*scenario.names(), "dumbbell", "tmix", "greedy", "sojourn", "not built yet", "none"):
        assert word in shown


def test_plain_reports_are_not_repeated(capsys):
    report = _shared.reporter()
    for text in ("downloading", "building: 2 %", "building: 4 %", "booting it once"):
        report(text)
    assert capsys.readouterr().err.splitlines() == ["downloading", "building: 2 %", "booting it once"]


def test_verify_refuses_what_did_not_finish_and_notices_changed_files(tmp_path, monkeypatch, capsys):
    run_dir = tmp_path / "results/x/runs/reno-seed1"
    (run_dir / "raw").mkdir(parents=True)
    (run_dir / "raw" / "a.json").write_text("{}")
    (run_dir / "run.json").write_text('{"status": "failed"}')
    assert cli.main(["verify", str(run_dir)]) == 2 and "did not finish" in capsys.readouterr().err
    files, total = results.hash_raw(run_dir)
    (run_dir / "run.json").write_text(json.dumps({"status": "finished", "engine": "uml", "raw_files_sha256": files, "raw_sha256": total}))
    (run_dir / "scenario.json").write_text("{}")
    (run_dir / "environment.json").write_text("{}")
    (run_dir / "raw" / "a.json").write_text("{ }")
    monkeypatch.setattr(engines, "load", lambda name: FakeEngine)
    monkeypatch.setattr(FakeEngine, "environment", lambda self: {}, raising=False)
    assert cli.main(["verify", str(run_dir)]) == 5
    assert "raw files are not as the run left them: a.json" in capsys.readouterr().err

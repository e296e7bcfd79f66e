# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run --engine a,b`: an experiment in each, what one lacks, what goes wrong in one."""
import json

import pytest

from testbed import cli, engines
from testbed.cli import _comparison
from testbed.core.errors import RunFailed
from testbed.core.fields import FieldError
from testbed.runs import campaign
from testbed.runs.engine import Capabilities, Problem
from testbed.scenario import usual_jitter
from tests.unit.core.simple_plans import SMALL, QuickEngine


class Fake(QuickEngine):
    """An engine with options of its own; `lacks`: subjects that it refuses when it sees the plan."""
    lacks: tuple = ()
    trouble: list = []
    has: tuple = ("reno", "cubic")

    def __init__(self, options):
        super().__init__(None)
        self.options = options

    def problems(self):
        return self.trouble

    def congestion_controls(self):
        return self.has

    def parameters(self, kernel_cca):
        return {}

    def cannot(self, plan):
        return FieldError("traffic.kind", f"{plan.subject} goes one way here") if plan.subject in self.lacks else None


class Kernel(Fake):
    OPTIONS = engines.declared()["uml"][:2]


class Simulator(Fake):
    capabilities = Capabilities(clock="simulated", kernel=False, modules=False, probes=("queue",))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(*words) -> exit code; .plans: [(engine, names of runs)], .compared: names of experiments, .failures: what
    comes of runs."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    (tmp_path / "small.yaml").write_text(SMALL)
    kinds = {"uml": type("Uml", (Kernel,), {}), "ns3": type("Ns3", (Simulator,), {}),
             "ns2": type("Ns2", (Simulator,), {"has": ("reno",)})}

    real = engines.load

    def load(name, options=None):
        if name not in kinds:
            return real(name, options)
        engine = kinds[name](options or {})
        engine.name = name
        return engine

    def carry_out(plans, *_):
        call.jitter_us[plans[0].engine] = plans[0].scenario["hosts"]["jitter_us"]
        call.plans.append((plans[0].engine, [f"{plan.subject}-seed{plan.seed}" for plan in plans]))
        return call.failures.get(plans[0].engine, {})

    def call(*words):
        return cli.main(["run", str(tmp_path / "small.yaml"), "--no-report", *words])

    def compare(folders, *_):
        call.compared = [folder.name for folder in folders]
    call.plans, call.failures, call.compared, call.kinds, call.results = [], {}, None, kinds, tmp_path / "results"
    call.jitter_us = {}
    monkeypatch.setattr(engines, "load", load)
    monkeypatch.setattr(campaign, "carry_out", carry_out)
    monkeypatch.setattr(_comparison, "make", compare)
    monkeypatch.setattr("testbed.cli.run._report", lambda arguments, done: {})
    return call


def listed(run, name):
    return json.loads((run.results / name / "experiment.json").read_text())


def with_reports(run, monkeypatch):
    """Reports are wanted, and are made of nothing."""
    main = cli.main
    monkeypatch.setattr(cli, "main", lambda words: main([word for word in words if word != "--no-report"]))


def test_an_experiment_in_each_engine_and_their_comparison(run, monkeypatch):
    with_reports(run, monkeypatch)
    assert run("--engine", "uml, ns3,uml", "--cca", "reno,cubic", "--seeds", "2") == 0
    names = ["reno-seed1", "cubic-seed1", "reno-seed2", "cubic-seed2"]
    assert run.plans == [("uml", names), ("ns3", names)]
    assert run.compared == ["small", "small-ns3"]
    assert listed(run, "small")["command"][3:] == ["--cca", "reno,cubic", "--seeds", "2"]
    assert listed(run, "small-ns3")["command"][3:] == ["--cca", "reno,cubic", "--seeds", "2", "--engine", "ns3"]


def test_what_an_engine_lacks_is_told_and_left_out(run, monkeypatch, capsys):
    with_reports(run, monkeypatch)
    run.kinds["ns3"].lacks = ("cubic",)
    words = ("--cca", "reno,cubic", "--seeds", "1", "--probe", "tcp_probe", "--kernel", "6.1")
    assert run("--engine", "uml,ns3,ns2", *words) == 0
    assert run.plans == [("uml", ["reno-seed1", "cubic-seed1"]), ("ns3", ["reno-seed1"]), ("ns2", ["reno-seed1"])]
    assert run.compared == ["small-kernel6.1", "small-ns3", "small-ns2"]
    said = capsys.readouterr().err
    for words in ("engine ns3 has no probe tcp_probe", "small.yaml:4: traffic.kind: cubic goes one way here",
                  "engine ns2 has no congestion control 'cubic'; it has: reno"):
        assert words in said
    assert listed(run, "small-kernel6.1")["command"][-4:] == ["--kernel", "6.1", "--probe", "tcp_probe"]
    assert listed(run, "small-ns3")["command"][-2:] == ["--engine", "ns3"]


def test_a_simulator_goes_without_the_usual_jitter_of_hosts(run, capsys):
    run.kinds["ns3"].JITTER = False
    assert run("--engine", "ns3", "--cca", "reno") == run("--engine", "uml", "--cca", "reno") == 0
    said = "engine ns3 has no jitter of hosts, which this traffic has by default: its runs are without"
    assert capsys.readouterr().err.count(said) == 1
    assert [run.jitter_us[engine] for engine in ("ns3", "uml")] == [0, 1211]
    assert [usual_jitter.NOTE in listed(run, name)["description"] for name in ("small-ns3", "small")] == [True, False]


def test_engines_that_are_compared_have_the_same_jitter(run, monkeypatch, capsys):
    """Of what nobody asked for none has what one of them has not; two that have it keep it."""
    with_reports(run, monkeypatch)
    run.kinds["ns3"].JITTER = False
    assert run("--engine", "uml,ns3", "--cca", "reno") == 0
    said = capsys.readouterr().err
    assert "engine ns3: no jitter of hosts" in said and "all engines run with --set 'hosts.jitter=0 us'" in said
    assert run.jitter_us == {"uml": 0, "ns3": 0}
    command = listed(run, run.compared[0])["command"]
    assert command[-2:] == ["--set", "hosts.jitter=0 us"] and usual_jitter.NOTE not in listed(run, run.compared[0])[
        "description"]
    assert run("--engine", "uml,ns2", "--cca", "reno") == 0 and run.jitter_us == {"uml": 1211, "ns3": 0, "ns2": 1211}
    assert run("--engine", "uml,ns3", "--cca", "reno", "--set", "hosts.jitter=5 us") == 0
    assert run.jitter_us == {"uml": 5, "ns3": 5, "ns2": 1211}
    assert "all engines run" not in capsys.readouterr().err


@pytest.mark.parametrize("words, message", [
    (("--engine", "uml,nothing"), "no engine 'nothing'"), (("--engine", " ,"), "--engine: a name expected"),
    (("--engine", "ns3,ns2", "--hz", "100"), "engines ns3, ns2 have no option --hz"),
    (("--engine", "uml,ns3", "--cca", ","), "--cca: at least one")])
def test_what_makes_no_sense_in_any_engine_is_refused_at_once(run, capsys, words, message):
    assert run(*words) == 2
    assert message in capsys.readouterr().err and run.plans == []


def test_one_engine_that_cannot_start_keeps_nothing_from_the_others(run, monkeypatch, capsys):
    with_reports(run, monkeypatch)
    run.kinds["ns3"].trouble = [Problem("ns-3's library is missing", "apt-get install libns3-dev")]
    assert run("--engine", "uml,ns3,ns2", "--cca", "reno", "--seeds", "1") == RunFailed.exit_code
    assert [engine for engine, _ in run.plans] == ["uml", "ns2"] and run.compared == ["small", "small-ns2"]
    said = capsys.readouterr().err
    assert "engine ns3: ns-3's library is missing (apt-get install libns3-dev)" in said
    assert said.splitlines()[-1].endswith("engine ns3; the others are kept")


def test_runs_that_fail_in_one_engine_keep_nothing_from_the_others(run, monkeypatch, capsys):
    with_reports(run, monkeypatch)
    run.failures = {"ns3": {"reno-seed1": "the ns3 driver crashed (SIGSEGV)"}}
    assert run("--engine", "ns3,ns2", "--cca", "reno", "--seeds", "1") == RunFailed.exit_code
    assert run.compared == ["small-ns3", "small-ns2"]
    said = capsys.readouterr().err
    assert "reno-seed1: the ns3 driver crashed (SIGSEGV)" in said and "1 of 1 runs of ns3 failed" in said


def test_a_congestion_control_of_no_engine_is_an_error(run, capsys):
    assert run("--engine", "ns3,ns2", "--cca", "reno,bbr", "--seeds", "1") == RunFailed.exit_code
    assert "bbr ran in no engine" in capsys.readouterr().err
    assert [names for _, names in run.plans] == [["reno-seed1"]] * 2


def test_with_one_engine_what_it_lacks_is_an_error(run, capsys):
    run.kinds["ns3"].lacks = ("cubic",)
    assert run("--engine", "ns3", "--cca", "reno,cubic", "--seeds", "1") == RunFailed.exit_code
    assert "not run: cubic; the others are in" in capsys.readouterr().err
    assert run("--engine", "ns3", "--cca", "cubic", "--seeds", "1") == 2
    assert run("--engine", "ns2", "--cca", "cubic", "--seeds", "1") == 2
    assert run("--engine", "ns3", "--probe", "tcp_probe") == 2


AIR = "topology: {kind: mesh, nodes: 4}\ntraffic: {kind: greedy, tool: sockets}\ntiming: {warmup: 0 s, test: 1 s}\n"


@pytest.mark.parametrize("engine", ["host", "vagrant", "ns3", "ns2"])
def test_an_engine_without_radios_says_so_before_it_does_anything(tmp_path, monkeypatch, capsys, engine):
    """A virtual machine is not brought up for that."""
    monkeypatch.setattr(type(engines.load(engine)), "prepare", lambda self, report: pytest.fail("prepared"))
    monkeypatch.setattr(type(engines.load(engine)), "problems", lambda self: pytest.fail("asked"))
    (tmp_path / "air.yaml").write_text(f"name: air\ntitle: none\n{AIR}")
    assert cli.main(["run", str(tmp_path / "air.yaml"), "--engine", engine]) == 2
    assert capsys.readouterr().err.strip().endswith(
        f"air.yaml:3: topology.kind: a network with radios, which engine {engine} has not: uml has")

# SPDX-License-Identifier: GPL-2.0-only
"""testbed sensitivity: which runs it asks for."""
import json
import pathlib

import pytest

from analysis import stats
from testbed import cli, engines
from testbed.cli import _shared, sensitivity
from testbed.runs import campaign
from tests.unit.core.simple_plans import QuickEngine

SCENARIO = """\
name: small
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 2 ms, queue: {limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms]
  right_delays: [2 ms]
traffic: {kind: greedy, tool: sockets}
timing: {warmup: 60 s, test: 120 s}
quick: {timing.warmup: 20 s, timing.test: 60 s}
defaults: {ccas: [reno, cubic, bbr]}
"""


class FakeEngine(QuickEngine):
    """One that has a kernel of 1000 ticks ready, and others when they are asked for."""
    name = "uml"

    def __init__(self, options):
        super().__init__(pathlib.Path("/dev/null"))
        self.options = options

    def problems(self):
        return []

    def prepare(self, report):
        pass

    def find(self):
        return "hz" not in self.options

    def state(self):
        return "the guest kernel is not built yet"

    def kernel_key(self):
        return f"kernel-{self.options.get('hz', 1000)}"

    def environment(self):
        return {"kernel_release": "6.12.0-testbed"}

    def congestion_controls(self):
        return ("bbr", "cubic", "reno")


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Function: words -> (plans in the order of the engines, labels that were left out with the reasons)."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(engines, "load", lambda name, options=None: FakeEngine(dict(options or {})))
    (tmp_path / "small.yaml").write_text(SCENARIO)
    plans, left_out, judged = [], {}, True
    monkeypatch.setattr(campaign, "carry_out", lambda of_group, *_: plans.extend(of_group) or {})
    monkeypatch.setattr(sensitivity, "_report", lambda _folder, _arguments, _titles, without, _plans:
                        left_out.update((one.label, one.reason) for one in without) or judged)

    def ask(*words):
        assert cli.main(["sensitivity", str(tmp_path / "small.yaml"), *words]) == 0
        return plans, left_out
    return ask


def test_every_point_has_all_seeds_and_congestion_controls(asked):
    plans, _ = asked("--cca", "reno,cubic", "--seeds", "2", "--only", "initcwnd,jitter")
    assert {plan.point["knob"] for plan in plans} == {"as-it-is", "initcwnd-2", "no-jitter"}
    assert len({plan.id for plan in plans}) == len(plans) == 3 * 2 * 2
    assert {(plan.subject, plan.seed) for plan in plans} == {
        (name, seed) for name in ("reno", "cubic") for seed in (1, 2)}
    hosts = {plan.point["knob"]: plan.scenario["hosts"] for plan in plans}
    assert hosts["initcwnd-2"]["initcwnd"] == 2
    assert (hosts["as-it-is"]["jitter_us"], hosts["no-jitter"]["jitter_us"]) == (606, 0)


def test_five_seeds_of_the_scenarios_congestion_controls_by_default(asked):
    plans, _ = asked("--only", "fq")
    assert {plan.seed for plan in plans} == {1, 2, 3, 4, 5} and {plan.subject for plan in plans} == {
        "reno", "cubic", "bbr"}


@pytest.mark.parametrize("words, seeds", [([], {1, 2, 3}), (["--seeds", "2"], {1, 2})])
def test_quick_takes_three_seeds_unless_others_are_asked_for(asked, words, seeds):
    plans, _ = asked("--quick", "--only", "fq", *words)
    assert {plan.seed for plan in plans} == seeds


def test_another_kernel_only_if_it_is_there_or_asked_for(asked):
    plans, left_out = asked("--seeds", "1")
    assert left_out["hz-250"] == "the guest kernel is not built yet; --only hz prepares it"
    assert {plan.kernel_key for plan in plans} == {"kernel-1000"}
    plans.clear()
    asked("--seeds", "1", "--only", "hz,fq")
    assert {(plan.point["knob"], plan.kernel_key) for plan in plans} == {
        ("as-it-is", "kernel-1000"), ("fq", "kernel-1000"), ("hz-250", "kernel-250")}


def test_quick_runs_are_short(asked):
    plans, _ = asked("--quick", "--seeds", "1", "--only", "fq")
    assert {(plan.timing.warmup_us, plan.timing.test_us) for plan in plans} == {(3_750_000, 11_250_000)}
    plans.clear()
    asked("--quick", "--seeds", "1", "--only", "fq", "--set", "timing.test=90 s")
    assert {(plan.timing.warmup_us, plan.timing.test_us) for plan in plans} == {(20_000_000, 90_000_000)}


def test_the_experiment_says_what_was_asked(asked, tmp_path):
    asked("--quick", "--cca", "reno,cubic", "--seeds", "4,7", "--only", "fq", "--metric", "goodput", "--margin", "3%")
    folder = tmp_path / "results" / "small-quick-sweep-knob"
    record = json.loads((folder / "experiment.json").read_text())
    assert record["axes"] == {"knob": ["as-it-is", "fq"]} and record["seeds"] == [4, 7]
    assert record["command"] == ["bin/testbed", "sensitivity", f"{tmp_path}/small.yaml", "--cca", "reno,cubic",
                                 "--seeds", "4,7", "--only", "fq", "--quick", "--margin", "3%", "--metric", "goodput"]


def test_nothing_that_could_be_judged_is_a_failure(asked, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sensitivity, "_report", lambda *_: False)
    assert cli.main(["sensitivity", str(tmp_path / "small.yaml"), "--seeds", "1", "--only", "fq"]) == 4
    assert "no variation could be judged" in capsys.readouterr().err


def test_the_margin_is_that_of_the_statistics():
    assert _shared.MARGIN == stats.MARGIN


def test_a_sweep_of_the_scenario_is_told_of(asked, tmp_path, capsys):
    asked("--seeds", "1", "--only", "fq")
    assert "its sweep" not in capsys.readouterr().err
    (tmp_path / "small.yaml").write_text(SCENARIO + "sweep: {axes: {topology.central.queue.limit: '50, 100'}}\n")
    asked("--seeds", "1", "--only", "fq")
    assert "small: its sweep has 2 points (topology.central.queue.limit); this is about the scenario without it" \
        in capsys.readouterr().err

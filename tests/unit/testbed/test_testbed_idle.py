# SPDX-License-Identifier: GPL-2.0-only
"""Companion runs of `--slowdown`: their scenario, and that their connections are those of the run."""
import pytest

import traffic
from testbed.core.errors import UsageError
from testbed.scenario import alone as idle, scenario
from topologies.links.records import Network
from traffic.workload.records import Variant

SMALL = """\
name: small
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 2 ms, queue: {kind: pfifo, limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms, 5 ms]
  right_delays: [2 ms]
traffic: TRAFFIC
timing: {prefill: 1 s, warmup: 1 s, test: 8 s}
probes: {queue: {interval: 10 ms}, tcp_info: {interval: 100 ms}, tcp_probe: {}}
"""
TMIX = "{kind: tmix, target: right_to_left, load: 60 %}"


@pytest.fixture
def load(tmp_path):
    """load(traffic as YAML) -> Scenario"""
    def of(text):
        (tmp_path / "small.yaml").write_text(SMALL.replace("TRAFFIC", text))
        return scenario.load(str(tmp_path / "small.yaml"))
    return of


@pytest.mark.parametrize("text", [
    TMIX, "[{kind: tmix, target: right_to_left, load: 60 %, name: background, start: 1 s, stop: 9 s, mix: connections},"
    " {kind: greedy, tool: sockets}]"])
def test_the_scenario_is_one_that_could_have_been_written(load, text):
    made = idle.scenario_of(load(text))
    traffic.validate(made.traffic, Network(made.network), made.timing)
    assert [component["kind"] for component in made.traffic] == ["tmix-alone"]
    assert made.timing.record() == {"prefill_us": 0, "warmup_us": 0, "test_us": idle.TEST_US,
                                    "duration_us": idle.TEST_US}
    assert set(made.probes) == {"queue", "tcp_info"}
    assert all(settings["interval_us"] >= 10_000_000 for settings in made.probes.values())


def test_its_connections_are_those_of_the_run(load, tmp_path):
    from traffic.replay.plan import read_plan
    loaded = load("{kind: tmix, name: background, target: right_to_left, load: 60 %, start: 1 s}")
    variants = [Variant({"name": "reno", "kernel_cca": "reno"})]
    numbers = []
    for number, one in enumerate((loaded, idle.scenario_of(loaded))):
        context = traffic.Context(tmp_path / str(number), "/x", Network(one.network), 5, one.timing)
        traffic.prepare(one.traffic, variants, context)
        plans = [read_plan(path) for path in sorted(context.work_dir.glob("*source*.plan"))]
        numbers.append({(source, conn): start_us for source, plan in enumerate(plans)
                        for conn, start_us in zip(plan.conn_id, plan.start_us)})
    run, alone = numbers
    assert 20 < len(alone) <= len(run) and set(alone) <= set(run)
    assert {key for key, start_us in run.items() if start_us >= 2_000_000} == set(alone)    # fewer than 2000


@pytest.mark.parametrize("text, count", [
    ("{kind: greedy, tool: sockets}", "no"),
    (f"[{TMIX}, {{kind: tmix, target: left_to_right, load: 60 %}}]", "2")])
def test_one_tmix_component_is_needed(load, text, count):
    with pytest.raises(UsageError, match=f"--slowdown: small has {count} Tmix components"):
        idle.scenario_of(load(text))


def test_a_trace_goes_on_as_long_as_the_companion_run(tmp_path):
    """It is longer than the run, of whose trace it has no more."""
    (tmp_path / "one.trace").write_text("1\n20000\n")
    text = SMALL.replace("TRAFFIC", TMIX).replace(
        "rate: 20 Mbit/s,", f"rate: 20 Mbit/s, trace: {tmp_path / 'one.trace'},")
    (tmp_path / "small.yaml").write_text(text)
    loaded = scenario.load(str(tmp_path / "small.yaml"))
    own, companions = ([link["opportunities"] for link in one.network["links"] if link["bottleneck"]]
                       for one in (loaded, idle.scenario_of(loaded)))
    assert own == 2 * [{"times": [[1000, 1]], "period_us": None}]
    assert companions == 2 * [{"times": [[1000, 1]], "period_us": 10_000_000}]

# SPDX-License-Identifier: GPL-2.0-only
"""Connections of a run, alone on the idle network: the same ones, one after the other, and what load costs them."""
import pytest

from analysis.flows import slowdown
from analysis.flows.completion import last_byte_us
from analysis.read.runs import Run
from tests.kernel.small_runs import small_scenario

OF = {"target": "right_to_left", "load": "60 %"}
TIMING = {"prefill": "1 s", "warmup": "1 s", "test": "5 s"}
DRAWN = 40


@pytest.fixture(scope="module")
def pair(run_scenario):
    """(run, companion)"""
    loaded = run_scenario(small_scenario(traffic={"kind": "tmix", **OF}, timing=TIMING))
    idle = run_scenario(small_scenario(
        traffic={"kind": "tmix-alone", "of": OF, **TIMING, "most": DRAWN}, timing={"test": "600 s"},
        probes={"queue": {"interval": "10 s"}, "tcp_info": {"interval": "10 s"}}))
    return loaded, idle


def test_the_companion_is_valid_and_its_connections_are_those_of_the_run(pair):
    run, idle = pair
    assert idle.json("verdict.json")["verdict"] == "valid"
    alone, loaded = (one.table("connections").set_index(["source", "conn"]) for one in (idle, run))
    assert len(alone) == DRAWN and (alone["status"] == "finished").all()
    same = loaded.loc[alone.index]
    for name in ("initiator", "acceptor", "init_bytes_asked", "acc_bytes_asked", "adus_asked"):
        assert (same[name] == alone[name]).all(), name
    assert (same["scheduled_us"] >= 2_000_000).all()
    assert idle.json("raw/counters.json")["drained"]["right_to_left"]["dropped_packets"] == 0


def test_each_is_alone(pair):
    _, idle = pair
    assert len(slowdown.idle_times(Run(idle.folder))) == DRAWN
    table = idle.table("connections").sort_values("start_us")
    assert (table["start_us"].to_numpy()[1:] - table["end_us"].to_numpy()[:-1] > 2_000_000).all()


def test_what_load_costs(pair):
    """Hardly a connection is faster under load than alone: in one, an answer of a few segments comes 15 ms earlier."""
    run, idle = (Run(one.folder) for one in pair)
    found = {(one.metric, one.scope): one.value for one in slowdown.compute(run, idle)}
    assert found["slowdown_connections", "all"] == DRAWN
    assert 1 <= found["slowdown_p50", "all"] <= found["slowdown_p95", "all"]
    joined = run.frame("connections").merge(slowdown.idle_times(idle), on=["source", "conn"])
    took_s = (last_byte_us(run, joined) - joined["start_us"]) / 1e6
    assert took_s.notna().sum() > DRAWN / 2
    assert (took_s < 0.999 * joined["idle_s"]).sum() <= 2 and not (took_s < 0.9 * joined["idle_s"]).any()

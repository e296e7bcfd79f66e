# SPDX-License-Identifier: GPL-2.0-only
"""Packets that a queue drops after they have waited in it: they are in Little's law as all others are."""
import numpy as np
import pytest

from testbed.checks import littles_law
from tests.kernel.small_runs import small_scenario


@pytest.mark.parametrize("queue", [
    {"kind": "codel", "limit": 100}, {"kind": "fq_codel", "limit": 100}, {"kind": "choke", "limit": 100},
    {"kind": "cake", "limit": "230400 B"}], ids=lambda queue: queue["kind"])
def test_acknowledgements_overload_an_uplink_with_an_aqm(run_scenario, queue):
    """At 50 Mbit/s down some 2000 acknowledgements a second would go up, where there is room for 480."""
    run = run_scenario(small_scenario(topology={
        "kind": "dumbbell", "edge": {"rate": "1 Gbit/s", "queue": {"limit": 10000}},
        "central": {"left_to_right": {"rate": "256 kbit/s", "delay": "10 ms", "queue": queue},
                    "right_to_left": {"rate": "50 Mbit/s", "delay": "10 ms", "queue": {"limit": 170}}},
        "left_delays": ["0 ms"], "right_delays": ["10 ms"]}, **{"timing.warmup": "3 s", "timing.test": "5 s"},
        traffic={"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]}))
    backlog, sojourn = (run.table(name)[lambda table: table["link"] == "left_to_right"]
                        for name in ("backlog", "sojourn"))
    held = littles_law.mean_held({name: backlog[name].to_numpy() for name in backlog}, 3_000_000, 8_000_000)
    sojourn = sojourn[sojourn["t_us"] >= 3_000_000]
    left, dropped = np.sum(sojourn["packets"] * sojourn["mean_us"]) / 5e6, sojourn["dropped_us"].sum() / 5e6
    assert dropped > 0.02 * held
    # who is there at the ends of the 5 s has waited up to 0.2 s of them
    assert left + dropped == pytest.approx(held, rel=0.05)
    told = [check for check in run.json("verdict.json")["checks"] if check["check"] in ("littles_law", "instruments")]
    assert {check["level"] for check in told} == {"ok"}, told


def test_an_aqm_has_forgotten_the_test_before_the_traffic(run_scenario):
    """This RED takes an hour to forget an average queue. Half of the link's rate makes no queue: nothing is dropped."""
    run = run_scenario(small_scenario(**{
        "topology.central": {"rate": "10 Mbit/s", "delay": "1 ms", "queue": {
            "kind": "red", "limit": "60 kB", "min": "5 kB", "max": "15 kB", "burst": 50,
            "bandwidth": "1 kbit/s", "probability": 1.0}},
        "traffic": {"kind": "cbr", "rate": "5 Mbit/s", "paths": ["n4->n1"]}}))
    checks = run.json("raw/checks.json")
    assert all(one["dropped_packets"] > 0 for one in checks["bottlenecks"])
    assert {one["dropped_packets"] for one in run.json("raw/counters.json")["drained"].values()} == {0}
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]

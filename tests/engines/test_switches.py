# SPDX-License-Identifier: GPL-2.0-only
"""A switch in the simulators: a node that forwards, between the same hosts."""
import pytest

from tests.engines.conftest import small_scenario

TREE = small_scenario(topology={"kind": "two-hosts", "left": {"rate": "10 Mbit/s", "delay": "5 ms",
                                                              "queue": {"limit": 50}}},
                      **{"timing.warmup": "1 s", "timing.test": "1 s"})


@pytest.mark.parametrize("engine", ["ns2", "ns3"])
def test_two_hosts(run_in, engine):
    finished = run_in(engine, TREE)
    verdict = finished.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert any(one["check"] == "conservation" and one["message"].startswith("s1: ") for one in verdict["checks"])
    assert finished.metrics()["throughput_mean", "n2_to_s1"] == pytest.approx(10, rel=0.02)

# SPDX-License-Identifier: GPL-2.0-only
"""Media by NADA in virtual time: the delay that its equations say."""
import pytest

from tests.kernel.small_runs import small_scenario


@pytest.mark.parametrize("rate, expected_mbps, wait_ms", [("20 Mbit/s", 1.5, 0), ("1 Mbit/s", 1.0, 15)])
def test_alone_it_takes_all_and_waits_as_its_signal_says(run_scenario, rate, expected_mbps, wait_ms):
    """XREF * most / rate: 10 ms * 1.5 / 1 where the link has 1 Mbit/s; where that is no bottleneck, nothing waits."""
    run = run_scenario(small_scenario(traffic={"kind": "nada", "paths": ["n4->n1"]}, **{
        "topology.central.rate": rate, "timing.prefill": "0 s", "timing.warmup": "20 s", "timing.test": "20 s"}))
    assert run.json("verdict.json")["verdict"] == "valid"
    flow, = run.json("raw/guest.json")["traffic"]["nada"]["flows"]
    assert flow["lost_packets"] == 0
    assert flow["received_bytes"] * 8 / 40e6 == pytest.approx(expected_mbps * 1000 / 1014, rel=0.06)
    assert (flow["delay_p50_us"] - flow["delay_min_us"]) / 1000 == pytest.approx(wait_ms, abs=3)

# SPDX-License-Identifier: GPL-2.0-only
"""Several components in one run, and constant bit rate, in virtual time."""
import pytest

from tests.kernel import documented
from tests.kernel.small_runs import small_scenario

TMIX = {"kind": "tmix", "target": "right_to_left", "load": "50 %"}


def account(run, component):
    return run.json("raw/guest.json")["traffic"][component]


def checks(run):
    """Messages of the checks; the run is valid, but for what a load of a few seconds cannot be: steady."""
    verdict = run.json("verdict.json")
    assert not [reason for reason in verdict["reasons"] if "second and last third" not in reason["message"]]
    return [check["message"] for check in verdict["checks"]]


@pytest.mark.parametrize("rate, packet, lost", [("5 Mbit/s", "1000 B", False), ("12 Mbit/s", "1500 B", True)])
def test_constant_bit_rate_is_exact_and_every_loss_is_accounted_for(run_scenario, rate, packet, lost):
    run = run_scenario(documented.scenario("howto/cbr.md").replace("5 Mbit/s", rate).replace("1000 B", packet))
    flow, = account(run, "cbr")["flows"]
    packets = {"5 Mbit/s": 3_000_000 / 1622.4, "12 Mbit/s": 3_000_000 / (1514 * 8 / 12)}[rate]
    assert flow["sent_packets"] == pytest.approx(packets, abs=1) and flow["reordered_packets"] == 0
    drops = run.json("raw/counters.json")["drained"]["right_to_left"]["dropped_packets"]
    assert flow["lost_packets"] == drops and bool(drops) == lost
    if lost:        # what does not fit into link and queue
        assert drops == pytest.approx(packets / 6 - 50, abs=2)
    assert any("packets sent =" in message for message in checks(run))


def test_each_connection_uses_the_congestion_control_of_its_share(run_scenario):
    run = run_scenario(small_scenario(**{
        "traffic": {**TMIX, "mix": "connections"}, "timing.prefill": "2 s", "timing.test": "5 s"}), cca="reno+bic")
    assert any("sockets of 18 flows said that they use bic, reno" in message for message in checks(run))
    flows, samples = run.json("raw/workload.json")["flows"], run.table("tcp_info")
    seen = 0
    for flow in flows:
        for mine in (samples[(samples["node"] == flow["sender"]) & (samples["dport"] == flow["dport"])],
                     samples[(samples["node"] == flow["receiver"]) & (samples["sport"] == flow["dport"])]):
            seen += len(mine)
            assert set(mine["cca"]) <= {flow["cca"]}
    assert seen == len(samples)
    connections = run.table("connections")
    asked = connections.merge(run.table("connections").groupby("aport").size().rename("n"), on="aport")
    assert len(connections) == sum(flow["connections"] for flow in flows) == asked["n"].count()
    assert not connections.duplicated(["source", "conn"]).any()


def test_components_side_by_side(run_scenario):
    """Tmix in the background, a greedy flow with another congestion control that comes later, and a constant rate."""
    run = run_scenario(small_scenario(**{"timing.prefill": "1 s", "timing.test": "4 s", "traffic": [
        {**TMIX, "name": "background", "load": "30 %", "cca": "reno"},
        {"kind": "greedy", "tool": "sockets", "paths": ["n4->n1"], "start": "2 s", "stop": "5 s"},
        {"kind": "cbr", "paths": ["n6->n3"], "rate": "1 Mbit/s"}]}))
    messages = checks(run)
    assert any("sockets of 10 flows said that they use cubic, reno" in message for message in messages)
    assert any("lost of 1 UDP flows" in message for message in messages)
    connections = run.table("connections")
    assert not connections["status"].str.startswith("failed").any() and len(connections) > 100
    flow, = [flow for flow in run.json("raw/workload.json")["flows"] if flow["component"] == "greedy"]
    samples = run.table("tcp_info")
    mine = samples[(samples["node"] == flow["sender"]) & (samples["dport"] == flow["dport"])]
    mine = mine[mine["state"] == "ESTAB"]
    assert mine["t_us"].min() == 2_100_000 and mine["t_us"].max() <= 5_000_000

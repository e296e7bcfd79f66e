# SPDX-License-Identifier: GPL-2.0-only
"""The H, and what topology files are to Mininet's own command: no network is started."""
import pytest

import topologies
from topologies.base import TopologyError, mininet_command

TEN = {"rate_bps": 10**7, "delay_us": 10_000}
H = {"kind": "h-shape", "central": TEN, "edge": {**TEN, "queue": {"limit": 20}}, "cross": {"rate_bps": 10**9}}


def custom(path):
    """What `mn --custom` makes of a topology file: it has no name there, and no place."""
    found = {}
    with open(path, encoding="utf-8") as source:
        exec(compile(source.read(), path, "exec"), found, found)
    return found


def test_the_h_has_the_studies_names_and_round_trips():
    network = topologies.resolve(H)
    assert [(node["name"], node["role"], node["side"]) for node in network["nodes"]] == [
        ("n2", "router", "left"), ("n3", "router", "right"), ("n1", "host", "left"), ("n5", "host", "left"),
        ("n7", "host", "left"), ("n4", "host", "right"), ("n6", "host", "right"), ("n8", "host", "right")]
    assert [(path["initiator"], path["acceptor"], path["base_rtt_us"], path["hops"]) for path in network["paths"]] == [
        ("n1", "n4", 60_000, ["n1_to_n2", "left_to_right", "n3_to_n4"]),
        ("n5", "n6", 60_000, ["n5_to_n2", "left_to_right", "n3_to_n6"]),
        ("n7", "n8", 20_000, ["n7_to_n2", "left_to_right", "n3_to_n8"])]
    assert [link["name"] for link in network["links"] if link["bottleneck"]] == ["left_to_right", "right_to_left"]
    assert {link["capacity_packets"] for link in network["links"] if link["name"] in ("n1_to_n2", "n3_to_n6")} == {20}


@pytest.mark.parametrize("file, name, hosts, links", [
    ("dumbbell.py", "dumbbell", 8, 7), ("h_shape.py", "h-shape", 8, 7), ("parking_lot.py", "parking-lot", 12, 11),
    ("star.py", "star", 10, 9), ("hybrid.py", "hybrid", 5, 4), ("chain.py", "chain", 6, 5),
    ("two_hosts.py", "two-hosts", 3, 2)])
def test_topology_files_offer_themselves_to_mn(file, name, hosts, links, monkeypatch):
    monkeypatch.chdir(topologies.__path__[0])
    found = custom(file)
    topo = found["topos"][name]()
    assert (len(topo.hosts()), len(topo.links()), topo.switches()) == (hosts, links, [])
    assert found["LINKS"].keys() == {"default", "tc", "tcu", "ovs", "emulated"}
    for node in topo.hosts():
        what = topo.nodeInfo(node)
        if topo.role(node) == "switch":
            assert what["cls"] is mininet_command.BridgeNode and what["ip"] is None
            continue
        assert what["ip"] == f"{topo.address_of(node)}/24" and what["cls"] is mininet_command.RoutedNode
        # the only router there is is on every network
        assert bool(what["routes"]) == ((name, node) != ("star", "r1"))
        assert what["forwards"] == (topo.role(node) == "router")
    for _, _, link in topo.links(withInfo=True):
        assert (link["params1"]["out"], link["params1"]["back"]) == (link["params2"]["back"], link["params2"]["out"])
        assert link["params1"]["out"]["device"] == f"{link['node1']}-eth{link['port1']}"
    with pytest.raises(TopologyError, match=f"--topo {name}: takes no values"):
        found["topos"][name](3)


def test_our_links_need_our_topologies():
    with pytest.raises(TopologyError, match="--link emulated: only for topologies of the testbed"):
        mininet_command.EmulatedInterface("h1-eth0")

# SPDX-License-Identifier: GPL-2.0-only
"""Networks with switches, and chains; no network is started."""
import pytest

import topologies
from testbed.core.fields import FieldError
from topologies.base import EmulatedTopo, TopologyError, mininet_command
from topologies.links.link import Link
from topologies.linux import network

FAST = Link(rate_bps=10**7, delay_us=1000)
TEN = {"rate_bps": 10**7, "delay_us": 10_000}


class Office(EmulatedTopo):
    """a, b - s1 - s2 - c, r1; behind r1 another network, of the hosts d and e at s3, and f at a link of its own"""

    def build(self, section):
        for name in ("s1", "s2", "s3"):
            self.switch(name)
        for name in "abcdef":
            self.host(name)
        self.router("r1")
        for one, other in (("s1", "s2"), ("a", "s1"), ("b", "s1"), ("s2", "c"), ("r1", "s2"), ("r1", "s3"), ("d", "s3"),
                           ("s3", "e"), ("f", "r1")):
            self.link(one, other, FAST, FAST)
        for pair in ("ab", "ac", "ad", "ef"):
            self.path(*pair)


@pytest.fixture(scope="module")
def office():
    return Office(())


def nodes(topo):
    return {node["name"]: node for node in topo.describe()["nodes"]}


def test_what_switches_join_is_one_network(office):
    found = nodes(office)
    assert {name: node["addresses"] for name, node in found.items()} == {
        "s1": [], "s2": [], "s3": [], "a": ["10.0.1.1"], "b": ["10.0.1.2"], "c": ["10.0.1.3"],
        "r1": ["10.0.1.4", "10.0.6.1", "10.0.9.2"], "d": ["10.0.6.2"], "e": ["10.0.6.3"], "f": ["10.0.9.1"]}
    links = office.describe()["links"]
    assert {link["name"] for link in links if not link["address"]} == {
        "s1_to_s2", "s2_to_s1", "s1_to_a", "s1_to_b", "s2_to_c", "s2_to_r1", "s3_to_r1", "s3_to_d", "s3_to_e"}
    assert len({link["mac"] for link in links}) == len(links)


def test_hosts_reach_each_other_directly_and_others_by_the_router(office):
    found = nodes(office)
    assert found["a"]["routes"] == [["10.0.1.2/32", "10.0.1.2", "a-eth0"], ["10.0.1.3/32", "10.0.1.3", "a-eth0"],
                                    ["default", "10.0.1.4", "a-eth0"]]
    assert [one[0] for one in found["a"]["neighbours"]] == ["10.0.1.2", "10.0.1.3", "10.0.1.4"]
    assert found["f"]["routes"] == [["default", "10.0.9.2", "f-eth0"]] and "neighbours" not in found["f"]
    assert found["r1"]["routes"] == found["s1"]["routes"] == []
    macs = {link["mac"]: link["from"] for link in office.describe()["links"]}
    assert [(macs[mac], device) for mac, device in found["s2"]["forwarding"]] == [
        ("a", "s2-eth0"), ("b", "s2-eth0"), ("c", "s2-eth1"), ("r1", "s2-eth2")]
    assert [(macs[mac], device) for mac, device in found["s3"]["forwarding"]] == [
        ("r1", "s3-eth0"), ("d", "s3-eth1"), ("e", "s3-eth2")]
    # addresses and link-layer addresses of neighbours belong together
    by_address = {link["address"]: link["mac"] for link in office.describe()["links"] if link["address"]}
    assert all(by_address[address] == mac for node in found.values() for address, mac, _ in node.get("neighbours", ()))


def test_paths_through_switches(office):
    assert [(path.base_rtt_us, path.hops) for path in office.paths] == [
        (4000, ["a_to_s1", "s1_to_b"]), (6000, ["a_to_s1", "s1_to_s2", "s2_to_c"]),
        (10_000, ["a_to_s1", "s1_to_s2", "s2_to_r1", "r1_to_s3", "s3_to_d"]),
        (6000, ["e_to_s3", "s3_to_r1", "r1_to_f"])]


def test_switches_are_joined_before_hosts():
    class Late(EmulatedTopo):
        def build(self, section):
            self.switch("s1"), self.switch("s2"), self.host("a"), self.host("b")
            for one, other in (("a", "s1"), ("b", "s2"), ("s1", "s2")):
                self.link(one, other, FAST, FAST)
    with pytest.raises(TopologyError, match="s1 and s2 have hosts already: join switches first"):
        Late(())


def test_a_network_has_254_addresses():
    class Many(EmulatedTopo):
        def build(self, section):
            self.switch("s1")
            for number in range(section):
                self.link(self.host(f"h{number}"), "s1", FAST, FAST)
    assert nodes(Many(254))["h253"]["addresses"] == ["10.0.1.254"]
    with pytest.raises(TopologyError, match="h254-s1: more than 254 hosts and routers"):
        Many(255)


def test_two_hosts():
    found = topologies.resolve({"kind": "two-hosts", "left": TEN})
    assert [(node["name"], node["role"], node["side"]) for node in found["nodes"]] == [
        ("n1", "host", "left"), ("s1", "switch", ""), ("n2", "host", "right")]
    path, = found["paths"]
    assert (path["base_rtt_us"], path["hops"], path["hops_back"]) == (
        40_000, ["n1_to_s1", "s1_to_n2"], ["n2_to_s1", "s1_to_n1"])
    assert [(link["name"], link["direction"], link["ifindex"]) for link in found["links"]] == [
        ("n1_to_s1", "left_to_right", 1001), ("s1_to_n1", "right_to_left", 1002),
        ("s1_to_n2", "left_to_right", 1003), ("n2_to_s1", "right_to_left", 1004)]
    differ = topologies.resolve({"kind": "two-hosts", "left": TEN, "right": {
        "left_to_right": {"rate_bps": 10**6}, "right_to_left": {"rate_bps": 10**8}}})
    assert [link["rate_bps"] for link in differ["links"]] == [10**7, 10**7, 10**6, 10**8]
    complete = topologies.complete({"kind": "two-hosts", "left": TEN})
    assert topologies.resolve(complete) == found
    with pytest.raises(FieldError, match="is missing") as problem:
        topologies.resolve({"kind": "two-hosts", "left": TEN, "right": {}})
    assert problem.value.field == "right.rate"


def test_a_chain():
    found = topologies.resolve({"kind": "chain", "links": [TEN, {"rate_bps": 10**6}], "edge": {"rate_bps": 10**9},
                                "left_delays_us": [0, 5000], "right_delays_us": [1000]})
    assert [(path["initiator"], path["acceptor"], path["base_rtt_us"]) for path in found["paths"]] == [
        ("n1", "n3", 22_000), ("n2", "n3", 32_000)]
    assert found["paths"][1]["hops"] == ["n2_to_r1", "r1_to_r2", "r2_to_r3", "r3_to_n3"]
    assert [(link["name"], link["rate_bps"]) for link in found["links"] if link["bottleneck"]] == [
        ("r1_to_r2", 10**7), ("r2_to_r1", 10**7), ("r2_to_r3", 10**6), ("r3_to_r2", 10**6)]
    with pytest.raises(FieldError, match="a list of at least 1"):
        topologies.resolve({"kind": "chain", "links": [], "edge": {"rate_bps": 10**9}})


def test_mininet_gets_a_bridge(monkeypatch, office):
    """What a switch's namespace is told, by Mininet's own command as in a run."""
    told = []
    monkeypatch.setattr(network, "batch", lambda program, lines: told.append((program, lines)))
    network.bridge(["s3-eth0", "s3-eth1"], [["02:00:00:00:05:01", "s3-eth0"]])
    (_, made), (_, known) = told
    assert [program for program, _ in told] == ["ip", "bridge"]
    assert "stp_state 0 forward_delay 0" in made[0] and made[-1] == "link set br0 up"
    assert "link set s3-eth1 type bridge_slave learning off flood off mcast_flood off" in made
    assert known == ["fdb replace 02:00:00:00:05:01 dev s3-eth0 master static"]
    what = office.nodeInfo("s3")
    assert what["cls"] is mininet_command.BridgeNode and what["ip"] is None and len(what["forwarding"]) == 3
    assert [one[0] for one in office.nodeInfo("d")["neighbours"]] == ["10.0.6.1", "10.0.6.3"]

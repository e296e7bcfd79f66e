# SPDX-License-Identifier: GPL-2.0-only
"""Addresses, routes, paths and numbering of topologies; no network is started."""
import importlib
import ipaddress
import json
import sys

import pytest
from hypothesis import given, settings, strategies as st

import topologies
from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base import BOTTLENECK_IFINDEX, EmulatedTopo, TopologyError
from topologies.dumbbell import Dumbbell
from topologies.links.link import Link

SECTION = {"kind": "dumbbell",
           "central": {"rate_bps": 10**8, "delay_us": 2000, "queue": {"kind": "pfifo", "limit": 850}},
           "edge": {"rate_bps": 10**8, "queue": {"limit": 10_000}},
           "left_delays_us": [0, 12_000, 25_000], "right_delays_us": [2000, 37_000, 75_000]}
LOT = {"kind": "parking-lot", "links": [{"rate_bps": 10**8, "delay_us": 10_000}] * 3, "access": {"rate_bps": 10**9},
       "hosts": [{"router": 1}, *({"router": number, "delay_us": 10_000} for number in (1, 2, 2, 3, 3, 4)),
                 {"router": 4}],
       "paths": ["n1-n8", "n2-n3", "n4-n5", "n6-n7"]}
FAST = Link(rate_bps=10**7)


def dumbbell(**changes):
    return topologies.resolve({**SECTION, **changes})


def test_the_suites_round_trip_times():
    """tcpeval, access link: nine paths from 8 to 204 ms."""
    paths = dumbbell()["paths"]
    assert [(p["source"], p["initiator"], p["acceptor"], p["base_rtt_us"]) for p in paths] == [
        (0, "n1", "n4", 8000), (1, "n1", "n5", 78_000), (2, "n1", "n6", 154_000),
        (3, "n2", "n4", 32_000), (4, "n2", "n5", 102_000), (5, "n2", "n6", 178_000),
        (6, "n3", "n4", 58_000), (7, "n3", "n5", 128_000), (8, "n3", "n6", 204_000)]
    assert paths[0]["hops"] == ["n1_to_r1", "left_to_right", "r2_to_n4"]
    assert paths[0]["hops_back"] == ["n4_to_r2", "right_to_left", "r1_to_n1"]


def test_description():
    description = dumbbell()
    assert [(n["name"], n["role"], n["side"]) for n in description["nodes"]] == [
        ("r1", "router", "left"), ("r2", "router", "right"), ("n1", "host", "left"), ("n2", "host", "left"),
        ("n3", "host", "left"),
        ("n4", "host", "right"), ("n5", "host", "right"), ("n6", "host", "right")]
    assert len(description["links"]) == 14
    central = [link for link in description["links"] if link["bottleneck"]]
    assert [(link["name"], link["from"], link["to"], link["device"], link["peer_device"],
             link["ifindex"]) for link in central] == [
        ("left_to_right", "r1", "r2", "r1-eth0", "r2-eth0", BOTTLENECK_IFINDEX),
        ("right_to_left", "r2", "r1", "r2-eth0", "r1-eth0", BOTTLENECK_IFINDEX + 1)]
    assert central[0]["rate_bps"] == 10**8 and central[0]["limit_packets"] == 850 and central[0]["queue"] == "pfifo"
    addresses = [a for node in description["nodes"] for a in node["addresses"]]
    assert len(addresses) == len(set(addresses)) == 14
    first = description["paths"][0]
    assert (first["initiator_address"], first["acceptor_address"]) == ("10.0.2.1", "10.0.5.1")


def test_both_directions_may_differ():
    links = dumbbell(central={"left_to_right": {"rate_bps": 10**6, "loss_percent": 1},
                              "right_to_left": {"rate_bps": 10**9, "delay_us": 9}})["links"]
    assert [(link["rate_bps"], link["delay_us"], link["loss_percent"]) for link in links[:2]] == [
        (10**6, 0, 1), (10**9, 9, 0)]


@pytest.mark.parametrize("field, changes, message", [
    ("kind", {"kind": "ring"}, "no topology 'ring'; there are: chain, dumbbell, h-shape, hybrid, low-rate"),
    ("kind", {"kind": None}, "is missing"), ("kind", {"kind": 3}, "no topology 3"),
    ("central", {"central": 3}, "a mapping expected, not 3"), ("central.rate", {"central": {}}, "is missing"),
    ("central.queue.limit", {"central": {"rate_bps": 10**6, "queue": {"limit": -1}}}, "must be at least 0"),
    ("central.queue.limit", {"central": {"rate_bps": 10**6, "queue": {"limit": 0}}}, "from 1 to 4294967295 packets"),
    ("central.left_to_right.rate", {"central": {"left_to_right": {"rate_bps": 0},
                                                "right_to_left": {"rate_bps": 10**6}}},
     "must be at least 1 kbit/s"),
    ("central.left_to_right", {"central": {"left_to_right": "fast", "right_to_left": {"rate_bps": 10**6}}},
     "a mapping"),
    ("central.right_to_left", {"central": {"left_to_right": {"rate_bps": 10**6}}}, "is missing"),
    ("central.rate", {"central": {"left_to_right": {"rate_bps": 10**6}, "rate_bps": 5}},
     "fields are: left_to_right, right_to_left"),
    ("edge.rate", {"edge": {}}, "is missing"),
    ("edge.delay", {"edge": {"rate_bps": 10**6, "delay_us": 3}}, "fields are: rate, queue"),
    ("left_delays", {"left_delays_us": []}, "a list of at least 1"),
    ("left_delays", {"left_delays_us": None, "left_delays": []}, "a list of at least 1"),
    ("left_delays", {"left_delays_us": [0] * 101}, "a list of at most 100"),
    ("right_delays", {"right_delays_us": [-1]}, "must be at least 0 us"),
    ("right_delays", {"right_delays_us": ["x"]}, "such as '20 ms'"),
    ("left_delays", {"left_delays_us": 5}, "a list expected"),
    ("right_delays", {"right_delays_us": [2**63]}, "must be at most 274 s"),
    ("left_delays", {"left_delays_us": None, "left_delays": [1]}, "such as '20 ms'"),
    ("speed", {"speed_bps": 1}, "unknown field; fields are: central, edge, left_delays, right_delays"),
])
def test_refused_sections(field, changes, message):
    with pytest.raises(FieldError, match=message) as problem:
        dumbbell(**changes)
    assert problem.value.field == field


def test_a_missing_section_is_refused():
    for field in ("central", "edge", "left_delays_us", "right_delays_us"):
        with pytest.raises(FieldError, match="is missing") as problem:
            topologies.resolve({k: v for k, v in SECTION.items() if k != field})
        assert problem.value.field == fields.plain(field)
    for section in (None, 3, [], "dumbbell"):
        with pytest.raises(FieldError, match="a mapping expected"):
            topologies.resolve(section)


@pytest.mark.parametrize("section", [SECTION, LOT], ids=["dumbbell", "parking-lot"])
def test_a_completed_section_gives_the_same_network(section):
    before = json.dumps(section)
    complete = topologies.complete(section)
    assert json.loads(json.dumps(complete)) == complete == topologies.complete(complete)
    network = topologies.resolve(section)
    assert network == topologies.resolve(complete) == json.loads(json.dumps(network.content()))
    assert json.dumps(section) == before


# -- parking lot ----------------------------------------------------------------------------

def test_parking_lot():
    """Three bottlenecks in a row, of which each cross path has one; all round trips take 60 ms."""
    network = topologies.resolve(LOT)
    assert [(p["initiator"], p["acceptor"], p["base_rtt_us"]) for p in network["paths"]] == [
        ("n1", "n8", 60_000), ("n2", "n3", 60_000), ("n4", "n5", 60_000), ("n6", "n7", 60_000)]
    assert network["paths"][0]["hops"] == ["n1_to_r1", "r1_to_r2", "r2_to_r3", "r3_to_r4", "r4_to_n8"]
    assert network["paths"][2]["hops_back"] == ["n5_to_r3", "r3_to_r2", "r2_to_n4"]
    assert [(l["name"], l["direction"], l["ifindex"]) for l in network["links"] if l["bottleneck"]] == [
        ("r1_to_r2", "left_to_right", 1001), ("r2_to_r1", "right_to_left", 1002),
        ("r2_to_r3", "left_to_right", 1003), ("r3_to_r2", "right_to_left", 1004),
        ("r3_to_r4", "left_to_right", 1005), ("r4_to_r3", "right_to_left", 1006)]
    assert {l["direction"] for l in network["links"] if not l["bottleneck"]} == {""}


def test_links_of_a_parking_lot_may_differ():
    network = topologies.resolve({**LOT, "links": [
        {"rate_bps": 10**6}, {"left_to_right": {"rate_bps": 10**7},
                              "right_to_left": {"rate_bps": 10**8, "delay_us": 7}},
        {"rate_bps": 10**9, "queue": {"kind": "red", "limit_us": 50_000}}]})
    assert [(l["rate_bps"], l["delay_us"], l["queue"]) for l in network["links"][:6]] == [
        (10**6, 0, "pfifo"), (10**6, 0, "pfifo"), (10**7, 0, "pfifo"), (10**8, 7, "pfifo"), (10**9, 0, "red"),
        (10**9, 0, "red")]


@pytest.mark.parametrize("field, changes, message", [
    ("links", {"links": []}, "at least 1"), ("links", {"links": {"rate_bps": 10**6}}, "a list expected"),
    ("links.2.rate", {"links": [{"rate_bps": 10**6}, {}]}, "is missing"),
    ("links.1.right_to_left.rate", {"links": [{"left_to_right": {"rate_bps": 10**6}, "right_to_left": {}}]},
     "is missing"),
    ("hosts.2.router", {"hosts": [{"router": 1}, {"router": 5}]}, "no router 5: 3 links join 4"),
    ("hosts.1.router", {"hosts": [{"router": 0}, {"router": 1}]}, "at least 1"),
    ("hosts", {"hosts": [{"router": 1}]}, "at least 2"),
    ("paths", {"paths": ["n1-n9"]}, "n1-n9: there is no host n9, the last is n8"),
    ("paths", {"paths": ["n1-n1"]}, "two different"),
    ("paths", {"paths": ["n1->n2"]}, "such as 'n1-n8'"), ("paths", {"paths": ["n1-n2", "n1-n2"]}, "listed twice"),
    ("paths", {"paths": []}, "at least 1"), ("access.delay", {"access": {"rate_bps": 10**9, "delay_us": 5}},
                                             "unknown field"),
])
def test_refused_parking_lots(field, changes, message):
    with pytest.raises(FieldError, match=message) as problem:
        topologies.resolve({**LOT, **changes})
    assert problem.value.field == field


# -- any topology ---------------------------------------------------------------------------

def test_topologies_are_found_by_listing():
    assert {"chain", "dumbbell", "h-shape", "parking-lot", "star", "two-hosts"} <= set(topologies.names())
    assert topologies.load("dumbbell") is Dumbbell


STAR = '''
import dataclasses
from testbed.core import fields
from topologies.base import EmulatedTopo
from topologies.links.link import Link

@dataclasses.dataclass(frozen=True)
class StarSection:
    hosts: int = fields.count(least=2, most=50)
    link: Link = fields.section(Link)

class Star(EmulatedTopo):
    Section = StarSection

    def build(self, section):
        self.router("r1")
        for number in range(1, section.hosts + 1):
            self.link(self.host(f"n{number}"), "r1", section.link, section.link, bottleneck=True)
        self.path("n1", "n2")
'''


def test_a_topology_is_one_file(tmp_path, monkeypatch):
    """Written into a folder of topologies it is there, with its own fields; removed it is gone."""
    monkeypatch.setattr(topologies, "__path__", [*topologies.__path__, str(tmp_path)])
    file = tmp_path / "wheel_of_a_test.py"
    try:
        file.write_text(STAR)
        importlib.invalidate_caches()
        assert "wheel-of-a-test" in topologies.names()
        network = topologies.resolve({"kind": "wheel-of-a-test", "hosts": 5,
                                      "link": {"rate_bps": 10**6, "delay_us": 100}})
        assert len(network["links"]) == 10 and network["paths"][0]["base_rtt_us"] == 400
        with pytest.raises(FieldError, match="at least 2") as problem:
            topologies.resolve({"kind": "wheel-of-a-test", "hosts": 1, "link": {"rate_bps": 10**6}})
        assert problem.value.field == "hosts"
        sys.modules.pop("topologies.wheel_of_a_test")
        file.write_text("x = 1\n# a file of another length\n")
        importlib.invalidate_caches()
        with pytest.raises(TopologyError, match="no subclass of EmulatedTopo"):
            topologies.load("wheel-of-a-test")
    finally:
        file.unlink()
        sys.modules.pop("topologies.wheel_of_a_test", None)
    assert "wheel-of-a-test" not in topologies.names()


class Chain(EmulatedTopo):
    """Routers in a row, hosts at them."""

    def build(self, section):
        routers, hosts, bottlenecks = section
        names = [self.router(f"r{i}") for i in range(routers)]
        for i, (a, b) in enumerate(zip(names, names[1:])):
            link = Link(rate_bps=10**7, delay_us=1000 * (i + 1))
            self.link(a, b, link, link, bottleneck=i in bottlenecks)
        self.ends = []
        for number, at in enumerate(hosts):
            self.ends.append(self.host(f"h{number}"))
            self.link(self.ends[-1], names[at], FAST, FAST)


def deliver(topo, source, target):
    """Follow the static routes of every node from source to target; the devices passed."""
    address, at, passed = topo.address_of(target), source, []
    while True:
        own = {port.address: port for port, _ in topo.ports_of(at)}
        if address in own:
            return passed
        for port, peer in topo.ports_of(at):
            if ipaddress.ip_address(address) in ipaddress.ip_network(port.network):
                gateway, device = address, port.device
                break
        else:
            gateway, device = next((g, d) for network, g, d in topo.routes_of(at) if network == "default"
                                   or ipaddress.ip_address(address) in ipaddress.ip_network(network))
        port, peer = next((port, peer) for port, peer in topo.ports_of(at) if port.device == device)
        assert peer.address == gateway, f"{at} sends to {gateway} through {device}"
        passed.append(port.name)
        at = peer.node
        assert len(passed) < 50, "a routing loop"


@settings(deadline=None, max_examples=40, database=None)
@given(st.integers(2, 5).flatmap(lambda n: st.tuples(st.just(n),
                                                     st.lists(st.integers(0, n - 1), min_size=2, max_size=5))))
def test_static_routes_lead_every_packet_along_its_path(shape):
    routers, hosts = shape
    topo = Chain((routers, hosts, ()))
    for a in topo.ends:
        for b in topo.ends:
            if a != b:
                topo.path(a, b)
                path = topo.paths[-1]
                assert deliver(topo, a, b) == path.hops
                assert deliver(topo, b, a) == path.hops_back
                lower, upper = sorted((hosts[topo.ends.index(a)], hosts[topo.ends.index(b)]))
                assert path.base_rtt_us == 2 * sum(1000 * (i + 1) for i in range(lower, upper))
    for router in (f"r{i}" for i in range(routers)):
        networks = [network for network, _, _ in topo.routes_of(router)]
        assert len(networks) == len(set(networks)) == len(topo.port_pairs) - len(list(topo.ports_of(router)))


def test_numbering():
    topo = Chain((4, [0, 3], (0, 2)))
    ports = [port for pair in topo.port_pairs for port in pair]
    for values in ([p.address for p in ports], [p.mac for p in ports], [p.device for p in ports]):
        assert len(set(values)) == len(ports)
    assert [p.ifindex for p in ports] == [1001, 1002, 0, 0, 1003, 1004, 0, 0, 0, 0]
    assert [p.name for p in ports[:2]] == ["r0_to_r1", "r1_to_r0"]
    assert [(p.device, peer.device) for p, peer in topo.ports_of("r1")] == [
        ("r1-eth0", "r0-eth0"), ("r1-eth1", "r2-eth0")]
    assert topo.role("r1") == "router" and topo.role("h0") == "host"
    # Mininet knows the same interfaces
    for node in topo.hosts():
        assert len([1 for ends in topo.links() if node in ends]) == len(list(topo.ports_of(node)))
    assert topo.routes_of("h0") == [("default", topo.address_of("r0").rsplit(".", 2)[0] + ".4.2", "h0-eth0")]


class Islands(EmulatedTopo):
    """Two routers that no link joins, and a host in between them."""

    def build(self, section):
        for name in ("a", "b"):
            self.router(f"r{name}")
            self.host(name)
            self.link(name, f"r{name}", FAST, FAST)
        self.host("lonely")


def test_unreachable_nodes():
    topo = Islands()
    with pytest.raises(TopologyError, match="no path from a to b"):
        topo.path("a", "b")
    with pytest.raises(TopologyError, match="ra cannot reach the link b-rb"):
        topo.routes_of("ra")
    with pytest.raises(TopologyError, match="lonely has no link"):
        topo.address_of("lonely")


def test_names_that_cannot_be():
    class Twice(EmulatedTopo):
        def build(self, section):
            self.host("a"), self.host("b")
            self.link("a", "b", FAST, FAST, names=section)
            self.link("a", "b", FAST, FAST)
    for names in (("x", "x"), ("a_to_b", "y")):
        with pytest.raises(TopologyError, match="two link directions are called"):
            Twice(names)

    class Long(EmulatedTopo):
        def build(self, section):
            self.host("a-very-long-name"), self.host("b")
            self.link("a-very-long-name", "b", FAST, FAST)
    with pytest.raises(TopologyError, match="too long for the name of an interface"):
        Long()


def test_hosts_do_not_forward():
    class Bridge(EmulatedTopo):
        def build(self, section):
            for name in ("a", "b", "c"):
                self.host(name)
            self.link("a", "b", FAST, FAST)
            self.link("b", "c", FAST, FAST)
    with pytest.raises(TopologyError, match="no path"):
        Bridge().path("a", "c")


def test_the_shortest_way_is_taken():
    class Triangle(EmulatedTopo):
        def build(self, section):
            for name in ("r1", "r2", "r3"):
                self.router(name)
            self.host("a"), self.host("b")
            for one, other in (("a", "r1"), ("r1", "r2"), ("r2", "r3"), ("r3", "r1"), ("r3", "b")):
                self.link(one, other, FAST, FAST)
            self.path("a", "b")
    topo = Triangle()
    assert topo.paths[0].hops == ["a_to_r1", "r1_to_r3", "r3_to_b"] == deliver(topo, "a", "b")


def test_pairs_meet_only_the_one_opposite():
    section = {"kind": "pairs", "central": {"rate_bps": 10**7, "delay_us": 10_000}, "edge": {"rate_bps": 10**9}}
    network = topologies.resolve({**section, "nodes": 100})
    assert len(network["paths"]) == 50 and {path["base_rtt_us"] for path in network["paths"]} == {20_000}
    assert (network["paths"][49]["initiator"], network["paths"][49]["acceptor"]) == ("n50", "n100")
    with pytest.raises(FieldError, match="an even number expected, not 7"):
        topologies.resolve({**section, "nodes": 7})

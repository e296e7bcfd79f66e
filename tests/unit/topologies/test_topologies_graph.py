# SPDX-License-Identifier: GPL-2.0-only
"""Addresses, routes, paths and numbering of topologies; no network is started."""
import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies.base import BOTTLENECK_IFINDEX, EmulatedTopo, TopologyError
from topologies.dumbbell import Dumbbell
from topologies.link import LinkDirection
from topologies.parameters import ParameterError

SECTION = {"kind": "dumbbell",
           "central": {"rate_bps": 10**8, "delay_us": 2000, "queue": {"kind": "pfifo", "limit": 850}},
           "edge": {"rate_bps": 10**8, "queue": {"limit": 10_000}},
           "left_delays_us": [0, 12_000, 25_000], "right_delays_us": [2000, 37_000, 75_000]}


def dumbbell(**changes):
    return topologies.from_section({**SECTION, **changes})


def test_the_suites_round_trip_times():
    """tcpeval, access link: nine paths from 8 to 204 ms."""
    paths = dumbbell().describe()["paths"]
    assert [(p["source"], p["initiator"], p["acceptor"], p["base_rtt_us"]) for p in paths] == [
        (0, "n1", "n4", 8000), (1, "n1", "n5", 78_000), (2, "n1", "n6", 154_000),
        (3, "n2", "n4", 32_000), (4, "n2", "n5", 102_000), (5, "n2", "n6", 178_000),
        (6, "n3", "n4", 58_000), (7, "n3", "n5", 128_000), (8, "n3", "n6", 204_000)]
    assert paths[0]["hops"] == ["n1_to_r1", "left_to_right", "r2_to_n4"]
    assert paths[0]["hops_back"] == ["n4_to_r2", "right_to_left", "r1_to_n1"]


def test_description():
    description = dumbbell().describe()
    assert [(n["name"], n["role"], n["side"]) for n in description["nodes"]] == [
        ("r1", "router", "left"), ("r2", "router", "right"), ("n1", "host", "left"), ("n2", "host", "left"), ("n3", "host", "left"),
        ("n4", "host", "right"), ("n5", "host", "right"), ("n6", "host", "right")]
    assert len(description["links"]) == 14
    central = [link for link in description["links"] if link["bottleneck"]]
    assert [(link["name"], link["from"], link["to"], link["device"], link["peer_device"], link["ifindex"]) for link in central] == [
        ("left_to_right", "r1", "r2", "r1-eth0", "r2-eth0", BOTTLENECK_IFINDEX),
        ("right_to_left", "r2", "r1", "r2-eth0", "r1-eth0", BOTTLENECK_IFINDEX + 1)]
    assert central[0]["rate_bps"] == 10**8 and central[0]["limit_packets"] == 850 and central[0]["queue"] == "pfifo"
    addresses = [a for node in description["nodes"] for a in node["addresses"]]
    assert len(addresses) == len(set(addresses)) == 14
    first = description["paths"][0]
    assert (first["initiator_address"], first["acceptor_address"]) == ("10.0.2.1", "10.0.5.1")


def test_both_directions_may_differ():
    links = dumbbell(central={"left_to_right": {"rate_bps": 10**6, "loss_percent": 1}, "right_to_left": {"rate_bps": 10**9, "delay_us": 9}}).describe()["links"]
    assert [(link["rate_bps"], link["delay_us"], link["loss_percent"]) for link in links[:2]] == [(10**6, 0, 1), (10**9, 9, 0)]


@pytest.mark.parametrize("field, changes", [
    ("kind", {"kind": "ring"}), ("kind", {"kind": None}), ("central", {"central": 3}), ("central.rate", {"central": {}}),
    ("central.queue.limit", {"central": {"rate_bps": 1, "queue": {"limit": -1}}}),
    ("central.left_to_right.rate", {"central": {"left_to_right": {"rate_bps": 0}, "right_to_left": {"rate_bps": 1}}}),
    ("central.left_to_right", {"central": {"left_to_right": "fast", "right_to_left": {"rate_bps": 1}}}),
    ("central.left_to_right", {"central": {"left_to_right": {"rate_bps": 1}}}),
    ("edge.rate", {"edge": {}}), ("edge.delay", {"edge": {"rate_bps": 1, "delay_us": 3}}), ("edge.loss", {"edge": {"rate_bps": 1, "loss_percent": 3}}),
    ("left_delays_us", {"left_delays_us": []}), ("right_delays_us", {"right_delays_us": [-1]}), ("right_delays_us", {"right_delays_us": ["x"]}),
    ("left_delays", {"left_delays_us": 5}), ("left_delays", {"left_delays": [1]}), ("speed", {"speed_bps": 1}),
])
def test_refused_sections(field, changes):
    with pytest.raises(ParameterError) as problem:
        dumbbell(**changes)
    assert problem.value.field == field


def test_a_missing_section_is_refused():
    for field in ("central", "edge", "left_delays_us", "right_delays_us"):
        with pytest.raises(ParameterError):
            topologies.from_section({k: v for k, v in SECTION.items() if k != field})
    with pytest.raises(ParameterError):
        topologies.from_section(None)


def test_building_does_not_change_the_section():
    before = repr(SECTION)
    dumbbell()
    assert repr(SECTION) == before


def test_topologies_are_found_by_listing():
    assert "dumbbell" in topologies.names() and "link" not in topologies.names()
    assert topologies.load("dumbbell") is Dumbbell
    with pytest.raises(ParameterError, match="no topology 'x'; there are: .*dumbbell"):
        topologies.load("x")


# -- any topology ---------------------------------------------------------------------------

class Chain(EmulatedTopo):
    """Routers in a row, hosts at them."""

    def build(self, routers, hosts, bottlenecks=()):
        names = [self.router(f"r{i}") for i in range(routers)]
        for i, (a, b) in enumerate(zip(names, names[1:])):
            link = LinkDirection(10**7, 1000 * (i + 1), bottleneck=i in bottlenecks)
            self.link(a, b, link, link)
        self.ends = []
        for number, at in enumerate(hosts):
            self.ends.append(self.host(f"h{number}"))
            self.link(self.ends[-1], names[at], LinkDirection(10**7), LinkDirection(10**7))


def deliver(topo, source, target):
    """Follow the static routes of every node from source to target; the devices passed."""
    address, at, passed = topo.address_of(target), source, []
    while True:
        own = {port.address: port for port, _ in topo.ports_of(at)}
        if address in own:
            return passed
        for port, peer in topo.ports_of(at):
            if ipaddress.ip_address(address) in ipaddress.ip_network(port.address + "/24", strict=False):
                gateway, device = address, port.device
                break
        else:
            gateway, device = next((g, d) for network, g, d in topo.routes_of(at)
                                   if network == "default" or ipaddress.ip_address(address) in ipaddress.ip_network(network))
        port, peer = next((port, peer) for port, peer in topo.ports_of(at) if port.device == device)
        assert peer.address == gateway, f"{at} sends to {gateway} through {device}"
        passed.append(port.egress.name)
        at = peer.node
        assert len(passed) < 50, "a routing loop"


@settings(deadline=None, max_examples=40, database=None)
@given(st.integers(2, 5).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=2, max_size=5))))
def test_static_routes_lead_every_packet_along_its_path(shape):
    routers, hosts = shape
    topo = Chain(routers=routers, hosts=hosts)
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
    topo = Chain(routers=4, hosts=[0, 3], bottlenecks=(0, 2))
    ports = [port for pair in topo.port_pairs for port in pair]
    for values in ([p.address for p in ports], [p.mac for p in ports], [p.device for p in ports]):
        assert len(set(values)) == len(ports)
    assert [p.ifindex for p in ports] == [1001, 1002, 0, 0, 1003, 1004, 0, 0, 0, 0]
    assert [p.egress.name for p in ports[:2]] == ["r0_to_r1", "r1_to_r0"]
    assert all(p.wire_device == "w" + p.device and len(p.wire_device) <= 15 for p in ports)
    assert [(p.device, peer.device) for p, peer in topo.ports_of("r1")] == [("r1-eth0", "r0-eth0"), ("r1-eth1", "r2-eth0")]
    assert topo.role("r1") == "router" and topo.role("h0") == "host"
    # Mininet knows the same interfaces
    assert {n: len([1 for a, b in topo.links() if n in (a, b)]) for n in topo.hosts()} == {n: len(list(topo.ports_of(n))) for n in topo.hosts()}
    assert topo.routes_of("h0") == [("default", topo.address_of("r0").rsplit(".", 2)[0] + ".4.2", "h0-eth0")]


class Islands(EmulatedTopo):
    """Two routers that no link joins, and a host in between them."""

    def build(self):
        for name in ("a", "b"):
            self.router(f"r{name}")
            self.host(name)
            self.link(name, f"r{name}", LinkDirection(1), LinkDirection(1))
        self.host("lonely")


def test_unreachable_nodes():
    topo = Islands()
    with pytest.raises(TopologyError, match="no path from a to b"):
        topo.path("a", "b")
    with pytest.raises(TopologyError, match="ra cannot reach the link b-rb"):
        topo.routes_of("ra")
    with pytest.raises(TopologyError, match="lonely has no link"):
        topo.address_of("lonely")


def test_hosts_do_not_forward():
    class Bridge(EmulatedTopo):
        def build(self):
            for name in ("a", "b", "c"):
                self.host(name)
            self.link("a", "b", LinkDirection(1), LinkDirection(1))
            self.link("b", "c", LinkDirection(1), LinkDirection(1))
    with pytest.raises(TopologyError, match="no path"):
        Bridge().path("a", "c")


def test_the_shortest_way_is_taken():
    class Triangle(EmulatedTopo):
        def build(self):
            for name in ("r1", "r2", "r3"):
                self.router(name)
            self.host("a"), self.host("b")
            for one, other in (("a", "r1"), ("r1", "r2"), ("r2", "r3"), ("r3", "r1"), ("r3", "b")):
                self.link(one, other, LinkDirection(1), LinkDirection(1))
            self.path("a", "b")
    topo = Triangle()
    assert topo.paths[0].hops == ["a_to_r1", "r1_to_r3", "r3_to_b"] == deliver(topo, "a", "b")

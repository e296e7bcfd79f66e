# SPDX-License-Identifier: GPL-2.0-only
"""The MTU of links: where it is said, and what follows from it."""
import re

import pytest

import topologies
from testbed.core.fields import FieldError
from testbed.engines._simulators import refusals
from testbed.guest import overload
from topologies.links import end_hosts, records
from topologies.linux import tc
from topologies.linux.network import Network
from traffic.datagrams import orders
from traffic.greedy.scenario import Section
from traffic.workload import routes

_LINK = {"rate_bps": 10**8, "delay_us": 5000, "queue": {"limit_us": 50_000}}


def dumbbell(central=_LINK, **more):
    return {"kind": "dumbbell", "central": central, "edge": {"rate_bps": 10**9}, "left_delays_us": [0],
            "right_delays_us": [1000], **more}


def links(section):
    return {link["name"]: link for link in topologies.resolve(section)["links"]}


def test_of_all_links_or_of_one():
    plain, jumbo = topologies.resolve(dumbbell()), topologies.resolve(dumbbell(mtu_bytes=9000))
    assert "mtu_bytes" not in plain and not any("mtu_bytes" in link for link in plain["links"])
    assert jumbo["mtu_bytes"] == 9000 and {link["mtu_bytes"] for link in jumbo["links"]} == {9000}
    narrow = topologies.resolve(dumbbell({**_LINK, "mtu_bytes": 1500}, mtu_bytes=9000))
    assert "mtu_bytes" not in narrow
    assert [link.mtu_bytes for link in narrow["links"]] == [1500, 1500, 9000, 9000, 9000, 9000]
    assert topologies.resolve(topologies.complete(dumbbell(mtu_bytes=9000))) == jumbo


def test_segments_are_those_of_the_narrowest_link_on_the_path():
    lot = {"kind": "parking-lot", "links": [{**_LINK, "mtu_bytes": 576}, _LINK], "access": {"rate_bps": 10**9},
           "hosts": [{"router": 1}, {"router": 2}, {"router": 3}], "paths": ["n1-n3", "n2-n3"], "mtu_bytes": 9000}
    network = topologies.resolve(lot)
    narrow, wide = routes.find(records.Network(network), ["n3->n1", "n3->n2"])
    assert (network["mtu_bytes"], network.segment_bytes()) == (576, 524)
    assert [network.segment_bytes((*way.hops, *way.hops_back)) for way in (narrow, wide)] == [524, 8948]
    assert topologies.resolve({**dumbbell(mtu_bytes=9000), "ip": 6}).segment_bytes() == 8928


def test_a_queue_counts_its_own_packets():
    """50 ms of 100 Mbit/s are 625,000 bytes: 69 packets of 9000 bytes, 1085 of 576."""
    for mtu, packets in ((9000, 69), (1500, 417), (576, 1085)):
        link = links(dumbbell(mtu_bytes=mtu))["left_to_right"]
        assert link["limit_packets"] == link["capacity_packets"] == packets
        assert link["capacity_bytes"] == packets * (mtu + 14)
    in_bytes = links(dumbbell({**_LINK, "queue": {"kind": "bfifo", "limit_bytes": 90_140}}, mtu_bytes=9000))
    assert in_bytes["left_to_right"]["capacity_packets"] == 10
    red = {**_LINK, "queue": {"kind": "red", "limit_bytes": 600_000}}
    assert [links(dumbbell(red, mtu_bytes=mtu))["left_to_right"]["queue_options"]["avpkt"]
            for mtu in (1500, 9000)] == [1000, 6000]


def test_devices_qdiscs_and_wires_have_it():
    network = end_hosts.apply(end_hosts.HostsSection(offloads="gso+gro", coalescing_us=50),
                              topologies.resolve(dumbbell({**_LINK, "policer": {
                                  "rate_bps": 10**7, "burst_bytes": 90_000}}, mtu_bytes=9000)))
    made = Network(network, {node["name"]: {} for node in network["nodes"]})
    for node in network["nodes"]:
        for line in made.ip_lines(node):
            assert (" mtu 9000 " in line) == line.startswith("link add") and line.count("mtu") == line.count("num") // 2
    link, edge = network["links"][0], network["links"][3]
    assert any("police rate 10000000bit burst 90000 mtu 9014" in line for line in tc.ingress(link, "w"))
    assert "burst 9100" in tc.egress(edge.changed(gso=True), 0)[0]


def test_the_idle_network_is_overloaded_with_packets_that_all_links_carry():
    """A buffer of 100 frames of 9014 bytes is full after 595 frames of 1514 bytes, if it counts bytes."""
    network = topologies.resolve(dumbbell({**_LINK, "queue": {"kind": "bfifo", "limit_bytes": 901_400},
                                           "mtu_bytes": 9000}, edge={"rate_bps": 10**9}))
    assert overload.frame_bits(network) == 1514 * 8
    plan = overload.plan(network["links"][0], network)
    assert plan.fill_s == pytest.approx(2 * 595 * 1514 * 8 / 10**8)
    assert overload.frame_bits(topologies.resolve(dumbbell(mtu_bytes=9000))) == 9014 * 8


@pytest.mark.parametrize("section, problem", [
    (dumbbell(mtu_bytes=575), "mtu: must be at least 576 B"),
    (dumbbell(mtu_bytes=65522), "mtu: must be at most 65521 B"),
    (dumbbell({**_LINK, "mtu_bytes": 1000}, ip=6), "mtu: left_to_right: at least 1280 B over IPv6 expected, not 1000"),
    (dumbbell({"left_to_right": _LINK, "right_to_left": {**_LINK, "mtu_bytes": 9000}}),
     "central.right_to_left.mtu: 1500 B expected as in left_to_right, not 9000 B"),
    (dumbbell({**_LINK, "queue": {"kind": "cake"}}, mtu_bytes=9000), "central.queue.kind: cake counts memory"),
    (dumbbell({**_LINK, "queue": {"kind": "bfifo", "limit_bytes": 5000}}, mtu_bytes=9000),
     "central.queue.limit: from 9014 to 4294967295 B expected, not 5000 B"),
    (dumbbell({**_LINK, "policer": {"rate_bps": 10**7, "burst_bytes": 5000}}, mtu_bytes=9000),
     "central.policer.burst: at least 9014 B, a full frame, expected, not 5000 B"),
    (dumbbell({**_LINK, "queue": {"kind": "bfifo", "limit_bytes": 50_000}, "schedule": [
        {"at_us": [1_000_000], "limit_bytes": [9000]}]}, mtu_bytes=9000),
     "central.schedule: limits of at least 9014 B, a full frame, expected"),
    (dumbbell({"left_to_right": {**_LINK, "lose_segments": [3]}, "right_to_left": _LINK}, mtu_bytes=9000,
              edge={"rate_bps": 10**9, "mtu_bytes": 1500}),
     "lose_segments: left_to_right: full segments from n1 to n2 have 1500 B, not the 9000 B of this link"),
    ({"kind": "two-hosts", "left": _LINK, "right": {**_LINK, "mtu_bytes": 9000}},
     "mtu: s1: links of 1500 and 9000 B meet at a switch"),
    ({"kind": "mesh", "nodes": 2, "mtu_bytes": 9000}, "mtu: there are no links but radios"),
])
def test_what_cannot_be(section, problem):
    with pytest.raises(FieldError) as error:
        topologies.resolve(section)
    assert f"{error.value.field}: {error.value}".startswith(problem)


def test_a_trace_carries_frames_of_1514_bytes(tmp_path):
    (tmp_path / "trace").write_text("1\n")
    with pytest.raises(FieldError, match="at most 1500 B expected on a link with a trace"):
        topologies.resolve(dumbbell({**_LINK, "trace": str(tmp_path / "trace")}, mtu_bytes=9000))


def test_a_trace_is_looked_at_with_the_mtu_of_its_topology(tmp_path):
    """A buffer of 600 B holds a packet of 576 B."""
    (tmp_path / "trace").write_text("1\n")
    small = {**_LINK, "queue": {"kind": "bfifo", "limit_bytes": 600}, "trace": str(tmp_path / "trace")}
    topologies.in_time(dumbbell(small, mtu_bytes=576), 10_000)
    with pytest.raises(FieldError, match="from 1514 to 4294967295 B expected, not 600 B") as problem:
        topologies.in_time(dumbbell(small), 10_000)
    assert problem.value.field == "central.queue.limit"


def test_what_does_not_fit_into_a_path():
    network = topologies.resolve(dumbbell(mtu_bytes=9000, edge={"rate_bps": 10**9, "mtu_bytes": 5000}))
    ways = routes.find(records.Network(network), [])
    orders.fits(5000, records.Network(network), ways)
    with pytest.raises(FieldError, match=re.escape("at most 5000 B, the MTU from n2 to n1, not 5001 B")):
        orders.fits(5001, records.Network(network), ways)
    assert Section(window=4, tool="sockets").window_bytes(records.Network(network)) == 4 * 4948


def test_simulators_refuse_it():
    section = topologies.complete(dumbbell(mtu_bytes=9000))
    network = topologies.resolve(section)
    found = list(refusals.of_links(section, network, {}, ["pfifo"], (), (), "ns3"))
    assert found and {str(one) for one in found} == {"engine ns3 has no other MTU than 1500 B"}
    assert not list(refusals.of_links(topologies.complete(dumbbell(mtu_bytes=1500)), network, {}, ["pfifo"], (), (),
                                      "ns3"))

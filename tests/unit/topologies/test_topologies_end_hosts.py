# SPDX-License-Identifier: GPL-2.0-only
"""End hosts: what the section `hosts` does to the network, and how ip and tc are told."""
import copy

import pytest

import topologies
from testbed.core import fields
from topologies.links import end_hosts, records
from topologies.linux import network as guest_network, tc

EDGE = {"rate_bps": 10**8, "queue": {"limit": 10_000}}
SECTION = {"kind": "dumbbell", "central": {"rate_bps": 10**7, "delay_us": 2000}, "edge": EDGE, "left_delays_us": [0],
           "right_delays_us": [5000]}


def built(**hosts):
    """The dumbbell n1 - r1 = r2 - n2 with such hosts."""
    return end_hosts.apply(fields.decode(end_hosts.HostsSection, hosts), topologies.resolve(SECTION))


def link(network, name):
    return next(one for one in network["links"] if one["name"] == name)


def test_by_default_hosts_are_as_linux_has_them_and_cost_nothing():
    network, plain = built(), topologies.resolve(SECTION)
    assert network["links"] == plain["links"] and network["paths"] == plain["paths"]
    assert {node["name"]: (node.get("initcwnd"), node.get("gso"), node.get("wakeup_cost_us"))
            for node in network["nodes"]} == {
        "n1": (10, False, 0), "n2": (10, False, 0), "r1": (None, None, None), "r2": (None, None, None)}


def test_the_network_that_was_given_stays_as_it_is():
    plain = topologies.resolve(SECTION)
    before = copy.deepcopy(plain)
    end_hosts.apply(fields.decode(end_hosts.HostsSection, {"jitter_us": 3, "qdisc": "fq"}), plain)
    assert plain == before


def test_jitter_where_hosts_send_and_costs_where_they_receive():
    """Never between routers: bottlenecks stay what they are."""
    network = built(jitter_us=120, packet_cost_us=3, coalescing_us=50, offloads="gso+gro", wakeup_cost_us=7)
    assert {one["name"]: (one["jitter_us"], one["packet_cost_us"], one["coalescing_us"], one["gro"])
            for one in network["links"]} == {
        "left_to_right": (0, 0, 0, False), "right_to_left": (0, 0, 0, False),
        "n1_to_r1": (120, 0, 0, False), "r2_to_n2": (0, 3, 50, True),
        "n2_to_r2": (120, 0, 0, False), "r1_to_n1": (0, 3, 50, True)}
    assert [node["wakeup_cost_us"] for node in network["nodes"] if node["role"] == "host"] == [7, 7]
    assert [node["gso"] for node in network["nodes"] if node["role"] == "host"] == [True, True]


@pytest.mark.parametrize("field, section, message", [
    ("slow_start_after_idle", {"slow_start_after_idle": 2}, "must be at most 1"),
    ("initcwnd", {"initcwnd": 0}, "must be at least 1"), ("initcwnd", {"initcwnd": 45}, "must be at most 44"),
    ("initcwnd", {"initcwnd_bytes": 10_000}, "a value without a unit expected"),
    ("initial_ssthresh", {"initial_ssthresh": 10}, "a mapping expected, not 10"),
    ("initial_ssthresh.n1", {"initial_ssthresh": {"n1": 1}}, "must be at least 2"),
    ("initial_ssthresh.r1", {"initial_ssthresh": {"r1": 10}}, "names such as 'n4' expected, not 'r1'"),
    ("initcwnd", {"initcwnd": True}, "a whole number expected"), ("initcwnd", {"initcwnd": 2.5}, "a whole number"),
    ("qdisc", {"qdisc": "codel"}, "one of link, fq expected, not 'codel'"),
    ("offloads", {"offloads": "all"}, "one of none, gso, gso+gro, uncut expected, not 'all'"),
    ("offloads", {"offloads": False}, "one of none, gso, gso+gro, uncut expected, not False"),
    ("offloads", {"offloads": "gso+gro"}, "gso+gro needs coalescing such as '50 us'"),
    ("jitter", {"jitter": 120}, "a value with a unit such as '20 ms' expected"),
    ("jitter", {"jitter_us": -1}, "must be at least 0"), ("jitter", {"jitter_us": 10**6 + 1}, "must be at most 1 s"),
    ("coalescing", {"coalescing_us": 1001}, "must be at most 1 ms"),
    ("packet_cost", {"packet_cost_bps": 10**6}, "a value with a unit such as '20 ms'"),
    ("packet_cost", {"packet_cost_us": 10_001}, "must be at most 10 ms"),
    ("wakeup_cost", {"wakeup_cost_us": 2 * 10**6}, "must be at most 1 s"),
    ("latency", {"latency_us": 3}, "unknown field; fields are: ecn, sack, slow_start_after_idle, initcwnd, "),
])
def test_what_is_refused(field, section, message):
    with pytest.raises(fields.FieldError) as problem:
        fields.decode(end_hosts.HostsSection, section)
    assert problem.value.field == field and message in str(problem.value)


def test_a_threshold_of_a_host_that_is_not_there():
    with pytest.raises(fields.FieldError, match="no host n3; there are: n1, n2") as problem:
        built(initial_ssthresh={"n2": 10, "n3": 10})
    assert problem.value.field == "initial_ssthresh.n3"


def test_only_hosts_that_are_named_have_a_threshold_and_without_any_nothing_says_so():
    """So that runs of scenarios that have none are what they were."""
    assert "initial_ssthresh" not in fields.encode(fields.decode(end_hosts.HostsSection, {}))
    nodes = {node["name"]: node for node in built(initial_ssthresh={"n2": 10})["nodes"]}
    assert [name for name, node in nodes.items() if "initial_ssthresh" in node] == ["n2"]


def test_fq_has_the_length_of_the_queue_that_it_replaces_and_no_flow_has_less():
    network = built(qdisc="fq")
    for name in ("n1_to_r1", "n2_to_r2"):
        one = link(network, name)
        assert (one["queue"], one["limit_packets"], one["queue_options"]) == (
            "fq", 10_000, {"limit": 10_000, "flow_limit": 10_000})
        assert tc.egress(one, 0)[2] == (f"qdisc add dev {one['device']} parent 3:1 handle 10: fq limit 10000 "
                                        "flow_limit 10000")
    assert {link(network, name)["queue"] for name in ("r1_to_n1", "left_to_right")} == {"pfifo"}


def test_jitter_is_drawn_around_the_middle_and_adds_half_of_itself_on_average():
    """netem's jitter goes both ways; the least delay has to stay that of the link."""
    network = built(jitter_us=121)
    netem = tc.ingress(link(network, "n2_to_r2"), "wr2-eth1")[-1]
    assert netem == "qdisc add dev wr2-eth1 root handle 2: netem limit 11813 delay 5060.5us 60.5us rate 100000000bit"
    assert "delay 2000us rate" in tc.ingress(link(network, "left_to_right"), "wr2-eth0")[-1]


@pytest.mark.parametrize("hosts, stages", [
    ({"packet_cost_us": 7}, ["parent 2:1 handle 3: netem limit 1000 rate 9362142857bps 0 65535"]),
    ({"coalescing_us": 50}, ["parent 2:1 handle 3: netem limit 1000 slot 50us 50us"]),
    ({"coalescing_us": 50, "packet_cost_us": 1},
     ["parent 2:1 handle 3: netem limit 1000 rate 65535000000bps 0 65535",
      "parent 3:1 handle 4: netem limit 1000 slot 50us 50us"])])
def test_what_an_interrupt_announces_goes_on_together(hosts, stages):
    lines = tc.ingress(link(built(**hosts), "r1_to_n1"), "wn1-eth0")
    assert lines[-len(stages):] == [f"qdisc add dev wn1-eth0 {stage}" for stage in stages]
    assert " root handle 2: netem " in lines[-len(stages) - 1]


@pytest.mark.parametrize("cost_us", [1, 3, 7, 120, 9_999, 10_000])
def test_the_cell_takes_exactly_the_cost_of_a_packet(cost_us):
    """netem's arithmetic (packet_time_ns): one cell, in whole ns."""
    line = tc.ingress(link(built(packet_cost_us=cost_us), "r1_to_n1"), "w")[-1]
    rate = int(line.split("rate ")[1].split("bps")[0])
    assert 0 <= 65535 * 10**9 // rate - 1000 * cost_us <= 2


def test_jitter_makes_the_delay_line_longer():
    slow = link(built(jitter_us=10**6), "n2_to_r2")
    assert tc.wire_limit_packets(slow) > 2 * 10**8 * 1.005 / 8 / 64


class Recorded(guest_network.Network):
    """A network that notes what ip is told instead of being built."""

    def __init__(self, description):
        self.description, self.sysctls, self.timer_period_us = description, {}, 0
        links = description["links"]
        self.pairs = list(zip(links[::2], links[1::2]))

    def lines(self, name):
        node = next(node for node in self.description["nodes"] if node["name"] == name)
        return self.ip_lines(node)


def test_hosts_get_their_window_with_the_route_and_routers_do_not():
    network = Recorded(built(initcwnd=2))
    assert "route add default via 10.0.2.2 dev n1-eth0 initcwnd 2" in network.lines("n1")
    assert not [line for line in network.lines("r1") if "initcwnd" in line]


def test_hosts_acknowledge_at_once_by_their_routes():
    network = Recorded(built(delayed_acks=False))
    assert "route add default via 10.0.2.2 dev n1-eth0 initcwnd 10 quickack 1" in network.lines("n1")
    assert not [line for line in network.lines("r1") if "quickack" in line]


def test_a_threshold_comes_with_the_route_that_no_connection_may_change():
    network = Recorded(built(initial_ssthresh={"n1": 12}))
    assert "route add default via 10.0.2.2 dev n1-eth0 initcwnd 10 ssthresh lock 12" in network.lines("n1")
    assert not [line for line in network.lines("n2") if "ssthresh" in line]


def test_without_offloads_tcp_makes_packets_of_one_segment():
    assert "link set n1-eth0 gso_max_segs 1" in Recorded(built()).lines("n1")
    assert not [line for node in ("n1", "r1")
                for line in Recorded(built(offloads="gso+gro", coalescing_us=50)).lines(node) if "gso_max_segs" in line]
    assert not [line for line in Recorded(built()).lines("r1") if "gso" in line]


def test_a_host_may_send_many_segments_at_once_to_a_receiver_that_merges_nothing():
    network = built(offloads="gso")
    assert [node["gso"] for node in network["nodes"] if node["role"] == "host"] == [True, True]
    assert {one["name"]: (one["gso"], one["gro"]) for one in network["links"]} == {
        "left_to_right": (False, False), "right_to_left": (False, False), "n1_to_r1": (True, False),
        "r2_to_n2": (False, False), "n2_to_r2": (True, False), "r1_to_n1": (False, False)}
    assert not [line for line in Recorded(network).lines("n1") if "gso_max_segs" in line]


def test_where_nobody_cuts_no_link_has_a_cutter_and_all_say_so():
    """And without it no link says anything, so that runs of scenarios without it are what they were."""
    network = built(offloads="uncut")
    assert [node["gso"] for node in network["nodes"] if node["role"] == "host"] == [True, True]
    assert {(one["uncut"], one["gso"], one["gro"]) for one in network["links"]} == {(True, False, False)}
    assert not any("tbf" in line for one in network["links"] for line in tc.egress(one, 0))
    assert {one.most_segments for one in network.links} == {47} and link(built(), "n1_to_r1").most_segments == 1
    assert not any("uncut" in one.content() for one in built(offloads="gso").links)


@pytest.mark.parametrize("changes, what", [
    ({"schedule": [records.Change({"at_us": 5, "up": False})]}, "a schedule with outages"),
    ({"opportunities": records.Opportunities({"times": [(0, 1)], "period_us": 10})}, "a trace"),
    ({"lose_segments": [3]}, "lose_segments"), ({"duplicate_percent": 1.0}, "duplicates")])
def test_where_single_segments_are_looked_at_somebody_has_to_cut(changes, what):
    plain = topologies.resolve(SECTION)
    network = plain.changed(links=[plain.links[0].changed(**changes), *plain.links[1:]])
    with pytest.raises(fields.FieldError, match=f"uncut: {plain.links[0].name} has {what}, which needs") as problem:
        end_hosts.apply(fields.decode(end_hosts.HostsSection, {"offloads": "uncut"}), network)
    assert problem.value.field == "offloads"


@pytest.mark.parametrize("kind", ["cake", "dualpi2"])
def test_a_queue_that_cuts_does_not_go_with_packets_that_nobody_cuts(kind):
    plain = topologies.resolve(SECTION)
    network = plain.changed(links=[plain.links[0].changed(queue=kind), *plain.links[1:]])
    with pytest.raises(fields.FieldError, match=f"uncut: {plain.links[0].name} has {kind}, which cuts packets"):
        end_hosts.apply(fields.decode(end_hosts.HostsSection, {"offloads": "uncut"}), network)
    end_hosts.apply(fields.decode(end_hosts.HostsSection, {"offloads": "gso"}), network)


def test_a_host_that_merges_receives_on_the_other_end_of_a_veth():
    """Under the address of the interface that it sends on; routers' wires stay IFBs."""
    network = Recorded(built(offloads="gso+gro", coalescing_us=50))
    assert network.lines("n1")[1:4] == [
        "link add wn1-eth0 numtxqueues 1 numrxqueues 1 type veth peer name gn1-eth0 address 02:00:00:00:01:01 "
        "numtxqueues 1 numrxqueues 1", "link set gn1-eth0 up", "link set wn1-eth0 up"]
    assert "link add wr1-eth1 numtxqueues 1 numrxqueues 1 type ifb" in network.lines("r1")
    assert "link add wn1-eth0 numtxqueues 1 numrxqueues 1 type ifb" in Recorded(built()).lines("n1")

# SPDX-License-Identifier: GPL-2.0-only
"""Jitter that hosts have by default, because of the traffic."""
import pytest

from testbed import engines
from testbed.core import fields
from testbed.runs import campaign
from testbed.scenario import scenario, usual_jitter
from topologies import resolve
from topologies.links import end_hosts

TEXT = """\
name: small
description: A small one.
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 2 ms, queue: {limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms, 5 ms]
  right_delays: [2 ms]
traffic: {kind: greedy, tool: sockets, paths: [n3->n1]}
timing: {warmup: 2 s, test: 3 s}
"""


@pytest.fixture
def load(tmp_path):
    """load(settings) -> Scenario."""
    (tmp_path / "small.yaml").write_text(TEXT)
    return lambda settings=(): scenario.load(str(tmp_path / "small.yaml"), settings=list(settings))


#: 10 Mbit/s towards the left hosts, 1 Mbit/s towards the right ones
ASYMMETRIC = "topology.central={left_to_right: {rate: 1 Mbit/s}, right_to_left: {rate: 10 Mbit/s}}"
SHORT_FRAMES_ELSEWHERE = (
    "topology={kind: parking-lot, links: [{rate: 10 Mbit/s}, {rate: 10 Mbit/s, mtu: 1000 B}], "
    "access: {rate: 1 Gbit/s}, hosts: [{router: 1}, {router: 2}, {router: 3}], paths: [n1-n2, n2-n3]}")


@pytest.mark.parametrize("settings, jitter_us", [
    ([], 606), (["hosts.jitter=0 us"], 0), (["hosts.jitter=7 us"], 7), ([ASYMMETRIC], 1211),
    ([ASYMMETRIC, "traffic.paths=[n1->n3]"], 12112), ([ASYMMETRIC, "traffic.paths=[n3->n1, n1->n3]"], 12112),
    # the rate before the first change; the frames of the path; no more than jitter can be
    (["topology.central.schedule=[{at: 1 s, rate: 1 Mbit/s}]"], 606), (["topology.mtu=9000 B"], 3606),
    (["topology.edge.mtu=1000 B"], 406), (["topology.central.rate=1 kbit/s"], 1_000_000),
    (["topology.edge.rate=1 Mbit/s"], 12112), ([SHORT_FRAMES_ELSEWHERE, "traffic.paths=[n2->n1]"], 1211),
    ([SHORT_FRAMES_ELSEWHERE, "traffic.paths=[n3->n2]"], 811),
    # TCP that sends all it can, of other kinds; and what sends what its application writes, or draws its own times
    (["traffic={kind: flows, flows: [{}]}"], 606),
    (["traffic={kind: flows, flows: [{transport: udp, rate: 9 kbit/s}]}"], 0),
    (["traffic={kind: on-off, on: 1 s, off: 1 s, transport: tcp}"], 606),
    (["traffic={kind: on-off, on: 1 s, off: 1 s, rate: 1 Mbit/s}"], 0), (["traffic={kind: cbr, rate: 1 Mbit/s}"], 0),
    (["traffic={kind: paced, packets: 9}"], 0),
    (["traffic={kind: tmix, load: 50 %, target: right_to_left}"], 0),
    (["traffic=[{kind: cbr, rate: 1 Mbit/s}, {kind: greedy}]"], 606)])
def test_greedy_traffic_has_hosts_with_a_packet_time_of_jitter(load, settings, jitter_us):
    """On the slowest link that its data cross, unless the scenario says how much."""
    found = load(settings)
    assert found.hosts["jitter_us"] == jitter_us
    assert found.network == end_hosts.apply(fields.decode(end_hosts.HostsSection, found.hosts), resolve(found.topology))
    assert {link["jitter_us"] for link in found.network["links"]} == {0, jitter_us}
    assert found.usual_jitter == (jitter_us > 7)


def test_jitter_that_nobody_asked_for_can_be_done_without(load):
    """As an engine that has none needs it."""
    plain, usual = load(["hosts.jitter=0 us"]), usual_jitter.without(load())
    assert usual.resolved() == plain.resolved() and not usual.usual_jitter
    assert usual.description == f"A small one. {usual_jitter.NOTE}"
    for jitter in ("606 us", "0 us"):
        asked = load([f"hosts.jitter={jitter}"])
        assert usual_jitter.without(asked) is asked


@pytest.mark.parametrize("name, jitter_us", [("uml", 606), ("host", 606), ("vagrant", 606), ("ns2", 0), ("ns3", 0)])
def test_an_engine_without_jitter_goes_without(load, name, jitter_us):
    engine, points = engines.load(name), [({}, load())]
    assert campaign.fitting(load(), engine).hosts["jitter_us"] == jitter_us
    assert campaign.lacks_usual_jitter(points, engine) == (not jitter_us)
    assert not campaign.lacks_usual_jitter([({}, load(["hosts.jitter=5 us"]))], engine)

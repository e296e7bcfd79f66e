# SPDX-License-Identifier: GPL-2.0-only
"""What simulators refuse of a scenario: one line that names file, line and field, before anything runs."""
import re
import types

import pytest

from testbed import engines
from testbed.runs import campaign
from testbed.scenario import scenario, usual_jitter

SCENARIO = """name: small
topology:
  kind: dumbbell
  central:
    left_to_right: {rate: 10 Mbit/s}
    right_to_left:
      rate: 10 Mbit/s
      CENTRAL
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms]
  right_delays: [0 ms]
traffic: TRAFFIC
timing: {test: 9 s}
"""
BOTH = """name: small
topology:
  kind: dumbbell
  central:
    rate: 10 Mbit/s
    CENTRAL
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms]
  right_delays: [0 ms]
traffic: TRAFFIC
timing: {test: 9 s}
"""


def _plan(resolved):
    return types.SimpleNamespace(scenario=resolved)


def refusal(folder, engine, central="delay: 1 ms", traffic="{kind: greedy}", text=SCENARIO, settings=(), more=""):
    """What a user is told of such a scenario; '' if it can be."""
    path = folder / "small.yaml"
    path.write_text(text.replace("CENTRAL", central).replace("TRAFFIC", traffic) + more)
    loaded = scenario.load(str(path), settings=list(settings))
    simulator = engines.load(engine)
    problem = next(simulator._refusals(_plan(campaign.fitting(loaded, simulator).resolved())), None)
    return campaign._reason(problem, loaded).replace(f"{folder}/", "")


CASES = [
    ("ns2", {"central": "schedule: [{at: 1 s, rate: 5 Mbit/s}, {at: 2 s, outage: 1 s}]"},
     "small.yaml:8: topology.central.right_to_left.schedule.2.outage: engine ns2 does not change it during a run; what "
     "can change: rate, walk, delay, limit"),
    ("ns2", {"central": "schedule: [{at: 1 s, loss: 1 %}]"},
     "small.yaml:8: topology.central.right_to_left.schedule.1.loss: engine ns2 does not change it"),
    ("ns3", {"central": "queue: {kind: codel}\n      schedule: [{at: 1 s, limit: 9}]"},
     "small.yaml:9: topology.central.right_to_left.schedule.1.limit: engine ns3 does not change the limit of a queue "
     "codel; those whose limit can change: pfifo, bfifo"),
    ("ns3", {"central": "jitter: {spread: 1 ms}"},
     "small.yaml:8: topology.central.right_to_left.jitter: engine ns3 has no jitter"),
    ("ns3", {"central": "duplicate: 1 %", "text": BOTH},
     "small.yaml:6: topology.central.duplicate: engine ns3 has no duplicate"),
    ("ns3", {"central": "queue: {kind: sfq}"},
     "small.yaml:8: topology.central.right_to_left.queue.kind: engine ns3 has no queue sfq; there are: pfifo, bfifo, "),
    ("ns3", {"settings": ["topology.edge.queue.kind=fq"]},
     "--set topology.edge.queue.kind: engine ns3 has no queue fq; there are: "),
    ("ns2", {"central": "loss: 1 %", "text": BOTH},
     "small.yaml:6: topology.central.loss: engine ns2 has no losses but those of queues"),
    ("ns2", {"central": "lose_segments: [3]"},
     "small.yaml:8: topology.central.right_to_left.lose_segments: engine ns2 has no losses but those of queues"),
    ("ns3", {"traffic": "[{kind: cbr, rate: 1 Mbit/s}, {kind: tmix, target: right_to_left, load: 30 %, "
                        "windows: vector}]"},
     "small.yaml:12: traffic.tmix.windows: engine ns3 does not limit the receive windows of connections; off expected"),
    ("ns2", {"traffic": "{kind: tmix, target: right_to_left, load: 30 %, windows: vector}"},
     "small.yaml:12: traffic.windows: engine ns2 does not limit"),
    ("ns3", {"traffic": "{kind: greedy, tool: sockets, receiver: {kind: optimistic}}"},
     "small.yaml:12: traffic.receiver: engine ns3 has no receivers that misbehave"),
    ("ns3", {"more": "hosts:\n  jitter: 1 ms\n"},
     "small.yaml:15: hosts.jitter: engine ns3 cannot set it; it has: ecn, "),
    ("ns2", {"more": "hosts:\n  initial_ssthresh: {n1: 10}\n"},
     "small.yaml:15: hosts.initial_ssthresh: engine ns2 cannot set it; it has: sack, "),
    ("ns2", {"more": "hosts:\n  sysctls:\n    net.ipv4.tcp_recovery: 1\n"},
     "small.yaml:16: hosts.sysctls.net.ipv4.tcp_recovery: engine ns2 cannot set 1"),
    ("ns3", {"settings": ["hosts.ecn=3"]}, "--set hosts.ecn: engine ns3 has no 3; one of 0, 1, 2 expected"),
    ("ns2", {"settings": ["hosts.ecn=1"]}, "--set hosts.ecn: engine ns2 cannot set it; it has: sack, "),
]


@pytest.mark.parametrize("engine, given, expected", CASES)
def test_refusals_name_file_line_and_field(tmp_path, engine, given, expected):
    told = refusal(tmp_path, engine, **given)
    assert told.startswith(expected) and "\n" not in told


@pytest.mark.parametrize("engine, given", [
    ("ns3", {"central": "schedule: [{at: 1 s, rate: 5 Mbit/s, loss: 1 %, limit: 9}, {at: 2 s, outage: 1 s}]"}),
    ("ns2", {"central": "schedule: [{at: 1 s, delay: 5 ms, limit: 9}, {at: 2 s, until: 4 s, rate: 5 Mbit/s}]"}),
    ("ns2", {"traffic": "{kind: on-off, on: 1 s, off: 1 s, transport: tcp}"}),
    ("ns3", {"settings": ["hosts.sysctls={net.ipv4.tcp_rmem: 4096 6291456 6291456, net.ipv4.tcp_recovery: 0}"]})])
def test_what_can_be_is_not_refused(tmp_path, engine, given):
    assert refusal(tmp_path, engine, **given) == ""


def test_a_topology_that_hides_what_it_makes(tmp_path):
    """A link that has something without a field that says so is refused all the same."""
    loaded = scenario.load("h-shape-1").resolved()
    vars(loaded.network.links[0])["jitter"] = {"spread_us": 1}
    problem = next(engines.load("ns3")._refusals(_plan(loaded)))
    assert (problem.field, re.sub("^[^:]*", "X", str(problem))) == ("topology", "X: engine ns3 has no jitter")


@pytest.mark.parametrize("engine", ["ns3", "ns2"])
@pytest.mark.parametrize("name", ["tcp-on-off", "access-link", "long-flows", "h-shape-1"])
def test_scenarios_that_simulators_carry_out(engine, name):
    loaded = usual_jitter.without(scenario.load(name))
    assert next(engines.load(engine)._refusals(_plan(loaded.resolved())), None) is None

# SPDX-License-Identifier: GPL-2.0-only
"""What is wrong with a scenario is told when it is loaded, with file, line and field."""
import errno

import pytest

from testbed import engines
from testbed.core import files
from testbed.core.errors import ScenarioError, UsageError
from testbed.runs import campaign
from testbed.scenario import scenario

TEXT = """\
name: small
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 10 ms, queue: {limit: 40}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms, 5 ms]
  right_delays: [1 ms]
traffic: {kind: greedy, tool: sockets}
timing: {warmup: 1 s, test: 4 s}
probes: {queue: {interval: 10 ms}}
choices: {queue: {default: short, options: {short: {topology.central.queue.limit: 20},
                                            red: {topology.central.queue: {kind: red, limit: 90 kB}}}}}
parameters: {k: traffic.flows, ecn: topology.central.queue.ecn}
"""
CBR = "kind: cbr, rate: 1 Mbit/s"


def load(tmp_path, *changes, settings=()):
    text = TEXT
    for old, new in zip(changes[::2], changes[1::2]):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "small.yaml").write_text(text)
    return scenario.load(str(tmp_path / "small.yaml"), settings=settings)


def test_as_it_is(tmp_path):
    """The parameter `ecn` is there only with one of the options, and start_within may be as long as there is time."""
    assert load(tmp_path).kernel_options == ()
    assert load(tmp_path, "sockets}", "sockets, start_within: 5 s}").traffic[0]["start_within_us"] == 5_000_000


@pytest.mark.parametrize("old, new, says", [
    ("k: traffic.flows", "k: traffic.flwos", r":13: parameters\.k: no field traffic\.flwos; .* flows, tool,"),
    ("k: traffic.flows", "k: traffic.2.flows", r":13: parameters\.k: no field traffic\.2\.flows; "),
    ("k: traffic.flows", "k: [traffic.flows, topology.left_delays.3]", r":13: parameters\.k: topology\.left_delays"),
    ("sockets}", "sockets, start_within: 5001 ms}",
     r":8: traffic\.start_within: flows may begin as late as 5\.001 s, but stop at 5 s"),
    ("sockets}", "sockets, flows: 3, stagger: 3 s}", r":8: traffic\.stagger: flows may begin as late as 6 s"),
    ("{kind: greedy, tool: sockets}", f"{{{CBR}, start: 2 s, stop: 3 s, start_within: 1001 ms}}",
     r":8: traffic\.start_within: flows may begin as late as 3"),
    ("delay: 10 ms", "delay: 10 ms, jitter: 8 ms", r":4: .*jitter: a mapping with some of spread, reordering expected"),
    ("delay: 10 ms", "delay: 10 ms, schedule: [1 s]", r":4: .*schedule: a list, and in it a mapping with some of at, "),
    ("probes: {", "probes: {pcap: {nodes: n9}, ", r":10: probes\.pcap\.nodes: no node n9; there are: r1, r2, n1, "),
    ("probes: {", "probes: {pcap: {snap: 1515 B}, ", r":10: probes\.pcap\.snap: at most 1514 B expected, the largest "),
    ("timing:", "kernel: {options: [ipv5]}\ntiming:", r":9: kernel\.options: one of bpf, .* expected, not 'ipv5'"),
    ("kind: dumbbell", "kind: dumbbell\n  ip: 7", r":4: topology\.ip: 4 or 6 expected, not 7"),
    ("kind: dumbbell", "kind: low-rate\n  nodes: 4\n  ip: 4", r":5: topology\.ip: 6 expected, not 4: low-rate has"),
])
def test_refused(tmp_path, old, new, says):
    with pytest.raises(ScenarioError, match=rf"small\.yaml{says}"):
        load(tmp_path, old, new)


@pytest.mark.parametrize("traffic", [
    f"{CBR}, cca: cubic", "kind: poisson, rate: 1 Mbit/s, cca: [cubic]",
    "kind: on-off, on: 1 s, off: 1 s, rate: 1 Mbit/s, cca: reno",
    "kind: flows, cca: reno, flows: [{transport: udp, rate: 1 Mbit/s}, {cca: cubic}]"])
def test_a_congestion_control_that_nobody_would_use(tmp_path, traffic):
    with pytest.raises(ScenarioError, match=r"small\.yaml:8: traffic\.cca: none of its flows would use it"):
        load(tmp_path, "kind: greedy, tool: sockets", traffic, "parameters: {k: traffic.flows, ", "parameters: {")


@pytest.mark.parametrize("traffic", [
    "kind: on-off, on: 1 s, off: 1 s, transport: tcp, cca: reno",
    "kind: flows, cca: reno, flows: [{transport: udp, rate: 1 Mbit/s}, {}]"])
def test_one_that_somebody_uses(tmp_path, traffic):
    assert load(tmp_path, "kind: greedy, tool: sockets", traffic, "parameters: {k: traffic.flows, ", "parameters: {")


def test_packets_that_ipv6_leaves_no_room_in(tmp_path):
    small = "kind: dumbbell\n  ip: 6", "kind: greedy, tool: sockets", f"{CBR}, packet: 63 B"
    with pytest.raises(ScenarioError, match=r"traffic\.packet: must be at least 64 bytes over IPv6, not 63"):
        load(tmp_path, "kind: dumbbell", *small)
    with pytest.raises(ScenarioError, match=r"traffic\.segment: at most 1428 B of payload fit into a packet of 1500 B"):
        load(tmp_path, "kind: dumbbell", small[0], "sockets}", "sockets, segment: 1429 B}")
    assert load(tmp_path, "sockets}", "sockets, segment: 1429 B}").traffic


@pytest.mark.parametrize("one, other", [("k=2", "traffic.flows=3"), ("traffic.flows=3", "k=3")])
def test_a_field_under_two_names(tmp_path, one, other):
    names = [setting.partition("=")[0] for setting in (other, one)]
    with pytest.raises(UsageError, match=f"^--set {names[0]}: {names[1]} is traffic.flows, too; which of them"):
        load(tmp_path, settings=[one, other])
    assert load(tmp_path, settings=["k=2", "k=4"]).traffic[0]["flows"] == 4


def test_an_unknown_congestion_control_of_a_component(tmp_path, monkeypatch):
    loaded = load(tmp_path, "sockets}", "sockets, cca: nosuch}")
    engine = engines.load("uml")
    monkeypatch.setattr(type(engine), "kernel_release", lambda self: "6.12.1")
    monkeypatch.setattr(type(engine), "congestion_controls", lambda self: ("cubic", "reno"))
    with pytest.raises(UsageError, match=r"small\.yaml:8: traffic\.cca: no congestion control 'nosuch' in this kernel"):
        campaign._fixed_variants([loaded], [], engine, print)


def test_a_full_disk_is_told_with_the_file(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError) as caught:
        files.write_text(tmp_path / ".pin-1", "why")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / ".pin-1"))


def test_what_a_scenario_asks_of_the_kernel(tmp_path):
    assert load(tmp_path, "timing:", "kernel: {options: [tun, mptcp]}\ntiming:").kernel_options == ("mptcp", "tun")
    six = load(tmp_path, "kind: dumbbell", "kind: dumbbell\n  ip: 6", "timing:", "kernel: {options: tun}\ntiming:")
    assert six.kernel_options == ("ipv6", "tun") and "kernel" not in six.resolved()
    assert load(tmp_path, settings=["topology.ip=6"]).network["ip_version"] == 6

# SPDX-License-Identifier: GPL-2.0-only
"""What topologies/linux/netlink_batch.py tells the kernel leaves it as ip and tc would have, in every namespace."""
import json

import pytest

import kernel
import topologies
from testbed.core import fields
from testbed.core.record import plain
from tests.kernel import guest_script, network_state_guest
from topologies.links import end_hosts

EDGE = {"rate_bps": 10**9, "queue": {"limit": 10_000}}
CENTRAL = {"rate_bps": 10**8, "delay_us": 2000, "queue": {"limit": 850}}
DUMBBELL = {"kind": "dumbbell", "central": CENTRAL, "edge": EDGE, "left_delays_us": [0, 12_000],
            "right_delays_us": [2000, 37_000]}
#: {name: (topology, hosts)}
NETWORKS = {
    "dumbbell": (DUMBBELL, {}),
    # more bytes per second than 32 bits hold, a limit in bytes, losses; hosts that merge have veths in place of IFBs
    "fast": ({**DUMBBELL, "edge": {**EDGE, "rate_bps": 10**11}, "central": {
        "rate_bps": 4 * 10**10, "delay_us": 333, "loss_percent": 0.1,
        "queue": {"kind": "bfifo", "limit_bytes": 10**7}}},
        {"initcwnd": 3, "offloads": "gso+gro", "coalescing_us": 50}),
    "h": ({"kind": "h-shape", "central": {**CENTRAL, "queue": {"limit": 20}}, "edge": CENTRAL, "cross": EDGE}, {}),
    "parking lot": ({"kind": "parking-lot", "access": EDGE, "links": [CENTRAL, {**CENTRAL, "delay_us": 1}],
                     "hosts": [{"router": 1}, {"router": 2, "delay_us": 3000}, {"router": 3}],
                     "paths": ["n1-n3", "n2-n3"]}, {}),
    # a part is told, and a part left to tc
    "red": ({**DUMBBELL, "central": {**CENTRAL, "queue": {"kind": "red", "limit_bytes": 100_000}}}, {}),
    "ipv6": ({**DUMBBELL, "ip": 6}, {}),
}
#: {name: a route of n3's that cannot be}
ROUTES = {"no way to the gateway": ["10.9.0.0/16", "10.8.0.1", "n3-eth0"],
          "no device": ["10.9.0.0/16", "10.8.0.1", "n3-eth7"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """{name: (what the kernel has after messages, after programs)}"""
    states = {}
    for options in ((), ("ipv6",)):
        program = kernel.ensure(options=options).program
        networks = {name: end_hosts.apply(fields.decode(end_hosts.HostsSection, hosts), topologies.resolve(section))
                    for name, (section, hosts) in NETWORKS.items() if (section.get("ip") == 6) == bool(options)}
        for name in ROUTES if not options else ():
            dumbbell = networks["dumbbell"]
            networks[name] = dumbbell.changed(nodes=[
                node.changed(routes=[ROUTES[name]]) if node.name == "n3" else node for node in dumbbell.nodes])
        ways = []
        for how in ("messages", "programs"):
            folder = tmp_path_factory.mktemp("uml")
            (folder / "networks.json").write_text(json.dumps(networks, default=plain))
            ways.append(guest_script.result_of(program, network_state_guest.__file__, folder, folder / "networks.json",
                                               how))
        states |= {name: tuple(way[name] for way in ways) for name in networks}
    return states


@pytest.mark.parametrize("name", NETWORKS)
def test_the_kernel_has_the_same_in_every_namespace(found, name):
    messages, programs = found[name]
    assert messages["told"] > 90 and programs["told"] == 0
    for node, state in messages["nodes"].items():
        assert state == programs["nodes"][node], node
    assert messages["nodes"].keys() == programs["nodes"].keys() and messages["outside"] == programs["outside"]


@pytest.mark.parametrize("name, words", [
    ("dumbbell", ["htb", "netem", "pfifo", "mirred", '"limit": 850']), ("fast", ["bfifo", "initcwnd", '"loss": 0.001']),
    ("red", ["red"]), ("ipv6", ["fd00:0:0:1::1", "NOARP"])])
def test_what_is_compared_has_what_is_to_be_compared(found, name, words):
    """Of an end of the link in the middle, and of a host."""
    nodes = found[name][0]["nodes"]
    text = "\n".join([*(json.dumps([nodes[node]["ip"], nodes[node]["ip -6"]]) for node in ("r1", "n1")),
                      *nodes["r1"]["tc"]])
    assert not [word for word in words if word not in text]


@pytest.mark.parametrize("name, why", [
    ("no way to the gateway", "netlink: Network is unreachable: Nexthop has invalid gateway"),
    ("no device", "there is no device n3-eth7")])
def test_a_refusal_names_node_and_line_and_has_the_words_of_the_kernel(found, name, why):
    messages, programs = (way["refused"] for way in found[name])
    network, gateway, device = ROUTES[name]
    assert messages == f"node n3: ip route add {network} via {gateway} dev {device} initcwnd 10: {why}"
    assert programs.startswith("node n3: ip -batch: ")

# SPDX-License-Identifier: GPL-2.0-only
"""IPv6 as an option of every topology, and what else is told by the version of IP."""
import inspect
import ipaddress
import sys

import pytest

import topologies
from testbed.core import ip
from testbed.core.fields import FieldError
from testbed.scenario import scenario
from topologies.base.wireless import WirelessTopo
from topologies.links import losses
from topologies.links.records import Network
from topologies.linux.network import interface

_LINK = {"rate_bps": 10**7, "delay_us": 5000}
_ACCESS = {"rate_bps": 10**8}
SECTIONS = {
    "dumbbell": {"central": _LINK, "edge": _ACCESS, "left_delays_us": [0, 5000], "right_delays_us": [1000]},
    "parking-lot": {"links": [_LINK, _LINK], "access": _ACCESS,
                    "hosts": [{"router": 1}, {"router": 2}, {"router": 3}], "paths": ["n1-n3", "n2-n3"]},
    "two-hosts": {"left": _LINK},
}


@pytest.mark.parametrize("kind", [kind for kind in topologies.names() if not issubclass(
    topologies.load(kind), WirelessTopo)])                  # test_topologies_radio.py
def test_every_topology_can_be_built_with_ipv6(kind):
    """With the section that it offers to Mininet's own command, or that of a scenario."""
    offered = vars(sys.modules[topologies.load(kind).__module__]).get("topos")
    if offered:
        make, = offered.values()
        network = topologies.load(kind)(inspect.getclosurevars(make).nonlocals["section"], 6).describe()
    else:
        sections = (scenario.load(name).topology for name in scenario.names())
        section = next((one for one in sections if one["kind"] == kind), None)
        assert section, f"no scenario has a topology {kind}"
        network = topologies.resolve({**section, "ip": 6})
    addresses = [address for node in network["nodes"] for address in node["addresses"]]
    assert addresses and all(ipaddress.ip_address(address).version == 6 for address in addresses)
    assert {path[f"{end}_address"] for path in network["paths"] for end in ("initiator", "acceptor")} <= set(addresses)


@pytest.mark.parametrize("kind", SECTIONS)
def test_every_topology_can_have_either(kind):
    four, six = (topologies.resolve({"kind": kind, **SECTIONS[kind], "ip": version}) for version in (4, 6))
    assert "ip_version" not in four and six["ip_version"] == 6
    assert topologies.resolve({"kind": kind, **SECTIONS[kind]}) == four
    assert topologies.complete({"kind": kind, **SECTIONS[kind], "ip": 4}) == topologies.complete(
        {"kind": kind, **SECTIONS[kind]}), "the usual version is no part of a run's identity"
    assert topologies.complete({"kind": kind, **SECTIONS[kind], "ip": 6})["ip"] == 6
    assert topologies.kernel_options(four) == [] and topologies.kernel_options(six) == ["ipv6"]
    for old, new in zip(four["nodes"], six["nodes"]):
        assert (old["name"], len(old["addresses"]), len(old["routes"])) == (
            new["name"], len(new["addresses"]), len(new["routes"]))
    assert [link["name"] for link in four["links"]] == [link["name"] for link in six["links"]]


def _network(address):
    return str(ipaddress.ip_interface(ip.with_prefix(address)).network)


def test_addresses_networks_and_routes_fit_together():
    network = topologies.resolve({"kind": "dumbbell", **SECTIONS["dumbbell"], "ip": 6})
    addresses = [link["address"] for link in network["links"]]
    assert addresses[:4] == ["fd00:0:0:1::1", "fd00:0:0:1::2", "fd00:0:0:2::1", "fd00:0:0:2::2"]
    assert len(set(addresses)) == len(addresses)
    for address in addresses:                   # as the kernel writes them
        assert str(ipaddress.ip_address(address)) == address
    for one, other in zip(addresses[::2], addresses[1::2]):
        assert _network(one) == _network(other)
    known = {*map(_network, addresses), "default"}
    for node in network["nodes"]:
        for target, gateway, _ in node["routes"]:
            assert target in known and gateway in addresses


def test_hosts_at_a_switch_know_each_other():
    network = topologies.resolve({"kind": "two-hosts", **SECTIONS["two-hosts"], "ip": 6})
    nodes = {node["name"]: node for node in network["nodes"]}
    (route, gateway, _), = nodes["n1"]["routes"]
    assert route == f"{gateway}/128" and gateway in nodes["n2"]["addresses"]
    assert [address for address, _, _ in nodes["n1"]["neighbours"]] == [gateway]
    assert ip.alone("10.0.1.2") == "10.0.1.2/32"


@pytest.mark.parametrize("link", [1, 255, 256, 40_000])
def test_links_by_their_number(link):
    four = ipaddress.ip_network("10.0.0.0/8").network_address + link * 256
    assert ip.link_network(4, link) == f"{four}/24" and ip.link_network(6, link) == f"fd00:0:0:{link:x}::/64"
    assert ip.with_prefix("fd00::1") == "fd00::1/64" and ip.with_prefix("10.0.1.2") == "10.0.1.2/24"


@pytest.mark.parametrize("version", [5, "6", True, 46, [6], 4.5])
def test_other_versions_are_refused(version):
    with pytest.raises(FieldError, match="^4 or 6 expected, not ") as caught:
        topologies.complete({"kind": "dumbbell", **SECTIONS["dumbbell"], "ip": version})
    assert caught.value.field == "ip"


def test_sizes():
    four, six = Network({}), Network({"ip_version": 6})
    assert (four.segment_bytes(), six.segment_bytes()) == (1448, 1428)
    assert (four.datagram_bytes(), six.datagram_bytes()) == (1472, 1452)
    assert (ip.udp_header_bytes("10.0.1.2"), ip.udp_header_bytes("fd00::1")) == (28, 48)
    assert (four.more_bytes(), six.more_bytes()) == (0, 20)


@pytest.mark.parametrize("address, text", [("10.0.1.2", "10.0.1.2:80"), ("fd00:0:0:1::2", "[fd00:0:0:1::2]:80")])
def test_endpoints(address, text):
    assert ip.endpoint(address, 80) == text and ip.split_endpoint(text) == (address, 80)


def test_a_device_of_ipv6_tells_nobody_that_it_is_there():
    assert interface("10.0.1.2", "x") == ["addr add 10.0.1.2/24 dev x", "link set x up"]
    assert interface("fd00:0:0:1::2", "x") == [
        "link set x arp off multicast off", "link set x up", "addr add fd00:0:0:1::2/64 dev x nodad"]


def test_chosen_segments_are_those_of_ipv6():
    line, = losses.filters("x", [3], 1, 6)
    assert "protocol ipv6 pref 1 u32 match u8 6 0xff at 6 match u16 1460 0xffff at 4 match u32 2856 0xffffffff at 44" \
        in line

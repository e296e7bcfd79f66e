# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel says of devices and routes once the network stands: read back, not remembered.

rtnetlink(7): three dumps per node and one per device with classes, decoded by hand for the reason
testbed/probes/_netlink.py gives. Options of qdiscs stay as the kernel gives them, for topologies/linux/read_back.py.
"""
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple, TypedDict

from testbed.probes._netlink import NETLINK_ROUTE, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, attributes
from topologies.linux.network import Network
from topologies.linux.rtnetlink import HEADER, raise_error

_RTM_GETLINK, _RTM_GETROUTE, _RTM_GETQDISC, _RTM_GETTCLASS = 18, 26, 38, 42
# sizes of struct ifinfomsg, rtmsg, tcmsg
_IFINFOMSG, _RTMSG, _TCMSG = 16, 12, 20
_IFLA_IFNAME, _IFLA_MTU, _IFLA_GSO_MAX_SEGS = 3, 4, 40
_RTA_GATEWAY, _RTA_METRICS, _RTAX_INITCWND, _RTAX_QUICKACK = 5, 8, 11, 15
_TCA_KIND, _TCA_OPTIONS = 1, 2
#: whose parameters are those of their classes
_WITH_CLASSES = ("htb",)


class Device(TypedDict):
    """qdiscs: {handle: "kind options"}, and classes, "htb class"; options in hexadecimal digits; those that nobody made
    are left out."""
    mtu: int
    gso_max_segs: int
    qdiscs: dict[str, str]


class Found(NamedTuple):
    """devices: {"node/device": what the kernel says of it}. Of the routes with a gateway {node: values}, in order and
    each value once, and 0 where a route has none of its own: initial windows in segments; quickack, 1 where every
    segment is acknowledged at once."""
    devices: dict[str, Device]
    initcwnd: dict[str, list[int]]
    quickack: dict[str, list[int]]


def read(network: Network) -> Found:
    """Of all nodes."""
    devices: dict[str, Device] = {}
    windows: dict[str, list[int]] = {}
    quick: dict[str, list[int]] = {}
    family = socket.AF_INET6 if network.description.ip_version == 6 else socket.AF_INET
    for node in network.node_names():
        with network.in_namespace(node):
            asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
        with asking:
            asking.bind((0, 0))
            names = {}
            for index, name, mtu, most in _links(asking):
                names[index] = f"{node}/{name}"
                devices[names[index]] = {"mtu": mtu, "gso_max_segs": most, "qdiscs": {}}
            with_classes = []
            for index, handle, kind, options in _qdiscs(asking):
                devices[names[index]]["qdiscs"][handle] = f"{kind} {options}"
                with_classes += [index] if kind in _WITH_CLASSES else []
            for index in with_classes:
                for _, handle, kind, options in _qdiscs(asking, _RTM_GETTCLASS, index):
                    if kind in _WITH_CLASSES:
                        devices[names[index]]["qdiscs"].setdefault(handle, f"{kind} class {options}")
            metrics = list(_metrics(asking, family))
            windows[node], quick[node] = ([*sorted({one.get(kind, 0) for one in metrics})]
                                          for kind in (_RTAX_INITCWND, _RTAX_QUICKACK))
    return Found(devices, windows, quick)


def _links(asking: socket.socket) -> Iterator[tuple[int, str, int, int]]:
    """(ifindex, name, MTU, gso_max_segs)"""
    for body in _dump(asking, _RTM_GETLINK, struct.pack("=B15x", socket.AF_UNSPEC)):
        index, = struct.unpack_from("=i", body, 4)
        found = {kind: body[at:at + size] for kind, at, size in attributes(body, _IFINFOMSG, len(body))}
        mtu, most = (int.from_bytes(found[kind], "little") for kind in (_IFLA_MTU, _IFLA_GSO_MAX_SEGS))
        yield index, found[_IFLA_IFNAME].rstrip(b"\0").decode(), mtu, most


def _qdiscs(asking: socket.socket, what: int = _RTM_GETQDISC, of_index: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """(ifindex, handle such as "10:" or "3:1", kind, options)"""
    for body in _dump(asking, what, struct.pack("=BxxxiIII", socket.AF_UNSPEC, of_index, 0, 0, 0)):
        index, handle = struct.unpack_from("=iI", body, 4)
        found = {kind: body[at:at + size] for kind, at, size in attributes(body, _TCMSG, len(body))}
        minor = f"{handle & 0xFFFF:x}" if handle & 0xFFFF else ""
        if handle:
            yield (index, f"{handle >> 16:x}:{minor}", found[_TCA_KIND].rstrip(b"\0").decode(),
                   found.get(_TCA_OPTIONS, b"").hex())


def _metrics(asking: socket.socket, family: int) -> Iterator[dict[int, int]]:
    """{number of a metric: value} of each route with a gateway."""
    for body in _dump(asking, _RTM_GETROUTE, struct.pack("=B11x", family)):
        found = {kind: (at, size) for kind, at, size in attributes(body, _RTMSG, len(body))}
        if _RTA_GATEWAY in found:
            at, size = found.get(_RTA_METRICS, (0, 0))
            yield {kind: int.from_bytes(body[where:where + 4], "little")
                   for kind, where, _ in attributes(body, at, at + size)}


def _dump(asking: socket.socket, kind: int, body: bytes) -> Iterator[bytes]:
    """Bodies of the messages that a dump consists of. OSError if the kernel refuses."""
    asking.send(HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
    while True:
        data, at = asking.recv(1 << 17), 0
        while at < len(data):
            length, answer, *_ = HEADER.unpack_from(data, at)
            if answer == NLMSG_DONE:
                return
            if answer == NLMSG_ERROR:
                raise_error(data[at:])
            yield data[at + HEADER.size:at + length]
            at += (length + 3) & ~3

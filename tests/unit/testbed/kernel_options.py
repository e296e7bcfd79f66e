# SPDX-License-Identifier: GPL-2.0-only
"""Options of qdiscs and classes as a kernel would hand them out, for evidence."""
import struct

from topologies.links.records import Link
from topologies.linux import read_back, tc
from topologies.linux.rtnetlink import attribute


def encoded(kind, wanted):
    """Bytes in which read_back.decoded finds these parameters, and 0 for others."""
    before = bytearray(read_back._BEFORE_ATTRIBUTES.get(kind, 0))
    payloads = {}
    for name, (number, at, form) in read_back.places_of(kind).items():
        value = wanted.get(name, 0)
        if isinstance(value, tuple):
            value = value[1]
        if name.endswith("64") or f"{name}64" in read_back.places_of(kind) and value >= 2**32:
            continue
        data = before if number is None else payloads.setdefault(number, bytearray())
        end = at + struct.calcsize(f"={form}")
        data.extend(bytes(max(0, end - len(data))))
        struct.pack_into(f"={form}", data, at, value)
    for name, value in wanted.items():
        if f"{name}64" in read_back.places_of(kind) and value >= 2**32:
            payloads[read_back.places_of(kind)[f"{name}64"][0]] = bytearray(struct.pack("=Q", value))
    options = bytes(before)
    for number, data in payloads.items():
        first, *inner = number if isinstance(number, tuple) else (number,)
        for one in reversed(inner):
            data = attribute(one, bytes(data))
        options += attribute(first, bytes(data))
    return options


def devices(links, jiffy_us=1000, ended_us=None):
    """{"node/device": {handle: "kind options"}} of links as they must be."""
    found = {}
    for link in map(Link, links):
        for place, facts in (
                (f"{link.from_node}/{link.device}", read_back.sending(link, 0, jiffy_us, ended_us)),
                (f"{link.to_node}/{tc.wire_device(link.peer_device)}", read_back.arriving(link, ended_us))):
            found.setdefault(place, {}).update({
                handle: f"{kind} {encoded(kind, wanted).hex()}" for handle, (kind, wanted) in facts.items()})
    return found

# SPDX-License-Identifier: GPL-2.0-only
"""Orders to the programs of UDP flows, and the account of what these counted. What kinds of UDP traffic share."""
import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from topologies import standards
from topologies.links.records import Link, Network
from traffic.datagrams.batch import HEADER
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared, Program

if TYPE_CHECKING:
    from traffic.datagrams.departures import Instants

_Default = TypeVar("_Default")

FIRST_PORT = 7000
#: of IPv4 and UDP
_LEAST_HEADER_BYTES = 28
#: a sender's socket has room for more than so many packets (program.py), of whatever size
_NEVER_FULL_PACKETS = 50_000
#: ECN codepoints that a sender may use, as in the IP header (RFC 3168, RFC 9331)
CODEPOINTS = {"not_ect": 0, "ect0": 2, "ect1": 1}


def packet_field(default: _Default) -> int | _Default:
    """The field `packet` of a section: size of an IP packet."""
    return fields.size(default=default, least=_LEAST_HEADER_BYTES + HEADER.size, most=ip.MOST_MTU_BYTES)


@dataclasses.dataclass(frozen=True)
class RateSection:
    """The fields of a component of UDP flows that have a rate."""
    rate_bps: int = fields.rate()
    packet_bytes: int = packet_field(1000)
    paths: tuple[str, ...] = routes.paths_field()
    flows: int = fields.count(default=1, least=1, most=10_000)
    start_within_us: int = fields.time(default=0)
    stagger_us: int = fields.time(default=0)

    def __post_init__(self) -> None:
        gap_ns(self.rate_bps, self.packet_bytes)


def gap_ns(rate_bps: int, packet_bytes: int) -> int:
    """Time from packet to packet of a rate, with Ethernet headers. FieldError if no program could keep it."""
    gap = round((packet_bytes + ip.ETHERNET_BYTES) * 8e9 / rate_bps)
    if not 100 <= gap <= 10**15:
        raise FieldError("rate", f"a packet of {packet_bytes} bytes every 100 ns to 11 days expected")
    return gap


def validate(section: RateSection, component: Component, network: Network, _timing: Timing) -> None:
    """FieldError if there are more flows than ports, or no room in a packet."""
    total = section.flows * len(routes.find(network, section.paths))
    enough_ports(total)
    routes.in_time(component.start_us + (total - 1) * section.stagger_us + section.start_within_us - 1,
                   component.stop_us, "stagger" if section.stagger_us else "start_within")
    fits(section.packet_bytes, network, routes.find(network, section.paths))


def uses_ccas(_section: object) -> bool:
    """Whether a congestion control makes a difference to flows of a section."""
    return False


def fits(packet_bytes: int, network: Network, ways: Sequence[routes.Route]) -> None:
    """FieldError if packets of this size have no room for headers, number and instant, or find none on their ways."""
    least = _LEAST_HEADER_BYTES + network.more_bytes() + HEADER.size
    if packet_bytes < least:
        raise FieldError("packet", f"must be at least {least} bytes over IPv{network.ip_version}, not {packet_bytes}")
    for way in ways:
        if packet_bytes > (most := network.packet_bytes((*way.hops, *way.hops_back))):
            raise FieldError("packet", f"must be at most {most} B, the MTU from {way.sender} to {way.receiver}, not "
                                       f"{packet_bytes} B")


def enough_ports(count: int) -> None:
    """FieldError if so many flows are too many."""
    if count > 65536 - FIRST_PORT:
        raise FieldError("flows", f"{count} flows need as many ports; there are {65536 - FIRST_PORT}")


def flows(section: RateSection, component: Component, context: Context) -> list[Flow]:
    """Path by path, each flow with its start."""
    chosen = [route for route in routes.find(context.network, section.paths) for _ in range(section.flows)]
    return [Flow(**dataclasses.asdict(route), start_us=start_us, stop_us=component.stop_us, transport="udp",
                 rate_bps=section.rate_bps)
            for route, start_us in zip(chosen, starts_us(component, section.start_within_us, len(chosen),
                                                         section.stagger_us))]


def starts_us(component: Component, start_within_us: int, count: int, stagger_us: int = 0) -> list[int]:
    """When flows begin: at the component's start, each by stagger_us later than the one before, and a random time below
    start_within_us. FieldError if too late."""
    import numpy as np
    found = (component.start_us + stagger_us * np.arange(count) + np.random.default_rng((component.seed, 1)).integers(
        0, max(start_within_us, 1), size=count)).tolist()
    for place, start_us in enumerate(found, start=1):
        if start_us >= component.stop_us:
            raise FieldError("stagger" if stagger_us else "start_within", f"flow {place} would begin after the end")
    return [int(start_us) for start_us in found]


def seed(component: Component, place: int) -> str:
    """Of the draws of one flow of a component."""
    return f"{component.seed}/{place}"


def at_rate(section: RateSection, component: Component, flows: Sequence[Flow], context: Context, gaps: str = "",
            spread: float = 0.0, ecn: int = 0) -> Prepared:
    """Programs of flows with the section's rate. gaps, spread: as orders have them; by default all gaps are equal."""
    timing: dict[int, "Instants"] = {}
    for place, flow in enumerate(flows):
        timing[flow.flow] = {"gap_ns": gap_ns(section.rate_bps, section.packet_bytes)}
        if gaps:
            timing[flow.flow].update({"gaps": gaps, "spread": spread, "seed": seed(component, place)})
    made = programs(component, flows, {flow.flow: section.packet_bytes for flow in flows}, timing, context, ecn)
    return Prepared(made, {"rate_bps": section.rate_bps, "packet_bytes": section.packet_bytes})


def programs(component: Component, flows: Sequence[Flow], packet_bytes: Mapping[int, int],
             timing: Mapping[int, "Instants"], context: Context, ecn: int = 0) -> list[Program]:
    """One job file per host that sends or receives.

    packet_bytes: {flow: size of its IP packets}; timing: {flow: what its order says of the packets' instants};
    ecn: codepoint of all packets.
    """
    jobs: dict[str, dict[str, list[dict[str, object]]]] = {}
    for flow in flows:
        order: dict[str, object] = {"flow": flow.flow, "address": flow.dst, "port": flow.dport,
                                    "payload_bytes": packet_bytes[flow.flow] - ip.udp_header_bytes(flow.dst)}
        jobs.setdefault(flow.sender, {"send": [], "receive": []})["send"].append(
            {**order, "start_us": flow.start_us, "stop_us": flow.stop_us, **({"ecn": ecn} if ecn else {}),
             **timing[flow.flow]})
        jobs.setdefault(flow.receiver, {"send": [], "receive": []})["receive"].append(
            {**order, "packets_per_s": 1e9 / timing[flow.flow]["gap_ns"]})
    # a sender whose socket is full makes its program wait, and with it whoever else that is for
    first_hops = {flow.hops[0] for flow in flows if flow.hops}
    waits = any(_most_queued(link) > _NEVER_FULL_PACKETS for link in context.network.links
                if link.name in first_hops)
    found = []
    for node, job in sorted(jobs.items()):
        name = f"{component.name}-{node}.udp.json"
        (context.work_dir / name).write_text(json.dumps({
            **job, "drained_us": context.duration_us + drain_us(flows, context.network),
            "output": f"{context.guest_dir}/{_output_name(component.name, node)}"}))
        found.append(Program(node, "traffic.datagrams.program", [f"{context.guest_dir}/{name}"],
                             threads=0 if waits else 1))
    return found


def _most_queued(link: Link) -> float:
    """Packets that the queue of a link holds, of the smallest if it counts bytes."""
    return float(link.limit_packets or (link.limit_bytes or math.inf) / _LEAST_HEADER_BYTES)


def drain_us(flows: Sequence[Flow], network: Network) -> int:
    """The longest time that a packet may still be under way when the experiment ends."""
    queues_us = {link.name: link.capacity_us for link in network.links}
    of_air_us: int = sum(standards.of(cell).longest_queue_us() for cell in network.cells)
    return 1_000_000 + of_air_us + max(flow.base_rtt_us + sum(queues_us[name] for name in flow.hops) for flow in flows)


def _output_name(component: str, node: str) -> str:
    return f"{component}-{node}.counts.json"


def collect(component: records.Component, workload: records.Workload, context: Context, _raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """{"flows": [counts of each UDP flow]}, if there are any.

    sent_*, received_* and, by their numbers, lost, reordered, duplicate packets; delay_*_us of those that arrived.
    Lost ones include those that arrived and found no room in the receiver's socket (socket_dropped_packets).
    """
    mine = [flow for flow in workload.flows
            if flow.component == component.name and flow.transport == "udp"]
    nodes = {node for flow in mine for node in (flow.sender, flow.receiver)}
    counts: dict[str, dict[str, int]] = {}
    for node in sorted(nodes):
        for flow, found in json.loads((context.work_dir / _output_name(component.name, node)).read_text()).items():
            counts.setdefault(flow, {}).update(found)
    found = []
    for flow in mine:
        one = counts[str(flow.flow)]
        found.append({"flow": flow.flow, **one, "lost_packets": one["sent_packets"] - one["received_packets"]})
    return {"flows": found} if found else {}

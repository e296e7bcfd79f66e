# SPDX-License-Identifier: GPL-2.0-only
"""What programs received has crossed every bottleneck on its way, and what crossed it was received, came twice, or
waits for something that was lost.

The counters of links know nothing of connections, and programs nothing of packets. Holds at every load.
"""
from collections.abc import Iterator, Mapping, Sequence

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._programs import ends, tcp_flows
from testbed.checks._stacks import came_twice, total
from testbed.core import ip
from testbed.core.guest_files import Counters, FlowEnd
from topologies.links import varying
from topologies.links.records import Link
from traffic.workload.records import Flow

NEEDS = ("kernel", "counters.json", "guest.json", "snmp.json")

#: of the bytes a link sent: options of SYNs and of acknowledgements that report losses
_TOLERANCE = 0.01
#: data that hosts hold which arrived out of order, in windows of a path, when the programs end
_WINDOWS = 2


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = tcp_flows(evidence)
    if not flows:
        return
    found, counters = ends(evidence), evidence.counters
    for link in evidence.network.links:
        if not link.bottleneck:
            continue
        name = link.name
        if any(flow.transport != "tcp" and name in [*flow.hops, *(flow.hops_back if flow.both_ways else ())]
               for flow in evidence.flows):
            yield Finding(NOT_APPLICABLE, f"{name} also carries UDP or what programs send, whose headers are others")
            continue
        received, unknown = _received(name, flows, found)
        if unknown:
            yield Finding("suspect", f"{name}: no record of what {unknown} of its flows received")
            continue
        yield _judge(link, received, flows, counters, evidence)


def _received(name: str, flows: Sequence[Flow], found: Mapping[tuple[int, str], FlowEnd]) -> tuple[int, int]:
    """(bytes that programs got over a link, flows that say nothing)"""
    total = unknown = 0
    for flow in flows:
        for end, hops in (("receiver", flow.hops), ("sender", flow.hops_back if flow.both_ways else ())):
            if name in hops:
                one = found.get((flow.flow, end))
                total += one.checked_bytes + one.unchecked_bytes if one else 0
                unknown += one is None
    return total, unknown


def _waiting(name: str, flows: Sequence[Flow], evidence: Evidence) -> float:
    """Bytes that hosts had sent over a link and nobody had acknowledged at the end: what has come of them waits for
    others that were lost. Without samples of the sockets all that ever came out of order may still wait."""
    hosts = {host for flow in flows for host, way in (
        (flow.sender, flow.hops), (flow.receiver, flow.hops_back if flow.both_ways else ())) if name in way}
    samples = evidence.table("tcp_info", usecols=["t_us", "node", "unacked", "mss"])
    if samples is None or samples.empty:
        return total(evidence.snmp, "TcpExtTCPOFOQueue") * max((link.mtu_bytes for link in evidence.network.links))
    last = samples[(samples["t_us"] == samples["t_us"].max()) & samples["node"].isin(hosts)]
    return float((last["unacked"] * last["mss"]).sum())


def _judge(link: Link, received: int, flows: Sequence[Flow], counters: Counters, evidence: Evidence) -> Finding:
    name = link.name
    header = (ip.ETHERNET_BYTES + evidence.network.header_bytes() + ip.TCP_BYTES
              + ip.TIMESTAMP_BYTES * _timestamps(evidence))
    # programs end between the two readings
    at_end, drained = counters.at_end[name], counters.drained[name]
    least, most = (max(0, one.sent_bytes - header * one.sent_packets) for one in (at_end, drained))
    slack = _TOLERANCE * drained.sent_bytes + _WINDOWS * _window_bytes(link, evidence)
    message = f"{name} carried {most} bytes of TCP's payload, of which programs received {received}"
    if received > most + slack:
        return Finding("invalid", f"{message}: more than crossed it")
    # what was lost before this link is sent again, too, and crosses it once
    record = evidence.snmp
    segments = max(came_twice(record), total(record, "TcpRetransSegs") - drained.dropped_packets)
    twice = segments * (link.mtu_bytes + ip.ETHERNET_BYTES)
    waiting = _waiting(name, flows, evidence)
    if least > received + twice + waiting + slack:
        return Finding("suspect", f"{message}; of the others {twice:.0f} may have come twice, and {waiting:.0f} wait "
                                  "for what was lost")
    return Finding("ok", message)


def _timestamps(evidence: Evidence) -> bool:
    wanted = evidence.measured.sysctls_wanted
    return any(str(settings.get("net.ipv4.tcp_timestamps", 1)) != "0" for settings in wanted.values())


def _window_bytes(link: Link, evidence: Evidence) -> float:
    """What may be under way behind a link: its rate for the longest round trip, and its queue."""
    rtt_us = max((path.base_rtt_us for path in evidence.network.paths
                  if link.name in [*path.hops, *path.hops_back]), default=0)
    rtt_us += sum(varying.most(other, "delay_us") - other.delay_us for other in evidence.network.links)
    return float(varying.most(link, "rate_bps") / 8e6 * rtt_us + link.capacity_bytes)

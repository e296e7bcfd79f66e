# SPDX-License-Identifier: GPL-2.0-only
"""One-way delays of UDP flows are what the way takes: its delay, the sending of each frame, and the time that packets
spent in the queues, as the queues' trace events (sojourn) tell it.

Packets of a UDP flow are spread over its time whatever else is sent. So their mean wait is that of the instants, which
the shortest and the longest times of each interval of sojourn enclose.
"""
import math
from collections.abc import Iterator, Sequence

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, of_links
from testbed.core import ip
from testbed.core.guest_files import DatagramCounts
from topologies import queues
from topologies.links import varying, wires
from topologies.links.records import Link
from traffic.workload.records import Flow

NEEDS = ("kernel", "guest.json")

#: clocks are read in whole us; a timer of the wire is as exact
_CLOCK_US = 2
#: standard errors of a mean over so many packets, or intervals
_DEVIATIONS = 4
#: fewer say nothing of a mean
_LEAST_PACKETS = 100
#: a flow that lasts for less of the longest waits has most of its packets at its ends
_LONG = 10
#: of a base round trip: what the check `edges` lets packets wait on links that are no bottlenecks
_EDGES = 0.1


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in evidence.flows if flow.transport == "udp"]
    counts = evidence.guest.datagrams()
    table = evidence.table("sojourn") if flows else None
    if not flows:
        return
    links = {link.name: link for link in evidence.network.links}
    sojourns = {} if table is None else dict(of_links(table, links))
    wrong = judged = 0
    for flow in flows:
        one, hops = counts.get(flow.flow), [links[name] for name in flow.hops if name in links]
        if one is None or one.received_packets < _LEAST_PACKETS or one.delay_mean_us is None or not _plain(
                flow, hops, sojourns, evidence):
            continue
        judged += 1
        for problem in _judge(flow, one, one.delay_mean_us, hops, sojourns):
            wrong += 1
            yield Finding("suspect", f"flow {flow.flow}: {problem}")
    if not judged:
        yield Finding(NOT_APPLICABLE, "of no UDP flow is the time known that its packets spent in queues")
    elif not wrong:
        yield Finding("ok", f"one-way delays of {judged} UDP flows are what delays, frames and queues make")


def _plain(flow: Flow, hops: Sequence[Link], sojourns: dict[str, Columns], evidence: Evidence) -> bool:
    """True if nothing but frames and known queues is on the way; of AQMs that choose by flow a flow's own wait is not
    known."""
    nodes = {node.name: node for node in evidence.network.nodes}
    return len(hops) == len(flow.hops) and not any(
        wires.late_us(link) or wires.early_us(link) or link.jitter_us or link.coalescing_us
        or link.packet_cost_us or link.gro or link.opportunities or varying.changes(link)
        or nodes[link.from_node].wakeup_cost_us or link.bottleneck and (
            link.name not in sojourns or not queues.traits(link).flow_blind)
        for link in hops)


def _judge(flow: Flow, counts: DatagramCounts, took_us: float, hops: Sequence[Link], sojourns: dict[str, Columns]) \
        -> Iterator[str]:
    packets, sent = counts.received_packets, counts.sent_packets
    frame = counts.received_bytes / packets + ip.ETHERNET_BYTES
    idle_us = sum(link.delay_us + wires.frame_us(link, frame) for link in hops)
    edges_us = _EDGES * flow.base_rtt_us + sum(
        (link.mtu_bytes + ip.ETHERNET_BYTES) * 8e6 / link.rate_bps for link in hops)
    longest_us = sum(float(sojourns[link.name]["max_us"].max()) for link in hops if link.name in sojourns)
    span_us = float(flow.stop_us - flow.start_us)
    least_us = most_us = spread_us = 0.0
    for link in hops:
        if link.name in sojourns:
            rows = sojourns[link.name]
            mine = (rows["packets"] > 0) & (rows["t_us"] >= flow.start_us) & (
                rows["t_us"] <= flow.stop_us + longest_us)
            if not mine.any():
                continue
            rows = {name: values[mine] for name, values in rows.items()}
            # where the flow is alone, intervals with more packets are those with longer waits
            means = [[float(np.average(rows[name], weights=weights)) for weights in (None, rows["packets"])]
                     for name in ("min_us", "max_us")]
            least_us, most_us = least_us + min(means[0]), most_us + max(means[1])
            spread_us += float(np.std(rows["mean_us"])) / math.sqrt(min(packets, len(rows["t_us"])))
    # intervals are those in which packets leave, later than they come
    off_us = _DEVIATIONS * spread_us + longest_us * longest_us / span_us
    # packets that were lost would have waited for the longest time
    least_us -= (sent - packets) / sent * longest_us + off_us
    most_us += edges_us + off_us
    mean_us = took_us - idle_us
    if span_us > _LONG * longest_us and not least_us - _CLOCK_US <= mean_us <= most_us + _CLOCK_US:
        yield (f"its packets took {took_us / 1000:.3f} ms on average, delays, frames and queues make "
               f"{(idle_us + least_us) / 1000:.3f} to {(idle_us + most_us) / 1000:.3f} ms")
    latest_us = sum(_latest_us(flow, link, sojourns[link.name]) for link in hops if link.name in sojourns)
    if counts.delay_max_us - idle_us > latest_us + edges_us + _CLOCK_US:
        yield (f"a packet took {counts.delay_max_us / 1000:.3f} ms, delays, frames and queues make "
               f"{(idle_us + latest_us + edges_us) / 1000:.3f} ms at most")


def _latest_us(flow: Flow, link: Link, rows: Columns) -> float:
    """The longest that a packet of the flow may have waited. Records end before the network has run empty: of what
    still waits then, no more is known than how long a full queue takes."""
    longest_us = float(rows["max_us"].max())
    if flow.stop_us + float(rows["max_us"][-1]) <= float(rows["t_us"][-1]):
        return longest_us
    largest = 1 if link.limit_bytes is not None else link.most_segments * (link.mtu_bytes + ip.ETHERNET_BYTES)
    return max(longest_us, link.limit * largest * 8e6 / link.rate_bps)

# SPDX-License-Identifier: GPL-2.0-only
"""No packet was faster than its way allows, most were no earlier than those that nothing let go early, and what is to
delay packets at random did delay some.

UDP flows have the one-way delay of each packet that arrived, of TCP connections there is the shortest round trip that
their senders saw, unless an optimistic receiver makes them shorter. Queues only add to both.
"""
import math
from collections.abc import Iterator, Sequence

from testbed.checks import Evidence, Finding
from testbed.checks._flows import misbehaving, stamped_late_us
from testbed.checks._sockets import ends_of
from testbed.core.guest_files import DatagramCounts
from topologies.links import varying, wires
from topologies.links.records import Link
from traffic.greedy import OPTIMISTIC

NEEDS = ("kernel",)

#: how much earlier a packet may seem to be: clocks are read in whole us; on a wall clock timers are never early, either
_CLOCK_US = 2
#: a round trip may be taken from time stamps, which count ms
_STAMP_US = 1000
_STAMPED = ("mss", "total_retrans", "pacing_rate_bps")
#: of a segment without payload
_LEAST_FRAME_BYTES = 54
#: fewer packets say nothing of what happens at random: so many are all in one half of a jitter once in 2**100 runs ...
_LEAST_PACKETS = 100
#: ... and with so many frames that are expected to be sent again there is none once in e**20
_EXPECTED = 20
#: of the packets; the median is surely not of them
_MOST_EARLY = 0.25


def check(evidence: Evidence) -> Iterator[Finding]:
    links = {link.name: link for link in evidence.network.links}
    counts = evidence.guest.datagrams()
    wrong = timed = 0
    for flow in evidence.flows:
        one = counts.get(flow.flow)
        if one and one.delay_min_us is not None:
            timed += one.received_packets
            for problem in _one_way([links[name] for name in flow.hops], one, one.delay_min_us):
                wrong += 1
                yield Finding("invalid", f"flow {flow.flow}: {problem}")
    shortest, stamped_us = _shortest_rtts(evidence)
    deceived = misbehaving(evidence, OPTIMISTIC)
    for flow in (flow for flow in evidence.flows if flow.flow in shortest and flow.component not in deceived):
        hops = [links[name] for name in (*flow.hops, *flow.hops_back)]
        least_us = _least_us(hops, _LEAST_FRAME_BYTES)
        if shortest[flow.flow] < least_us - _STAMP_US - _CLOCK_US - stamped_us[flow.flow]:
            wrong += 1
            yield Finding("invalid", f"flow {flow.flow}: a round trip took {shortest[flow.flow] / 1000:.3f} ms, "
                                     f"its way takes {least_us / 1000:.3f} ms at least")
    if (timed or shortest) and not wrong:
        yield Finding("ok", "no packet was faster than its way: " + " and ".join(
            [f"{timed} one-way delays of UDP flows"] * bool(timed)
            + [f"the shortest round trips of {len(shortest)} TCP flows"] * bool(shortest)))


def _one_way(hops: Sequence[Link], counts: DatagramCounts, shortest_us: float) -> Iterator[str]:
    """What is wrong with the delays of a UDP flow, whose packets are all of one size."""
    packets = counts.received_packets
    size, rest = divmod(counts.received_bytes, packets)
    frame_bytes = 14 if rest else size + 14
    least_us = _least_us(hops, frame_bytes)
    if shortest_us < least_us - _CLOCK_US:
        yield (f"a packet took {shortest_us / 1000:.3f} ms, its way takes {least_us / 1000:.3f} ms at least")
    usual_us = least_us + sum(wires.early_us(link) for link in hops)
    early = 1 - math.prod(1 - (link.reorder.share_percent if link.reorder else 0) / 100 for link in hops)
    if packets >= _LEAST_PACKETS and early <= _MOST_EARLY and counts.delay_p50_us is not None \
            and counts.delay_p50_us < usual_us - _CLOCK_US:
        yield (f"half of the packets took no longer than {counts.delay_p50_us / 1000:.3f} ms, those that nothing "
               f"lets go early take {usual_us / 1000:.3f} ms")
    late_us = max(_surely_late_us(link, packets) for link in hops)
    if late_us and counts.delay_max_us < least_us + late_us - _CLOCK_US:
        yield (f"no packet took longer than {counts.delay_max_us / 1000:.3f} ms: nothing was delayed at random, "
               f"{(least_us + late_us) / 1000:.3f} ms expected")


def _least_us(hops: Sequence[Link], frame_bytes: int) -> float:
    """The shortest time that a frame of this size takes over the links, with nobody in its way."""
    return sum(wires.least_delay_us(link) + wires.frame_us(link, frame_bytes, varying.most(link, "rate_bps"))
               for link in hops)


def _surely_late_us(link: Link, packets: int) -> float:
    """By how much one of so many packets is delayed at random at least, but for a chance that never comes."""
    again = link.retransmission
    step_us = again.delay_us if again and packets * again.loss_percent / 100 >= _EXPECTED else 0
    spread_us = max(link.jitter.spread_us if link.jitter else 0, link.jitter_us)
    return float(max(step_us, spread_us / 2 if packets >= _LEAST_PACKETS else 0))


def _shortest_rtts(evidence: Evidence) -> tuple[dict[int, float], dict[int, float]]:
    """({flow: the shortest round trip in us that one of its senders saw}, {flow: by how much it may be too short})"""
    flows = {flow.flow: flow for flow in evidence.flows if flow.transport == "tcp"}
    samples = evidence.table("tcp_info", usecols=["node", "sport", "dst", "dport", "min_rtt_us", *_STAMPED]) \
        if flows else None
    if samples is None or samples.empty:
        return {}, {}
    # before the first one the kernel has its largest number there
    seen = samples["min_rtt_us"].between(1, 2**32 - 2)
    numbers, _ = ends_of(samples, list(flows.values()))
    found, stamped_us = {}, {}
    known = seen & (numbers > 0)
    for number, of in samples[known].groupby(numbers[known]):
        found[int(number)] = float(of["min_rtt_us"].min())
        mss, total_retrans, pacing_rate_bps = (of[name].to_numpy() for name in _STAMPED)
        stamped_us[int(number)] = stamped_late_us(flows[int(number)], mss, total_retrans, pacing_rate_bps, evidence)
    return found, stamped_us

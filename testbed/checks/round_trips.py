# SPDX-License-Identifier: GPL-2.0-only
"""What senders take for their round trip is what the way takes: its delay, the sending of each frame, and the time that
packets spent in the queues.

srtt is a mean of round trips to which each new one adds an eighth: beside the last 32, all that came before counts
1.4 %. So each sample lies between the shortest and the longest that the last round trips can have been. The trace
events of the queues (sojourn) tell these, and TCP knows nothing of them.
"""
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._flows import by_end, established, greedy, misbehaving, sack, single, stamped_late_us
from testbed.checks._measured import Columns, of_links
from testbed.checks._ranges import Sojourns
from testbed.core import ip
from topologies import queues
from topologies.links import varying, wires
from topologies.links.records import Link
from topologies.wireless import airways
from traffic.greedy import OPTIMISTIC
from traffic.workload.records import Flow

NEEDS = ("kernel",)

_COLUMNS = ("srtt_us", "min_rtt_us", "mss", "delivered", "total_retrans", "ca_state", "cwnd", "unacked", "bytes_acked",
            "pacing_rate_bps")
#: of what a round trip adds to srtt (RFC 6298)
_GAIN = 1 / 8
#: round trips of which those before are worth (7/8)**32 = 1.4 %; an acknowledgement for every other segment brings one
_ROUND_TRIPS, _SEGMENTS = 32, 2
#: clocks are read in whole us, at both ends; where something was sent again the round trip may be taken from time
#: stamps, which count ms
_CLOCK_US, _STAMP_US = 2, 1000
#: how long a receiver waits before it acknowledges: usually, and at most (TCP_DELACK_MIN, TCP_DELACK_MAX)
_DELAYED_US, _MOST_DELAYED_US = 40_000, 200_000
#: kernels forget the shortest round trip after that (tcp_min_rtt_wlen)
_REMEMBERED_US = 300_000_000
#: what a host's device puts together at most (64 kB), in segments
_LARGE = 45
#: of an acknowledgement that reports losses
_OPTIONS = 40
_LEAST_SAMPLES = 20
#: standard errors of the mean of samples
_DEVIATIONS = 4
#: what is in flight between two samples at most, of what is at one: slow start doubles
_PEAK = 2
#: of an acknowledgement, with what it reports of losses
_ACK_BYTES = 94
#: nothing passes a link for longer
_LONG_US = 1e8


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = single(evidence)
    links = {link.name: link for link in evidence.network.links}
    problems = list(_base(evidence, links))
    for problem in problems:
        yield Finding("invalid", problem)
    samples = established(evidence, _COLUMNS) if flows else None
    if samples is None:
        if not problems:
            yield Finding(NOT_APPLICABLE, "no flow of a single connection was sampled")
        return
    of_end, sojourns = by_end(samples, flows), Sojourns(evidence)
    most_us, mean_us = _edges_us(flows, of_end, sojourns, evidence), _edges_mean_us(sojourns, evidence)
    judged = 0
    deceived = misbehaving(evidence, OPTIMISTIC)
    for flow in flows:
        of = of_end.get((flow.flow, "sender"))
        names = (*flow.hops, *flow.hops_back)
        if of is None or airways.senders(evidence.network, flow) or any(name not in links for name in names):
            continue                            # over the air nobody knows
        if flow.component in deceived:
            continue                            # what has not arrived is acknowledged
        edge_us = sum(most_us.get(name, 0.0) for name in names), sum(mean_us.get(name, 0.0) for name in names)
        copying = [name for name in names if links[name].duplicate_percent]
        for level, problem in _flow(flow, of, [links[name] for name in names], edge_us, sojourns, evidence):
            problems.append(problem)
            if copying and level == "suspect":
                problem += f"; copies of a link that is always busy wait on its wire: {', '.join(copying)}"
            yield Finding("invalid" if level == "invalid" else "suspect", f"flow {flow.flow}: {problem}")
        judged += len(of["t_us"])
    if not judged:
        yield Finding(NOT_APPLICABLE, "no sample of a sender says how long its round trips took")
    elif not problems:
        yield Finding("ok", f"{judged} samples of smoothed round trips are what delays, frames and queues make")


def _edges_us(flows: Sequence[Flow], of_end: dict[tuple[int, str], Columns], sojourns: Sojourns, evidence: Evidence) \
        -> dict[str, float]:
    """How long a packet may wait at most where no sojourn is recorded: for all that may be in flight over the link, and
    for what hosts are slow to do. Infinite where others cross it, or packets are held back (fq)."""
    flight = {flow.flow: _PEAK * float(np.maximum(of["unacked"], of["cwnd"]).max())
              for flow in flows for of in (of_end.get((flow.flow, "sender")),) if of is not None and len(of["t_us"])}
    waiting: dict[str, float] = {}
    feeders: dict[str, set[str]] = {}
    # of the largest packets, though paths with a smaller MTU have none such
    mtu = max((link.mtu_bytes for link in evidence.network.links), default=ip.MTU_BYTES) + ip.ETHERNET_BYTES
    for flow in evidence.flows:
        for way, frame in ((flow.hops, mtu), (flow.hops_back, mtu if flow.both_ways else _ACK_BYTES)):
            for before, name in zip(("", *way), way):
                waiting[name] = waiting.get(name, 0.0) + flight.get(flow.flow, np.inf) * frame
                feeders.setdefault(name, set()).add(before)
    rates = {link.name: varying.least(link, "rate_bps") for link in evidence.network.links}
    busy = {node.name for node in evidence.network.nodes if node.wakeup_cost_us or node.has("gso") and node.gso}
    found = {}
    for link in evidence.network.links:
        name, fed_by = link.name, feeders.get(link.name, set())
        found[name] = wires.late_us(link) + link.jitter_us + link.coalescing_us
        if not rates[name] or link.packet_cost_us or link.opportunities or link.from_node in busy \
                or link.to_node in busy:
            found[name] = np.inf
        elif name not in sojourns and (link.bottleneck or queues.traits(link).paces):
            found[name] = np.inf
        elif name not in sojourns:
            # what slower links bring waits for a frame of each of the others at most
            slower = "" not in fed_by and sum(rates.get(other, np.inf) for other in fed_by) <= rates[name]
            size = min(waiting.get(name, 0.0), len(fed_by) * mtu if slower else np.inf)
            found[name] += size * 8e6 / rates[name]
    return found


def _base(evidence: Evidence, links: Mapping[str, Link]) -> Iterator[str]:
    """Base round trips that others are compared with are the sums of the links' delays."""
    paths = [(f"path {number}", path.hops, path.hops_back, path.base_rtt_us)
             for number, path in enumerate(evidence.network.paths)]
    flows = [(f"flow {flow.flow}", flow.hops, flow.hops_back, flow.base_rtt_us) for flow in evidence.flows]
    for what, there, back, base_rtt_us in (*paths, *flows):
        names = [*there, *back]
        if any(name not in links for name in names):
            continue
        delays_us = sum(links[name].delay_us for name in names)
        if base_rtt_us is not None and abs(base_rtt_us - delays_us) > len(names):
            yield (f"{what}: a base round trip of {base_rtt_us / 1000:g} ms, the delays of its links make "
                   f"{delays_us / 1000:g} ms")


def _edges_mean_us(sojourns: Sojourns, evidence: Evidence) -> dict[str, float]:
    """How long packets wait there on average, as far as samples of what is queued tell."""
    edges = evidence.table("edge_queue")
    if edges is None:
        return {}
    names = [link.name for link in evidence.network.links if link.name not in sojourns]
    rates = {link.name: varying.least(link, "rate_bps") for link in evidence.network.links}
    return {name: (np.nanmean(rows["backlog_bytes"]) + _DEVIATIONS * np.nanstd(rows["backlog_bytes"])
                   / math.sqrt(len(rows["t_us"]))) * 8e6 / rates[name]
            for name, rows in of_links(edges, names) if rates[name]}


def _flow(flow: Flow, of: Columns, ways: Sequence[Link], edge_us: tuple[float, float], sojourns: Sojourns,
          evidence: Evidence) -> Iterator[tuple[str, str]]:
    """(level, what is wrong with the samples of a sender); edge_us: how long packets may wait where no sojourn is
    recorded, at most and on average."""
    timed = (of["srtt_us"] > 0) & (of["bytes_acked"] > _SEGMENTS * of["mss"])
    of = {name: values[timed] for name, values in of.items()}
    if not len(of["t_us"]):
        return
    yield from _shortest(of, evidence)
    least_us, most_us, late_us = _bounds(flow, of, ways, sojourns, evidence)
    again = of["total_retrans"] > 0
    exact_us = _CLOCK_US + _STAMP_US * again
    stamped_us = stamped_late_us(flow, of["mss"], of["total_retrans"], of["pacing_rate_bps"], evidence)
    below = of["srtt_us"] < least_us - exact_us - stamped_us * again
    if below.any():
        row = int(np.argmax(below))
        yield "invalid", (f"{int(below.sum())} of {len(below)} samples of its smoothed round trip are shorter than its "
                          f"way allows, such as {of['srtt_us'][row] / 1000:.3f} ms at {of['t_us'][row] / 1e6:g} s, "
                          f"{least_us[row] / 1000:.3f} ms at least")
    late_us += edge_us[0]
    above = of["srtt_us"] > most_us + late_us + exact_us
    if above.any():
        row = int(np.argmax(above))
        yield "suspect", (f"{int(above.sum())} of {len(above)} samples of its smoothed round trip are longer than "
                          f"links and queues on its way make them, such as {of['srtt_us'][row] / 1000:.3f} ms at "
                          f"{of['t_us'][row] / 1e6:g} s, {(most_us + late_us)[row] / 1000:.3f} ms at most")
    if np.isfinite(edge_us[0]):
        yield from _on_average(of, most_us + edge_us[1], ways)


def _on_average(of: Columns, most_us: np.ndarray, ways: Sequence[Link]) -> Iterator[tuple[str, str]]:
    """On average an acknowledgement is no later after its segment than the mean time between two of them. In srtt that
    counts for more if all the waiting of a round trip falls on the last of its acknowledgements, before a pause."""
    known, delivered = np.isfinite(most_us), np.ptp(of["delivered"])
    if known.sum() < _LEAST_SAMPLES or not delivered:
        return
    late_us = float((of["srtt_us"] - most_us)[known].mean())
    of_a_round_trip = max(1.0, float(of["unacked"].mean()) / _batch(ways))
    weight = _GAIN / (1 - (1 - _GAIN) ** of_a_round_trip)
    allowed_us = weight * of_a_round_trip * _batch(ways) * float(np.ptp(of["t_us"])) / delivered + _CLOCK_US
    if late_us > allowed_us:
        yield "suspect", (f"its smoothed round trip, {of['srtt_us'][known].mean() / 1000:.3f} ms on average, is "
                          f"{late_us / 1000:.3f} ms longer than links and queues on its way make it, "
                          f"{allowed_us / 1000:.3f} ms allowed for acknowledgements that wait")


def _batch(ways: Sequence[Link]) -> int:
    """Segments per acknowledgement: more where a host's device puts them together."""
    return _SEGMENTS * (_LARGE if any(link.gro for link in ways) else 1)


def _bounds(flow: Flow, of: Columns, ways: Sequence[Link], sojourns: Sojourns, evidence: Evidence) \
        -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the least, the most, by how much more acknowledgements may wait) of srtt in each sample; the most is infinite
    where nothing says how long some wait may be."""
    t_us, forth = of["t_us"].astype(float), len(flow.hops)
    batch, delivered = _batch(ways), of["delivered"] if sack(flow, evidence) else _delivered_in_order(of)
    begin = np.searchsorted(delivered, delivered - batch * _ROUND_TRIPS, "right") - 1
    known, at = begin >= 0, np.maximum(begin, 0)
    since_us = np.where(known, t_us[at], float(flow.start_us))
    again = of["total_retrans"] - np.where(known, of["total_retrans"][at], 0)
    old = (1 - _GAIN) ** ((delivered - np.where(known, delivered[at], 0)) / batch)
    header = ip.ETHERNET_BYTES + evidence.network.header_bytes() + ip.TCP_BYTES
    full = header + ip.TIMESTAMP_BYTES + float(of["mss"].max())
    # the first round trip is that of the request, which is no longer than an acknowledgement
    most_bps = {link.name: varying.most(link, "rate_bps") for link in ways}
    first_us = sum(wires.least_delay_us(link) + wires.frame_us(link, header, most_bps[link.name]) for link in ways)
    last_us = first_us + sum(wires.frame_us(link, of["mss"].min() * greedy(flow), most_bps[link.name])
                             for link in ways[:forth])
    least_us, most_us = np.full(len(t_us), last_us), np.full(len(t_us), 0.0)
    behind_us = 0.0
    # a packet has left a queue before its acknowledgement comes by what is behind that queue
    for place, link in reversed([*enumerate(ways)]):
        longest_frame = full if place < forth else header + _OPTIONS
        passing_us = varying.most(link, "delay_us") + longest_frame * 8e6 / varying.least(link, "rate_bps") \
            if varying.least(link, "rate_bps") else np.inf
        most_us += passing_us
        behind_us += min(passing_us, _LONG_US) + wires.late_us(link)
        if link.name in sojourns:
            shortest, longest = sojourns.between(link.name, since_us - behind_us - _DELAYED_US, t_us)
            least_us += np.nan_to_num(shortest)
            most_us += np.nan_to_num(longest)
            behind_us += sojourns.longest_us(link.name)
    # an acknowledgement comes no later after its segment than after the one before it, an eighth of which counts
    late_us = np.minimum((t_us - since_us) * _GAIN, _MOST_DELAYED_US)
    most_us[~known | (again > 0) | (of["ca_state"] != 0)] = np.inf
    return old * np.minimum(first_us, least_us) + (1 - old) * least_us, most_us, late_us


def _delivered_in_order(of: Columns) -> np.ndarray:
    """Segments delivered without those of repairs: without SACK a duplicate acknowledgement counts as a delivery and
    brings no round trip, and that which ends the repair brings one for very many segments."""
    repairing = of["ca_state"] != 0
    quiet = ~repairing[1:] & ~repairing[:-1] & (np.diff(of["total_retrans"]) == 0)
    return of["delivered"][0] * (not repairing[0]) + np.append(0, np.cumsum(np.diff(of["delivered"]) * quiet))


def _shortest(of: Columns, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The shortest round trip is no longer than any mean of round trips so far, and never grows."""
    if evidence.timing.duration_us > _REMEMBERED_US:
        return
    shortest = of["min_rtt_us"]
    wrong = shortest > np.minimum.accumulate(of["srtt_us"]) + _CLOCK_US
    wrong[1:] |= np.diff(shortest) > 0
    if wrong.any():
        row = int(np.argmax(wrong))
        yield "invalid", (f"its shortest round trip, {shortest[row] / 1000:.3f} ms at {of['t_us'][row] / 1e6:g} s, is "
                          "longer than those before")

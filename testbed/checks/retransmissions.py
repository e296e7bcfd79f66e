# SPDX-License-Identifier: GPL-2.0-only
"""What was sent again is told alike by the sockets, by the hosts' stacks, by the links that lost something, and by the
receivers that got something twice.

A segment is sent again because a copy of it was lost, or in vain: then its receiver gets it twice and counts it.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import Evidence, Finding
from testbed.checks._flows import SOCKET, cut, greedy, misbehaving, single
from testbed.checks._measured import of_links
from testbed.checks._stacks import came_twice, total
from testbed.core import grouping
from testbed.core.guest_files import Snmp
from traffic.greedy import OPTIMISTIC
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

NEEDS = ("kernel", "snmp.json", "counters.json")

_COLUMNS = ("t_us", *SOCKET, "ca_state", "mss", "unacked", "srtt_us", "rto_us", "total_retrans",
            "bytes_sent", "bytes_retrans")
#: readings of the stacks at which sockets are sampled, too
_READINGS = ("measure_from", "at_end")
#: of the segments of flows that send all they can: those that a write did not fill; and of a program's first words
_PARTIAL, _FEW = 0.01, 4
#: in which a loss is repaired, or seen: the last segment before it takes one, what tells of it another
_ROUND_TRIPS = 3
#: {state: counters of the times that a host's sockets came into it}
_ENTERED = {3: ("Recovery", ("TcpExtTCPSackRecovery", "TcpExtTCPRenoRecovery")), 4: ("Loss", ("TcpExtTCPTimeouts",))}
#: these leave a recovery at once and go back as after a timeout (kernel-modules/tcp_tahoe)
_GO_BACK = ("tahoe",)


def check(evidence: Evidence) -> Iterator[Finding]:
    tcp = [flow for flow in evidence.flows if flow.transport == "tcp"]
    samples = evidence.table("tcp_info", usecols=[*_COLUMNS]) if tcp else None
    record = evidence.snmp
    if samples is None or samples.empty or samples["total_retrans"].isna().all():
        return                                  # of samples that are missing other checks complain
    sockets = _Sockets(samples)
    problems = [] if cut(evidence) else [*_states(sockets, tcp, record)]     # a cut segment is repaired, too
    for reading in _READINGS:
        if reading in record.readings:
            problems += _counted(reading, sockets, tcp, record, evidence)
            problems += _lost(reading, sockets, tcp, record, evidence)
    for problem in problems:
        yield Finding("invalid", problem)
    if not problems:
        yield Finding("ok", f"sockets, stacks, links and receivers agree on {total(record, 'TcpRetransSegs'):.0f} "
                            "segments that were sent again")


class _Sockets:
    """Samples of all sockets, those of each in the order of time."""

    def __init__(self, samples: pd.DataFrame) -> None:
        number = grouping.numbered(samples[name] for name in SOCKET)
        order = np.argsort(number, kind="stable")
        self.number = number[order]
        self.of = {name: samples[name].to_numpy()[order] for name in _COLUMNS}

    def last(self, until_us: float) -> np.ndarray:
        """Places of the last sample of each socket until then."""
        places = np.flatnonzero(self.of["t_us"] <= until_us)
        number = self.number[places]
        return places[np.append(number[1:] != number[:-1], True)[:len(places)]]


def _states(sockets: _Sockets, tcp: Sequence[Flow], record: Snmp) -> Iterator[str]:
    """Sockets were not seen to come into a state more often than they came into it."""
    state, node = sockets.of["ca_state"], sockets.of["node"]
    going_back = {host for flow in tcp if flow.cca in _GO_BACK for host in (flow.sender, flow.receiver)}
    fresh = np.concatenate([[True], np.diff(sockets.number) != 0])
    for number, (name, counters) in _ENTERED.items():
        before = np.concatenate([[0], state[:-1]])
        entered = (state == number) & (fresh | (before != number))
        for host, places in grouping.rows_of(node[entered]).items():
            here = (*counters, *(_ENTERED[3][1] if number == 4 and host in going_back else ()))
            counted = sum(record.nodes.get(host, {}).get(counter, [0])[-1] for counter in here)
            if len(places) > counted:
                yield f"{host}: its sockets were seen to come into {name} {len(places)} times, its stack says {counted}"


def _counted(reading: str, sockets: _Sockets, tcp: Sequence[Flow], record: Snmp, evidence: Evidence) -> Iterator[str]:
    """A host has sent as many segments, and as many of them again, as its sockets."""
    at_us, place = _when(reading, record, evidence), record.readings.index(reading)
    last = sockets.last(at_us)
    lasting = {flow.flow for flow in single(evidence) if flow.start_us <= at_us <= flow.stop_us
               and flow.bytes is None}
    for host, rows in grouping.rows_of(sockets.of["node"][last]).items():
        here = [flow for flow in tcp if host in (flow.sender, flow.receiver)]
        of = {name: sockets.of[name][last[rows]] for name in _COLUMNS}
        stack = {name: record.nodes.get(host, {}).get(name, [0] * (place + 1))[place]
                 for name in ("TcpRetransSegs", "TcpExtTCPOrigDataSent")}
        again = float(np.nansum(of["total_retrans"]))
        new = float(np.nansum((of["bytes_sent"] - of["bytes_retrans"]) / of["mss"]))
        # all that the host's TCP has ever done, in a sample of this instant
        all_there = evidence.clock == "virtual" and here and all(flow.flow in lasting for flow in here) \
            and sum(of["t_us"] == at_us) >= len(here)
        full = all_there and not cut(evidence) and all(greedy(flow) for flow in here)
        # answers to requests are sent again before there is a socket
        before = record.nodes.get(host, {}).get("TcpExtTCPSynRetrans", [0] * (place + 1))[place]
        if again > stack["TcpRetransSegs"] or all_there and again < stack["TcpRetransSegs"] - before:
            yield (f"{host}: {stack['TcpRetransSegs']} segments were sent again by its stack, {again:.0f} by its "
                   f"sockets until {at_us / 1e6:g} s")
        first = stack["TcpExtTCPOrigDataSent"]
        if not cut(evidence) and new > first + _FEW or full and first > new * (1 + _PARTIAL) + _FEW * len(here):
            yield (f"{host}: {first} segments with new data were sent by its stack, "
                   f"{new:.0f} by its sockets until {at_us / 1e6:g} s")


def _lost(reading: str, sockets: _Sockets, tcp: Sequence[Flow], record: Snmp, evidence: Evidence) -> Iterator[str]:
    """What was lost was sent again, or is not acknowledged yet; what was sent again was lost, or arrived twice, or is
    still under way. Connections that end leave segments for which nobody is there any more: they are not judged, nor
    is what receivers conceal."""
    at_us, place = _when(reading, record, evidence), record.readings.index(reading)
    if evidence.clock != "virtual" or evidence.network.cells or cut(evidence) or misbehaving(evidence, OPTIMISTIC):
        return
    if len(single(evidence)) < len(tcp) or any(flow.stop_us < at_us or flow.bytes is not None for flow in tcp):
        return
    again = total(record, "TcpRetransSegs", place)
    if reading == "at_end":
        twice = came_twice(record, place)
        counters = evidence.counters.at_end
        most = {link.name: link.most_segments for link in evidence.network.links}
        lost = sum((one.dropped_packets + one.wire_dropped_packets) * most[name] for name, one in counters.items())
        under_way = sum((one.queued_packets + one.wire_queued_packets) * most[name] for name, one in counters.items())
        if again - total(record, "TcpExtTCPSynRetrans", place) > lost + twice + under_way:
            yield (f"{again:.0f} segments were sent again, {lost} packets were lost, {twice:.0f} "
                   f"segments came twice and {under_way} packets were under way at the end")
    backwards = {name for flow in evidence.flows for name in flow.hops_back}
    others = {name for flow in evidence.flows if flow.transport != "tcp" or flow.both_ways
              for name in (*flow.hops, *flow.hops_back)}
    last = sockets.last(at_us)
    of = {name: sockets.of[name][last] for name in _COLUMNS}
    if not (of["t_us"] == at_us).any():
        return
    # while the state is Open no timer has ended: all is acknowledged that is older than that and a few round trips
    before_us = at_us - float(np.nanmax(of["rto_us"] + _ROUND_TRIPS * of["srtt_us"], initial=0.0))
    missing = sum(count for name, count in _dropped_until(evidence, before_us).items()
                  if name not in backwards | others)
    waiting = float(np.nansum(of["unacked"][of["ca_state"] != 0]))
    # what ends a handshake is data to nobody: it is not sent again
    waiting += total(record, "TcpActiveOpens", place)
    if missing > again + waiting:
        yield (f"{missing:.0f} segments had been lost by {before_us / 1e6:g} s, {again:.0f} were sent again until "
               f"{at_us / 1e6:g} s and {waiting:.0f} may still have to be")


def _dropped_until(evidence: Evidence, at_us: float) -> dict[str, float]:
    """{bottleneck: packets that its queue had dropped}"""
    queue = evidence.table("queue")
    return {} if queue is None else {name: float(rows["drops"][rows["t_us"] <= at_us].max(initial=0))
                                     for name, rows in of_links(queue, dict.fromkeys(queue["link"]))}


def _when(reading: str, record: Snmp, evidence: Evidence) -> int:
    return int(record.measure_from_us if reading == "measure_from" else evidence.timing.duration_us)

# SPDX-License-Identifier: GPL-2.0-only
"""What a socket has sent is acknowledged, or in flight, or was sent again; what one end has acknowledged the other has
received, and its program with it.

The sockets' counters are bound to each other exactly, in every sample: to count one of them wrong shows, and so does a
row that is another flow's. Both ends of a flow are sampled at one instant of virtual time.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import Evidence, Finding
from testbed.checks._flows import by_end, cut, established, greedy, sack, single
from testbed.checks._measured import Columns
from testbed.checks._programs import ends
from testbed.core.guest_files import Counters
from topologies.links import varying
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

NEEDS = ("kernel", "guest.json", "counters.json", "snmp.json")

_COLUMNS = ("mss", "unacked", "lost", "ca_state", "total_retrans", "bytes_acked", "bytes_received", "bytes_sent",
            "bytes_retrans", "delivered")
#: requests to be connected, and answers to them, that were sent again count as retransmissions without bytes
_SYNS = "TcpExtTCPSynRetrans"
#: the request takes a place in what is acknowledged, at the end that sent it
_SYN_BYTES = 1
#: what a receiver's program may leave unread when it is stopped, beside a window: two reads of 128 kB
_UNREAD_BYTES = 1 << 18
#: no radio is faster
_AIR_BPS = 10**11
#: of the segments of a flow that sends all it can: those that a write did not fill; and SYN, FIN and the like
_PARTIAL, _FEW = 0.01, 4
_RISING = ("bytes_acked", "bytes_received", "bytes_sent", "bytes_retrans", "total_retrans", "delivered")


def check(evidence: Evidence) -> Iterator[Finding]:
    if not any(flow.transport == "tcp" for flow in evidence.flows):
        return
    samples = established(evidence, _COLUMNS)
    if samples is None:
        yield Finding("suspect", "no connected socket was sampled: what was acknowledged cannot be compared")
        return
    flows = single(evidence)
    of_end = by_end(samples, flows)
    nodes = evidence.snmp.nodes
    syns = {node: values.get(_SYNS, [0])[-1] for node, values in nodes.items()}
    problems = [*_falling(of_end)]
    if not cut(evidence):
        problems += [*_each(samples, syns), *_full(flows, of_end, syns, evidence)]
    if evidence.clock == "virtual":
        problems += _both_ends(flows, of_end)
    problems += _programs(flows, of_end, evidence)
    for problem in problems:
        yield Finding("invalid", problem)
    if not problems:
        yield Finding("ok", f"bytes sent, sent again, acknowledged and in flight agree in {len(samples)} samples")


def _each(samples: pd.DataFrame, syns: dict[str, int]) -> Iterator[str]:
    """In every sample of every socket, whatever it sends: a segment has between one byte and mss."""
    of = {name: samples[name].to_numpy(float) for name in _COLUMNS}
    under_way = of["bytes_sent"] - of["bytes_retrans"] - of["bytes_acked"]
    most = of["unacked"] * of["mss"]
    yield from _told(samples, (under_way > most) | (under_way < of["unacked"] - 1 - _SYN_BYTES),
                     "what was sent and is not acknowledged is not in flight", lambda row: (
                         f"{under_way[row]:.0f} bytes in {of['unacked'][row]:.0f} segments of {of['mss'][row]:.0f}"))
    again, empty = of["total_retrans"], samples["node"].map(syns).fillna(0).to_numpy()
    yield from _told(samples, (of["bytes_retrans"] > again * of["mss"]) | (of["bytes_retrans"] < again - empty),
                     "the bytes that were sent again are not those of the segments that were",
                     lambda row: f"{of['bytes_retrans'][row]:.0f} bytes in {again[row]:.0f} segments")
    yield from _told(samples, of["bytes_acked"] > of["delivered"] * of["mss"] + _SYN_BYTES,
                     "more bytes are acknowledged than segments were delivered",
                     lambda row: f"{of['bytes_acked'][row]:.0f} bytes in {of['delivered'][row]:.0f} segments")


def _full(flows: Sequence[Flow], of_end: dict[tuple[int, str], Columns], syns: dict[str, int],
          evidence: Evidence) -> Iterator[str]:
    """Flows that send all they can have full segments, but for one now and then that a write did not fill."""
    for flow in filter(greedy, flows):
        of = of_end.get((flow.flow, "sender"))
        if of is None:
            continue
        acked, delivered = of["bytes_acked"] / of["mss"], of["delivered"]
        # while the state is Open nothing is acknowledged out of order; what a timeout forgets counts twice
        held = np.where(of["ca_state"] == 0, 0, of["unacked"])
        wrong = delivered > acked * (1 + _PARTIAL) + held + of["total_retrans"] + _FEW
        # without SACK every duplicate acknowledgement counts as a delivery, also of what has arrived twice
        # (tcp_add_reno_sack), and at least one segment more where a part of a window is acknowledged
        if wrong.any() and sack(flow, evidence):
            row = int(np.argmax(wrong))
            yield (f"flow {flow.flow}: {delivered[row]:.0f} segments delivered at {of['t_us'][row] / 1e6:g} s, of "
                   f"which {acked[row]:.1f} are acknowledged and {of['unacked'][row]:.0f} may be")
        again = of["bytes_retrans"] / of["mss"]
        wrong = of["total_retrans"] > again * (1 + _PARTIAL) + syns.get(flow.sender, 0) + _FEW
        if wrong.any():
            row = int(np.argmax(wrong))
            yield (f"flow {flow.flow}: {of['total_retrans'][row]:.0f} segments were sent again until "
                   f"{of['t_us'][row] / 1e6:g} s, whose bytes make {again[row]:.1f}")


def _falling(of_end: dict[tuple[int, str], Columns]) -> Iterator[str]:
    """What a socket counts never falls."""
    for (flow, end), of in of_end.items():
        for name in _RISING:
            steps = np.diff(of[name])
            if (steps < 0).any():
                yield f"flow {flow}: {name} of its {end} falls at {of['t_us'][1 + int(np.argmax(steps < 0))] / 1e6:g} s"
                break


def _both_ends(flows: Sequence[Flow], of_end: dict[tuple[int, str], Columns]) -> Iterator[str]:
    """What the sender knows to have arrived has, and what has arrived was sent."""
    for flow in flows:
        there, here = of_end.get((flow.flow, "sender")), of_end.get((flow.flow, "receiver"))
        if there is None or here is None:
            continue
        _, sent_rows, got_rows = np.intersect1d(there["t_us"], here["t_us"], return_indices=True)
        acked, got = there["bytes_acked"][sent_rows], here["bytes_received"][got_rows]
        sent = (there["bytes_sent"] - there["bytes_retrans"])[sent_rows]
        wrong = (acked - _SYN_BYTES > got) | (got > sent)
        if wrong.any():
            row = int(np.argmax(wrong))
            yield (f"flow {flow.flow}: its receiver has {got[row]:.0f} bytes in order at "
                   f"{there['t_us'][sent_rows[row]] / 1e6:g} s, of {sent[row]:.0f} sent and {acked[row]:.0f} "
                   "acknowledged")


def _programs(flows: Sequence[Flow], of_end: dict[tuple[int, str], Columns], evidence: Evidence) -> Iterator[str]:
    """What programs received is what their sockets had, but for what was not read or came after the last sample."""
    found = ends(evidence)
    rates = {link.name: varying.most(link, "rate_bps") for link in evidence.network.links}
    counters = evidence.counters
    for flow in flows:
        sender, receiver = of_end.get((flow.flow, "sender")), of_end.get((flow.flow, "receiver"))
        said = found.get((flow.flow, "receiver"))
        if sender is None or receiver is None or said is None:
            continue
        got, arrived = said.checked_bytes + said.unchecked_bytes, receiver["bytes_received"][-1]
        acked, last_us = sender["bytes_acked"][-1], min(sender["t_us"][-1], receiver["t_us"][-1])
        window = max(0.0, float((sender["bytes_sent"] - sender["bytes_retrans"] - sender["bytes_acked"]).max()))
        end_us = min(flow.stop_us, evidence.timing.duration_us)
        rate_bps = min((rates[name] for name in flow.hops if name in rates), default=_AIR_BPS)
        later = window + max(0.0, end_us - last_us) * rate_bps / 8e6 + _after_the_end(flow, counters)
        if not max(arrived, acked) - window - _UNREAD_BYTES <= got <= arrived + later:
            yield (f"flow {flow.flow}: its receiver's program got {got} bytes, its socket {arrived:.0f}, and "
                   f"{acked:.0f} were acknowledged")


def _after_the_end(flow: Flow, counters: Counters) -> float:
    """Bytes that a flow's last link delivered while the network ran empty: some programs still read then."""
    link = flow.hops[-1] if flow.hops else ""
    if link not in counters.drained:
        return 0.0                              # over the air
    return float(counters.drained[link].wire_delivered_bytes - counters.at_end[link].wire_delivered_bytes)


def _told(samples: pd.DataFrame, wrong: np.ndarray, law: str, values: Callable[[int], str]) -> Iterator[str]:
    """A law that does not hold, and the first sample that breaks it."""
    if wrong.any():
        row = int(np.argmax(wrong))
        node, port, t_us = (samples[name].iloc[row] for name in ("node", "sport", "t_us"))
        yield f"{law}, in {int(wrong.sum())} of {len(samples)} samples, such as {node}:{port} at {t_us / 1e6:g} s: " \
              f"{values(row)}"

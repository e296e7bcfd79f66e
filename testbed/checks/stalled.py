# SPDX-License-Identifier: GPL-2.0-only
"""No connection is stuck: those alive at the end went on, or waited for a timer of TCP or of their own program.

TCP: a lost packet is sent again when its timer says so, and the timer doubles each time; whoever has waited for a
multiple of it does not wait for the network, unless that is overloaded: then it may be lost as often as it is sent, and
it is enough that the timer goes on, or that the sender waits for its own pacing, which a congestion control may have
made as slow as a segment in 20 s. Program: what was sent and acknowledged has been read, and what was due
has been sent, unless its end never came to be (testbed/checks/_half_open.py).
"""
from collections.abc import Iterator

import numpy as np
import pandas as pd

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._free import overloaded
from testbed.checks._half_open import find_half_open
from testbed.core import grouping
from topologies.links import varying

#: of the connections may be half open; as many may fail (connections)
_HALF_OPEN = 0.01
#: without an acknowledgement for so long, and for so many of its retransmission timeouts
_LONGEST_US, _TIMEOUTS = 5_000_000, 3
_SOCKET = ["node", "src", "sport", "dst", "dport"]
_COLUMNS = ["t_us", *_SOCKET, "state", "rto_us", "unacked", "bytes_acked", "total_retrans", "mss", "pacing_rate_bps"]
#: that are paced beside a segment's payload: headers of IP and TCP, with options, at most
_HEADER_BYTES = 100


def check(evidence: Evidence) -> Iterator[Finding]:
    if not any(flow.transport == "tcp" for flow in evidence.flows):
        return
    samples = evidence.table("tcp_info", usecols=_COLUMNS)
    if not evidence.can("kernel") and (samples is None or samples["bytes_acked"].isna().all()):
        yield Finding(NOT_APPLICABLE, "the engine does not tell what its flows were waiting for")
        return
    if samples is None or samples.empty:
        yield Finding("suspect", "no flow was sampled: whether one is stuck is not known")
        return
    at_end = samples["t_us"].max()
    last = samples[samples["t_us"] == at_end].set_index(_SOCKET)
    pause_us = max((varying.longest_pause_us(link, evidence.timing.duration_us)
                    for link in evidence.network.links), default=0)
    yield from _transport(samples, last, at_end, _LONGEST_US + pause_us, bool(overloaded(evidence)))
    if any(flow.source is not None for flow in evidence.flows):
        yield from _programs(evidence, samples, last, at_end)


def _transport(samples: pd.DataFrame, last: pd.DataFrame, at_end: int, longest_us: float, overload: bool) \
        -> Iterator[Finding]:
    """longest_us: without an acknowledgement, outages of links included; overload: a link is offered too much."""
    sending = last[last["unacked"] > 0]
    waited_us = _unchanged_us(samples, sending, at_end)
    most_us = (sending["rto_us"] * _TIMEOUTS).clip(lower=longest_us).reindex(waited_us.index)
    stuck, unlucky = waited_us[waited_us > most_us], ""
    if overload and len(stuck):
        silent_us = _unchanged_us(samples, sending.loc[stuck.index], at_end, "total_retrans").reindex(stuck.index)
        most_us = sending["rto_us"] + _segment_us(sending) + _interval_us(samples)
        goes_on = silent_us <= most_us.reindex(stuck.index)
        unlucky = f"; {int(goes_on.sum())} sent again and again for longer than {_TIMEOUTS} timeouts, over an " \
                  "overloaded link"
        stuck = stuck[~goes_on]
    if len(stuck):
        socket = stuck.idxmax()
        _, src, sport, dst, dport = socket
        yield Finding("suspect", f"{len(stuck)} of {len(last)} sockets that were connected at the end are stuck: "
                                 f"{src}:{sport} to {dst}:{dport} had nothing acknowledged for "
                                 f"{stuck[socket] / 1e6:.1f} s, with a timeout of "
                                 f"{sending['rto_us'][socket] / 1e6:.1f} s")
    else:
        longest_s = waited_us.max() / 1e6 if len(waited_us) else 0.0
        yield Finding("ok", f"{len(last)} sockets were connected at the end; {len(sending)} waited for "
                            f"acknowledgements, for at most {longest_s:.1f} s{unlucky}")


def _segment_us(sockets: pd.DataFrame) -> pd.Series:
    """How long pacing takes for a segment; 0 where nothing is paced."""
    return (8e6 * (sockets["mss"] + _HEADER_BYTES) / sockets["pacing_rate_bps"]).replace(np.inf, 0).fillna(0)


def _interval_us(samples: pd.DataFrame) -> float:
    """The longest time from one sample to the next."""
    return float(np.diff(np.unique(samples["t_us"])).max(initial=0))


def _unchanged_us(samples: pd.DataFrame, sockets: pd.DataFrame, at_end: int, column: str = "bytes_acked") -> pd.Series:
    """For how long sockets have been as they are at the end: waiting or not, and nothing more acknowledged.

    column: what has not grown, in place of what is acknowledged.
    One that was not there in between is another connection that has the same ports by now.
    """
    number = grouping.numbered(np.concatenate([sockets.index.get_level_values(name), samples[name]])
                               for name in _SOCKET)
    place = np.full(number.max(initial=-1) + 1, -1)         # in `sockets`, of each number; -1 of the others
    place[number[:len(sockets)]] = np.arange(len(sockets))
    of = place[number[len(sockets):]]
    rows = np.flatnonzero(of >= 0)
    rows = rows[np.lexsort((samples["t_us"].to_numpy()[rows], of[rows]))]
    of, t_us = of[rows], samples["t_us"].to_numpy()[rows]
    same = np.ones(len(rows), bool)
    for then, now in ((samples[column], sockets[column]), (samples["unacked"] > 0, sockets["unacked"] > 0)):
        same &= then.to_numpy()[rows] == now.to_numpy()[of]
    first = np.flatnonzero(np.diff(of, prepend=-1))         # rows of each socket, in order of time
    gap = np.diff(np.searchsorted(np.unique(samples["t_us"]), t_us), prepend=0) > 1
    changed_us = np.maximum.reduceat(np.where(same, np.where(gap, t_us - 1, -1), t_us), first)
    since = t_us > np.repeat(changed_us, np.diff(first, append=len(rows)))
    found, first = np.unique(of[since], return_index=True)
    return pd.Series(at_end - t_us[since][first], sockets.index[found]).sort_index()


def _programs(evidence: Evidence, samples: pd.DataFrame, last: pd.DataFrame, at_end: int) -> Iterator[Finding]:
    """Units that were sent long ago, of which TCP has nothing left to deliver, and that nobody has got."""
    units = evidence.table("adus", usecols=["source", "conn", "side", "sent_us", "delivered_us"])
    connections = evidence.table("connections", low_memory=False)
    if units is None or connections is None:
        yield Finding("suspect" if evidence.can("kernel") else NOT_APPLICABLE,
                      "no record of data units: whether a program is stuck is not known")
        return
    finished = int((connections["status"] == "finished").sum())
    if finished and units["delivered_us"].isna().all():
        yield Finding("suspect", f"{finished} connections finished, but no data unit was delivered")
    yield from _overdue(evidence, connections, units, samples, at_end)
    units = units[units["delivered_us"].isna() & (units["sent_us"] < at_end - _LONGEST_US)]
    alive = connections[connections["status"] == "unfinished"]
    units = units.merge(alive, on=["source", "conn"])
    begins = units["side"] == "i"
    ends = [units["initiator"].where(begins, units["acceptor"]), units["iport"].where(begins, units["aport"]),
            units["aport"].where(begins, units["iport"])]
    idle_us = _unchanged_us(samples, last[last["unacked"] == 0], at_end)
    done = {(node, sport, dport) for node, _, sport, _, dport in idle_us[idle_us > _LONGEST_US].index}
    stuck = [one for one, key in zip(units.itertuples(), zip(*ends)) if key in done]
    if stuck:
        yield Finding("suspect", f"{len(stuck)} data units were sent and acknowledged more than "
                                 f"{_LONGEST_US / 1e6:g} s before the end and never read, such as of connection "
                                 f"{stuck[0].conn} of source {stuck[0].source}")


def _overdue(evidence: Evidence, connections: pd.DataFrame, units: pd.DataFrame, samples: pd.DataFrame, at_end: int) \
        -> Iterator[Finding]:
    """Units that were due long ago and never sent, as the traffic accounts for them (traffic/replay/overdue.py)."""
    if not evidence.can("guest.json"):
        return
    late = [message for account in evidence.guest.traffic.values() for message in account.overdue]
    half_open = find_half_open(evidence, connections, units, samples, at_end) if late else {}
    # who has never heard of a connection cannot send anything over it
    late = [message for message in late if message not in half_open.values()]
    if half_open:
        source, number = min(half_open)
        yield Finding("ok" if len(half_open) <= _HALF_OPEN * len(connections) else "suspect",
                      f"{len(half_open)} of {len(connections)} connections are half open: what should have told the "
                      f"acceptor that they are established was lost each time, such as connection {number} of source "
                      f"{source}")
    if late:
        yield Finding("suspect", f"{len(late)} programs should have sent something more than {_LONGEST_US / 1e6:g} s "
                                 f"before the end and did not, such as {late[0]}")

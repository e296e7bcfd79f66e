# SPDX-License-Identifier: GPL-2.0-only
"""Connections that are unfinished are so for a reason: as many as the programs say, and with what they wait for.

How long a data unit may take follows from its size, the round trip and its fair share of the links: what the load
leaves free of them. One whose segment was lost several times waits for a timer, too, as its socket says.
Where the links are offered more than they carry there is no such limit.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import Evidence, Finding
from testbed.checks._free import free_bps
from testbed.checks._measured import connections_of_sources
from testbed.core import replayed
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

#: times what a data unit takes at its fair share, and retransmission timeouts beside that (1 + 2 s)
_TIMES, _TIMEOUTS_US = 10, 3_000_000
#: timers double: all timeouts of a segment so far, and the present one, took less than that many of the present one
_BACKED_OFF = 2
#: of the connections may be slower: those that were unlucky several times
_SHARE = 0.01
#: a SYN that is lost is sent again after 1, 2 and 4 s
_CONNECTING_US = 7_000_000
_INITIAL_WINDOW = 10         # segments
_KEY = ["source", "conn"]
_ENDS = ["initiator", "acceptor", "iport", "aport"]


def check(evidence: Evidence) -> Iterator[Finding]:
    connections, flows = connections_of_sources(evidence)
    if connections is None:
        return
    bad = 0
    for problem in _accounts(connections, evidence):
        bad += 1
        yield Finding("invalid", problem)
    for problem in _none_of_the_measured(connections, evidence):
        bad += 1
        yield Finding("suspect", problem)
    slow, unlimited = _slow(connections, flows, evidence)
    message = f"{slow} of {len(connections)} connections had been waiting for longer at the end than size, round " \
              f"trip and fair share explain ({_TIMES} times, {_TIMEOUTS_US / 1e6:g} s, and timers that doubled)"
    if unlimited:
        message += f"; {unlimited} more cross overloaded links, where nothing limits it"
    if slow > _SHARE * len(connections):
        yield Finding("suspect", message)
    elif not bad:
        yield Finding("ok", message)


def _accounts(connections: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    """The programs of both ends count those that they have not finished."""
    if not evidence.can("guest.json"):
        return
    counted: dict[int, dict[str, int]] = {}
    for account in evidence.guest.accounts:
        for end in account.ends:
            if end.status is not None and end.source is not None:
                ends = counted.setdefault(end.source, {})
                ends[end.role] = ends.get(end.role, 0) + end.status.get("unfinished", 0)
    status = connections["status"].astype(str)
    for source, ends in counted.items():
        mine = status[connections["source"] == source]
        found, failed = int((mine == "unfinished").sum()), int(mine.str.startswith("failed").sum())
        # one end may have finished when the other has not
        if not max(ends.values()) - failed <= found <= sum(ends.values()):
            named = ", ".join(f"{count} by its {role}" for role, count in sorted(ends.items()))
            yield f"source {source}: {found} connections are unfinished, but {named}"


def _none_of_the_measured(connections: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    """A measured part in which nothing finishes measures no completion."""
    endless = {name for name, what in replayed.names(evidence.workload.components).items() if not what.closes}
    began = connections[connections["start_us"] >= evidence.timing.measure_from_us]
    began = began[~began["source"].isin([flow.source for flow in evidence.flows if flow.component in endless])]
    if len(began) and not (began["status"] == "finished").any():
        yield f"none of {len(began)} connections that began in the measured part finished"


def _slow(connections: pd.DataFrame, flows: Mapping[int, Flow], evidence: Evidence) -> tuple[int, int]:
    """(connections that waited too long at the end, those for which there is no limit)"""
    end_us = evidence.timing.duration_us
    waiting = connections[connections["status"] == "unfinished"]
    connecting = waiting[waiting["connected_us"].isna() & waiting["start_us"].notna()]
    rtt_us = connecting["source"].map({source: flow.base_rtt_us for source, flow in flows.items()})
    timers_us = _timers_us(evidence)
    late = connecting[end_us - connecting["start_us"] > _CONNECTING_US + _TIMES * rtt_us
                      + timers_us(connecting, connecting["start_us"].notna())]
    slow = set(late[_KEY].itertuples(index=False, name=None))
    units = evidence.table("adus", usecols=[*_KEY, "side", "bytes", "sent_us", "delivered_us"])
    if units is None:
        return len(slow), 0
    units = units[units["delivered_us"].isna() & units["sent_us"].notna()].merge(waiting[[*_KEY, *_ENDS]], on=_KEY)
    of_links = free_bps(evidence)
    of_ways = {(side, source): min((of_links[name] for name in flow.way(back) if name in of_links), default=math.inf)
               for source, flow in flows.items() for side, back in (("i", False), ("a", True))}
    share_bps = np.array([of_ways[side, source] for side, source in zip(units["side"], units["source"])], dtype=float)
    rounds = 2 + np.log2(1 + units["bytes"] / (_INITIAL_WINDOW * evidence.network.segment_bytes()))
    rtt_us = units["source"].map({source: flow.base_rtt_us for source, flow in flows.items()})
    limited = units[share_bps > 0]
    takes_us = (rounds * rtt_us)[share_bps > 0] + limited["bytes"] * 8e6 / share_bps[share_bps > 0]
    late = limited[end_us - limited["sent_us"] > _TIMES * takes_us + _TIMEOUTS_US
                   + timers_us(limited, limited["side"] == "i")]
    slow |= set(late[_KEY].itertuples(index=False, name=None))
    return len(slow), len(units[share_bps <= 0][_KEY].drop_duplicates())


def _timers_us(evidence: Evidence) -> Callable[[pd.DataFrame, pd.Series], list[float]]:
    """timers_us(rows with the ends of connections, which of them the initiator sends): how long they may have waited
    for timers by the last sample of their sockets; 0 where there is none, or nothing is in flight."""
    samples = evidence.table("tcp_info", usecols=["t_us", "node", "sport", "dport", "rto_us", "unacked"])
    timers: dict[tuple[str, float, float], float] = {}
    if samples is not None:
        last = samples[(samples["t_us"] == samples["t_us"].max()) & (samples["unacked"] > 0)]
        timers = last.groupby(["node", "sport", "dport"])["rto_us"].max().dropna().to_dict()

    def timers_us(rows: pd.DataFrame, begins: pd.Series) -> list[float]:
        here, there = rows["iport"].where(begins, rows["aport"]), rows["aport"].where(begins, rows["iport"])
        ends = zip(rows["initiator"].where(begins, rows["acceptor"]), here, there)
        return [_BACKED_OFF * timers.get(end, 0.0) for end in ends]
    return timers_us

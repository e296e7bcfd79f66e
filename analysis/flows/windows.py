# SPDX-License-Identifier: GPL-2.0-only
"""Congestion windows of the same long flow in two runs: where they part.

From `tcp_probe`, where both runs have it, windows are compared after the same acknowledged bytes, so that a different
distance of acknowledgements is no difference; else from `tcp_info`, at the same instants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.read import tcp
from analysis.read.runs import Run
from traffic.workload.records import Flow

#: windows that differ by more have parted, segments
SAME = 1
_SEQUENCE = 2**32
_COLUMNS = ("t_us", "cwnd", "ssthresh", "retransmitted")


class Moment(NamedTuple):
    """A sender's state when windows part: seconds, cwnd and ssthresh in segments, segments sent again so far."""

    time_s: float
    cwnd: float
    ssthresh: float
    retransmitted: float

    @property
    def slow_start(self) -> bool:
        return self.cwnd < self.ssthresh


class Parting(NamedTuple):
    """Where the windows of a flow part. by: what they were compared by; until: how far they were the same
    (seconds, or bytes acknowledged); both None if they never part, and `until` says how far was looked."""

    flow: int
    by: str
    until: float
    reference: Moment | None
    other: Moment | None

    @property
    def state(self) -> str:
        """What the two senders did just then: as far as their own counters tell."""
        if self.reference is None or self.other is None:
            return ""
        lost = [one.retransmitted > 0 for one in (self.reference, self.other)]
        if all(lost):
            return "after losses in both"
        if any(lost):
            return f"after a loss in {'the reference' if lost[0] else 'this one'} only"
        slow = [one.slow_start for one in (self.reference, self.other)]
        if all(slow):
            return "in slow start, before any loss"
        if any(slow):
            return f"{'the reference' if slow[1] else 'this one'} left slow start without a loss"
        return "in congestion avoidance, before any loss"


def samples(run: Run, flow: Flow) -> pd.DataFrame:
    """The tcp_info of a listed flow's sender by time: t_us, cwnd, ssthresh, retransmitted."""
    table = tcp.flow_samples(run, "ssthresh")
    if table is None or table.empty:
        return pd.DataFrame({name: pd.Series(dtype=float) for name in _COLUMNS})
    mine = table[tcp.flow_numbers(run, table) == flow.flow].rename(columns={"total_retrans": "retransmitted"})
    return mine[list(_COLUMNS)].dropna().sort_values("t_us", kind="stable")


def partings(reference: Run, other: Run) -> list[Parting]:
    """Of every listed flow that both have and that has samples, where its windows part."""
    theirs = {flow.flow: flow for flow in tcp.listed_flows(other)}
    found = (_parting((reference, flow), (other, theirs[flow.flow])) for flow in tcp.listed_flows(reference)
             if flow.flow in theirs)
    return [one for one in found if one is not None]


def _parting(*sides: tuple[Run, Flow]) -> Parting | None:
    tables, key, by, factor = [_by_bytes(*side) for side in sides], "acked_bytes", "bytes acknowledged", 1.0
    if any(table.empty for table in tables):
        tables, key, by, factor = [samples(*side) for side in sides], "t_us", "time", 1e6
    both = tables[0].assign(at=tables[0][key]).merge(tables[1].assign(at=tables[1][key]), on="at",
                                                     suffixes=("", "_other"))
    if both.empty:
        return None
    flow = sides[0][1].flow
    apart = (both["cwnd"] - both["cwnd_other"]).abs() > SAME
    if not apart.any():
        return Parting(flow, by, float(both["at"].iloc[-1]) / factor, None, None)
    row = both[apart].iloc[0]
    before = both["at"][both["at"] < row["at"]]
    moments = [Moment(row[f"t_us{end}"] / 1e6, row[f"cwnd{end}"], row[f"ssthresh{end}"], row[f"retransmitted{end}"])
               for end in ("", "_other")]
    return Parting(flow, by, float(before.iloc[-1]) / factor if len(before) else 0.0, *moments)


def _by_bytes(run: Run, flow: Flow) -> pd.DataFrame:
    """From tcp_probe, the sender's state at every number of acknowledged bytes, acked_bytes; empty without."""
    table, again = run.frame("tcp_probe"), run.frame("retransmissions")
    nothing = pd.DataFrame({name: pd.Series(dtype=float) for name in ("acked_bytes", *_COLUMNS)})
    if table is None or again is None:
        return nothing
    mine = of(table, flow)
    mine = mine[mine["snd_una"] > 0].sort_values("t_us", kind="stable")
    if mine.empty:
        return nothing
    # outside of recovery ssthresh is at least 3/4 of cwnd, and below cwnd (docs/reference/run-folder.md)
    found = pd.DataFrame({
        "acked_bytes": np.mod(mine["snd_una"] - mine["snd_una"].iloc[0], _SEQUENCE), "t_us": mine["t_us"],
        "cwnd": mine["snd_cwnd"], "ssthresh": mine["ssthresh"],
        "retransmitted": np.searchsorted(np.sort(of(again, flow)["t_us"].to_numpy()), mine["t_us"], side="right")})
    return found.drop_duplicates("acked_bytes")


def of(table: pd.DataFrame, flow: Flow) -> pd.DataFrame:
    """Rows of the flow's sender; a flow without a port has whichever its socket got."""
    mine = np.ones(len(table), dtype=bool)
    for end, address, port in (("src", flow.src, flow.sport), ("dst", flow.dst, flow.dport)):
        names = table[end].astype(str)
        mine &= names.str.startswith(f"{address}:") if port is None else names == f"{address}:{port}"
    return table[mine]

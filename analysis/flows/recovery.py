# SPDX-License-Identifier: GPL-2.0-only
"""What a sender does about its first losses, read out of tcp_probe and tcp_info."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.read import tcp
from analysis.read.runs import Array, Run
from testbed.core import ip

MOST_FLOWS = 12     # of a run: with more, no single one tells much
NOT_SET = 2**31 - 1  # ssthresh before the first loss
TIMER_US = 100      # a retransmission this long after the last ACK is not that ACK's doing
RECOVERY, LOSS = 3, 4  # enum tcp_ca_state
REPAIR = (RECOVERY, LOSS)


class Flow(NamedTuple):
    """The sender of a flow; times in us, data in segments from its first byte.

    What `window`, `threshold` and `progress` say holds from t until the next row.
    """

    window: pd.DataFrame           # t, cwnd
    threshold: pd.DataFrame        # t, ssthresh: from when it is first set
    progress: pd.DataFrame         # t, acked, sent
    duplicates: pd.DataFrame       # t, acked, nth: duplicate ACKs, numbered from the last new one
    retransmissions: pd.DataFrame  # t, acked: when something was sent again, what was acked then
    losses: pd.DataFrame           # t, segment: chosen losses, at the time they were sent first
    states: pd.DataFrame           # start, end, ca_state: times of repair, if known
    rtt_us: float
    src: str = ""                  # address:port
    dst: str = ""

    @property
    def first_us(self) -> int:
        return int(self.retransmissions["t"].iloc[0])

    @property
    def last_us(self) -> int:
        """The last retransmission of the first repair: a pause of ten round trips ends it."""
        times = self.retransmissions["t"].to_numpy()
        pauses = np.flatnonzero(np.diff(times) > max(10 * self.rtt_us, 1e6))
        return int(times[pauses[0]] if len(pauses) else times[-1])

    @property
    def timeouts(self) -> int:
        """Retransmissions that no arriving segment brought about and that left a window of one segment."""
        arrivals, window = self.progress["t"].to_numpy()[1:], self.window
        again = self.retransmissions["t"].to_numpy()
        before = np.searchsorted(arrivals, again, side="right")
        quiet = again - np.where(before > 0, arrivals[before - 1], -np.inf) > TIMER_US
        holds = np.searchsorted(window["t"].to_numpy(), again, side="right") - 1
        return int((quiet & (window["cwnd"].to_numpy()[holds] == 1)).sum())


def first_to_lose(run: Run) -> Flow | None:
    """The flow with the first retransmission of a run with few flows; None if there is none."""
    if not tcp.listed_flows(run):
        return None
    received, again = run.frame("tcp_probe"), run.frame("retransmissions")
    if received is None or again is None or again.empty:
        return None
    senders = received.groupby(["src", "dst"], observed=True)["snd_una"].nunique()
    if (senders > 1).sum() > MOST_FLOWS:
        return None
    for src, dst in again[["src", "dst"]].drop_duplicates().itertuples(index=False):
        rows = received[(received["src"] == src) & (received["dst"] == dst)]
        if len(rows) > 2:
            mine = again[(again["src"] == src) & (again["dst"] == dst)]
            flow = flow_of(rows, mine["t_us"].to_numpy(), _segment_bytes(run), chosen_segments(run))
            return flow._replace(states=_states(run, src, dst, flow.rtt_us), src=src, dst=dst)
    return None


def flow_of(rows: pd.DataFrame, again_us: Array, segment_bytes: float,
            chosen: list[int]) -> Flow:
    """A Flow from its sender's rows of tcp_probe; without its states.

    A row has the state before its segment is processed: what the segment did is in the next one.
    """
    t = rows["t_us"].to_numpy()
    una, nxt = (rows[name].to_numpy() for name in ("snd_una", "snd_nxt"))
    acked = np.concatenate([[0], np.cumsum(np.diff(una).astype(np.int32))]) / segment_bytes
    sent = acked + (nxt - una).astype(np.int32) / segment_bytes
    rtt_us = float(rows["srtt_us"].iloc[:max(1, int(np.searchsorted(t, again_us[0])))].median())
    since = np.concatenate([[t[0] - rtt_us], t[:-1]])
    # what a timer did between two segments shows in the second
    timer = np.searchsorted(again_us, since + TIMER_US, side="right")
    fired = again_us[np.minimum(timer, len(again_us) - 1)]
    fired = np.where((timer < len(again_us)) & (fired < t), fired, since)
    duplicate = np.zeros(len(rows), bool)
    wnd = rows["snd_wnd"].to_numpy()
    duplicate[:-1] = ((rows["data_len"].to_numpy()[:-1] == 0) & (una[1:] == una[:-1])
                      & (wnd[1:] == wnd[:-1]) & (nxt[:-1] != una[:-1]))
    duplicates = pd.DataFrame({"t": t[duplicate], "acked": acked[duplicate]})
    duplicates["nth"] = duplicates.groupby("acked").cumcount() + 1
    after = np.minimum(np.searchsorted(t, again_us, side="right"), len(t) - 1)
    leaves: Array = np.searchsorted(np.maximum.accumulate(sent), chosen if una[0] == 0 else [])
    leaves = leaves[leaves < len(t)]
    return Flow(
        changes(fired, "cwnd", rows["snd_cwnd"].to_numpy()),
        changes(fired, "ssthresh", threshold(rows)).dropna(),
        pd.DataFrame({"t": since, "acked": acked, "sent": sent}), duplicates,
        pd.DataFrame({"t": again_us, "acked": acked[after]}),
        pd.DataFrame({"t": since[leaves], "segment": np.array(chosen)[:len(leaves)]}),
        pd.DataFrame(), rtt_us)


def changes(t: Array, name: str, values: Array) -> pd.DataFrame:
    """t and values where a value is another than before."""
    table = pd.DataFrame({"t": t, name: values})
    return table[table[name].ne(table[name].shift())]


def threshold(rows: pd.DataFrame) -> Array:
    """Slow-start threshold, NaN before it is set.

    tcp_probe has that of tcp_current_ssthresh(), which outside of recovery is 3/4 of the window
    if that is more: there, the last one known still stands.
    """
    cwnd, known = rows["snd_cwnd"], rows["ssthresh"].astype(float)
    return known.where((known < NOT_SET) & (known != cwnd // 2 + cwnd // 4)).ffill().to_numpy()


def _segment_bytes(run: Run) -> float:
    samples = run.frame("tcp_info")
    largest = samples["mss"].max() if samples is not None and len(samples) else np.nan
    return float(largest) if largest > 0 else float(run.network.segment_bytes())


def chosen_segments(run: Run) -> list[int]:
    """Numbers of the segments that the run's network was told to lose, in order."""
    return sorted({number for link in run.network.links
                   for number in link.lose_segments})


def _states(run: Run, src: str, dst: str, rtt_us: float) -> pd.DataFrame:
    """Times of repair of a socket as its samples of tcp_info tell them: start, end, ca_state.

    None if they are a quarter of a round trip apart or more.
    """
    samples = tcp.flow_samples(run)
    if samples is None or len(samples) < 2:
        return pd.DataFrame(columns=["start", "end", "ca_state"])
    (address, port), (peer, peer_port) = ip.split_endpoint(src), ip.split_endpoint(dst)
    rows = samples[(samples["src"] == address) & (samples["sport"] == port)
                   & (samples["dst"] == peer) & (samples["dport"] == peer_port)]
    rows = rows.sort_values("t_us")
    if not rows["t_us"].diff().median() < rtt_us / 4:
        rows = rows.iloc[:0]
    first = rows["ca_state"].ne(rows["ca_state"].shift())
    spans = pd.DataFrame({"start": rows["t_us"], "ca_state": rows["ca_state"]})[first]
    spans["end"] = spans["start"].shift(-1, fill_value=rows["t_us"].max() if len(rows) else 0)
    return spans[spans["ca_state"].isin(REPAIR)]

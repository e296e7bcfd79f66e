# SPDX-License-Identifier: GPL-2.0-only
"""What a flow does about its first losses: window and threshold, and data sent and acknowledged.

From tcp_probe, on request; nothing for workloads of many flows.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import gnuplot, style, tcp
from analysis.experiment import Experiment
from analysis.figures import Figure
from analysis.runs import Array, Run

ORDER = 5  # first: only there where its probe was asked for
MOST_FLOWS = 12     # of a run: with more, no single one tells much
MOST_RTTS = 40      # drawn after the first retransmission
NOT_SET = 2**31 - 1  # ssthresh before the first loss
TIMER_US = 100      # a retransmission this long after the last ACK is not that ACK's doing
RECOVERY, LOSS = 3, 4  # enum tcp_ca_state
INK = "#222222"
SHADES = {RECOVERY: "#e6e6e6", LOSS: "#cfcfcf"}
PANEL_PX, TOP_PX, BOTTOM_PX, GAP_PX = 220, 62, 52, 32
LEFT_AT, RIGHT_AT = (0.055, 0.425), (0.505, 0.985)  # edges of the two columns, share of the width


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

    @property
    def first_us(self) -> int:
        return int(self.retransmissions["t"].iloc[0])

    @property
    def last_us(self) -> int:
        """The last retransmission of the first repair: a pause of ten round trips ends it."""
        times = self.retransmissions["t"].to_numpy()
        pauses = np.flatnonzero(np.diff(times) > max(10 * self.rtt_us, 1e6))
        return int(times[pauses[0]] if len(pauses) else times[-1])


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    flows: dict[str, Flow] = {}
    seeds = set()
    for row in experiment.drawn:
        for run in experiment.usable(row):
            if row.label not in flows and (flow := first_to_lose(run)):
                flows[row.label] = flow
                seeds.add(run.seed)
    if not flows:
        return []
    name = "recovery"
    _script(experiment, folder, name, flows)
    return [Figure(name, "Loss recovery, segment by segment",
                   "The first retransmissions of the flow that is first to have any, one row per "
                   "congestion control. Left: congestion window and slow-start threshold; look at "
                   "how far and how often they fall, and whether the window then grows from one "
                   "segment (slow start). Shaded, where tcp_info was sampled often enough, is the "
                   "time of repair: light in fast recovery, darker where the kernel works as after "
                   "a timeout. Right: segments sent for the first time and acknowledged; where the "
                   "lower line is flat the receiver waits for a lost segment, where the upper one "
                   "is flat nothing new is sent. Retransmissions are drawn at the time they are "
                   "sent, at the height of what is "
                   f"acknowledged then. Seed {', '.join(map(str, sorted(seeds)))} only.{experiment.drawn_note}")]


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
            flow = flow_of(rows, mine["t_us"].to_numpy(), _segment_bytes(run), _chosen(run))
            return flow._replace(states=_states(run, src, dst, flow.rtt_us))
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
        _changes(fired, "cwnd", rows["snd_cwnd"].to_numpy()),
        _changes(fired, "ssthresh", _threshold(rows)).dropna(),
        pd.DataFrame({"t": since, "acked": acked, "sent": sent}), duplicates,
        pd.DataFrame({"t": again_us, "acked": acked[after]}),
        pd.DataFrame({"t": since[leaves], "segment": np.array(chosen)[:len(leaves)]}),
        pd.DataFrame(), rtt_us)


def _changes(t: Array, name: str, values: Array) -> pd.DataFrame:
    """The rows in which a value is another than before."""
    table = pd.DataFrame({"t": t, name: values})
    return table[table[name].ne(table[name].shift())]


def _threshold(rows: pd.DataFrame) -> Array:
    """Slow-start threshold, NaN before it is set.

    tcp_probe has that of tcp_current_ssthresh(), which outside of recovery is 3/4 of the window
    if that is more: there, the last one known still stands.
    """
    cwnd, known = rows["snd_cwnd"], rows["ssthresh"].astype(float)
    return known.where((known < NOT_SET) & (known != cwnd // 2 + cwnd // 4)).ffill().to_numpy()


def _segment_bytes(run: Run) -> float:
    samples = run.frame("tcp_info")
    largest = samples["mss"].max() if samples is not None and len(samples) else np.nan
    return float(largest) if largest > 0 else 1448.0


def _chosen(run: Run) -> list[int]:
    """Numbers of the segments that the run's network was told to lose, in order."""
    return sorted({number for link in run.network["links"]
                   for number in link.get("lose_segments", [])})


def _states(run: Run, src: str, dst: str, rtt_us: float) -> pd.DataFrame:
    """Times of repair of a socket as its samples of tcp_info tell them: start, end, ca_state.

    None if they are a quarter of a round trip apart or more.
    """
    samples = run.frame("tcp_info")
    if samples is None or len(samples) < 2:
        return pd.DataFrame(columns=["start", "end", "ca_state"])
    (address, port), (peer, peer_port) = src.rsplit(":", 1), dst.rsplit(":", 1)
    rows = samples[(samples["src"] == address) & (samples["sport"] == int(port))
                   & (samples["dst"] == peer) & (samples["dport"] == int(peer_port))]
    rows = rows.sort_values("t_us")
    if not rows["t_us"].diff().median() < rtt_us / 4:
        rows = rows.iloc[:0]
    first = rows["ca_state"].ne(rows["ca_state"].shift())
    spans = pd.DataFrame({"start": rows["t_us"], "ca_state": rows["ca_state"]})[first]
    spans["end"] = spans["start"].shift(-1, fill_value=rows["t_us"].max() if len(rows) else 0)
    return spans[spans["ca_state"].isin(list(SHADES))]


def _script(experiment: Experiment, folder: Path, name: str, flows: dict[str, Flow]) -> None:
    rtt_us = max(flow.rtt_us for flow in flows.values())
    first = min(flow.first_us for flow in flows.values())
    start = max(0.0, first - 3 * rtt_us)
    end = min(max(flow.last_us for flow in flows.values()) + 5 * rtt_us, first + MOST_RTTS * rtt_us)
    labels = list(flows)
    looks = experiment.looks(experiment.drawn)
    columns: dict[str, pd.Series] = {}
    for label in labels:
        for kind, table in zip(Flow._fields, flows[label][:6]):
            reach = _within(table, start, end, kind in ("window", "threshold", "progress"))
            for column in table:
                values = reach[column] / 1e6 if column == "t" else reach[column]
                columns[f"{label} {kind} {column}"] = values.reset_index(drop=True)
    data = pd.DataFrame(columns)
    height = TOP_PX + BOTTOM_PX + PANEL_PX * len(labels) + GAP_PX * (len(labels) - 1)
    highest = max(data[[f"{label} window cwnd", f"{label} threshold ssthresh"]].max().max()
                  for label in labels)
    # what comes long after the repair would make it small
    reach = max(_sent_at(flow, min(flow.last_us, end) + flow.rtt_us) for flow in flows.values())
    acked = min(data[f"{label} progress acked"].min() for label in labels)
    body = [f"set multiplot; set xrange [{start / 1e6:g}:{end / 1e6:g}]",
            "set key horizontal left bottom at graph -0.02, graph 1.13 samplen 2 width 1 "
            "font ',11'"]
    for place, label in enumerate(labels):
        top = 1 - (TOP_PX + place * (PANEL_PX + GAP_PX)) / height
        body += [f"set tmargin at screen {top:g}",
                 f"set bmargin at screen {top - PANEL_PX / height:g}",
                 "set xlabel 'time (s)'; set xtics format '%g'" if place == len(labels) - 1
                 else "unset xlabel; set xtics format ''"]
        body += _windows(name, label, looks[label].colour, flows[label], highest)
        body += _progress(name, label, looks[label].colour, acked, reach,
                          any(len(flow.losses) for flow in flows.values()))
        body.append("unset key")
    gnuplot.draw(folder, name, data, [*body, "unset multiplot"], height=height)


def _sent_at(flow: Flow, t: float) -> float:
    """Segments sent for the first time by then."""
    known = flow.progress[flow.progress["t"] <= t]
    return float(known["sent"].iloc[-1] if len(known) else flow.progress["sent"].iloc[0])


def _within(table: pd.DataFrame, start: float, end: float, lasting: bool) -> pd.DataFrame:
    """Rows of a time range; of values that last, with the one before it, and up to its end."""
    inside = table[(table["t"] >= start) & (table["t"] <= end)]
    if not lasting:
        return inside
    before = table[table["t"] < start].tail(1)
    return pd.concat([before, inside, pd.concat([before, inside]).tail(1).assign(t=end)])


def _windows(name: str, label: str, colour: str, flow: Flow, highest: float) -> list[str]:
    """The left panel."""
    shades = [f"set object {number} rectangle from {row.start / 1e6:g}, graph 0 "
              f"to {row.end / 1e6:g}, graph 1 behind "
              f"fillcolor '{SHADES[int(row.ca_state)]}' fillstyle solid noborder"
              for number, row in enumerate(flow.states.itertuples(), start=1)]
    return [*_column(LEFT_AT), *shades,
            f"set yrange [0:{1.08 * highest:g}]; set ylabel 'segments' offset 1.5",
            f"set label 1 {gnuplot.quote(label)} at graph 0.98, graph 0.9 right "
            f"textcolor '{colour}' font ',13'",
            gnuplot.plot(_curve(name, label, "window", "cwnd", f"2 linecolor '{colour}'", "window"),
                         _curve(name, label, "threshold", "ssthresh",
                                f"1.5 dashtype 2 linecolor '{INK}'", "threshold")),
            "unset label 1", *(["unset object"] if shades else [])]


def _progress(name: str, label: str, colour: str, lowest: float, highest: float,
              lost: bool) -> list[str]:
    """The right panel."""
    top = highest + 0.05 * (highest - lowest)
    return [*_column(RIGHT_AT),
            f"set yrange [{lowest:g}:{top:g}]; set ylabel 'segment' offset 1.5",
            gnuplot.plot(
                _curve(name, label, "progress", "sent", f"1.5 linecolor '{style.GREY}'", "sent"),
                _curve(name, label, "progress", "acked", f"2 linecolor '{colour}'", "acknowledged"),
                _marks(name, label, "duplicates", "acked", "7 pointsize 0.3", "duplicate ACK"),
                _marks(name, label, "duplicates", "acked", "6 pointsize 1.2", "the third", "nth", 3),
                _marks(name, label, "retransmissions", "acked", "9 pointsize 1", "retransmission"),
                *([_marks(name, label, "losses", "segment", "2 pointsize 0.8 linewidth 1.5", "lost")]
                  if lost else []))]


def _curve(name: str, label: str, kind: str, column: str, width_and_looks: str, title: str) -> str:
    return (f"'{name}.csv' using {gnuplot.quote(f'{label} {kind} t')}:"
            f"{gnuplot.quote(f'{label} {kind} {column}')} with steps "
            f"linewidth {width_and_looks} title '{title}'")


def _marks(name: str, label: str, kind: str, column: str, point_and_looks: str, title: str,
           only: str = "", value: int = 0) -> str:
    """Points of a table's rows; of those where the column `only` has `value`, if it is given."""
    x, y = gnuplot.quote(f"{label} {kind} t"), gnuplot.quote(f"{label} {kind} {column}")
    if only:
        y = f"(column({gnuplot.quote(f'{label} {kind} {only}')}) == {value} ? column({y}) : NaN)"
    return (f"'{name}.csv' using {x}:{y} with points pointtype {point_and_looks} "
            f"linecolor '{INK}' title '{title}'")


def _column(edges: tuple[float, float]) -> list[str]:
    return [f"set lmargin at screen {edges[0]:g}; set rmargin at screen {edges[1]:g}"]

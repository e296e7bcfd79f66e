# SPDX-License-Identifier: GPL-2.0-only
"""What a flow did about losses that were chosen: the numbers beside the figure of loss recovery."""

from __future__ import annotations

from analysis.flows.recovery import RECOVERY, Flow, chosen_segments, first_to_lose
from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run
from testbed.core import ip

UNITS = {
    "timeouts": "1", "segments_sent_again": "1", "segments_acknowledged": "1", "fast_recoveries": "1",
    "ssthresh_lowest": "segments", "repair_time": "ms"}
BETTER = {"timeouts": "lower", "repair_time": "lower"}
SHOWN = [Shown("recovery", metric, heading, order) for order, (metric, heading) in enumerate((
    ("fast_recoveries", "fast recoveries"), ("timeouts", "timeouts"), ("segments_sent_again", "sent again"),
    ("ssthresh_lowest", "lowest threshold"), ("repair_time", "repaired after"),
    ("segments_acknowledged", "acknowledged")))]


def compute(run: Run) -> list[Metric]:
    """Of the flow that is first to send something again, where segments to lose were chosen and tcp_probe watched.

    The whole run counts. Fast recoveries are known where tcp_info was sampled four times per round trip.
    """
    chosen = chosen_segments(run)
    flow = first_to_lose(run) if chosen else None
    if flow is None:
        return []
    scope = _scope(run, flow)
    found = [Metric("timeouts", scope, "1", float(flow.timeouts)),
             Metric("segments_sent_again", scope, "1", float(len(flow.retransmissions))),
             Metric("segments_acknowledged", scope, "1", round(float(flow.progress["acked"].iloc[-1]), 3))]
    if not flow.states.empty:
        found.append(Metric("fast_recoveries", scope, "1", float((flow.states["ca_state"] == RECOVERY).sum())))
    if len(flow.threshold):
        found.append(Metric("ssthresh_lowest", scope, "segments", float(flow.threshold["ssthresh"].min())))
    repaired = flow.progress[flow.progress["acked"] >= chosen[-1]]
    if len(repaired):
        found.append(Metric("repair_time", scope, "ms", (float(repaired["t"].iloc[0]) - flow.first_us) / 1e3))
    return found


def _scope(run: Run, flow: Flow) -> str:
    (src, sport), (dst, dport) = map(ip.split_endpoint, (flow.src, flow.dst))
    for listed in tcp.listed_flows(run):
        ends = listed.src, listed.dst, listed.sport or sport, listed.dport or dport
        if ends == (src, dst, sport, dport):
            return f"flow_{listed.flow}"
    return "all"

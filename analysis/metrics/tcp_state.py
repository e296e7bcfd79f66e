# SPDX-License-Identifier: GPL-2.0-only
"""What tcp_info says of the senders: retransmissions, limits, window, RTT."""

from __future__ import annotations

from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {
    "retransmission_share": "%", "rwnd_limited_share": "%", "sndbuf_limited_share": "%", "cwnd_mean": "segments",
    "srtt_mean": "ms"}
BETTER = {"retransmission_share": "lower"}
MOST = {"rwnd_limited_share": 100.0, "sndbuf_limited_share": 100.0}
WINDOWED = {"retransmission_share", "rwnd_limited_share", "sndbuf_limited_share", "cwnd_mean", "srtt_mean"}
SHOWN = [Shown("links", "retransmission_share", "retransmitted", 90)]


def compute(run: Run) -> list[Metric]:
    """Per direction, over the sockets on the sending side, in the measurement interval."""
    found = tcp.measured(run)
    if found is None:
        return []
    samples, steps = found
    towards = tcp.direction(run, samples)
    metrics = []
    for name in sorted(towards.dropna().unique()):
        mine = (towards == name).to_numpy()
        total = steps[mine].sum()
        # A socket that only receives has srtt and cwnd too, but they say nothing.
        sending = samples[mine & (steps["bytes_sent"] > 0).to_numpy()]
        if total["bytes_sent"] > 0:
            metrics.append(Metric("retransmission_share", name, "%",
                                  100 * total["bytes_retrans"] / total["bytes_sent"]))
        if total["busy_us"] > 0:
            metrics += [Metric("rwnd_limited_share", name, "%",
                               100 * total["rwnd_limited_us"] / total["busy_us"]),
                        Metric("sndbuf_limited_share", name, "%",
                               100 * total["sndbuf_limited_us"] / total["busy_us"])]
        if sending["cwnd"].notna().any():
            metrics.append(Metric("cwnd_mean", name, "segments", float(sending["cwnd"].mean())))
        if sending["srtt_us"].notna().any():
            metrics.append(Metric("srtt_mean", name, "ms", float(sending["srtt_us"].mean()) / 1e3))
    return metrics

# SPDX-License-Identifier: GPL-2.0-only
"""Segments sent again: how many, as iperf3 counts them, and of what was delivered: the loss that can be computed from
retransmissions and goodput alone."""

from __future__ import annotations

from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"retransmitted_segments": "segments", "sent_again_over_goodput": "%"}
BETTER = {"retransmitted_segments": "lower", "sent_again_over_goodput": "lower"}
WINDOWED = {"retransmitted_segments", "sent_again_over_goodput"}

#: what a retransmitted segment counts as, whatever its size
PACKET_BYTES = 1500


def compute(run: Run) -> list[Metric]:
    """Of all senders together, in the measurement interval."""
    found = tcp.measured(run)
    if found is None:
        return []
    total = found[1].sum()
    counted = [Metric("retransmitted_segments", "all", "segments", float(total["total_retrans"]))]
    if not total["bytes_acked"] > 0:
        return counted
    share = 100 * PACKET_BYTES * float(total["total_retrans"]) / float(total["bytes_acked"])
    return [*counted, Metric("sent_again_over_goodput", "all", "%", share)]

# SPDX-License-Identifier: GPL-2.0-only
"""Segments sent again: how many, as iperf3 counts them, and of what was delivered: the loss that can be computed from
retransmissions and goodput alone."""

from __future__ import annotations

from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"segments_sent_again": "segments", "sent_again_over_goodput": "%"}
BETTER = {"segments_sent_again": "lower", "sent_again_over_goodput": "lower"}
WINDOWED = {"segments_sent_again", "sent_again_over_goodput"}

#: what a retransmitted segment counts as, whatever its size
PACKET_BYTES = 1500


def compute(run: Run) -> list[Metric]:
    """Of all senders together, in the measurement interval."""
    found = tcp.measured(run)
    if found is None:
        return []
    total = found[1].sum()
    again = Metric("segments_sent_again", "all", "segments", float(total["total_retrans"]))
    if not total["bytes_acked"] > 0:
        return [again]
    share = 100 * PACKET_BYTES * float(total["total_retrans"]) / float(total["bytes_acked"])
    return [again, Metric("sent_again_over_goodput", "all", "%", share)]

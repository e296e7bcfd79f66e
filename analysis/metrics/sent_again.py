# SPDX-License-Identifier: GPL-2.0-only
"""Segments sent again of what was delivered: the loss that can be computed from retransmissions and goodput alone."""

from __future__ import annotations

from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"sent_again_over_goodput": "%"}
BETTER = {"sent_again_over_goodput": "lower"}
WINDOWED = {"sent_again_over_goodput"}

#: what a retransmitted segment counts as, whatever its size
PACKET_BYTES = 1500


def compute(run: Run) -> list[Metric]:
    """Of all senders together, in the measurement interval."""
    found = tcp.measured(run)
    if found is None:
        return []
    total = found[1].sum()
    if not total["bytes_acked"] > 0:
        return []
    return [Metric("sent_again_over_goodput", "all", "%",
                   100 * PACKET_BYTES * float(total["total_retrans"]) / float(total["bytes_acked"]))]

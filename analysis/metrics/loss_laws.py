# SPDX-License-Identifier: GPL-2.0-only
"""Throughput of a flow over what the loss-throughput laws say of Reno at its loss rate and round-trip time.

Mathis et al., CCR 27(3), 1997, equation 3; Padhye et al. (PFTK), SIGCOMM 1998, equation 30. With one acknowledged
segment per acknowledgement (b = 1): Linux grows by the segments that an acknowledgement is for.
"""

from __future__ import annotations

import math

from analysis.metrics import Metric, flow_loss
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"throughput_over_mathis": "1", "throughput_over_pftk": "1"}
RATIOS = {"throughput_over_mathis", "throughput_over_pftk"}


def compute(run: Run) -> list[Metric]:
    """Of flows whose losses are known, and that had some; all of the measurement interval."""
    lost = flow_loss.shares(run)
    found = tcp.measured(run, single=True) if any(lost.values()) else None
    if found is None:
        return []
    acked = found[1]["bytes_acked"].groupby(tcp.flow_numbers(run, found[0])).sum()
    states = tcp.flow_samples(run, "rto_us")
    assert states is not None
    states = states[(states["srtt_us"] > 0) & (states["t_us"] >= run.interval.start_us)]
    numbers = tcp.flow_numbers(run, states)
    metrics = []
    for number, p in sorted(lost.items()):
        rtt_us, rto_us, mss_bytes = states[numbers == number][["srtt_us", "rto_us", "mss"]].mean()
        if p <= 0 or not rtt_us > 0 or not rto_us > 0 or not acked.get(number, 0):
            continue
        per_s = acked[number] / run.interval.seconds / mss_bytes
        metrics += [Metric("throughput_over_mathis", f"flow_{number}", "1", per_s / mathis(p, rtt_us / 1e6)),
                    Metric("throughput_over_pftk", f"flow_{number}", "1",
                           per_s / pftk(p, rtt_us / 1e6, rto_us / 1e6))]
    return metrics


def mathis(p: float, rtt_s: float) -> float:
    """Segments per second: sqrt(3/2) / (RTT sqrt(p))."""
    return math.sqrt(1.5 / p) / rtt_s


def pftk(p: float, rtt_s: float, rto_s: float) -> float:
    """Segments per second, timeouts included; without a limit of the window."""
    return 1 / (rtt_s * math.sqrt(2 * p / 3) + rto_s * min(1.0, 3 * math.sqrt(3 * p / 8)) * p * (1 + 32 * p ** 2))

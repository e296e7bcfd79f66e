# SPDX-License-Identifier: GPL-2.0-only
"""Numbers of one flow from its sampled curves: pure functions of arrays (docs/reference/metrics.md, "Flows by layers").

Times are microseconds. A counter is cumulative and linear between its samples; a state holds until the next sample.
"""

from __future__ import annotations

import numpy as np

from analysis.read.runs import Array

#: width of the bins of CCPerf's metrics that depend on one
BIN_US = 20_000
#: tcpi_ca_state in fast recovery
RECOVERY = 3
#: gain of the moving average of inter-delivery times
GAIN = 1 / 8


def edges(start_us: float, end_us: float) -> Array:
    """Edges of the bins within [start, end), at multiples of their width: that is where samples are, too."""
    return BIN_US * np.arange(np.ceil(start_us / BIN_US), np.floor(end_us / BIN_US) + 1)


def rates_mbps(edges_us: Array, times_us: Array, counter_bytes: Array) -> Array:
    """Mbit/s in every bin, 0 beyond the samples."""
    return np.diff(np.interp(edges_us, times_us, counter_bytes)) * 8 / np.diff(edges_us)


def growth(start_us: float, end_us: float, times_us: Array, counter: Array) -> float:
    """By how much a counter grew in [start, end)."""
    first, last = np.interp([start_us, end_us], times_us, counter)
    return float(last - first)


def held(at_us: Array, times_us: Array, values: Array) -> Array:
    """A state at the given times, NaN before its first sample."""
    place = np.searchsorted(times_us, at_us, side="right") - 1
    return np.where(place >= 0, np.asarray(values, dtype=float)[np.maximum(place, 0)], np.nan)


def time_mean(start_us: float, end_us: float, times_us: Array, values: Array) -> float:
    """Mean of a state over [start, end); it is the first sample's before that."""
    inside = np.clip(np.append(times_us, end_us), start_us, end_us)
    inside[0] = start_us
    return float(np.average(values, weights=np.diff(inside))) if end_us > start_us else float("nan")


def variation(values: Array) -> float:
    """Coefficient of variation: sample standard deviation / mean; NaN where that is 0 or there is one value."""
    mean = float(np.mean(values)) if len(values) > 1 else 0.0
    return float(np.std(values, ddof=1)) / mean if mean else float("nan")


def power(rates: Array, srtt_ms: Array) -> float:
    """Mean of throughput / sRTT over the bins where there is an sRTT, Mbit/s per s."""
    known = srtt_ms > 0
    return float(np.mean(rates[known] * 1e3 / srtt_ms[known])) if known.any() else float("nan")


def utility_pf(rates: Array) -> float:
    """Proportional fairness: mean of ln(Mbit/s) over the bins in which something got through."""
    some = rates[rates > 0]
    return float(np.mean(np.log(some))) if len(some) else float("nan")


def utility_mpdf(rates: Array) -> float:
    """Minimum potential delay fairness: mean of -1/(Mbit/s) over the same."""
    some = rates[rates > 0]
    return float(np.mean(-1 / some)) if len(some) else float("nan")


def transit_ms(written_us: Array, written: Array, read_us: Array, read: Array) -> float:
    """Mean over the bytes that were read of the time since they were written: the area between the two curves.

    (Little's law: waiting bytes, integrated over time, are bytes times their time.)
    """
    written = np.maximum.accumulate(np.asarray(written, dtype=float))
    read = np.maximum.accumulate(np.asarray(read, dtype=float))
    total = read[-1] - read[0] if len(read) else 0.0
    if total <= 0:
        return float("nan")
    times = np.union1d(written_us, read_us)
    waiting = np.minimum(np.interp(times, written_us, written), read[-1]) - np.interp(times, read_us, read)
    # a byte is never read before it is written: what looks so is the resolution of the samples
    area = np.trapezoid if hasattr(np, "trapezoid") else np.trapz
    return float(area(np.clip(waiting, 0, None), times)) / float(total) / 1e3


def recovery_ms(times_us: Array, states: Array) -> float:
    """Mean length of the spells in fast recovery, from the first sample in one to the first behind it; NaN without."""
    inside = np.asarray(states) == RECOVERY
    steps = np.diff(inside.astype(int), prepend=0)
    begins = np.flatnonzero(steps == 1)
    if not len(begins):
        return float("nan")
    ends = np.append(np.flatnonzero(steps == -1), len(times_us) - 1)[:len(begins)]
    return float(np.mean(times_us[ends] - times_us[begins])) / 1e3


def inter_delivery_ms(times_us: Array, delivered: Array) -> float:
    """Mean of the moving average (gain 1/8) of the time per delivered segment.

    delivered: segments, whole ones count. A sample in which there are more of them gives a value.
    """
    delivered = np.floor(np.maximum.accumulate(np.asarray(delivered, dtype=float)))
    moved = np.concatenate([[True], np.diff(delivered) > 0]) if len(delivered) else np.zeros(0, dtype=bool)
    gaps_ms = np.diff(times_us[moved]) / np.diff(delivered[moved]) / 1e3
    if not len(gaps_ms):
        return float("nan")
    averages = [gaps_ms[0]]
    for gap in gaps_ms[1:]:
        averages.append(averages[-1] + GAIN * (gap - averages[-1]))
    return float(np.mean(averages))


def shares(rates: Array) -> tuple[float, float, float]:
    """(Jain's index, entropy in bit, product of Mbit/s) of rates: a row for each bin, a column for each flow.

    Means over bins. Each bin is that of the flows that got something through in it; bins without are left out.
    NaN if all are.
    """
    rates = rates[(rates > 0).any(axis=1)]
    if not len(rates):
        return float("nan"), float("nan"), float("nan")
    some = rates > 0
    share = rates / rates.sum(axis=1, keepdims=True)
    jain = 1 / (some.sum(axis=1) * (share ** 2).sum(axis=1))
    entropy = -(share * np.log2(share, out=np.zeros_like(share), where=some)).sum(axis=1)
    product = np.where(some, rates, 1.0).prod(axis=1)
    return float(jain.mean()), float(entropy.mean()), float(product.mean())

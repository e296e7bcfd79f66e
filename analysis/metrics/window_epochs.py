# SPDX-License-Identifier: GPL-2.0-only
"""The window of a flow over whole epochs: from one reduction to the next, as formulae of the mean window mean it."""

from __future__ import annotations

import numpy as np

from analysis.flows import loss_episodes
from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"window_epochs": "1", "epoch_window_mean": "segments", "epoch_length_mean": "s"}
#: runs of more flows are about something else
MOST_FLOWS = 20


def compute(run: Run) -> list[Metric]:
    """Of each listed flow that reduced its window at least twice in the measurement interval.

    The mean is one over time, from the first reduction to the last: the part of an epoch at either end of the interval
    would make it depend on where the interval begins.
    """
    flows = tcp.listed_flows(run)
    if not 1 <= len(flows) <= MOST_FLOWS:
        return []
    reductions, samples = loss_episodes.of_flows(run), tcp.flow_samples(run)
    if not reductions or samples is None:
        return []
    samples = samples.sort_values("t_us", kind="stable", ignore_index=True)
    numbers = tcp.flow_numbers(run, samples)
    found: list[Metric] = []
    for flow, mine in sorted(reductions.items()):
        if len(mine.t_us) < 2:
            continue
        first_us, last_us = int(mine.t_us[0]), int(mine.t_us[-1])
        of_flow = samples[numbers == flow]
        inside = of_flow[(of_flow["t_us"] >= first_us) & (of_flow["t_us"] < last_us)]
        holds_us = np.diff(np.append(inside["t_us"].to_numpy(), last_us))
        epochs, scope = len(mine.t_us) - 1, f"flow_{flow}"
        found += [Metric("window_epochs", scope, "1", float(epochs)),
                  Metric("epoch_window_mean", scope, "segments",
                         float(np.average(inside["cwnd"].to_numpy(), weights=holds_us))),
                  Metric("epoch_length_mean", scope, "s", (last_us - first_us) / 1e6 / epochs)]
    return found

# SPDX-License-Identifier: GPL-2.0-only
"""How losses of a bottleneck are shared: loss episodes, and the reductions of each flow in them."""

from __future__ import annotations

import numpy as np

from analysis import loss_episodes
from analysis.metrics import Metric
from analysis.runs import Run

RATIOS = ("reduction_factor",)
MINUTE_US = 60_000_000


def compute(run: Run) -> list[Metric]:
    """Per target link, and per flow that crosses it; nothing where no packet was dropped."""
    metrics = []
    minutes = (run.interval.end_us - run.interval.start_us) / MINUTE_US
    for link in run.targets:
        found = loss_episodes.of_link(run, link)
        if found is None or not len(found.start_us):
            continue
        counts = np.array(list(found.counts.values()))
        metrics += [Metric("loss_episodes", link, "1/min", len(found.start_us) / minutes),
                    Metric("drops_per_loss_episode", link, "packets", float(found.drops.mean()))]
        struck = counts.any(axis=0)
        if struck.any():
            share = float((counts > 0).all(axis=0).sum() / struck.sum())
            metrics.append(Metric("loss_episodes_shared", link, "%", 100 * share))
        for flow, reductions in found.reductions.items():
            metrics += [Metric("reductions_per_loss_episode", f"flow_{flow}", "1", float(found.counts[flow].mean())),
                        Metric("reductions", f"flow_{flow}", "1/min", len(reductions.t_us) / minutes)]
            factors = reductions.factor[reductions.factor > 0]
            if len(factors):
                metrics.append(Metric("reduction_factor", f"flow_{flow}", "1", float(np.exp(np.log(factors).mean()))))
    return metrics

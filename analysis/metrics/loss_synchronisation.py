# SPDX-License-Identifier: GPL-2.0-only
"""How losses of a bottleneck are shared: loss episodes, and the reductions of each flow in them."""

from __future__ import annotations

import numpy as np

from analysis.flows import loss_episodes
from analysis.metrics import Metric, Shown
from analysis.read.runs import Run

UNITS = {
    "loss_episodes": "1/min", "drops_per_loss_episode": "packets", "loss_episodes_shared": "%",
    "reductions_per_loss_episode": "1", "reductions": "1/min", "reduction_factor": "1", "window_at_reduction":
    "segments", "window_growth": "segments/s"}
RATIOS = ("reduction_factor",)
MOST = {"loss_episodes_shared": 100.0}
SHOWN = [Shown("episodes", "loss_episodes", "episodes", 10),
         Shown("episodes", "loss_episodes_shared", "in all flows", 20),
         Shown("episode_flows", "reductions_per_loss_episode", "reductions per episode", 10),
         Shown("episode_flows", "reduction_factor", "reduced to", 20)]
MINUTE_US = 60_000_000


def compute(run: Run) -> list[Metric]:
    """Of each listed flow, and of each target link that two of them or more cross and that dropped a packet."""
    metrics = []
    minutes = (run.interval.end_us - run.interval.start_us) / MINUTE_US
    for link in run.targets:
        found = loss_episodes.of_link(run, link)
        if found is not None and len(found.start_us):
            metrics += _link(link, found, minutes, f"{link}/" if len(run.targets) > 1 else "")
    for flow, reductions in loss_episodes.of_flows(run).items():
        metrics += _flow(f"flow_{flow}", reductions, minutes)
    return metrics


def _link(link: str, found: loss_episodes.Episodes, minutes: float, prefix: str) -> list[Metric]:
    counts = np.array(list(found.counts.values()))
    metrics = [Metric("loss_episodes", link, "1/min", len(found.start_us) / minutes),
               Metric("drops_per_loss_episode", link, "packets", float(found.drops.mean()))]
    struck = counts.any(axis=0)
    if struck.any():
        share = float((counts > 0).all(axis=0).sum() / struck.sum())
        metrics.append(Metric("loss_episodes_shared", link, "%", 100 * share))
    return metrics + [Metric("reductions_per_loss_episode", f"{prefix}flow_{flow}", "1", float(of_flow.mean()))
                      for flow, of_flow in found.counts.items()]


def _flow(scope: str, found: loss_episodes.Reductions, minutes: float) -> list[Metric]:
    metrics = [Metric("reductions", scope, "1/min", len(found.t_us) / minutes)]
    factors = found.factor[found.factor > 0]
    if len(factors):
        metrics += [Metric("reduction_factor", scope, "1", float(np.exp(np.log(factors).mean()))),
                    Metric("window_at_reduction", scope, "segments", float(found.cwnd.mean()))]
    if found.growth is not None:
        metrics.append(Metric("window_growth", scope, "segments/s", found.growth))
    return metrics

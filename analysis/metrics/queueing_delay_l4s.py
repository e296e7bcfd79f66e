# SPDX-License-Identifier: GPL-2.0-only
"""Queueing delay of L4S packets and of all others, of each bottleneck whose queue may mark."""

from __future__ import annotations

import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.metrics.queueing_delay import PERCENTILES, histogram_percentiles
from analysis.read.runs import Run
from topologies import queues

UNITS = {
    "queueing_delay_l4s_p50": "ms", "queueing_delay_l4s_p95": "ms", "queueing_delay_l4s_p99": "ms",
    "queueing_delay_classic_p50": "ms", "queueing_delay_classic_p95": "ms", "queueing_delay_classic_p99": "ms"}
BETTER = {
    "queueing_delay_l4s_p50": "lower", "queueing_delay_l4s_p95": "lower", "queueing_delay_l4s_p99": "lower",
    "queueing_delay_classic_p50": "lower", "queueing_delay_classic_p95": "lower", "queueing_delay_classic_p99": "lower"}
SHOWN = [Shown("links", "queueing_delay_l4s_p99", "queueing delay of L4S packets, p99", 55),
         Shown("links", "queueing_delay_classic_p99", "queueing delay of others, p99", 56)]


def compute(run: Run) -> list[Metric]:
    """Percentiles in ms after warm-up, exact to the width of a bin (0.23 %). A link without L4S packets has none,
    unless its queue is made for L4S: then the other packets have theirs."""
    return [Metric(f"queueing_delay_{kind}_p{percent}", link, "ms", value / 1e3)
            for link in run.bottlenecks for kind, rows in by_kind(run, link).items()
            for percent, value in zip(PERCENTILES, histogram_percentiles(rows, PERCENTILES))]


def by_kind(run: Run, link: str) -> dict[str, pd.DataFrame]:
    """{l4s, classic: sojourn histogram} of a link that had L4S packets, or whose queue is made for them; each only if
    there were any.

    What a packet is, its codepoint says when it enters. Packets that came in with CE are of neither kind, but for
    queues that take them for L4S (`l4s_codepoints` of the queue).
    """
    table = run.frame("sojourn_codepoints")
    if table is None:
        return {}
    of_link, described = table[(table["link"] == link) & (table["packets"] > 0)], run.bottlenecks[link]
    kind = queues.kind(described.queue)
    l4s = kind.l4s_codepoints(described.queue_options)
    kinds = {"l4s": l4s, "classic": {"not_ect", "ect0"} - l4s}
    found = {name: of_link[of_link["codepoint"].isin(codepoints)].groupby("low_us", as_index=False).agg(
        {"packets": "sum", "high_us": "max"}) for name, codepoints in kinds.items()}
    return {name: rows for name, rows in found.items() if len(rows)} if len(found["l4s"]) or kind.FOR_L4S else {}

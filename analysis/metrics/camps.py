# SPDX-License-Identifier: GPL-2.0-only
"""Mean transfer times of camps that replay the same connections, in all and by quarters of their sizes."""

from __future__ import annotations

from analysis.flows import camps
from analysis.metrics import Metric, Shown
from analysis.read.runs import Run

UNITS = {"transfers_finished": "%", "transfer_time_mean": "s"}
BETTER = {"transfers_finished": "higher", "transfer_time_mean": "lower"}
MOST = {"transfers_finished": 100.0}
SHOWN = [Shown("camp_times", "transfers_finished", "finished", 10), Shown("camp_times", "transfer_time_mean", "", 20)]


def compute(run: Run) -> list[Metric]:
    """Of connections that are due in the measurement interval and finished; and how many of them did.

    Which of them finished differs from run to run: the ratios of two runs (analysis/flows/camps.py) are of those
    that did in both.
    """
    found = []
    for camp, table in camps.transfers(run).items():
        if table.empty:
            continue
        found.append(Metric("transfers_finished", camps.scope(camp), "%", 100 * float(table["seconds"].notna().mean())))
        for quarter in range(camps.QUARTERS + 1):
            seconds = (table[table["quarter"] == quarter] if quarter else table)["seconds"].dropna()
            if len(seconds):
                found.append(Metric("transfer_time_mean", camps.scope(camp, quarter), "s", float(seconds.mean())))
    return found

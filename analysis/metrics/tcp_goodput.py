# SPDX-License-Identifier: GPL-2.0-only
"""TCP goodput: payload that reached receivers, also of data units and connections that did not end."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.metrics.goodput import bytes_inside
from analysis.read import tcp
from analysis.read.runs import Array, Run

UNITS = {"tcp_goodput": "Mbit/s"}
BETTER = {"tcp_goodput": "higher"}
WINDOWED = {"tcp_goodput"}
SHOWN = [Shown("links", "tcp_goodput", "TCP goodput", 80)]


def compute(run: Run) -> list[Metric]:
    """Bytes that receivers read in the measurement interval / its length, per direction.

    `goodput` counts whole data units only. Here the part of a unit that had arrived when the run ended counts as
    well, spread over the time since the unit was sent; nothing of it is known in between.
    Where no data units were recorded, it is what receivers' TCP got in order, as `goodput`.
    """
    adus, connections = run.frame("adus"), run.frame("connections")
    totals = tcp.received_bytes(run, single=True)
    if adus is None or connections is None or adus.empty:
        others = tcp.received_bytes(run, single=False)
    else:
        others = _by_direction(run, _read_bytes(run, adus, connections))
    for direction, total in others.items():
        totals[direction] = totals.get(direction, 0) + total
    return [Metric("tcp_goodput", direction, "Mbit/s", total * 8 / 1e6 / run.interval.seconds)
            for direction, total in sorted(totals.items())]


def _by_direction(run: Run, read: dict[tuple[int, str], float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    directions = run.directions()
    for (source, side), total in read.items():
        direction = directions.get(source, ("all", "all"))[side == "a"]
        totals[direction] = totals.get(direction, 0) + total
    return totals


def _read_bytes(run: Run, adus: pd.DataFrame, connections: pd.DataFrame) -> dict[tuple[int, str], float]:
    """{(source, side that sent them): bytes read in the measurement interval}"""
    start, end = run.interval
    sent, delivered = adus["sent_us"].notna(), adus["delivered_us"].notna()
    whole = adus[sent & delivered]
    pending = _parts(adus[sent & ~delivered], whole, connections).assign(delivered_us=end)
    totals: dict[tuple[int, str], float] = {}
    for transfers in (whole, pending):
        inside = pd.Series(bytes_inside(transfers, start, end), index=transfers.index)
        by = [transfers["source"], transfers["side"]]
        for (source, side), total in inside.groupby(by, observed=True).sum().items():
            totals[source, side] = totals.get((source, side), 0) + float(total)
    return totals


def _parts(undelivered: pd.DataFrame, whole: pd.DataFrame, connections: pd.DataFrame) -> pd.DataFrame:
    """Of each side of a connection the first unit that did not arrive whole, with the bytes of it that did."""
    key = ["source", "conn", "side"]
    first = undelivered.sort_values("sent_us", kind="stable").drop_duplicates(key)
    columns = {"init_bytes_delivered": "i", "acc_bytes_delivered": "a"}
    read = connections[["source", "conn", *columns]].rename(columns=columns).melt(
        ["source", "conn"], var_name="side", value_name="read_bytes")
    # of millions of units only those of connections that have such a one
    whole = whole[np.isin(_connection(whole), _connection(first))]
    first, whole = (table.assign(side=table["side"].astype(str)) for table in (first, whole))
    counted = whole.groupby(key, as_index=False)["bytes"].sum().rename(columns={"bytes": "whole_bytes"})
    first = first.merge(read, on=key, how="left").merge(counted, on=key, how="left")
    rest = (first["read_bytes"] - first["whole_bytes"].fillna(0)).clip(lower=0)
    return first.assign(bytes=rest.fillna(0).clip(upper=first["bytes"]))


def _connection(units: pd.DataFrame) -> Array:
    """A number of each unit's connection."""
    return units["source"].to_numpy() << 32 | units["conn"].to_numpy()

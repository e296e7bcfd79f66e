# SPDX-License-Identifier: GPL-2.0-only
"""What of a run is measured: over which part of it, and the connections of its flows."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import Evidence
from testbed.core import grouping
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

#: rows of a table, as arrays by the names of its columns
Columns = Mapping[str, np.ndarray]


def interval_us(evidence: Evidence) -> tuple[int, int]:
    """(begin, end) of the measurement interval, as of all metrics."""
    return evidence.timing.measure_from_us, evidence.timing.duration_us


def inside(table: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """The rows of a table with t_us in the measurement interval, its end left out."""
    from_us, to_us = interval_us(evidence)
    t_us = table["t_us"].to_numpy()
    return table[(t_us >= from_us) & (t_us < to_us)]


def of_links(table: pd.DataFrame, names: Iterable[str]) -> Iterator[tuple[str, Columns]]:
    """(name, its rows) of each of these links of which the table has rows."""
    rows, columns = grouping.rows_of(table["link"]), {name: table[name].to_numpy() for name in table}
    for name in names:
        if name in rows:
            yield name, {column: values[rows[name]] for column, values in columns.items()}


def connections_of_sources(evidence: Evidence) -> tuple[pd.DataFrame | None, Mapping[int, Flow]]:
    """(rows of connections, {source: flow}) of the flows that replay connections; None for rows if there are none.

    Other checks complain of connections that are missing.
    """
    flows = {flow.source: flow for flow in evidence.flows if flow.source is not None}
    connections = evidence.table("connections", low_memory=False) if flows else None
    if connections is not None:
        connections = connections[connections["source"].isin(flows)]
    return (None if connections is None or connections.empty else connections), flows

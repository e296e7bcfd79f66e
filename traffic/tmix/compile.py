# SPDX-License-Identifier: GPL-2.0-only
"""Compiles connections into the columns of a plan file."""

import pathlib

import numpy as np

from traffic.replay.plan import write_plan
from traffic.tmix.batch import Batch, needs, offsets
from traffic.tmix.vectors import ACCEPTOR, INITIATOR
from traffic.tmix.wire import DEFAULT_MSS


def compile_plan(batch: Batch, conn_id: np.ndarray | None = None, prefill: np.ndarray | None = None,
                 windows: bool = False,
                 path_mss: int = DEFAULT_MSS) -> dict[str, np.ndarray]:
    """The plan columns of a batch: dict of int64 arrays as `plan.COLUMNS` names them; windows: WINDOW_COLUMNS, too.

    batch: connections with start_us in experiment time, in any order.
    conn_id: their numbers in their source (default: their positions).
    prefill: 1 for those that the prefill rule moved (default: none).
    path_mss: what the path's MTU leaves of a packet; a larger segment size of a connection is none.
    Connections that start together keep the order of their numbers.
    """
    n = len(batch)
    conn_id = np.arange(n) if conn_id is None else np.asarray(conn_id)
    prefill = np.zeros(n, np.int64) if prefill is None else np.asarray(prefill)
    order = np.lexsort((conn_id, batch.start_us))
    batch = batch.take(order).with_explicit_fins()
    need_bytes, owner = needs(batch), batch.owner
    mss = np.where((batch.mss > 0) & (batch.mss < path_mss), batch.mss, 0)
    columns = {"start_us": batch.start_us, "conn_id": conn_id[order], "mss_init": mss[:, 0],
               "mss_acc": mss[:, 1], "prefill": prefill[order]}
    for side, name in ((INITIATOR, "init"), (ACCEPTOR, "acc")):
        if windows:
            columns[f"window_{name}"] = np.maximum(batch.windows[:, side], 0)
        rows = batch.side == side
        columns[f"{name}_first"] = offsets(np.bincount(owner[rows], minlength=n))
        columns[f"{name}_need"] = need_bytes[rows]
        columns[f"{name}_wait_us"] = batch.wait_us[rows]
        columns[f"{name}_bytes"] = batch.size_bytes[rows]
    return {name: np.ascontiguousarray(column, np.int64) for name, column in columns.items()}


def write_plan_of(path: pathlib.Path, batch: Batch, conn_id: np.ndarray | None = None,
                  prefill: np.ndarray | None = None,
                  windows: bool = False, path_mss: int = DEFAULT_MSS, **metadata: object) -> None:
    """Compile a batch and write it as a plan file; see `compile_plan`, `plan.write_plan`."""
    write_plan(path, compile_plan(batch, conn_id, prefill, windows, path_mss), **metadata)

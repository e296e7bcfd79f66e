# SPDX-License-Identifier: GPL-2.0-only
"""How long connections take: until their last byte is delivered, or until they are closed.

An application that has sent everything may leave its connection open for seconds. That is no work of the network:
completion times end with the last byte that the other application has read, of both directions.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.flows.sizes import Transfers
from analysis.read.runs import Array, Run
from analysis.stats.survival import NOT_REACHED


def last_byte_us(run: Run, connections: pd.DataFrame) -> pd.Series | None:
    """When the last byte of each connection was delivered, experiment time; missing while a data unit of it is not.

    None where data units were not recorded.
    """
    adus = run.frame("adus")
    if adus is None:
        return None
    delivered = adus["delivered_us"].astype(float).fillna(np.inf).groupby([adus["source"], adus["conn"]]).max()
    last = delivered.reindex(pd.MultiIndex.from_frame(connections[["source", "conn"]])).to_numpy()
    return pd.Series(np.where(np.isfinite(last), last, np.nan), index=connections.index)


def completion(run: Run, connections: pd.DataFrame) -> Transfers | None:
    """Of connections that begin in the measurement interval: seconds from the start to the last byte, and sizes.

    To the end of the run where that has not come, for ever where the connection failed. None where data units were
    not recorded.
    """
    last_us = last_byte_us(run, connections)
    return None if last_us is None else _transfers(run, connections, last_us)


def lifetime(run: Run, connections: pd.DataFrame) -> Transfers:
    """The same from the start until the later end is closed."""
    return _transfers(run, connections, connections["end_us"].where(connections["status"].astype(str) == "finished"))


def _transfers(run: Run, connections: pd.DataFrame, ended_us: pd.Series) -> Transfers:
    start, end = run.interval
    # one that could not even be started waits since it was due
    began_us = connections["start_us"].fillna(connections["scheduled_us"])
    mine = (began_us >= start) & (began_us < end)
    rows, began_us, ended_us = connections[mine], began_us[mine], ended_us[mine]
    failed = rows["status"].astype(str).str.startswith("failed")
    done = ended_us.notna() & ~failed
    seconds = ((ended_us.where(done, end) - began_us) / 1e6).mask(failed, NOT_REACHED)
    return Transfers(seconds.to_numpy(dtype=float), done.to_numpy(dtype=bool), _sizes(rows))


def _sizes(rows: pd.DataFrame) -> Array:
    """Bytes asked of both ends; where that is not known, those delivered."""
    asked = rows[["init_bytes_asked", "acc_bytes_asked"]].to_numpy(dtype=float)
    delivered = rows[["init_bytes_delivered", "acc_bytes_delivered"]].to_numpy(dtype=float)
    return np.nan_to_num(np.where(np.isnan(asked), delivered, asked)).sum(axis=1)

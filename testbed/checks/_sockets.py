# SPDX-License-Identifier: GPL-2.0-only
"""Which flow a sampled socket belongs to."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.core import grouping
from topologies.links.records import Network
from topologies.wireless import airways
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

_SOCKET = ["node", "sport", "dst", "dport"]


def trying(samples: pd.DataFrame | None, flows: Sequence[Flow], network: Network) \
        -> pd.DataFrame | None:
    """The samples of senders that ask to be connected over the air, where a request may get lost again and again; their
    flows' numbers are in `flow`. None if there are none, or no samples."""
    of_air = [flow for flow in flows if airways.senders(network, flow)]
    if samples is None or not of_air:
        return None
    asking = samples[samples["state"] == "SYN-SENT"]
    sender, _ = ends_of(asking, of_air)
    found = asking.assign(flow=sender)
    found = found[found["flow"] > 0]
    return found if len(found) else None


def ends_of(samples: pd.DataFrame, flows: Sequence[Flow]) -> tuple[np.ndarray, np.ndarray]:
    """(number of the flow whose sender, number of the flow whose receiver) each sample's socket is; 0: of none.

    samples: rows of tcp_info; flows: flow records. A flow without a source port has whichever its sockets got.
    """
    sending = {(f.sender, f.sport, f.dst, f.dport): f.flow for f in flows if f.transport == "tcp"}
    receiving = {(f.receiver, f.dport, f.src, f.sport): f.flow for f in flows if f.transport == "tcp"}
    socket = grouping.numbered(samples[name] for name in _SOCKET)
    first = grouping.first_rows(socket)
    found = [(sending.get((node, sport, dst, dport)) or sending.get((node, None, dst, dport)) or 0,
              receiving.get((node, sport, dst, dport)) or receiving.get((node, sport, dst, None)) or 0)
             for node, sport, dst, dport in zip(*(samples[name].to_numpy()[first].tolist() for name in _SOCKET))]
    numbers = np.array(found, dtype=int).reshape(-1, 2)[socket]
    return numbers[:, 0], numbers[:, 1]

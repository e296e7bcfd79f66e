# SPDX-License-Identifier: GPL-2.0-only
"""Which flow a sampled socket belongs to."""
from collections.abc import Sequence
from typing import Any

_SOCKET = ["node", "sport", "dst", "dport"]


def ends_of(samples: Any, flows: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
    """(number of the flow whose sender, number of the flow whose receiver) each sample's socket is; 0: of none.

    samples: rows of tcp_info; flows: flow records. A flow without a source port has whichever its sockets got.
    """
    import numpy as np
    sending = {(f["sender"], f["sport"], f["dst"], f["dport"]): f["flow"] for f in flows if f["transport"] == "tcp"}
    receiving = {(f["receiver"], f["dport"], f["src"], f["sport"]): f["flow"] for f in flows if f["transport"] == "tcp"}
    socket = samples.groupby(_SOCKET, sort=False, observed=True, dropna=False).ngroup().to_numpy()
    _, first = np.unique(socket, return_index=True)
    found = [(sending.get((node, sport, dst, dport)) or sending.get((node, None, dst, dport)) or 0,
              receiving.get((node, sport, dst, dport)) or receiving.get((node, sport, dst, None)) or 0)
             for node, sport, dst, dport in samples[_SOCKET].iloc[first].itertuples(index=False, name=None)]
    numbers = np.array(found, dtype=int).reshape(-1, 2)[socket]
    return numbers[:, 0], numbers[:, 1]

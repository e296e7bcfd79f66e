# SPDX-License-Identifier: GPL-2.0-only
"""How the bytes of connections are distributed: medians, means, and how much the largest carry."""

import numpy as np

from traffic.tmix.batch import Batch
from traffic.tmix.vectors import ACCEPTOR, INITIATOR

LARGE_BYTES = 1_000_000


def connection_bytes(batch: Batch) -> np.ndarray:
    """Payload of each connection from the initiator and from the acceptor, float64[2, n]."""
    return np.stack([np.bincount(batch.owner[batch.side == side], batch.size_bytes[batch.side == side], len(batch))
                     for side in (INITIATOR, ACCEPTOR)])


def top_share(sizes_bytes: np.ndarray, share: float = 0.01) -> float:
    """Share of all bytes in the largest `share` of the connections, of which there is at least one."""
    count = max(round(share * len(sizes_bytes)), 1)
    total = float(np.sum(sizes_bytes))
    return float(np.partition(sizes_bytes, len(sizes_bytes) - count)[-count:].sum()) / total if total else 0.0


def marginals(batch: Batch) -> dict[str, float]:
    """What presets state of their connections (`presets.Preset`), and more; payload of both sides, of one or more."""
    from_each = connection_bytes(batch)
    total = from_each.sum(axis=0)
    responses = from_each[ACCEPTOR]
    large = float(responses[total > LARGE_BYTES].sum())
    return {"median_bytes": float(np.median(total)), "mean_bytes": float(total.mean()),
            "largest_bytes": float(total.max()), "top_percent_share": top_share(total),
            "above_1mb_share": large / float(responses.sum()) if responses.any() else 0.0}

# SPDX-License-Identifier: GPL-2.0-only
"""Data units that a program should have sent long ago: what they wait for has come, and their think time is over.

Neither TCP nor the tables show that: nothing is under way, and who has not sent a unit leaves its time empty.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from traffic.replay.records import NEVER

#: a program that is so late waits for nothing that will come
LIMIT_US = 5_000_000


def overdue(first: np.ndarray, ops: Mapping[str, np.ndarray], sent_us: np.ndarray, arrived_us: np.ndarray,
            peer_first: np.ndarray, peer_bytes: np.ndarray,
            read_us: np.ndarray, began_us: np.ndarray, alive: np.ndarray, end_us: int) -> list[int]:
    """Numbers of the connections one side of which is overdue at `end_us`.

    ops: need, wait_us, bytes of this side's ops, those of connection i in rows first[i]:first[i + 1]; sent_us: when it
    began to write each, arrived_us: when the other side had read it. peer_bytes and read_us: bytes of the other
    side's ops, and when this side had read each. began_us: when a connection was established. alive: which of them
    had not ended. NEVER stands for a time that did not come.
    """
    found = []
    for one in np.flatnonzero(alive).tolist():
        mine, theirs = slice(*first[one:one + 2].tolist()), slice(*peer_first[one:one + 2].tolist())
        pending = np.flatnonzero((ops["bytes"][mine] > 0) & (sent_us[mine] == NEVER))
        if not len(pending) or began_us[one] == NEVER:
            continue
        ready_us = _ready_us(int(pending[0]), {name: values[mine] for name, values in ops.items()}, arrived_us[mine],
                             peer_bytes[theirs], read_us[theirs], int(began_us[one]))
        if ready_us is not None and ready_us < end_us - LIMIT_US:
            found.append(one)
    return found


def _ready_us(op: int, ops: Mapping[str, np.ndarray], arrived_us: np.ndarray, peer_bytes: np.ndarray,
              read_us: np.ndarray,
              began_us: int) -> int | None:
    """When it was due at the latest; None if not everything it waits for is known to have come."""
    since_us = began_us
    before = np.flatnonzero(ops["bytes"][:op] > 0)
    if len(before):
        if arrived_us[before[-1]] == NEVER:
            return None
        since_us = max(since_us, int(arrived_us[before[-1]]))
    if ops["need"][op]:
        reaches = np.flatnonzero(np.cumsum(peer_bytes) >= ops["need"][op])
        if not len(reaches) or read_us[reaches[0]] == NEVER:
            return None
        since_us = max(since_us, int(read_us[reaches[0]]))
    return since_us + int(ops["wait_us"][op])

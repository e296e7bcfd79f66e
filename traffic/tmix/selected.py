# SPDX-License-Identifier: GPL-2.0-only
"""Some connections of a plan, to be started at other times."""
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traffic.replay.plan import Plan, read_plan, write_plan

_SEGMENT_BYTES = 1448
_LEAST_WINDOW = 2           # segments; RFC 2581
_DELAYED_US = 40_000        # an acknowledgment, at most
#: between the longest time that a connection takes, with half of that again, and the next start
PAUSE_US = 2_000_000


@dataclass(frozen=True)
class Selected:
    """A plan, the rows of the connections that may be drawn, and how long each takes at most on an idle path."""
    plan: Plan
    candidates: list[int]
    takes_us: list[int]

    @classmethod
    def read(cls, path: Path, rtt_us: int, rate_bps: int, measured_us: tuple[int, int],
             segment_bytes: int = _SEGMENT_BYTES) -> "Selected":
        """Those that start within measured_us and were not moved by the prefill rule."""
        plan = read_plan(path)
        start_us, prefill = (np.asarray(column, np.int64) for column in (plan.start_us, plan.prefill))
        mine = (start_us >= measured_us[0]) & (start_us < measured_us[1]) & (prefill == 0)
        return cls(plan, np.flatnonzero(mine).tolist(), longest_us(plan, rtt_us, rate_bps, segment_bytes).tolist())


def longest_us(plan: Plan, rtt_us: int, rate_bps: int, segment_bytes: int = _SEGMENT_BYTES) -> np.ndarray:
    """How long each connection takes at most on an idle path without losses, int64[n].

    As if every op waited for the one before it, began in slow start and had its acknowledgment delayed.
    """
    total = np.full(len(plan), 3.0 * rtt_us)
    for side in ("init", "acc"):
        first, wait_us, size = (np.asarray(getattr(plan, f"{side}_{name}"), np.int64)
                                for name in ("first", "wait_us", "bytes"))
        rounds = 2 + np.ceil(np.log2(1 + size / segment_bytes / _LEAST_WINDOW))
        ops_us = wait_us + rounds * rtt_us + size * (1.1 * 8e6 / rate_bps) + _DELAYED_US
        total += np.bincount(np.repeat(np.arange(len(plan)), np.diff(first)), ops_us, len(plan))
    return np.ceil(total).astype(np.int64)


def drawn(found: Sequence[Selected], most: int, draw: random.Random, begin_us: int, end_us: int) \
        -> list[dict[int, int]]:
    """{row of the plan: start} for each plan: connections in random order until one has no room before end_us."""
    everybody = [(place, row) for place, one in enumerate(found) for row in one.candidates]
    starts: list[dict[int, int]] = [{} for _ in found]
    at_us = begin_us + PAUSE_US
    for place, row in draw.sample(everybody, min(most, len(everybody))):
        takes_us = found[place].takes_us[row]
        if at_us + takes_us > end_us:
            break
        starts[place][row] = at_us
        at_us += takes_us + takes_us // 2 + PAUSE_US
    return starts


def rewritten(selected: Selected, starts_us: Mapping[int, int], path: Path) -> None:
    """Write a plan of some connections, {row: start}; their numbers and ops stay as they were."""
    plan = selected.plan
    rows = np.array(sorted(starts_us, key=lambda row: starts_us[row]), np.int64)
    columns: dict[str, np.ndarray] = {"start_us": np.array([starts_us[row] for row in rows.tolist()], np.int64)}
    for name in ("conn_id", "mss_init", "mss_acc", "prefill", "window_init", "window_acc"):
        values = np.asarray(getattr(plan, name), np.int64)
        if len(values) or not name.startswith("window"):
            columns[name] = np.ascontiguousarray(values[rows])
    for side in ("init", "acc"):
        first = np.asarray(getattr(plan, f"{side}_first"), np.int64)
        counts = np.diff(first)[rows]
        columns[f"{side}_first"] = offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ops = np.repeat(first[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        for name in ("need", "wait_us", "bytes"):
            values = np.asarray(getattr(plan, f"{side}_{name}"), np.int64)
            columns[f"{side}_{name}"] = np.ascontiguousarray(values[ops])
    header = {key: value for key, value in plan.header.items()
              if key not in ("connections", "init_ops", "acc_ops", "windows")}
    write_plan(path, columns, **header)

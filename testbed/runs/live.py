# SPDX-License-Identifier: GPL-2.0-only
"""What runs at present in a results folder, and how far it is: read from files that runs write anyway.

Nothing is written, nothing is asked of a guest: claims, plans, the progress that a guest notes every second, and the
samples of its queues that are on disk so far.
"""
from __future__ import annotations

import dataclasses
import json
import pathlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from testbed.core.errors import DamagedRun
from testbed.probes import _queue_meter
from testbed.runs.store import Store, plan_of, read_record
from testbed.scenario.scenario import Resolved
from topologies.links import records, varying

#: of a sample of a queue
_COLUMNS = 7
#: of a curve
_MOST_POINTS = 120
#: over which throughput "now" is taken, at least
_NOW_US = 1_000_000
#: finished runs whose wall time is looked at
_MOST_RECORDS = 50

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(frozen=True)
class Link:
    """A bottleneck: Mbit/s now, on average since the beginning, of its rate; what its queue holds; drops so far.

    curve: points (time in s, Mbit/s, packets in the queue) since the beginning.
    """
    name: str
    now_mbps: float
    mean_mbps: float
    rate_mbps: float
    backlog_packets: int
    backlog_ms: float
    drops: int
    curve: tuple[tuple[float, float, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Running:
    """A run under way. wall_s: since it began; speed: virtual seconds a second; None: not known (yet)."""
    id: str
    name: str
    scenario: str
    engine: str
    phase: str
    virtual_s: float
    duration_s: float
    wall_s: float
    speed: float | None
    left_s: float | None
    links: tuple[Link, ...]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """An experiment of which a run is under way: runs that ended, of all; left_s: wall time, by those that ended."""
    name: str
    ended: int
    runs: int
    under_way: int
    left_s: float | None


@dataclasses.dataclass(frozen=True)
class Look:
    results: str
    running: tuple[Running, ...]
    experiments: tuple[Sweep, ...]

    def record(self) -> dict[str, object]:
        """JSON-able."""
        return dataclasses.asdict(self)


class Watcher:
    """Looks at a results folder again and again; the speed of a run is that since the last looks."""

    def __init__(self, results: pathlib.Path) -> None:
        self._store = Store(results)
        self._seen: dict[str, list[tuple[float, float]]] = {}       # id -> [(wall time, virtual time)]

    def look(self) -> Look:
        """What runs now. A run that ends meanwhile is left out."""
        running: list[Running] = []
        listed = _experiments(self._store.results)
        for run_id, partial in self._store.under_way().items():
            names = [names[run_id] for _, names in listed if run_id in names]
            one = self._run(run_id, names[0] if names else run_id, partial)
            if one is not None:
                running.append(one)
        self._seen = {one.id: self._seen[one.id] for one in running if one.id in self._seen}
        now = {one.id for one in running}
        return Look(str(self._store.results), tuple(running), tuple(
            _sweep(self._store, name, names, len(now & names.keys())) for name, names in listed if now & names.keys()))

    def _run(self, run_id: str, name: str, partial: pathlib.Path | None) -> Running | None:
        plan = plan_of(partial) if partial is not None else None
        if partial is None or plan is None:
            return None if self._store.finished(run_id) else Running(
                run_id, name, "", "", "waits", 0, 0, 0, None, None, ())
        try:
            began = (partial / "plan.json").stat().st_mtime
            duration_s = plan.scenario.timing.duration_us / 1e6
            progress = _json(partial / "work/progress.json")
            phase = str(progress.get("phase") or "under way")
            virtual_s = float(cast(int, progress.get("t_us") or 0)) / 1e6 if phase == "traffic" else 0.0
            links = tuple(_links(partial / "work", Resolved(vars(plan.scenario)).network.links))
            name_of_scenario, engine = plan.labels.name, plan.engine
        # it has just ended, or was edited
        except (OSError, DamagedRun, KeyError, TypeError, ValueError, AttributeError):
            return None
        wall = time.time()
        speed = self._speed(run_id, wall, virtual_s, partial)
        left_s = (duration_s - virtual_s) / speed if speed and phase == "traffic" else None
        return Running(run_id, name, str(name_of_scenario), engine, phase, virtual_s, duration_s,
                       max(0.0, wall - began), speed, None if left_s is None else max(0.0, left_s), links)

    def _speed(self, run_id: str, wall: float, virtual_s: float, partial: pathlib.Path) -> float | None:
        seen = self._seen.setdefault(run_id, [])
        if not seen:                    # before its traffic a guest checks its network and notes what it found
            try:
                seen.append(((partial / "work/checks.json").stat().st_mtime, 0.0))
            except OSError:
                pass
        if not seen or virtual_s > seen[-1][1]:
            seen.append((wall, virtual_s))
            del seen[1:-20]
        first, last = seen[0], seen[-1]
        return (last[1] - first[1]) / (last[0] - first[0]) if last[0] - first[0] > 0.5 and last[1] > first[1] else None


def _links(work: pathlib.Path, links: Sequence[records.Link]) -> list[Link]:
    """What the samples of the bottlenecks say so far; [] as long as there are none."""
    bottlenecks = [link for link in links if link.bottleneck]
    samples = _samples(work, len(links), len(bottlenecks))
    found = []
    for number, link in enumerate(bottlenecks):
        mine = samples[samples[:, 1] == number]
        if len(mine):
            last = mine[-1].tolist()
            before = mine[max(0, int(mine[:, 0].searchsorted(last[0] - _NOW_US, "right")) - 1)].tolist()
            rate_bps = varying.mean_rate_bps(link, before[0], last[0]) or varying.nominal_bps(link)
            found.append(Link(
                link.name, (last[2] - before[2]) * 8 / max(1, last[0] - before[0]), last[2] * 8 / max(1, last[0]),
                rate_bps / 1e6, last[6], last[5] * 8e3 / rate_bps, last[4], _curve(mine)))
    return found


def _samples(work: pathlib.Path, queues: int, watched: int) -> np.ndarray:
    """Rows of time in us, number of the link, bytes and packets sent, drops, backlog in bytes and in packets.

    Those that are on disk: where the kernel has the module queues/ all until the last second, else what buffers that
    were full had (testbed/probes/queue.py).
    """
    import numpy as np
    metered = work / _queue_meter.FILE
    if metered.exists():
        rows = _queue_meter.rows_so_far(metered, queues, watched)
        return rows if len(rows) else np.empty((0, _COLUMNS), np.int64)
    if not (work / "queue.bin").exists():
        return np.empty((0, _COLUMNS), np.int64)
    values = np.fromfile(work / "queue.bin", np.int64)
    return values[:len(values) // _COLUMNS * _COLUMNS].reshape(-1, _COLUMNS)


def _curve(samples: np.ndarray) -> tuple[tuple[float, float, int], ...]:
    """(time in s, Mbit/s since the point before, packets in the queue at that time) at up to so many points."""
    import numpy as np
    chosen = samples[np.unique(np.linspace(0, len(samples) - 1, _MOST_POINTS + 1).astype(int))].tolist()
    return tuple((one[0] / 1e6, (one[2] - before[2]) * 8 / max(1, one[0] - before[0]), one[6])
                 for before, one in zip(chosen, chosen[1:]))


def _experiments(results: pathlib.Path) -> list[tuple[str, dict[str, str]]]:
    """[(experiment, {id: name of a run})]; what cannot be read is left out."""
    found = []
    for path in sorted(results.glob("*/experiment.json")):
        listed = _json(path)
        runs = [run for key in ("runs", "idle") if isinstance(there := listed.get(key), list) for run in there
                if isinstance(run, dict)]
        found.append((path.parent.name, {str(run.get("id")): str(run.get("name")) for run in runs}))
    return found


def _sweep(store: Store, name: str, names: dict[str, str], under_way: int) -> Sweep:
    ended = [run_id for run_id in names if (store.run_dir(run_id) / "run.json").exists()]
    walls = [float(wall_s) for run_id in ended[-_MOST_RECORDS:] if (record := read_record(store.run_dir(run_id)))
             and isinstance(wall_s := record.wall_s, (int, float))]
    left = len(names) - len(ended)
    return Sweep(name, len(ended), len(names), under_way,
                 sum(walls) / len(walls) * left / under_way if walls and under_way else None)


def _json(path: pathlib.Path) -> dict[str, object]:
    """A JSON object that somebody may be writing; {} if it cannot be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

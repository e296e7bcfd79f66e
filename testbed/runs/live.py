# SPDX-License-Identifier: GPL-2.0-only
"""What runs at present in a results folder, and how far it is: read from files that runs write anyway.

Nothing is written, nothing is asked of a guest: claims, plans, the progress that a guest notes every second, and the
samples of its queues that are on disk so far.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import struct
import time
from typing import Any

from testbed.runs.store import Store, plan_of, read_record
from topologies.links import varying

#: a sample of a queue in work/queue.bin (testbed/probes/queue.py)
_SAMPLE = struct.Struct("<7q")
#: over which throughput "now" is taken, at least
_NOW_US = 1_000_000
#: finished runs whose wall time is looked at
_MOST_RECORDS = 50

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Link:
    """A bottleneck: Mbit/s now, on average since the beginning, of its rate; what its queue holds; drops so far."""
    name: str
    now_mbps: float
    mean_mbps: float
    rate_mbps: float
    backlog_packets: int
    backlog_ms: float
    drops: int


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

    def record(self) -> Json:
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
        plan = plan_of(partial) if partial is not None else {}
        if partial is None or not plan:
            return None if self._store.finished(run_id) else Running(
                run_id, name, "", "", "waits", 0, 0, 0, None, None, ())
        try:
            began = (partial / "plan.json").stat().st_mtime
            duration_s = plan["scenario"]["timing"]["duration_us"] / 1e6
            progress = _json(partial / "work/progress.json")
            phase = str(progress.get("phase") or "under way")
            virtual_s = float(progress.get("t_us") or 0) / 1e6 if phase == "traffic" else 0.0
            links = tuple(_links(partial / "work/queue.bin", plan["scenario"]["network"]["links"]))
            labels, engine = plan.get("labels") or {}, str(plan.get("engine"))
        except (OSError, KeyError, TypeError, ValueError, AttributeError):      # it has just ended, or was edited
            return None
        wall = time.time()
        speed = self._speed(run_id, wall, virtual_s, partial)
        left_s = (duration_s - virtual_s) / speed if speed and phase == "traffic" else None
        return Running(run_id, name, str(labels.get("name", "")), engine, phase, virtual_s, duration_s,
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


def _links(path: pathlib.Path, links: list[Json]) -> list[Link]:
    """The last whole samples of the bottlenecks; [] as long as there are none."""
    bottlenecks = [link for link in links if link["bottleneck"]]
    try:
        with open(path, "rb") as file:
            # samples of one instant lie together, and a buffer is written when it is full
            file.seek(0, os.SEEK_END)
            size = file.tell() // _SAMPLE.size * _SAMPLE.size
            begin = max(0, size - _SAMPLE.size * max(1, len(bottlenecks)) * 2000)
            file.seek(begin)
            data = file.read(size - begin)
    except FileNotFoundError:
        return []
    of_link: dict[int, list[tuple[int, ...]]] = {}
    for sample in _SAMPLE.iter_unpack(data[:len(data) // _SAMPLE.size * _SAMPLE.size]):
        of_link.setdefault(sample[1], []).append(sample)
    found = []
    for number, link in enumerate(bottlenecks):
        samples = of_link.get(number)
        if samples:
            last = samples[-1]
            before = next((one for one in reversed(samples) if one[0] <= last[0] - _NOW_US), samples[0])
            rate_bps = varying.mean_rate_bps(link, before[0], last[0]) or varying.nominal_bps(link)
            found.append(Link(
                link["name"], (last[2] - before[2]) * 8 / max(1, last[0] - before[0]), last[2] * 8 / max(1, last[0]),
                rate_bps / 1e6, last[6], last[5] * 8e3 / rate_bps, last[4]))
    return found


def _experiments(results: pathlib.Path) -> list[tuple[str, dict[str, str]]]:
    """[(experiment, {id: name of a run})]; what cannot be read is left out."""
    found = []
    for path in sorted(results.glob("*/experiment.json")):
        listed = _json(path)
        runs = [run for key in ("runs", "idle") if isinstance(listed.get(key), list) for run in listed[key]
                if isinstance(run, dict)]
        found.append((path.parent.name, {str(run.get("id")): str(run.get("name")) for run in runs}))
    return found


def _sweep(store: Store, name: str, names: dict[str, str], under_way: int) -> Sweep:
    ended = [run_id for run_id in names if (store.run_dir(run_id) / "run.json").exists()]
    walls = [float(wall_s) for run_id in ended[-_MOST_RECORDS:] if (record := read_record(store.run_dir(run_id)))
             and isinstance(wall_s := record.get("wall_s"), (int, float))]
    left = len(names) - len(ended)
    return Sweep(name, len(ended), len(names), under_way,
                 sum(walls) / len(walls) * left / under_way if walls and under_way else None)


def _json(path: pathlib.Path) -> Json:
    """A JSON object that somebody may be writing; {} if it cannot be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

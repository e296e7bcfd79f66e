# SPDX-License-Identifier: GPL-2.0-only
"""Runs that are measured: each in a process of its own, pinned to one CPU."""
from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import time

from testbed.cli._shared import reporter
from testbed.runs import campaign, run
from testbed.runs.engine import EngineBase
from testbed.runs.store import Store
from testbed.scenario import ccas, scenario

Figures = dict[str, float]


def measure(case: scenario.Scenario, engine: EngineBase, cpus: list[int], cca: str) -> list[Figures]:
    """Figures of one run on each of `cpus`, at the same time."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="testbed-bench-"))
    try:
        with multiprocessing.get_context("fork").Pool(len(cpus), maxtasksperchild=1) as pool:
            return pool.starmap(_one, [(case, engine, folder, cpu, cca) for cpu in cpus], chunksize=1)
    finally:
        shutil.rmtree(folder)


def _one(case: scenario.Scenario, engine: EngineBase, folder: pathlib.Path, cpu: int, cca: str) -> Figures:
    store = Store(folder / f"cpu{cpu}")
    store.create()
    subject = ccas.make_ready(ccas.parse(cca)[0], engine, reporter())
    plan, = campaign.make_plans([({}, case)], [subject], [1], engine, reporter())
    os.sched_setaffinity(0, {cpu})
    started = time.monotonic()
    with store.shared_folder() as shared:
        outcome = run.execute(run.Job(plan), engine, store, shared, cpu, lambda *_: None)
    if outcome.error:
        sys.exit(outcome.error)
    whole_s = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_dir = store.run_dir(plan.id)
    traffic_s = json.loads((run_dir / "run.json").read_text())["phases_wall_s"]["traffic"]
    links = json.loads((run_dir / "raw/counters.json").read_text())["drained"]
    both = links["left_to_right"], links["right_to_left"]
    packets = sum(link["sent_packets"] for link in both)
    arrivals = packets + sum(link["dropped_packets"] for link in both)
    virtual_s = case.timing.duration_us / 1e6
    own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"virtual_s": virtual_s, "traffic_s": traffic_s, "speed": virtual_s / traffic_s, "whole_s": whole_s,
            "traffic_us_per_packet": traffic_s * 1e6 / packets, "traffic_us_per_arrival": traffic_s * 1e6 / arrivals,
            "cpu_us_per_packet": (used.ru_utime + used.ru_stime) * 1e6 / packets,
            "memory_mb": max(used.ru_maxrss / 1024, own_mb)}

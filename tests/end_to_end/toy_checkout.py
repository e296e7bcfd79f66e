# SPDX-License-Identifier: GPL-2.0-only
"""A copy of the checkout with simulators that take no time, `toy` and `waiting`, and a scenario `c` for them."""
from __future__ import annotations

import pathlib
import shutil

_PROJECT = pathlib.Path(__file__).resolve().parents[2]
_CODE = ("analysis", "bin", "ccas", "kernel", "kernel-modules", "scenarios", "simulation", "testbed", "topologies",
         "traffic")
_SCENARIO = """name: c
topology: {kind: dumbbell, central: {rate: 10 Mbit/s, delay: 10 ms, queue: {limit: 50}}, edge: {rate: 100 Mbit/s},
           left_delays: [0 ms], right_delays: [0 ms]}
traffic: {kind: greedy, tool: sockets, paths: [n2->n1]}
timing: {warmup: 1 s, test: 5 s}
probes: {queue: {interval: 100 ms}}
"""


def make(folder: pathlib.Path) -> pathlib.Path:
    """Fill a new folder; returns it."""
    for name in _CODE:
        shutil.copytree(_PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(_PROJECT / "tests/unit/engines/toy_engine.py", folder / "testbed/engines/toy.py")
    shutil.copyfile(_PROJECT / "tests/end_to_end/waiting_engine.py", folder / "testbed/engines/waiting.py")
    (folder / "scenarios/c.yaml").write_text(_SCENARIO)
    return folder

# SPDX-License-Identifier: GPL-2.0-only
"""The toy simulator of tests/unit/engines, whose runs note that they have begun and wait to be let go."""
from __future__ import annotations

import os
import pathlib
import time

from testbed.engines.toy import Engine as Toy
from testbed.runs.engine import OnProgress
from testbed.runs.plan import Plan


class Engine(Toy):
    """TOY_CALLS: a line for each run: seed, its process, its worker's (parent of what forked it); TOY_HOLD: runs wait
    while this file is there."""

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        worker = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        with open(os.environ["TOY_CALLS"], "a", encoding="utf-8") as calls:
            calls.write(f"{plan.seed} {os.getpid()} {worker}\n")
        on_progress("waiting", 0)
        while os.path.exists(os.environ["TOY_HOLD"]):
            time.sleep(0.05)
        super().run(plan, workload_dir, folder, cpu, on_progress)

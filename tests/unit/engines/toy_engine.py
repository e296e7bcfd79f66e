# SPDX-License-Identifier: GPL-2.0-only
"""A simulator of one file: bottlenecks send at their full rate, nothing is ever dropped."""
from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from testbed.core import raw_files, raw_tables
from testbed.core.files import write_json
from testbed.runs.engine import Capabilities, EngineBase, OnProgress, Option, Problem, Report, write_workload
from testbed.runs.plan import Plan
from traffic.workload.records import Workload


class Engine(EngineBase):
    """Needs nothing, and has one congestion control."""
    capabilities = Capabilities(clock="simulated", kernel=False, modules=False, probes=("queue",))
    OPTIONS = (Option("gears", "--gears", "engine toy: how many it has", value="N", recorded="gears"),
               Option("oil", "--no-oil", "engine toy: run it dry"))

    def problems(self) -> list[Problem]:
        return []

    def prepare(self, report: Report) -> None:
        pass

    def find(self) -> bool:
        return True

    def kernel_key(self) -> str:
        return "toy-1"

    def environment(self) -> dict[str, Any]:
        return {"simulator": "toy 1"}

    def congestion_controls(self) -> Sequence[str]:
        return ("reno",)

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        raw_dir = folder / "raw"
        raw_dir.mkdir()
        (folder / "log.txt").write_text("nothing happened\n")
        workload = json.loads((workload_dir / "workload.json").read_text())
        write_workload(Workload(workload), raw_dir)
        write_json(raw_dir / "network.json", plan.scenario["network"])
        raw_files.write_table(pd.DataFrame([
            {"t_us": t_us, "link": link["name"], "sent_bytes": link["rate_bps"] * t_us // 8_000_000,
             "sent_packets": link["rate_bps"] * t_us // 8_000_000 // 1514, "drops": 0, "backlog_bytes": 0,
             "backlog_packets": 0}
            for t_us in range(0, plan.timing.duration_us + 1, 100_000)
            for link in plan.scenario["network"]["links"] if link["bottleneck"]]), raw_dir, "queue")
        # without a record of what flows delivered, no verdict is valid
        raw_files.write_table(pd.DataFrame([
            {**dict.fromkeys(raw_tables.TABLES["tcp_info"].names()), "t_us": flow["stop_us"], "node": flow["sender"],
             "src": flow["src"], "sport": 1024, "dst": flow["dst"], "dport": flow["dport"], "state": "ESTAB",
             "cca": flow["cca"], "unacked": 0, "bytes_acked": flow["stop_us"] - flow["start_us"]}
            for flow in workload["flows"]]), raw_dir, "tcp_info")

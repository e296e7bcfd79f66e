# SPDX-License-Identifier: GPL-2.0-only
"""The inner half of engine `vagrant` without a machine: `python3 vagrant_stand_in.py ROOT`, in place of ssh.

Its engine `host` is the toy engine, and what it is told in environment variables.
"""
from __future__ import annotations

import os
import pathlib
import sys
import time
import types
from typing import Any

from testbed import engines
from testbed.core.errors import RunFailed
from testbed.engines.vagrant import inside
from testbed.runs.engine import Capabilities, OnProgress, Problem, Report
from testbed.runs.plan import Plan
from tests.unit.engines import toy_engine


class Engine(toy_engine.Engine):
    name = "host"
    capabilities = Capabilities(clock="real", parallel=False)

    def problems(self) -> list[Problem]:
        return [Problem("no netem", "boot another kernel")] if os.environ.get("TOY") == "problem" else []

    def code_sha256(self) -> str:
        return "other code" if os.environ.get("TOY") == "code" else _host_code

    def build_module(self, source: str, report: Report) -> Any:
        report("building")
        text = pathlib.Path(source).read_text()
        if "error" in text:
            raise RunFailed(f"{source}:1: error")
        return types.SimpleNamespace(sha256="5" * 64, warnings="", congestion_controls=("toy",),
                                     renamed={"toy": "reno"}, part_name=lambda congestion_control: "tcp_toy")

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        print("this is no part of the conversation")
        on_progress("traffic", 1_000_000)
        (folder / "log.txt").write_text("a log\n")
        if os.environ.get("TOY") == "fails":
            raise RunFailed("inside the run: no luck")
        if os.environ.get("TOY") == "dies":
            os.kill(os.getpid(), 9)
        if os.environ.get("TOY") == "hangs":
            time.sleep(600)
        super().run(plan, workload_dir, folder, cpu, on_progress)


if __name__ == "__main__":
    _host_code = engines.load("host").code_sha256()
    engines.load = lambda name, options=None: Engine({})  # type: ignore[assignment]
    inside._ROOT = pathlib.Path(sys.argv[1])
    inside.main()

# SPDX-License-Identifier: GPL-2.0-only
"""Plans and an engine that take no time, for tests of what carries them out."""
from __future__ import annotations

import copy
import json
import os
import pathlib
from typing import Any

from testbed.core.files import write_json
from testbed.core.run_files import Labels
from testbed.runs.engine import Capabilities, EngineBase
from testbed.runs.plan import Plan
from testbed.scenario.scenario import Resolved
from traffic.workload.records import Variant

SCENARIO: dict[str, Any] = {
    "topology": {"kind": "pipe"},
    "network": {"links": []},
    "traffic": [{"name": "bulk", "kind": "greedy"}],
    "hosts": {},
    "probes": {},
    "timing": {"prefill_us": 0, "warmup_us": 0, "test_us": 6_000_000, "duration_us": 6_000_000},
}
#: a scenario file
SMALL = """\
name: small
topology: {kind: dumbbell, central: {rate: 10 Mbit/s, delay: 2 ms, queue: {limit: 50}}, edge: {rate: 100 Mbit/s},
           left_delays: [0 ms], right_delays: [0 ms]}
traffic: {kind: greedy, tool: sockets}
timing: {prefill: 0 s, warmup: 1 s, test: 2 s}
probes: {queue: {}}
"""
VARIANT = {
    "name": "reno",
    "kernel_cca": "reno",
    "title": "Reno",
    "source": "RFC 5681",
    "module": None,
    "sysctls": {},
    "parameters": {},
    "module_sha256": None,
    "under_test": True,
}


def plan(name: str = "reno", seed: int = 1, point: dict[str, str] | None = None, **changes: Any) -> Plan:
    """A plan; changes: fields of Plan, or `scenario__topology` and the like."""
    scenario = copy.deepcopy(SCENARIO)
    for key in [key for key in changes if key.startswith("scenario__")]:
        scenario[key.removeprefix("scenario__")] = changes.pop(key)
    fields: dict[str, Any] = dict(
        scenario=scenario,
        subject=name,
        variants=({**VARIANT, "name": name, "kernel_cca": name},),
        seed=seed,
        engine="quick",
        labels={
            "name": "demo",
            "title": "Demo",
            "source": "",
            "description": "",
            "parameters": {},
            "point": point or {},
        },
        kernel_key="kernel-1",
        guest_code="code-1",
        inputs={},
    )
    fields |= changes
    return Plan(**fields | {"scenario": Resolved(fields["scenario"]), "labels": Labels(fields["labels"]),
                            "variants": tuple(Variant(one) for one in fields["variants"])})


class QuickEngine(EngineBase):
    """Runs are over at once; `outcomes`: {subject-seedN: function that is called in the run}."""

    name = "quick"
    capabilities = Capabilities(clock="virtual")

    def __init__(self, calls: pathlib.Path, outcomes: dict[str, Any] | None = None) -> None:
        super().__init__({})
        self.calls, self.outcomes = calls, outcomes or {}

    def problems(self):
        return []

    def prepare(self, report):
        pass

    def find(self):
        return True

    def kernel_key(self):
        return "kernel-1"

    def environment(self):
        return {"kernel_spec": None}

    def congestion_controls(self):
        return ("reno",)

    def run(self, plan, workload_dir, folder, cpu, on_progress):
        name = f"{plan.subject}-seed{plan.seed}"
        with open(self.calls, "a", encoding="utf-8") as file:
            file.write(name + "\n")
        assert os.sched_getaffinity(0) == {cpu}
        assert json.loads((workload_dir / "workload.json").read_text()) == {}
        on_progress("traffic", 1_500_000)
        if name in self.outcomes:
            self.outcomes[name]()
        (folder / "raw").mkdir()
        write_json(folder / "raw" / "workload.json", {"seed": plan.seed})

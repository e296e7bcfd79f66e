# SPDX-License-Identifier: GPL-2.0-only
"""ns-3, the simulator: the same scenario and the same connections in its own TCP (docs/howto/simulators.md).

One driver, simulation/ns3/driver.cc, is compiled on first use against the installed library and reads
its orders at run time. It leaves CSV files, of which the raw tables are made.
"""
from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from testbed import PROJECT_DIR
from testbed.core import fields
from testbed.engines._simulators.engine import SimulatorEngine
from testbed.engines._simulators.workload import Work
from testbed.engines.ns3 import build, ccas, driver_orders, installation
from testbed.engines.ns3.installation import Installation
from testbed.guest.job import Job
from testbed.probes import sojourn
from testbed.probes._context import Context
from testbed.runs.engine import Capabilities, Option, Problem, Report
from testbed.runs.plan import Plan
from topologies.links.records import Network
from traffic.workload.records import Workload

if TYPE_CHECKING:
    import numpy as np

_BATCH = 3 * (1 << 20)


class Engine(SimulatorEngine):
    """Compiles or finds the driver, runs it, makes raw tables of what it leaves."""
    capabilities = Capabilities(clock="simulated", kernel=False, modules=False,
                                probes=("queue", "sojourn", "tcp_info", "tcp_probe"))
    SYSCTLS = ccas.SYSCTLS
    QUEUES = ("pfifo", "bfifo", "red", "codel", "fq_codel", "pie")
    MODULES = {"tcp_libra": (build.SOURCES / "libra.h", PROJECT_DIR / "kernel-modules" / "tcp_libra" / "libra_math.h")}

    OPTIONS = (Option("ns3", "--ns3", "engine ns3: a built ns-3 tree, or its installation prefix (default: Debian's)",
                      value="PATH", recorded="ns3_path"),)

    @functools.cached_property
    def _ns3(self) -> Installation:
        return installation.of(self.options.get("ns3"))

    def problems(self) -> list[Problem]:
        return build.problems(self.options.get("ns3"))

    def prepare(self, report: Report) -> None:
        build.ensure(self._ns3, report)

    def find(self) -> bool:
        return not self.problems() and build.driver(self._ns3).exists()

    def state(self) -> str:
        return f"ns-3.{self._ns3.version[1]}" + ("" if self.find() else "; the first run compiles the driver")

    def kernel_key(self) -> str:
        return build.key(self._ns3)

    def environment(self) -> dict[str, object]:
        found: dict[str, object] = {"simulator": f"ns-3.{self._ns3.version[1]}", "kernel_key": self.kernel_key()}
        if self.options.get("ns3") is None:
            return found
        return {**found, "ns3_path": str(self._ns3.path), "ns3_sha256": self._ns3.sha256}

    def code_sha256(self) -> str:
        return hashlib.sha256(f"{super().code_sha256()} {self.kernel_key()}".encode()).hexdigest()

    def congestion_controls(self) -> Sequence[str]:
        return sorted(ccas.ALGORITHMS)

    def parameters(self, kernel_cca: str) -> dict[str, str]:
        return ccas.parameters(kernel_cca)

    def command(self) -> list[str]:
        return [str(build.ensure(self._ns3, lambda text: None))]

    def order_text(self, plan: Plan, work: Work, parts: Job) -> str:
        return driver_orders.text(plan, work, parts, self._ns3.version)

    def collect(self, plan: Plan, prepared: Workload, work: Work, work_dir: pathlib.Path, raw_dir: pathlib.Path) \
            -> None:
        super().collect(plan, prepared, work, work_dir, raw_dir)
        if "sojourn" in plan.scenario.probes:
            options = fields.decode(sojourn.Options, plan.scenario.probes["sojourn"])
            sojourn.write_tables(_sojourns(work_dir / "sojourn.bin", plan.scenario.network), raw_dir,
                                 Context(options, plan.scenario.network, prepared.flows, 0, plan.timing))


def _sojourns(path: pathlib.Path, network: Network) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of (when a packet left, how long it waited, ifindex of its queue)."""
    import numpy as np
    index = np.array([link.ifindex for link in network.links])
    with open(path, "rb") as file:
        while (rows := np.fromfile(file, "<i8", _BATCH)).size:
            left, waited, link = rows.reshape(-1, 3).T
            yield left, waited, index[link]

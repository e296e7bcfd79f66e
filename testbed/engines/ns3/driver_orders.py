# SPDX-License-Identifier: GPL-2.0-only
"""What simulation/ns3/driver.cc reads."""
from __future__ import annotations

from collections.abc import Iterator

from testbed.engines._simulators import changing, driver_orders as orders
from testbed.engines._simulators.workload import Work
from testbed.engines.ns3 import ccas
from testbed.guest.job import Job
from testbed.runs.plan import Plan

#: ns-3's generator takes a seed of 32 bits and a number of its stream
_SEEDS = 2**31


def text(plan: Plan, work: Work, parts: Job, version: tuple[int, int]) -> str:
    """All orders of a run. parts: what testbed.runs.job_ccas.job_parts says of kernel settings and parameters.

    RunFailed, UsageError if something cannot be done in ns-3.
    """
    network = plan.scenario.network
    return "".join([
        orders.line("run", seed=plan.seed % _SEEDS + 1, stream=plan.seed // _SEEDS + 1,
                    duration_us=plan.timing.duration_us),
        *_ccas(plan, parts, version), *orders.network(network, parts.sysctls),
        *changing.changes(network), *changing.traces(network), *orders.measurements(network),
        *orders.traffic(work, lambda flow: {"cca": flow.cca}), *orders.probes(plan)])


def _ccas(plan: Plan, parts: Job, version: tuple[int, int]) -> Iterator[str]:
    """Congestion controls by their kernel names, with their parameters."""
    given = {**parts.builtin_parameters, **{module.name: module.parameters for module in parts.modules}}
    for cca in dict.fromkeys(str(variant.kernel_cca) for variant in plan.variants):
        yield orders.line("cca", cca, **ccas.settings(cca, given.get(f"tcp_{cca}", {}), version))

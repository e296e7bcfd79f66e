# SPDX-License-Identifier: GPL-2.0-only
"""What a run's job.json says of congestion controls: modules to load, parameters, settings per node."""
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any, Protocol

from testbed.core.errors import UsageError
from testbed.core.fields import FieldError
from testbed.core.units import show_rate
from testbed.guest.tuning import connection_places, node_sysctls
from testbed.scenario import ccas
from topologies.links import varying
from topologies.links.records import Network
from traffic.workload import routes
from traffic.workload.records import Variant

Json = dict[str, Any]


class _Module(Protocol):
    name: str
    file: pathlib.Path


class _Engine(Protocol):
    def find_module(self, sha256: str) -> Any: ...


def job_parts(engine: _Engine, variants: Sequence[Json], network: Json, hosts: Json, workload: Json,
              work_dir: pathlib.Path) -> Json:
    """{"variants", "modules", "builtin_parameters", "sysctls", "connection_places"} of a job.

    Puts the modules into work_dir/modules. variants: records of scenario/ccas.py; workload: what traffic.prepare made.
    UsageError if they do not go together.
    """
    flows = workload["flows"]
    ccas.check_together(variants)
    try:
        sysctls = node_sysctls(network, hosts, [Variant(one) for one in variants], flows)
    except FieldError as problem:
        raise UsageError(f"{problem.field}: {problem}") from None
    modules: dict[str, Json] = {}
    builtin: dict[str, Json] = {}
    owners: dict[str, str] = {}
    for variant in variants:
        parameters = ccas.fill_in(variant["parameters"], lambda variant=variant: _rate_bps(  # type: ignore[misc]
            variant, network, workload))
        if variant["module_sha256"]:
            module = _find(engine, variant["module_sha256"])
            _check_same(module.name, variant, parameters, modules.get(module.name, {}).get("parameters"), owners)
            modules[module.name] = {"name": module.name, "file": put_module(module.file, work_dir),
                                    "parameters": parameters}
        else:
            name = f"tcp_{variant['kernel_cca']}"
            _check_same(name, variant, parameters, builtin.get(name), owners)
            builtin[name] = parameters
    return {"variants": list(variants), "modules": list(modules.values()), "sysctls": sysctls,
            "connection_places": connection_places(flows),
            "builtin_parameters": {name: parameters for name, parameters in builtin.items() if parameters}}


def put_module(file: pathlib.Path, work_dir: pathlib.Path) -> str:
    """Copy a module to where the guest finds it; its path in work_dir."""
    (work_dir / "modules").mkdir(exist_ok=True)
    shutil.copyfile(file, work_dir / "modules" / file.name)
    return f"modules/{file.name}"


def _check_same(module: str, variant: Json, parameters: Json, others: Json | None, owners: dict[str, str]) -> None:
    """Variants that share a module share its parameters: it is loaded once."""
    if others is not None and others != parameters:
        raise UsageError(f"{owners[module]} and {variant['name']} want different parameters of {module}, which a run "
                         "can load but once")
    owners.setdefault(module, variant["name"])


def _find(engine: _Engine, sha256: str) -> _Module:
    module: _Module | None = engine.find_module(sha256)
    if module is None:
        raise UsageError(f"the module with sources {sha256[:12]} is not in the cache: give its sources with --cca "
                         "and run again")
    return module


def _rate_bps(variant: Json, network: Json, workload: Json) -> int:
    """Rate of the bottleneck of a variant's flows: of each the slowest on its way, a target of its component first,
    and the rate of radios where it crosses the air."""
    links, radios = routes.bottlenecks(Network(network)), _radios_bps(network)
    targets = {component["name"]: set(component.get("target_links", ())) for component in workload["components"]}
    rates = set()
    for flow in workload["flows"]:
        if flow["variant"] == variant["name"]:
            crossed = [*flow["hops"], *(flow["hops_back"] if flow["both_ways"] else ())]
            mine = [name for name in crossed if name in links]
            mine = [name for name in mine if name in targets[flow["component"]]] or mine
            slowest = [*(round(varying.nominal_bps(links[name])) for name in mine),
                       *radios.get((flow["sender"], flow["receiver"]), ())]
            rates |= {min(slowest)} if slowest else set()
    if not rates:                       # no flow of its own, or none that crosses a bottleneck
        rates = {link["rate_bps"] for link in links.values()} | {cell["rate_bps"] for cell in network.get("cells", ())}
    if len(rates) > 1:
        raise UsageError(f"{variant['name']} is told the rate of its bottleneck, but its flows have bottlenecks of "
                         f"{' and '.join(map(show_rate, sorted(rates)))}")
    rate_bps: int = rates.pop()
    return rate_bps


def _radios_bps(network: Json) -> dict[tuple[str, str], list[int]]:
    """{(sender, receiver): rates of the cells on their way}"""
    cells = {cell["name"]: cell["rate_bps"] for cell in network.get("cells", ())}
    return {ends: [cells[name] for name, _, _ in path[key]] for path in network["paths"] if cells
            for ends, key in (((path["initiator"], path["acceptor"]), "air"),
                              ((path["acceptor"], path["initiator"]), "air_back"))}

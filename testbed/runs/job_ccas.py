# SPDX-License-Identifier: GPL-2.0-only
"""What a run's job.json says of congestion controls: modules to load, parameters, settings per node."""
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Protocol

from testbed.core.errors import UsageError
from testbed.core.fields import FieldError
from testbed.core.units import show_rate
from testbed.guest.job import Job
from testbed.guest.tuning import Hosts, connection_places, node_sysctls
from testbed.scenario import ccas
from testbed.scenario.ccas import Module
from topologies.links import varying
from topologies.links.records import Network
from traffic.workload import routes
from traffic.workload.records import Variant, Workload


class _Engine(Protocol):
    def find_module(self, sha256: str) -> Module | None: ...


def job_parts(engine: _Engine, variants: Sequence[Variant], network: Network, hosts: Hosts, workload: Workload,
              work_dir: pathlib.Path) -> Job:
    """variants, modules, builtin_parameters, sysctls and connection_places of a job.

    Puts the modules into work_dir/modules. UsageError if they do not go together.
    """
    ccas.check_together(variants)
    try:
        sysctls = node_sysctls(network, hosts, variants, workload.flows)
    except FieldError as problem:
        raise UsageError(f"{problem.field}: {problem}") from None
    modules: dict[str, dict[str, object]] = {}
    settings: dict[str, dict[str, str]] = {}             # of each module
    owners: dict[str, str] = {}
    for variant in variants:
        parameters = ccas.fill_in(variant.parameters, lambda variant=variant: _rate_bps(  # type: ignore[misc]
            variant, network, workload))
        module = _find(engine, variant.module_sha256) if variant.module_sha256 else None
        parts = module.loaded_for(variant.kernel_cca) if module else []
        name = parts[-1].name if parts else f"tcp_{variant.kernel_cca}"
        _check_same(name, variant, parameters, settings.get(name), owners)
        settings[name] = parameters
        for part in parts:
            other = modules.get(part.name)
            if other and (work_dir / str(other["file"])).read_bytes() != part.file.read_bytes():
                raise UsageError(f"{variant.name}: another congestion control of the run has a module {part.name}, "
                                 "too, and a kernel takes one of a name: compare them in runs of their own")
            if not other or part.name == name:
                modules[part.name] = {"name": part.name, "file": put_module(part.file, work_dir),
                                      "parameters": parameters if part.name == name else {}}
    return Job({"variants": [variant.content() for variant in variants], "modules": list(modules.values()),
                "sysctls": sysctls, "connection_places": connection_places(workload.flows),
                "builtin_parameters": {name: parameters for name, parameters in settings.items()
                                       if parameters and name not in modules}})


def put_module(file: pathlib.Path, work_dir: pathlib.Path) -> str:
    """Copy a module to where the guest finds it; its path in work_dir."""
    (work_dir / "modules").mkdir(exist_ok=True)
    shutil.copyfile(file, work_dir / "modules" / file.name)
    return f"modules/{file.name}"


def _check_same(module: str, variant: Variant, parameters: Mapping[str, str], others: Mapping[str, str] | None,
                owners: dict[str, str]) -> None:
    """Variants that share a module share its parameters: it is loaded once."""
    if others is not None and others != parameters:
        raise UsageError(f"{owners[module]} and {variant.name} want different parameters of {module}, which a run "
                         "can load but once")
    owners.setdefault(module, variant.name)


def _find(engine: _Engine, sha256: str) -> Module:
    module = engine.find_module(sha256)
    if module is None:
        raise UsageError(f"the module with sources {sha256[:12]} is not in the cache: give its sources with --cca "
                         "and run again")
    return module


def _rate_bps(variant: Variant, network: Network, workload: Workload) -> int:
    """Rate of the bottleneck of a variant's flows: of each the slowest on its way, a target of its component first,
    and the rate of radios where it crosses the air."""
    links, radios = routes.bottlenecks(network), _radios_bps(network)
    targets = {component.name: set(component.target_links) for component in workload.components}
    rates: set[int] = set()
    for flow in workload.flows:
        if flow.variant == variant.name:
            crossed = [*flow.hops, *(flow.hops_back if flow.both_ways else ())]
            mine = [name for name in crossed if name in links]
            mine = [name for name in mine if name in targets[flow.component]] or mine
            slowest = [*(round(varying.nominal_bps(links[name])) for name in mine),
                       *radios.get((flow.sender, flow.receiver), ())]
            rates |= {min(slowest)} if slowest else set()
    if not rates:                       # no flow of its own, or none that crosses a bottleneck
        rates = {link.rate_bps for link in links.values()} | {cell.rate_bps for cell in network.cells}
    if len(rates) > 1:
        raise UsageError(f"{variant.name} is told the rate of its bottleneck, but its flows have bottlenecks of "
                         f"{' and '.join(map(show_rate, sorted(rates)))}")
    return rates.pop()


def _radios_bps(network: Network) -> dict[tuple[str, str], list[int]]:
    """{(sender, receiver): rates of the cells on their way}"""
    cells = {cell.name: cell.rate_bps for cell in network.cells}
    return {ends: [cells[name] for name, _, _ in hops] for path in network.paths if cells
            for ends, hops in (((path.initiator, path.acceptor), path.air),
                               ((path.acceptor, path.initiator), path.air_back))}

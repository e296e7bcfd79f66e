# SPDX-License-Identifier: GPL-2.0-only
"""Tmix as a component of the traffic: one source per path, replayed by a client and a server.

    kind: tmix
    target: right_to_left       the link direction (or a list of them) that the load is meant for
    load: 60 %                  of the rate of those links, together
    load_on: sum | each         of several targets: their sum is offered the load (default), or each of them
    load_of_all: 60 %           what all components together offer there, where that is more than `load`: by it the
                                time that transfers take is estimated
    paths: [n1->n4]             initiator->acceptor of each source (default: all that cross a target)
    traces: FOLDER              vector files, one per source, called after their paths (r4s1.cvec: acceptor n4,
                                initiator n1) or in their order; without it they are synthesised
    scale: search | mean | unc | 1.5    factor on the traces' start times: search one at which this seed
                                offers the load (default), the one at which seeds offer it on the mean,
                                the scenario's `unc_scale`, or a number
    unc_scale: 5.276            the suite's factor for the UNC traces at this load; with `scale: unc` the next three
                                are as the suite has them if nothing else is said
    overhead: ip | l2 | wire | suite    headers that count for the load (default: l2)
    prefill_rule: uncongested | suite   which connections are prefilled, and what of them (default: uncongested)
    prefill_window: computed | published    in which time (default: computed, from the connections)
    unc_prefill_window: 19.445 s    the suite's for the UNC traces at this load
    balance: off | thirds       try arrangements of the trace until the thirds of the load agree (default: off)
    synth: {preset: unc-like, mean_acceptor: 18 kB}     of the synthesiser: a preset (default: web), and parameters
                                that differ from it (docs/howto/tmix.md)
    reverse_load: 15 %          of the rate of the links that run against the target (default: what follows from
                                the bytes that the two sides send); of synthesised sources
    weights: [1, 1, 2]          rate of connections of each synthesised source, relative to the others'; or of
                                the paths named, {n1->n4: 2}, where the others have 1 (default: all equal)
    windows: off | vector       receive windows of the sockets: the hosts' (default), or at most the vectors' (`w`)
    mix: sources | connections  with several congestion controls: sources take turns, or each source's
                                connections are dealt out
    most_connections: 5000000   more are taken for a mistake
    most_size: 4 GB             of a vector file, uncompressed; likewise
"""
import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, cast

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.replayed import Replayed
from testbed.core.timing import Timing
from topologies.links import varying
from topologies.links.records import Network
from traffic.replay import component as replay
from traffic.replay.component import Plans, collect
from traffic.tmix.synth import SynthParameters, decode
from traffic.workload import routes
from traffic.workload.components import Component, Context, Flow, Prepared

if TYPE_CHECKING:
    from traffic.tmix.reader import Limits

__all__ = ["FIRST_PORT", "Section", "collect", "flows", "foreign_sockets", "inputs", "plans", "prepare", "shares",
           "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True
FIRST_PORT = 5000
_MOST_SOURCES = 10_000
#: connections of each vector file that are read before the first run
_LOOKED_AT = 1000
_DESCRIPTION = "description.json"


def _weights(value: object) -> tuple[float, ...] | dict[str, float]:
    """Weights of all sources, or of some paths."""
    weight = fields.number(above=0, most=1e6)
    if isinstance(value, Mapping):
        return fields.reader(fields.mapping(weight, keys=routes.PATH_PATTERN, example="n1->n4"))(value)
    return fields.reader(fields.listing(weight, least=1))(value)


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a Tmix component."""
    target: tuple[str, ...] = fields.listing(fields.word(), least=1, single=True, distinct=True)
    load_percent: float = fields.percent(above=0, least=None, most=200)
    load_on: str | None = fields.word(choices=("sum", "each"), default=None)
    load_of_all_percent: float | None = fields.percent(above=0, least=None, most=200, default=None)
    paths: tuple[str, ...] = fields.listing(
        fields.word(pattern=routes.PATH_PATTERN, example="n1->n4"), default=(), single=True)
    traces: str | None = fields.word(default=None)
    scale: tuple[str | float, ...] = fields.listing(
        fields.either(fields.word(choices=("search", "mean", "unc")), fields.number(above=0, most=1e9)),
        default=("search",), least=1, most=1, single=True)
    unc_scale: float | None = fields.number(default=None, above=0, most=1e9)
    unc_prefill_window_us: int | None = fields.time(default=None, least=1)
    overhead: str | None = fields.word(choices=("ip", "l2", "wire", "suite"), default=None)
    prefill_rule: str | None = fields.word(choices=("uncongested", "suite"), default=None)
    prefill_window: str | None = fields.word(choices=("computed", "published"), default=None)
    balance: str = fields.word(choices=("off", "thirds"), default="off")
    synth: SynthParameters = fields.custom(decode, default={})
    reverse_load_percent: float | None = fields.percent(above=0, least=None, most=200, default=None)
    weights: tuple[float, ...] | dict[str, float] | None = fields.custom(_weights, default=None)
    windows: str = fields.word(choices=("off", "vector"), default="off")
    mix: str = fields.word(choices=("sources", "connections"), default="sources")
    most_connections: int = fields.count(default=5_000_000, least=1)
    most_size_bytes: int | None = fields.size(default=None, least=1)

    def __post_init__(self) -> None:
        if self.synth.connections_per_second != SynthParameters().connections_per_second:
            raise FieldError("synth.connections_per_second", "follows from the load")
        for name, given in (("weights", self.weights), ("reverse_load", self.reverse_load_percent)):
            if self.traces and given:
                raise FieldError(name, "is for synthesised sources; what traces offer is in the traces")
        if self.load_of_all_percent is not None and self.load_of_all_percent < self.load_percent:
            raise FieldError("load_of_all", f"{self.load_of_all_percent:g} % of all is less than this component's own "
                                            f"load of {self.load_percent:g} %")
        if self.as_suite and self.unc_scale is None:
            raise FieldError("scale", "unc needs unc_scale, the suite's factor for the UNC traces at this load")
        if self.prefill_window == "published" and self.unc_prefill_window_us is None:
            raise FieldError("prefill_window", "published needs unc_prefill_window, the suite's for the UNC traces at "
                                               "this load")

    @property
    def as_suite(self) -> bool:
        """Whether rules that are not named are the evaluation suite's."""
        return self.scale[0] == "unc"

    @property
    def factor(self) -> float | str:
        """The factor on start times, "search" or "mean"."""
        return self.unc_scale if self.as_suite and self.unc_scale is not None else self.scale[0]

    @property
    def folder(self) -> str:
        """The folder of the traces; after an = sign the shell leaves ~ as it is."""
        return os.path.expanduser(self.traces or "")


def inputs(section: Section) -> dict[str, str]:
    """{path: sha256} of the vector files."""
    found = {}
    for path in _files(section):
        with open(path, "rb") as file:
            found[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _files(section: Section) -> list[pathlib.Path]:
    from traffic.tmix.order import WorkloadError
    from traffic.tmix.sources import trace_files
    try:
        return trace_files(section.folder) if section.traces else []
    except WorkloadError as problem:
        raise FieldError("traces", str(problem)) from None


def _file_of_each(section: Section, found: list[routes.Route]) -> list[pathlib.Path]:
    """The vector file of each source, [] if they are synthesised. FieldError if files and sources do not fit."""
    from traffic.tmix.names import in_order_of_paths
    from traffic.tmix.order import WorkloadError
    files = _files(section)
    if section.traces and len(files) != len(found):
        raise FieldError("traces", f"{section.traces} has {len(files)} vector files; this network takes "
                                   f"{len(found)} sources, one file each; traffic.paths chooses them")
    try:
        return in_order_of_paths(files, [(route.sender, route.receiver) for route in found])
    except WorkloadError as problem:
        raise FieldError("traces", f"{section.traces}: {problem}") from None


def _routes(section: Section, network: Network) -> list[routes.Route]:
    """The path of each source, from its initiator. FieldError if one does not cross a target."""
    targets = {link.name for link in routes.find_links(network, section.target)}

    def crosses(route: routes.Route) -> bool:
        return bool(targets & {*route.hops, *route.hops_back})
    if not section.paths:
        found = [route for route in routes.routes(network) if crosses(route)]
        if not found:
            raise FieldError("target", f"no path of this network crosses {' or '.join(section.target)}")
        return found
    found = routes.find(network, section.paths)
    for route in found:
        if not crosses(route):
            raise FieldError("paths", f"{route.sender}->{route.receiver} does not cross {' or '.join(section.target)}")
    return found


def _weight_of_each(section: Section, found: list[routes.Route]) -> list[float]:
    """A weight for each source, [] if they are equal. FieldError if weights and sources do not fit."""
    if section.weights is None:
        return []
    if not isinstance(section.weights, dict):
        if len(section.weights) != len(found):
            raise FieldError("weights", f"{len(section.weights)} weights for {len(found)} sources")
        return list(section.weights)
    given = {"->".join(end.strip() for end in path.split("->")): weight for path, weight in section.weights.items()}
    known = [f"{route.sender}->{route.receiver}" for route in found]
    for path in given:
        if path not in known:
            raise FieldError("weights", f"no source sends on {path}; there are: {', '.join(known[:12])}"
                                        f"{' ...' if len(known) > 12 else ''}")
    return [given.get(path, 1.0) for path in known]


def _check_each(section: Section, found: list[routes.Route]) -> None:
    """FieldError if a target has no source whose connections it alone carries: its load could not be met by itself."""
    crossed = [set(section.target) & {*route.hops, *route.hops_back} for route in found]
    for target in section.target:
        if {target} not in crossed:
            raise FieldError("load_on", f"each needs a source that crosses {target} and no other target")


def _reverse(section: Section, network: Network) -> list[str]:
    """The links that run against the targets. FieldError if there are none, or are targets themselves."""
    links = routes.find_links(network, section.target)
    found = [name for name, link in routes.bottlenecks(network).items()
             if any((link.from_node, link.to_node) == (target.to_node, target.from_node) for target in links)]
    if len(found) < len(links):
        raise FieldError("reverse_load", f"no bottleneck runs against every one of {', '.join(section.target)}")
    if set(found) & set(section.target):
        raise FieldError("reverse_load", "both directions are targets, so neither is the reverse one")
    return found


def _mtu_bytes(found: list[routes.Route], network: Network) -> int:
    """The largest packet on the paths of sources. FieldError if they differ: the load is counted in packets of one
    size."""
    known = {network.packet_bytes((*route.hops, *route.hops_back)) for route in found}
    if len(known) > 1:
        raise FieldError("paths", f"paths of one MTU expected, not of {' and '.join(map(str, sorted(known)))} B: a "
                                  "component for each")
    return known.pop()


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def validate(section: Section, _component: Component, network: Network, _timing: Timing) -> None:
    found = _routes(section, network)
    _mtu_bytes(found, network)
    _weight_of_each(section, found)
    if section.load_on == "each":
        _check_each(section, found)
        if section.reverse_load_percent is not None:
            raise FieldError("reverse_load", "not together with load_on: each")
    if section.reverse_load_percent is not None:
        _reverse(section, network)
    if len(found) > _MOST_SOURCES:
        raise FieldError("paths", f"{len(found)} sources; at most {_MOST_SOURCES}")
    _look_into(_file_of_each(section, found), section)


def _look_into(files: list[pathlib.Path], section: Section) -> None:
    """FieldError if a vector file does not begin with connections. A run reads all of it, which may take minutes."""
    from traffic.tmix.reader import VectorError, read_vectors
    try:
        for file in files:
            if not sum(1 for _ in itertools.islice(read_vectors(file, limits=_limits(section)), _LOOKED_AT)):
                raise FieldError("traces", f"{file}: no connections; at least one expected")
    except VectorError as problem:
        raise FieldError("traces", str(problem)) from None


def _limits(section: Section) -> "Limits":
    from traffic.tmix.reader import Limits
    return Limits(section.most_size_bytes, section.most_connections, "most_size")


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """One for each source, or for each share of a source's connections."""
    each = shares(section, component)
    return [Flow(**dataclasses.asdict(route), start_us=component.start_us, stop_us=component.stop_us, source=source,
                 both_ways=True, wants_source_range=True)
            for source, route in enumerate(_routes(section, context.network)) for _ in range(each)]


def shares(section: Section, component: Component) -> int:
    """How many plans each source's connections are dealt out to."""
    return Replayed(section.mix).shares(component.variants)


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    return replay.prepare(component, flows, context, plans(section, component, context), Replayed(section.mix))


def plans(section: Section, component: Component, context: Context) -> Plans:
    """Vectors -> plans, made once for all runs that share a folder.

    Which congestion controls there are decides nothing of them.
    """
    key = hashlib.sha256(json.dumps([
        fields.encode(section), component.name, component.start_us, component.stop_us, component.seed,
        shares(section, component), context.network.content(), context.timing.record()],
        sort_keys=True).encode()).hexdigest()
    shared = (context.shared_dir or context.work_dir) / f"plans-{key[:16]}"
    shared.parent.mkdir(parents=True, exist_ok=True)
    with open(shared.with_name(shared.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            part = shared.with_name(shared.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            description = _build(section, component, context, part)
            (part / _DESCRIPTION).write_text(json.dumps(description))
            os.rename(part, shared)
    described: dict[str, object] = json.loads((shared / _DESCRIPTION).read_text())
    return Plans(shared, cast(list[list[int]], described.pop("plans")), described)


def _build(section: Section, component: Component, context: Context, folder: pathlib.Path) -> dict[str, object]:
    """Make the plans in `folder`. FieldError if that cannot be."""
    from traffic.tmix.order import Order, SourcePath, WorkloadError
    from traffic.tmix.reader import VectorError
    from traffic.tmix.sources import Synthesised
    from traffic.tmix.workload import build_workload
    found = _routes(section, context.network)
    files = _file_of_each(section, found)
    sources = files or Synthesised(len(found), section.synth, _weight_of_each(section, found))
    measured_us = context.timing.measure_from_us
    prefill_us = max(context.timing.prefill_us - component.start_us, 0)
    # a component that has stopped before anything is measured has its load from its beginning
    from_us = max(measured_us, component.start_us)
    if from_us >= component.stop_us:
        from_us, prefill_us = component.start_us, 0
    bottlenecks = routes.bottlenecks(context.network)
    order = Order(
        rates_bps={name: round(varying.nominal_bps(link)) for name, link in bottlenecks.items()},
        targets=section.target, load=section.load_percent / 100, seed=component.seed, begin_us=component.start_us,
        prefill_us=prefill_us, from_us=from_us, to_us=component.stop_us, scale=section.factor,
        balance=section.balance, shares=shares(section, component), windows=section.windows == "vector",
        reverse=[] if section.reverse_load_percent is None else _reverse(section, context.network),
        reverse_load=None if section.reverse_load_percent is None else section.reverse_load_percent / 100,
        on_each=section.load_on == "each",
        load_of_all=None if section.load_of_all_percent is None else section.load_of_all_percent / 100,
        ip_version=context.network.ip_version, mtu_bytes=_mtu_bytes(found, context.network),
        limits=_limits(section), **_rules(section))
    paths = [SourcePath(route.base_rtt_us, route.hops, route.hops_back, sum(
        bottlenecks[name].capacity_us for name in (*route.hops, *route.hops_back) if name in bottlenecks))
        for route in found]
    try:
        made = build_workload(sources, paths, order, folder,
                              lambda text: context.report(f"{component.name}: {text}"))
    except WorkloadError as problem:
        raise FieldError(problem.field, str(problem)) from None
    except VectorError as problem:
        raise FieldError("traces", str(problem)) from None
    if files:
        made["traces"] = {f"{route.sender}->{route.receiver}": file.name for route, file in zip(found, files)}
    return made


class _Rules(TypedDict):
    overhead: str
    prefill_rule: str
    prefill_window_us: int | None
    connections_per_s: float | None


def _rules(section: Section) -> _Rules:
    """How the load is counted and the link prefilled, as an `Order` has it."""
    from traffic.tmix.prefill import UNC_CONNECTIONS_PER_S
    usual = ("suite", "suite", "published") if section.as_suite else ("l2", "uncongested", "computed")
    overhead, rule, window = (given or other for given, other in zip(
        (section.overhead, section.prefill_rule, section.prefill_window), usual))
    return {"overhead": overhead, "prefill_rule": rule,
            "prefill_window_us": section.unc_prefill_window_us if window == "published" else None,
            "connections_per_s": UNC_CONNECTIONS_PER_S if section.as_suite else None}

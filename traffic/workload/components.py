# SPDX-License-Identifier: GPL-2.0-only
"""Components of a run's traffic, the kinds they are of, and the workload that is made of them.

A kind is a module `traffic/<kind>.py` or `traffic/<kind>/scenario.py` with

    Section                                 dataclass of its fields (testbed/core/fields.py), without those
                                            that every component has (`CommonSection`)
    validate(section, component, network, timing)       FieldError if a section makes no sense there
    flows(section, component, context)      the Flows, without number, congestion control and ports
    prepare(section, component, flows, context)         writes what its programs need into
                                            context.work_dir and returns `Prepared`
    collect(component, workload, context, raw_dir)      turns what the programs wrote into raw files
                                            and returns an account (dict) for the checks

and, if need be, FIRST_PORT and FIRST_SOURCE_PORT of its flows, bulk_routes(section, network) -> routes of its
TCP flows that send all they can, inputs(section) -> {path: sha256} of the user's files that it reads,
ccas(section) -> names of the variants that single flows of it ask for, and uses_ccas(section) -> whether a
congestion control of the component makes a difference to any of its flows. foreign_sockets(section) -> the field by
which a program opens its TCP sockets that does not set the options of variants, "" if there is none; kinds without it
have no program that does.
`SIMULATED = True`: all its programs are such that testbed/engines/_simulators/workload.py knows what they do.
"""
import dataclasses
import functools
import hashlib
import importlib
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from testbed.core import fields, guesses
from testbed.core.files import write_json
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.workload import assign, records, routes

_FOLDER = pathlib.Path(__file__).parents[1]
NAME_PATTERN = r"[a-z0-9][a-z0-9_-]*"
_MOST_COMPONENTS = 1000

#: what a component of a scenario or plan.json says
Given = Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class CommonSection:
    """What every component may say."""
    name: str | None = fields.word(default=None, pattern=NAME_PATTERN, example="background")
    kind: str = fields.word()
    start_us: int = fields.time(default=0)
    stop_us: int | None = fields.time(default=None, least=1)
    cca: tuple[str, ...] = fields.listing(fields.word(pattern=NAME_PATTERN, example="cubic"), default=(), single=True)
    # the component whose draws it has, too: what is random of both comes out the same
    draws: str | None = fields.word(default=None, pattern=NAME_PATTERN, example="background")


@dataclasses.dataclass(frozen=True)
class Component:
    """A component as its kind sees it. Times are experiment time; `seed` is its own for every draw."""
    name: str
    kind: str
    start_us: int
    stop_us: int
    seed: int = 0
    variants: tuple[records.Variant, ...] = ()       # with which its flows take turns


@dataclasses.dataclass
class Flow:
    """Something that is sent from one host to another; its `record` is in workload.json."""
    sender: str
    receiver: str
    src: str
    dst: str
    start_us: int
    stop_us: int
    base_rtt_us: int
    hops: Sequence[str]                 # link directions from sender to receiver ...
    hops_back: Sequence[str]            # ... and back
    transport: str = "tcp"
    bytes: int | None = None            # None: until it stops
    rate_bps: int | None = None         # None: as much as there is room for
    connections: int = 1
    source: int | None = None           # of a component whose flows are sources of many connections, from 0
    both_ways: bool = False             # data go both ways; sender is the initiator, receiver the acceptor
    wants_source_port: bool = False     # else the kernel chooses one
    wants_source_range: bool = False    # for a flow of many connections: a source port for each
    own_variant: str | None = None      # the variant that it names itself
    chooses_cca: bool = True            # its programs can choose a congestion control before they connect
    # decided in traffic/workload/assign.py
    flow: int = 0
    component: str = ""
    kind: str = ""
    sport: int | None = None
    dport: int = 0
    source_range: tuple[int, int] | None = None         # first port, number of ports
    variant: str | None = None
    cca: str | None = None
    sender_cca: str | None = None       # what the sender's program has to choose: None if its host's default is right
    receiver_cca: str | None = None     # ... and the receiver's
    # options of the variant, which both set: (name, level, number, value)
    socket_options: list[tuple[str, int, int, int]] = dataclasses.field(default_factory=list)

    def record(self) -> records.Flow:
        """As workload.json has it."""
        return records.Flow({
            "flow": self.flow, "component": self.component, "kind": self.kind, "transport": self.transport,
            "sender": self.sender, "receiver": self.receiver, "src": self.src, "dst": self.dst,
            "sport": self.sport, "dport": self.dport, "variant": self.variant, "cca": self.cca,
            "chooses_cca": self.chooses_cca,
            "start_us": self.start_us, "stop_us": self.stop_us, "bytes": self.bytes, "rate_bps": self.rate_bps,
            "connections": self.connections, "source": self.source, "both_ways": self.both_ways,
            "base_rtt_us": self.base_rtt_us, "hops": list(self.hops), "hops_back": list(self.hops_back)})


@dataclasses.dataclass
class Program:
    """A process to run in a node's namespace: `python3 -m module argument...`.

    threads: 0, or how many it has for this node where one process may do the same for several nodes, if computing takes
    no time: `python3 -m module NODE DESCRIPTOR argument NODE DESCRIPTOR argument...`, with one argument for each, the
    file of its job. Each descriptor is that of a node's namespace, which a thread enters (`read_hosts` in
    traffic/program), and the account is then one for each node, {node: ...}. Simulators and real time take no notice.
    buffers_mb: memory that it has from the start besides what every program takes.
    """
    node: str
    module: str
    arguments: list[str]
    threads: int = 0
    buffers_mb: int = 0


@dataclasses.dataclass
class Prepared:
    """What a component wants started, and what it offers (its part of workload.json)."""
    programs: list[Program]
    description: Mapping[str, object]


def _silent(_text: str) -> None:
    pass


@dataclasses.dataclass
class Context:
    """What `prepare` and `collect` know of a run.

    work_dir: folder on this side; guest_dir: the same folder as the programs see it; network: as
    topologies.resolve gives it; timing: prefill_us, warmup_us, test_us, duration_us; report: shows a
    line of what is being done; shared_dir: a folder that all runs share which differ in their variants
    only, so that what does not depend on those is made once.
    """
    work_dir: pathlib.Path
    guest_dir: str
    network: Network
    seed: int
    timing: Timing
    report: Callable[[str], None] = _silent
    shared_dir: pathlib.Path | None = None

    @property
    def duration_us(self) -> int:
        """Length of the experiment."""
        return self.timing.duration_us


class Kind(Protocol):
    """A module that is a kind of traffic. Its sections are of its own class, together with `CommonSection`."""
    Section: type

    def validate(self, section: CommonSection, component: Component, network: Network, timing: Timing) -> None: ...

    def flows(self, section: CommonSection, component: Component, context: Context) -> list[Flow]: ...

    def prepare(self, section: CommonSection, component: Component, flows: list[Flow],
                context: Context) -> Prepared: ...

    def collect(self, component: records.Component, workload: records.Workload, context: Context,
                raw_dir: pathlib.Path) -> Mapping[str, object]: ...


def names() -> list[str]:
    """Names of the kinds of traffic, as scenarios spell them."""
    found = {file.stem for file in _FOLDER.glob("[a-z]*.py")}
    found |= {file.parent.name for file in _FOLDER.glob("*/scenario.py")}
    return sorted(name.replace("_", "-") for name in found)


def kind(name: object) -> Kind:
    """The module of a kind; FieldError if there is none."""
    if name not in names():
        raise fields.FieldError("kind", f"no traffic {fields.show(name)}; {guesses.alternatives(name, names())}")
    plain = str(name).replace("-", "_")
    module = f"traffic.{plain}" if (_FOLDER / f"{plain}.py").exists() else f"traffic.{plain}.scenario"
    return cast(Kind, importlib.import_module(module))


# -- sections ----------------------------------------------------------------------------------

def _section(given: Given) -> type[CommonSection]:
    """The dataclass of a component: the fields of its kind and those of all."""
    if not isinstance(given, Mapping):
        raise fields.FieldError("", f"a mapping expected, not {fields.show(given)}")
    of = kind(given.get("kind")).Section
    return _with_common(of)


@functools.cache
def _with_common(of: type) -> type[CommonSection]:
    """The dataclass of a kind's sections with the fields of all."""
    found: type[CommonSection] = dataclasses.dataclass(frozen=True)(types.new_class("Section", (of, CommonSection)))
    return found


def as_given(given: Given) -> dict[str, object]:
    """What a component of a scenario file says, as plan.json has it: without defaults, with units in the keys."""
    return fields.given(_section(given), given)


def _read(components: Sequence[Given], duration_us: int, seed: int) -> list[tuple[Component, CommonSection, Kind]]:
    """(component, section, kind) of each. FieldErrors begin with the component's name if there are several."""
    if len(components) > _MOST_COMPONENTS:
        raise fields.FieldError("", f"at most {_MOST_COMPONENTS} components")
    read: list[tuple[Component, CommonSection, Kind]] = []
    counts: dict[str, int] = {}
    for given in components:
        try:
            section = fields.decode(_section(given), given)
            counts[section.kind] = counts.get(section.kind, 0) + 1
            name = section.name or section.kind + (f"-{counts[section.kind]}" if counts[section.kind] > 1 else "")
            if name in {component.name for component, _, _ in read}:
                raise fields.FieldError("name", f"a second component {name!r}; each has a name of its own")
            stop_us = duration_us if section.stop_us is None else min(section.stop_us, duration_us)
            if section.start_us >= stop_us:
                raise fields.FieldError("start", f"{section.start_us / 1e6:g} s is not before the "
                                                 f"{'stop' if section.stop_us else 'end'} at {stop_us / 1e6:g} s")
            read.append((Component(name, section.kind, section.start_us, stop_us, component_seed(
                seed, section.draws or name, section.kind)), section, kind(section.kind)))
        except fields.FieldError as problem:
            raise _inside(components, given, problem) from None
    for given, (component, section, _) in zip(components, read):
        try:
            _check_draws(component, section, {one.name: (one, its) for one, its, _ in read})
        except fields.FieldError as problem:
            raise _inside(components, given, problem) from None
    return read


def _check_draws(component: Component, section: CommonSection,
                 known: Mapping[str, tuple[Component, CommonSection]]) -> None:
    """FieldError if a component has draws of one that has none of its own to share."""
    if section.draws is None:
        return
    others = [name for name, (one, its) in known.items()
              if one.kind == component.kind and its.draws is None and name != component.name]
    if section.draws not in others:
        raise fields.FieldError("draws", f"another {component.kind} component with draws of its own expected, not "
                                         f"{section.draws}; there are: {', '.join(others) or 'none'}")


def _inside(components: Sequence[Given], given: Given, problem: fields.FieldError) \
        -> fields.FieldError:
    if len(components) < 2 or not isinstance(given, Mapping):
        return problem
    return problem.inside(str(given.get("name") or given.get("kind")))


def component_seed(seed: int, name: str, of: str) -> int:
    """Seed of a component's draws: they are its own, whatever others there are.

    A component that is called as its kind has the run's seed itself.
    """
    if name == of:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:7], "big")


def validate(components: Sequence[Given], network: Network, timing: Timing) -> None:
    """FieldError if a scenario's traffic makes no sense for its network and timing."""
    if not components:
        raise fields.FieldError("", "at least one component expected")
    for given, (component, section, of) in zip(components, _read(components, timing.duration_us, 0)):
        try:
            of.validate(section, component, network, timing)
            if section.cca and not getattr(of, "uses_ccas", _always)(section):
                raise fields.FieldError("cca", "none of its flows would use it: they are UDP, or name their own")
        except fields.FieldError as problem:
            raise _inside(components, given, problem) from None


def _always(_section: CommonSection) -> bool:
    return True


def is_under_test(given: Given) -> bool:
    """Whether flows of a component would use the congestion control under test."""
    section = fields.decode(_section(given), given)
    return not section.cca and bool(getattr(kind(section.kind), "uses_ccas", _always)(section))


def _of_others(_section: CommonSection) -> str:
    return "kind"


def check_socket_options(components: Sequence[Given], variants: Sequence[records.Variant]) -> None:
    """FieldError if flows of a variant that sets socket options have sockets which other programs open."""
    for given in components:
        section = fields.decode(_section(given), given)
        of = kind(section.kind)
        foreign = getattr(of, "foreign_sockets", _of_others)(section)
        named = component_ccas([given])
        if not foreign or not named and not getattr(of, "uses_ccas", _always)(section):
            continue
        for variant in assign.variants_of(named, variants):
            if variant.socket_options:
                raise _inside(components, given, fields.FieldError(
                    foreign, f"{getattr(section, foreign)} opens its sockets itself, and {variant.name} sets "
                    f"{', '.join(option.name for option in variant.socket_options)} on those of its flows: traffic "
                    "over sockets of the testbed expected, such as kind: greedy with tool: sockets"))


def bulk_routes(components: Sequence[Given], network: Network) -> list[routes.Route]:
    """The routes of TCP flows that send all they can, of traffic that makes sense for the network."""
    found: list[routes.Route] = []
    for given in components:
        of_kind = getattr(kind(given["kind"]), "bulk_routes", None)
        if of_kind:
            found += of_kind(fields.decode(_section(given), given), network)
    return found


def component_ccas(components: Sequence[Given]) -> list[str]:
    """The variants that components, and their flows, name themselves, each once."""
    named: list[str] = []
    for given in components:
        section = fields.decode(_section(given), given)
        named += section.cca
        of_flows: Callable[[CommonSection], list[str]] | None = getattr(kind(section.kind), "ccas", None)
        if of_flows:
            named += of_flows(section)
    return list(dict.fromkeys(named))


def inputs(components: Sequence[Given]) -> dict[str, str]:
    """{path: sha256} of the user's files that the traffic is made from."""
    found: dict[str, str] = {}
    for given in components:
        files_of = getattr(kind(given.get("kind")), "inputs", None)
        if files_of:
            found.update(files_of(fields.decode(_section(given), given)))
    return found


def prepare(components: Sequence[Given], variants: Sequence[records.Variant], context: Context) \
        -> records.Workload:
    """Make what the programs of a run need in context.work_dir; the workload, also as workload.json there.

    FieldError if the traffic cannot be as asked.
    """
    read = _read(components, context.duration_us, context.seed)
    context.work_dir.mkdir(parents=True, exist_ok=True)
    made: list[tuple[Component, CommonSection, Kind, list[Flow]]] = []
    for given, (component, section, of) in zip(components, read):
        try:
            of.validate(section, component, context.network, context.timing)
            component = dataclasses.replace(component, variants=assign.variants_of(section.cca, variants))
            flows = of.flows(section, component, context)
            for flow in flows:
                flow.component, flow.kind = component.name, component.kind
            assign.take_turns(flows, component.variants, variants)
        except fields.FieldError as problem:
            raise _inside(components, given, problem) from None
        made.append((component, section, of, flows))
    flows = [flow for *_, of_one in made for flow in of_one]
    assign.number(flows)
    assign.ports([(component, of, of_one) for component, _, of, of_one in made])
    assign.choose_at_hosts(flows, variants)
    descriptions, programs = [], []
    for given, (component, section, of, of_one) in zip(components, made):
        try:
            prepared = of.prepare(section, component, of_one, context)
        except fields.FieldError as problem:
            raise _inside(components, given, problem) from None
        descriptions.append({"name": component.name, "kind": component.kind, "start_us": component.start_us,
                             "stop_us": component.stop_us, "variants": [v.name for v in component.variants],
                             **prepared.description})
        programs += [{**dataclasses.asdict(program), "component": component.name} for program in prepared.programs]
    workload = records.Workload({
        "components": descriptions, "flows": [flow.record().content() for flow in flows], "programs": programs,
        "ccas": {v.name: v.kernel_cca for v in variants}})
    write_json(context.work_dir / "workload.json", workload)
    return workload


def collect(workload: records.Workload, context: Context, raw_dir: pathlib.Path) -> dict[str, Mapping[str, object]]:
    """Turn what the programs left into raw files; {component: account}."""
    return {component.name: kind(component.kind).collect(component, workload, context, raw_dir)
            for component in workload.components}

# SPDX-License-Identifier: GPL-2.0-only
"""Greedy TCP flows as a component of the traffic (docs/howto/greedy.md).

    kind: greedy
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    flows: 1                    flows on each of them
    tool: iperf3                or sockets: lighter, for hundreds of flows
    stagger: 0 s                between the starts of one flow and the next
    start_within: 1 s           plus a random time below this one for each flow, from the run's seed (default: the base
                                RTT of its path)
    stop_within: 0 s            every stop is later by a random time below this one
    preload: yes                iperf3 only: without it iperf3 is as Debian has it, and slow
    nagle: no                   iperf3 only: its control connection has Nagle's algorithm, as up to iperf3 3.9
    sequence_start: 1000        sockets only: sequence number of the first byte of data
    bytes: 200 kB               sockets only: what each flow sends (default: until the end)
    segment: 1000 B             sockets only: payload of a full segment (default: what the path's MTU holds)
    window: 20                  most segments in flight, by the receiver's window (default: no limit)
    receiver: {kind: divided, parts: 8}     sockets only: it misbehaves (misbehaving.py): it acknowledges each segment
                                in so many parts, or with {kind: optimistic, ahead: 10} what has not arrived
"""
import dataclasses
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping

import numpy as np

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.greedy import DIVIDED, OPTIMISTIC
from traffic.greedy.iperf3 import PROGRAM, output_name
from traffic.greedy.orders import program, socket_programs, tcp_jobs
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared

FIRST_PORT, FIRST_SOURCE_PORT = 6000, 30000
#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True
_MOST = {"iperf3": FIRST_SOURCE_PORT - FIRST_PORT, "sockets": 65536 - FIRST_PORT}
#: what iperf3 takes for -t
_LONGEST_S = 86400
_PRELOAD = "iperf3-preload.so"
#: which draws of a component its stops are
_STOPS = 1
_SOURCE = pathlib.Path(__file__).parent / "iperf3_preload.c"
#: payload of a frame of 1514 bytes over IPv4
SEGMENT_BYTES = ip.segment_bytes()
#: what the kernel takes for TCP_MAXSEG, without the time stamp
MOST_SEGMENT_BYTES = 32767 - ip.TIMESTAMP_BYTES
#: Linux raises smaller limits of a window (SOCK_MIN_RCVBUF / 2)
_LEAST_WINDOW_BYTES = 2304


@dataclasses.dataclass(frozen=True)
class Divided:
    """A receiver that acknowledges each segment in so many parts; 1: each at once, and whole."""
    kind: str = fields.word()
    parts: int = fields.count(least=1, most=100)


@dataclasses.dataclass(frozen=True)
class Optimistic:
    """A receiver that acknowledges all up to what arrived last, and so many segments more."""
    kind: str = fields.word()
    ahead: int = fields.count(default=0, most=10_000)


RECEIVERS: dict[str, type[Divided | Optimistic]] = {DIVIDED: Divided, OPTIMISTIC: Optimistic}


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a greedy component."""
    paths: tuple[str, ...] = routes.paths_field()
    flows: int = fields.count(default=1, least=1, most=10_000)
    tool: str = fields.word(choices=("iperf3", "sockets"), default="iperf3")
    stagger_us: int = fields.time(default=0)
    start_within_us: int | None = fields.time(default=None)
    stop_within_us: int = fields.time(default=0)
    preload: bool | None = fields.flag(default=None)
    nagle: bool | None = fields.flag(default=None)
    sequence_start: int | None = fields.count(default=None, most=(1 << 32) - 1)
    bytes_bytes: int | None = fields.size(default=None, least=1)
    segment_bytes: int | None = fields.size(default=None, least=100, most=MOST_SEGMENT_BYTES)
    window: int | None = fields.count(default=None, least=2, most=100_000)
    receiver: Divided | Optimistic | None = fields.tagged(RECEIVERS, default=None)

    def __post_init__(self) -> None:
        for name, tool in (("preload", "iperf3"), ("nagle", "iperf3"), *((name, "sockets") for name in (
                "sequence_start", "bytes_bytes", "segment_bytes", "receiver"))):
            if getattr(self, name) is not None and self.tool != tool:
                raise FieldError(fields.plain(name), f"only with tool: {tool}")
        for name in ("window", "nagle"):
            if getattr(self, name) and self.preload is False:
                raise FieldError(name, "needs the preload of iperf3")
        if self.receiver is not None and self.bytes_bytes is not None:
            raise FieldError("receiver", "not together with bytes: it closes when the sender does")
        if self.sequence_start == 1:
            raise FieldError("sequence_start", "1 is not possible: the SYN would have number 0, with which Linux "
                                               "chooses one")

    def limits(self, network: Network) -> dict[str, int]:
        """What both ends of a flow are told: `maxseg` and `window_bytes`, where they are set."""
        segment = {} if self.segment_bytes is None else {"maxseg": self.segment_bytes + ip.TIMESTAMP_BYTES}
        return segment if self.window is None else {**segment, "window_bytes": self.window_bytes(network)}

    def window_bytes(self, network: Network) -> int:
        """The receiver's window, 0 without a limit."""
        return (self.window or 0) * (self.segment_bytes or min(self.segments(network)))

    def segments(self, network: Network) -> set[int]:
        """Payload of full segments on the component's paths."""
        return {network.segment_bytes((*way.hops, *way.hops_back)) for way in routes.find(network, self.paths)}


def check_segment(field: str, segment_bytes: int, network: Network, way: routes.Route) -> None:
    """FieldError if the packets of a path have no room for so much payload."""
    crossed = (*way.hops, *way.hops_back)
    if segment_bytes > (most := network.segment_bytes(crossed)):
        raise FieldError(field, f"at most {most} B of payload fit into a packet of {network.packet_bytes(crossed)} B "
                                f"over IPv{network.ip_version}, not {segment_bytes}")


def validate(section: Section, component: Component, network: Network, timing: Timing) -> None:
    total = section.flows * len(routes.find(network, section.paths))
    if total > _MOST[section.tool]:
        raise FieldError("flows", f"{total} flows need more ports than there are")
    if section.segment_bytes is not None:
        for way in routes.find(network, section.paths):
            check_segment("segment", section.segment_bytes, network, way)
    elif section.window is not None and len(section.segments(network)) > 1:
        raise FieldError("window", "paths of different MTUs have segments of different sizes: a component for each, or "
                                   "segment, expected")
    if section.window is not None and section.window_bytes(network) < _LEAST_WINDOW_BYTES:
        raise FieldError("window", f"{section.window} segments are {section.window_bytes(network)} bytes; at least "
                                   f"{_LEAST_WINDOW_BYTES} are possible")
    if section.tool == "iperf3" and any(node.wakeup_cost_us for node in network.nodes):
        raise FieldError("tool", "iperf3 knows no cost of wake-ups (hosts.wakeup_cost); use tool: sockets")
    routes.in_time(component.start_us + (total - 1) * section.stagger_us + (section.start_within_us or 0) - 1,
                   component.stop_us, "stagger" if section.stagger_us else "start_within")
    latest_us = component.stop_us + section.stop_within_us
    if latest_us > timing.duration_us:
        raise FieldError("stop_within", f"stops until {latest_us / 1e6:g} s are possible, but the experiment ends at "
                                        f"{timing.duration_us / 1e6:g} s")


def foreign_sockets(section: Section) -> str:
    """The field by which a program opens its sockets that sets no options of variants."""
    return "" if section.tool == "sockets" else "tool"


def bulk_routes(section: Section, network: Network) -> list[routes.Route]:
    return routes.find(network, section.paths)


def _start_within_us(section: Section, component: Component, route: routes.Route, place: int) -> int:
    """Below what a flow's random delay of the start is: by default a round trip, but never so long that it misses its
    stop."""
    if section.start_within_us is not None:
        return max(section.start_within_us, 1)
    left_us = component.stop_us - component.start_us - place * section.stagger_us
    return max(min(route.base_rtt_us, left_us), 1)


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """Path by path, each flow with its start."""
    chosen = routes.find(context.network, section.paths)
    within_us = [_start_within_us(section, component, chosen[place // section.flows], place)
                 for place in range(section.flows * len(chosen))]
    offsets_us = np.random.default_rng(component.seed).integers(0, within_us).tolist()
    # draws of their own, so that starts are the same with and without them
    stops_us = (component.stop_us + np.random.default_rng([component.seed, _STOPS]).integers(
        0, max(section.stop_within_us, 1), size=len(offsets_us))).tolist()
    found = []
    for place, (offset_us, stop_us) in enumerate(zip(offsets_us, stops_us)):
        route = chosen[place // section.flows]
        start_us = component.start_us + place * section.stagger_us + offset_us
        if start_us >= stop_us:
            raise FieldError("stagger" if place and section.stagger_us else "start_within",
                             f"flow {place + 1} would begin after the end, at {start_us / 1e6:g} s")
        if section.tool == "iperf3" and stop_us - start_us > _LONGEST_S * 1_000_000:
            raise FieldError("tool", f"iperf3 sends for at most {_LONGEST_S} s; use tool: sockets")
        found.append(Flow(**dataclasses.asdict(route), start_us=start_us, stop_us=stop_us,
                          bytes=section.bytes_bytes, wants_source_port=section.tool == "iperf3",
                          chooses_cca=section.preload is not False))
    return found


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host that sends or receives."""
    description: dict[str, object] = {"tool": section.tool, **{
        name: getattr(section, name) for name in ("segment_bytes", "window") if getattr(section, name) is not None}}
    misbehaves = None if section.receiver is None else fields.encode(section.receiver)
    if misbehaves:
        description["receiver"] = misbehaves
    if section.tool == "sockets":
        more = {} if section.sequence_start is None else {"sequence_start": section.sequence_start}
        return Prepared(socket_programs(component, flows, context, {flow.flow: more for flow in flows},
                                        section.limits(context.network), misbehaves), description)
    _require_iperf3()
    preload = _compile(context.work_dir) if section.preload is not False else None
    limits = section.limits(context.network)
    jobs = tcp_jobs(flows, {flow.flow: {"source_port": flow.sport} for flow in flows},
                    of_receivers={flow.flow: limits for flow in flows})
    common = {"folder": context.guest_dir, "preload": preload and f"{context.guest_dir}/{preload}",
              "nagle": bool(section.nagle)}
    return Prepared([program(component, node, {**job, **common}, "traffic.greedy.iperf3", context)
                     for node, job in sorted(jobs.items())], description)


def _require_iperf3() -> None:
    if not os.access(PROGRAM, os.X_OK):
        raise FieldError("tool", "iperf3 is missing: apt-get install iperf3, or set tool: sockets")


def _compile(folder: pathlib.Path) -> str:
    """Compile the preload library into `folder`; returns its name. FieldError if that cannot be."""
    command = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-s", "-Wl,--build-id=none", "-o", _PRELOAD, str(_SOURCE)]
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise FieldError("tool", "gcc is missing, which compiles what makes iperf3 fast: apt-get install gcc "
                                 "libc6-dev, or set preload: no or tool: sockets") from None
    if done.returncode:
        raise FieldError("tool", f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
    return _PRELOAD


def collect(component: records.Component, workload: records.Workload, context: Context, raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """iperf3's own JSON goes to raw/; sockets leave but their counters, which are in the programs' accounts."""
    for flow in workload.flows:
        for role in ("client", "server"):
            name = output_name(flow.flow, role)
            if flow.component == component.name and (context.work_dir / name).exists():
                shutil.copyfile(context.work_dir / name, raw_dir / name)
    return {}

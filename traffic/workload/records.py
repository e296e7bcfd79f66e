# SPDX-License-Identifier: GPL-2.0-only
"""What raw/workload.json says: components and flows (docs/reference/run-folder.md).

`traffic.prepare` makes it (traffic/workload/components.py); the guest, checks and analysis read it.
"""
from collections.abc import Mapping, Sequence
from math import inf
from typing import Annotated

from testbed.core.record import ListOf, Record


class Flow(Record):
    """A flow, or the connections of a source; of those `sender` is the initiator."""
    flow: int
    component: str
    kind: str
    #: tcp or udp
    transport: str = "tcp"
    sender: str
    receiver: str
    src: str
    dst: str
    sport: int | None = None
    dport: int
    #: the congestion control as asked for, and as the kernel calls it
    variant: str | None = None
    cca: str | None = None
    #: whether its program can choose it before it connects
    chooses_cca: bool = True
    start_us: int
    stop_us: int
    #: None: until it stops
    bytes: int | None = None
    #: None: as much as there is room for
    rate_bps: int | None = None
    connections: int = 1
    #: of flows that stand for many connections: which source of the component, from 0
    source: int | None = None
    both_ways: bool = False
    base_rtt_us: int
    #: names of link directions from sender to receiver, and back
    hops: Sequence[str]
    hops_back: Sequence[str]

    def way(self, back: bool) -> Sequence[str]:
        """Names of link directions from its sender, or back to it."""
        return self.hops_back if back else self.hops


class SocketOption(Record):
    """An integer that the sockets of a variant's flows are given; name: as its file has it."""
    name: str
    level: int
    number: int
    value: Annotated[int, (-2**31, 2**32 - 1)]


class Variant(Record):
    """A congestion control that flows of the run use, with the settings that make it what its name says."""
    name: str
    #: what TCP_CONGESTION calls it
    kernel_cca: str
    title: str = ""
    source: str = ""
    #: path of its sources, None if the kernel has it; module_name: as in lsmod
    module: str | None = None
    module_sha256: str | None = None
    module_name: str | None = None
    sysctls: Mapping[str, int | str] = {}
    parameters: Mapping[str, int | str] = {}
    socket_options = ListOf(SocketOption, ())
    #: made for queues that mark
    needs_ecn: bool = False
    #: STACK:CONTROL of a QUIC program, which does not use the congestion control of its hosts
    quic: str = ""
    #: False for those that only components of the traffic name
    under_test: bool = True


class Component(Record):
    """What workload.json says of a component: of all, then what kinds add where they have it."""
    name: str
    kind: str
    start_us: int = 0
    stop_us: int
    #: names of those with which its flows take turns
    variants: Sequence[str] = ()
    # of kinds with a rate, or bursts of one (cbr, on-off, paced)
    transport: str | None = None
    rate_bps: int | None = None
    packet_bytes: int | None = None
    packets_per_s: int | None = None
    bursts: int | None = None
    # of greedy flows: the limit of the window in segments; how the receivers misbehave: {kind, parts or ahead}
    tool: str | None = None
    segment_bytes: int | None = None
    window: int | None = None
    receiver: Mapping[str, int | str] = {}
    # of programs: {end: files that it leaves}
    keep: Mapping[str, Sequence[str]] = {}
    # of QUIC flows: stack and congestion control; time between two rows of quic_info; of what its qlog has round trips
    stack: str | None = None
    interval_us: int = 0
    keep_qlog: bool = False
    rtt_unit: str = "ms"
    # of replayed connections (testbed/core/replayed.py)
    mix: str | None = None
    clients: int | None = None
    closes: bool = True
    alone: Mapping[str, int] | None = None
    # of a load, that is of Tmix
    target_links: Sequence[str] = ()
    target_load: Annotated[float, (1e-9, 1e18)]
    load_on: str = "sum"
    #: {path: name of its vector file}
    traces: Mapping[str, str] = {}
    scale: float | None = None
    source_factors: Sequence[float] = ()
    connections: int | None = None
    measured_us: Annotated[Sequence[Annotated[int, (-2**53, 2**53)]], (2, 2)]
    #: {link: bit/s} and {link: those of its thirds}; counted: with other headers than those of layer 2
    offered_bps: Mapping[str, float] = {}
    thirds_bps: Mapping[str, Annotated[Sequence[float], (3, 3)]] = {}
    prefill_us: int | None = None
    prefill_window_us: int | None = None
    prefill_rule: str | None = None
    prefill_flow_bps: int | None = None
    bin_us: int | None = None
    balance: str = "off"
    shuffle_attempts: int | None = None
    thirds_difference: Annotated[float, (0, inf)] | None = None
    thirds_chance: float = 0.0
    load_error: Annotated[float, (-1e18, 1e18)] | None = None
    #: None where the load was not searched for; 0 where it was, for this seed
    load_chance: float | None = None
    overhead: str = "l2"
    #: "vector" or "off": of the sockets
    windows: str = "off"
    reverse_links: Sequence[str] = ()
    reverse_load: float | None = None
    reverse_factor: float | None = None

    @property
    def counted_bps(self) -> Mapping[str, float]:
        """{link: its load, with the headers that count}"""
        found: Mapping[str, float] = vars(self).get("counted_bps", self.offered_bps)
        return found


class Program(Record):
    """A process of a component's traffic (traffic/workload/components.py); not kept in raw/."""
    node: str
    module: str
    arguments: Sequence[str]
    threads: int = 0
    buffers_mb: int = 0
    component: str


class Workload(Record):
    """All of it. ccas: {congestion control as asked for: as the kernel calls it}"""
    components = ListOf(Component)
    flows = ListOf(Flow)
    programs = ListOf(Program, ())
    ccas: Mapping[str, str]

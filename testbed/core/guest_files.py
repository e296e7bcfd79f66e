# SPDX-License-Identifier: GPL-2.0-only
"""What a run's engine leaves beside tables, network and traffic: checks.json, counters.json, snmp.json, guest.json and
late.json of raw/ (docs/reference/run-folder.md).

The guest and the simulators write them, checks and metrics read them. An engine without a kernel leaves out what it
does not know: such keys have a value here, or a comment says so.
"""
from collections.abc import Mapping, Sequence
from typing import Annotated

from testbed.core.record import Direction, ListOf, MapOf, Perhaps, Record

#: {counter as nstat names it: its values at the three readings}
NodeCounters = Mapping[str, Annotated[Sequence[int], (3, 3)]]


# -- counters.json -------------------------------------------------------------------------------


class LinkCounters(Direction):
    """Of one direction of a link: queue, device, and the wire behind it.

    sent + dropped + queued is what reached the queue. What is lost where the wire begins (lose_segments, a
    policer's) is chosen_dropped, a part of wire_dropped.

    Of a packet of many segments that nobody cut, Linux counts the segments in sent and wire_delivered, and one packet
    in all others.
    """
    sent_packets: int
    sent_bytes: int
    dropped_packets: int
    queued_packets: int
    #: marked instead of dropped
    ce_marked_packets: int
    device_tx_packets: int
    device_rx_packets: int
    wire_delivered_packets: int
    wire_delivered_bytes: int
    wire_dropped_packets: int
    wire_queued_packets: int
    chosen_dropped_packets: int = 0
    #: that the wire let go before others
    wire_early_packets: int


class StationCounters(Record):
    """Of a station's radio (kernel-modules/air), and of its device."""
    frames: int
    attempts: int
    retries: int
    acknowledged: int
    given_up: int
    no_access: int
    received: int
    garbled: int
    chance: int
    delivered: int
    duplicates: int
    lost: int
    queued: int
    airtime_ns: int
    device_rx_packets: int
    device_tx_packets: int
    #: before the radio
    dropped_packets: int
    #: of mac80211's queues: what CoDel dropped, and how often they were too long
    codel_dropped: int = 0
    overlimits: int = 0


class Counters(Record):
    """counters.json: {link: counters} since before traffic, at three instants; of stations at two of them."""
    #: of kernels only
    measure_from = MapOf(LinkCounters, {})
    at_end = MapOf(LinkCounters)
    #: when the network had run empty
    drained = MapOf(LinkCounters)
    air_at_end = MapOf(StationCounters, {})
    air_drained = MapOf(StationCounters, {})

    def reading(self, name: str) -> Mapping[str, LinkCounters]:
        """{link: counters} at `measure_from`, `at_end` or `drained`."""
        found: Mapping[str, LinkCounters] = getattr(self, name)
        return found


# -- snmp.json -----------------------------------------------------------------------------------


class Snmp(Record):
    """snmp.json: what the TCP/IP stack of every node counted since before traffic; counters that stayed 0 are left
    out."""
    measure_from_us: int
    readings: Sequence[str]
    nodes: Mapping[str, NodeCounters]


# -- checks.json ---------------------------------------------------------------------------------


class MeasuredPath(Record):
    """An idle round trip of a path, in us, and what it should be."""
    initiator: str
    acceptor: str
    base_rtt_us: int
    serialisation_us: float
    hosts_us: float = 0
    jitter_us: int = 0
    early_us: float = 0
    late_us: float = 0
    air_us: float = 0
    #: None: nobody answered
    measured_rtt_us: float | None


class MeasuredBottleneck(Record):
    """A bottleneck that was overloaded. One that hosts cannot overload, behind a slow channel, has no figures."""
    link: str
    rate_bps: int
    limit_packets: int | None
    limit_bytes: int | None
    longest_queue_packets: int
    longest_queue_bytes: int
    dropped_packets: int
    overloaded: bool
    filled: bool
    lost_events: int = 0
    measured_bps: float
    window_packets: int
    #: None where frames were counted in a window, and not timed one by one
    busy_us: float | None = None


class Device(Record):
    """A network device as the kernel tells it; qdiscs: {handle: "kind options"}, options in hexadecimal digits."""
    mtu: int | None = None
    gso_max_segs: int | None = None
    qdiscs: Mapping[str, str] = {}


class CongestionControls(Record):
    """Those of the run, as the kernel has them."""
    #: {module: {parameter: value}}
    parameters: Mapping[str, Mapping[str, object]] = {}


class Checks(Record):
    """checks.json: what was measured and read back before traffic."""
    paths = ListOf(MeasuredPath)
    bottlenecks = ListOf(MeasuredBottleneck)
    #: {"node/device": {feature: on}}
    offloads: Mapping[str, Mapping[str, bool]]
    # the rest is of kernels
    devices = MapOf(Device, {})
    #: {node: windows in segments of its routes}
    initcwnd: Mapping[str, Sequence[int]] = {}
    #: {node: of its routes, 1 where every segment is acknowledged at once}
    quickack: Mapping[str, Sequence[int]] = {}
    #: {node: {address: threshold in segments with which a connection there began}}
    initial_ssthresh: Mapping[str, Mapping[str, int]] = {}
    #: {node: {name: value}}: as they were to be, and as they were read back
    sysctls_wanted: Mapping[str, Mapping[str, int | str]] = {}
    sysctls: Mapping[str, Mapping[str, str]] = {}
    machine_sysctls_wanted: Mapping[str, int | str] = {}
    machine_sysctls: Mapping[str, str] = {}
    congestion_controls = Perhaps(CongestionControls)
    jiffy_us: int
    timer_period_us: int
    #: the kernel's mask (Documentation/admin-guide/tainted-kernels.rst)
    tainted: int | None = None


# -- late.json -----------------------------------------------------------------------------------


class Late(Record):
    """late.json: what is another after the traffic."""
    #: {section: how many were read}
    read: Mapping[str, int]
    tainted: int | None = None
    #: memory that the kernel has more than before, in MB
    kept_more_mb: int | None = None
    #: {module: bytes that are kept of each connection that is over}
    kept_of_connections: Mapping[str, float] = {}
    #: what modules allocated and nobody points to, where the kernel looks for it (testbed/guest/kmemleak.py)
    leaked: Sequence[str] = ()
    #: lines of the kernel's log that say what is wrong
    trouble: Sequence[str] = ()

    def changes(self, section: str) -> Mapping[str, Sequence[object]]:
        """{name: (before, after)} of a section."""
        # `changed` is a method of records
        if not self.has("changed"):
            self._lacks("changed")
        found: Mapping[str, Mapping[str, Sequence[object]]] = vars(self)["changed"]
        return found.get(section, {})


# -- guest.json ----------------------------------------------------------------------------------


class ProbeNotes(Record):
    """What a probe notes beside its tables."""
    lost_events: int = 0
    lost_packets: int = 0
    #: of `queue`: whether the kernel counted what queues held between samples
    counts_backlog: bool = False


class FlowEnd(Record):
    """What a program's sockets found at an end of a flow."""
    flow: int
    #: sender or receiver
    end: str
    #: {congestion control that sockets named: connections}, when connected and before the SYN
    ccas: Mapping[str, int] = {}
    born: Mapping[str, int] = {}
    #: bytes that were compared with what should have come, and others
    checked_bytes: int
    unchecked_bytes: int
    wrong_pieces: int
    #: (connection, bytes before it)
    first_wrong: Sequence[int] | None = None
    # of replayed connections
    source: int | None = None
    #: initiator or acceptor
    role: str
    #: {status: connections}
    status: Mapping[str, int] | None = None


class ProgramAccount(Record):
    """Of one program, or of a node's part of it."""
    #: of programs that notice: {flow: when its receiver had read the last byte}
    delivered_us: Mapping[str, int] = {}
    #: of programs that count: {flow: what its sender wrote}
    sent_bytes: Mapping[str, int] = {}
    #: of iperf3: {flow: what its receiver read}
    received_bytes: Mapping[str, int] = {}
    #: of iperf3: {flow: over how long the flow's end in this account counted that}
    counted_us: Mapping[str, int] = {}
    ends = ListOf(FlowEnd, ())


class DatagramCounts(Record):
    """Packets of a UDP flow; bytes are those of IP packets, delays are one-way, of those that arrived."""
    flow: int
    sent_packets: int
    received_packets: int
    received_bytes: int
    #: sent and not received
    lost_packets: int | None = None
    duplicate_packets: int = 0
    reordered_packets: int = 0
    socket_dropped_packets: int = 0
    #: None: nothing arrived, or the engine does not know
    delay_mean_us: float | None = None
    delay_min_us: float | None = None
    delay_max_us: float
    delay_p50_us: float | None = None
    delay_p95_us: float | None = None
    delay_p99_us: float | None = None


class QuicEnds(Record):
    """What the programs of a QUIC flow printed; None if they did not."""
    flow: int
    sent_bytes: int | None = None
    received_bytes: int | None = None


class TrafficAccount(Record):
    """What a component accounts for, by its kind."""
    #: of UDP flows
    flows = ListOf(DatagramCounts, ())
    #: of QUIC flows
    quic = ListOf(QuicEnds, ())
    #: of programs: {end: names of files in raw/}
    files: Mapping[str, Sequence[str]] = {}
    #: of replayed connections: programs that should have sent something long before the end
    overdue: Sequence[str] = ()


class Guest(Record):
    """guest.json: what the programs, the traffic and the probes account for."""
    sampler_lateness_us: Mapping[str, int]
    probes = MapOf(ProbeNotes)
    accounts = ListOf(ProgramAccount, ())
    #: {component: its account}
    traffic = MapOf(TrafficAccount, {})

    def datagrams(self) -> dict[int, DatagramCounts]:
        """{flow: its packets} of the UDP flows."""
        return {one.flow: one for account in self.traffic.values() for one in account.flows}

    def ends(self) -> dict[tuple[int, str], FlowEnd]:
        """{(flow, "sender" or "receiver"): what that end found} of the TCP flows."""
        return {(end.flow, end.end): end for account in self.accounts for end in account.ends}

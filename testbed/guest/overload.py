# SPDX-License-Identifier: GPL-2.0-only
"""How a link is overloaded to measure its rate and its buffer: by whom, with how much, for how long.

The test is bounded in virtual time (what a slow link needs for a packet) and in packets (what the machine
needs for a packet). Where that is too little for the usual precision, the number of packets in
raw/checks.json says what can be expected of the result.
"""
import dataclasses
import math
import operator

from topologies.links.records import Link, Network

#: packets over which the rate is measured: one more or less is a quarter of the tolerance of 0.1 %
_WINDOW_PACKETS = 4000
_LEAST_PACKETS = 10
#: a part of the test, filling or measuring, takes no longer
_LONGEST_S = 30.0
#: larger buffers are not filled: half a minute of a wall clock, some hours of virtual time (which cost a tenth of a
#: millisecond each second), 230 MB of memory (2304 bytes for each packet)
_LARGEST_FILL_S, _LARGEST_FILL_PACKETS = {True: 15.0, False: 15_000.0}, 100_000
#: more packets than this are not sent as fast as the hosts can
_MOST_UNPACED_PACKETS = 200_000
_ENOUGH = 1.5
#: packets that a socket has on their way before it makes its program wait, and some more
_SOCKET_PACKETS = 200
#: packets of one system call; whoever sends looks whether it is to stop after each
AT_ONCE = 16
#: a program that is to send more often sends so many at once, since to wake it up costs more than to send
_LEAST_INTERVAL_S = 10e-6


@dataclasses.dataclass
class Sender:
    """A host that sends, and to whom; local: the link is its own, so nothing but its socket holds it back; slowest_bps:
    the slowest link on its way to the link, with that itself; reach_s: what its first frame takes to the link."""
    host: str
    target: str
    address: str
    local: bool
    slowest_bps: float
    reach_s: float


@dataclasses.dataclass
class Plan:
    """overloaded: more arrives than the link carries; fills: long enough to fill the buffer; interval_s: between
    two packets of a sender (0: as fast as it can); at_once: how many it sends at a time; then the three parts of the
    test, one after the other."""
    senders: list[Sender]
    overloaded: bool
    fills: bool
    interval_s: float
    at_once: int
    fill_s: float
    window_s: float
    drain_s: float


def frame_bits(network: Network) -> int:
    """Of a packet of the test on a link: the largest one that all links carry."""
    return 8 * network.frame_bytes()


def _holds_packets(link: Link, frame: int) -> int:
    """How many such packets a link's queue holds."""
    return link.capacity_packets if link.limit_bytes is None else 8 * link.capacity_bytes // frame


def plan(link: Link, network: Network, real_time: bool = False) -> Plan:
    """How to overload a link of the network; real_time: whoever waits for it waits for a wall clock."""
    senders, arriving_bps, rtt_s = _senders(link, network)
    frame = frame_bits(network)
    frame_s = frame / link.rate_bps
    capacity = _holds_packets(link, frame)
    # the buffer gets what the link does not carry, which is its rate again at most
    surplus = min(1.0, arriving_bps / link.rate_bps - 1) if arriving_bps > link.rate_bps else 1.0
    arrivals = capacity / surplus
    fills = arrivals <= _LARGEST_FILL_PACKETS and arrivals * frame_s <= _LARGEST_FILL_S[real_time]
    reach_s = max((sender.reach_s for sender in senders), default=0.0)
    fill_s = arrivals * frame_s + max(arrivals * frame_s, reach_s) if fills else rtt_s + 10 * frame_s
    window = max(_LEAST_PACKETS, min(_WINDOW_PACKETS, int(_LONGEST_S / frame_s)))
    window_s = window * frame / link.rate_bps
    interval_s = 0.0
    # a host whose own queue drops what its socket sends would send forever without a moment passing
    local = any(sender.local for sender in senders)
    hosts = {sender.host for sender in senders}
    shallow = any(other.capacity_packets < _SOCKET_PACKETS for other in network.links
                  if other.has("from") and other.from_node in hosts)
    if not fills or shallow or local or (fill_s + window_s) * arriving_bps > _MOST_UNPACED_PACKETS * frame:
        interval_s = len(senders) * frame_s / 2         # twice what the link carries
    # the last frame is on its way there, on the link, and behind it
    drain_s = (fill_s if fills else fill_s + window_s) + reach_s + 2 * frame_s + rtt_s \
        + _behind_s(link, network, fill_s + window_s) + _copies_s(link, network, fill_s + window_s)
    at_once = AT_ONCE if not interval_s or interval_s < _LEAST_INTERVAL_S and not shallow else 1
    if not interval_s:          # what is under way of a system call when they are to stop, and what their sockets hold
        drain_s += (AT_ONCE + _SOCKET_PACKETS) * sum(frame / sender.slowest_bps for sender in senders)
    return Plan(senders, arriving_bps > link.rate_bps, fills, interval_s, at_once, fill_s, window_s, drain_s)


def _behind_s(link: Link, network: Network, lasting_s: float) -> float:
    """How long slower links behind it may go on with what it has sent in that time."""
    links = {other.name: other for other in network.links}
    behind = {name for path in network.paths for hops in (path.hops, path.hops_back) if link.name in hops
              for name in hops[hops.index(link.name) + 1:]}
    slower = [links[name] for name in sorted(behind) if links[name].rate_bps < link.rate_bps]
    frame = frame_bits(network)
    return float(sum(min(_holds_packets(other, frame) * frame, lasting_s * link.rate_bps) / other.rate_bps
                     for other in slower))


def _copies_s(link: Link, network: Network, lasting_s: float) -> float:
    """How much longer wires that double packets, on its paths, may go on: copies take their time there, behind what
    the queue let go. What comes after the test meets closed sockets, whose hosts answer with errors that would share
    the next link."""
    links = {other.name: other for other in network.links}
    crossed = {name for path in network.paths for hops in (path.hops, path.hops_back) if link.name in hops
               for name in hops}
    longer_s = 0.0
    for name in sorted(crossed):
        if share := (links[name].duplicate_percent if name in links else 0) / 100:
            packets = lasting_s * links[name].rate_bps / frame_bits(network)
            # at random: more than six standard deviations above the mean have a chance of 1e-9
            longer_s += min(packets, packets * share + 6 * math.sqrt(packets * share * (1 - share)) + 1) \
                * frame_bits(network) / links[name].rate_bps
    return longer_s


def _senders(link: Link, network: Network) -> tuple[list[Sender], float, float]:
    """Who is needed to overload a link, how much of it arrives there, and the longest round trip of its paths.

    Paths that reach the link without crossing another bottleneck come first.
    """
    links = {other.name: other for other in network.links}
    air = network.cells
    wired = links
    if air:
        from topologies import standards
        from topologies.wireless import airways
        radios = {cell.name: Link({"name": cell.name, "rate_bps": int(standards.of(cell).most_bps()),
                                   "bottleneck": True}) for cell in air}
        links = {**links, **radios}
    ways = []
    for path in network.paths:
        there = path.hops, path.initiator, path.acceptor, path.acceptor_address
        back = path.hops_back, path.acceptor, path.initiator, path.initiator_address
        for hops, source, target, address in (there, back):
            if air:
                hops = airways.way(path, wired, back=source == path.acceptor)
            if link.name in hops:
                before = hops[:hops.index(link.name)]
                ways.append((sum(links[name].bottleneck for name in before), before, path.base_rtt_us,
                             (source, target, address)))
    left_bps = {name: float(other.rate_bps) for name, other in links.items()}
    senders: dict[str, Sender] = {}
    arriving_bps = 0.0
    for _, before, _, (source, target, address) in sorted(ways, key=operator.itemgetter(0)):
        if arriving_bps > _ENOUGH * link.rate_bps:       # the others would only cost time
            break
        share_bps = min((left_bps[name] for name in before), default=2.0 * link.rate_bps)
        if source in senders or share_bps <= 0:
            continue
        for name in before:
            left_bps[name] -= share_bps
        arriving_bps += share_bps
        slowest_bps = min(float(links[name].rate_bps) for name in [*before, link.name])
        reach_s = sum(links[name].delay_us / 1e6 + frame_bits(network) / links[name].rate_bps
                      for name in before)
        senders[source] = Sender(source, target, address, not before, slowest_bps, reach_s)
    return list(senders.values()), arriving_bps, max((rtt_us for _, _, rtt_us, _ in ways), default=0) / 1e6

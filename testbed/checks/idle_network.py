# SPDX-License-Identifier: GPL-2.0-only
"""Before the run: round-trip times, saturated rates, buffer sizes and offloads are as specified."""
import math
from collections.abc import Iterator, Mapping, Sequence

from testbed.checks import Evidence, Finding
from testbed.core import units
from testbed.core.guest_files import Checks, MeasuredBottleneck, MeasuredPath
from topologies import queues, standards
from topologies.links import end_hosts, varying
from topologies.links.records import Link, Network
from topologies.linux import tc
from topologies.wireless import airways

NEEDS = ("checks.json",)

#: relative error allowed, by clock; on a wall clock more than that is suspect at first
_TOLERANCE = {"virtual": 0.001, "simulated": 0.001, "real": 0.02}
_INVALID = {**_TOLERANCE, "real": 0.05}
#: what scheduling adds to a round trip on a wall clock, however short that is: (suspect, invalid)
_LATE_US = {"real": (500, 2000)}
#: round trips are noted in whole microseconds or better
_CLOCK_US = 1
#: jitter of less than this need not show in the shortest of three round trips
_JITTER_US = 20


def check(evidence: Evidence) -> Iterator[Finding]:
    measured = evidence.measured
    clock = evidence.clock
    offloads = measured.offloads if evidence.can("kernel") else {}
    network = evidence.network
    for what, found, wanted in (("paths", measured.paths, True),
                                # a network of radios only has no bottleneck that could be told before
                                ("bottlenecks", measured.bottlenecks, bool(network.links)),
                                ("offloads", measured.offloads, evidence.can("kernel"))):
        if not found and wanted:
            yield Finding("suspect", f"no {what} were measured before the run")
    yield from _round_trips(measured.paths, clock)
    links = {link.name: link for link in network.links}
    yield from _left_out(measured, network)
    for bottleneck in measured.bottlenecks:
        link = links[bottleneck.link]
        if not bottleneck.overloaded and _behind_others(link, links, network):
            yield Finding("ok", f"{link.name}: not measured, since no bottleneck before it is faster: no queue can "
                                "stand there for long")
        elif bottleneck.lost_events:
            yield Finding("suspect", f"{link.name}: {bottleneck.lost_events} events of its test were lost, its "
                                     "rate and buffer were not measured")
        else:
            yield from _saturated(bottleneck, link, clock, network.frame_bytes())
    yield from _offloads(offloads, network.links)


def _offloads(offloads: Mapping[str, Mapping[str, bool]], links: Sequence[Link]) -> Iterator[Finding]:
    """All off, but GRO where a host is to merge what it receives (topologies/linux/network.py), and TSO and GSO where
    nobody is to cut what a host sends."""
    merging = {(f"{link.to_node}/g{link.peer_device}", "gro") for link in links if link.gro}
    whole = {f"{node}/{device}" for link in links if link.uncut
             for node, device in ((link.from_node, link.device), (link.to_node, tc.wire_device(link.peer_device)))}
    wanted = merging | {(name, feature) for name in whole for feature in end_hosts.UNCUT_FEATURES}
    active = {(name, feature) for name, features in offloads.items() for feature, on in features.items() if on}
    for what, names in (("on", active - wanted), ("off", wanted - active if offloads else set())):
        if names:
            yield Finding("invalid", f"offloads are {what}: {', '.join(sorted(map(' '.join, names)))}")
    if offloads and active == wanted:
        plain = len(offloads) - len(merging) - len(whole)
        found = ((plain, f"TSO, GSO and GRO are off on all {plain} interfaces"),
                 (len(merging), f"GRO is on where {len(merging)} hosts merge packets"),
                 (len(whole), f"TSO and GSO are on at {len(whole)} interfaces, which cut no packets"))
        yield Finding("ok", ", ".join(text for number, text in found if number))


def _left_out(measured: Checks, network: Network) -> Iterator[Finding]:
    """What should have been measured and was not: bottlenecks, links without any echo, interfaces."""
    ways = {(path.initiator, path.acceptor): {*path.hops, *path.hops_back} for path in network.paths}
    echoed = set().union(*(ways.get((path.initiator, path.acceptor), ()) for path in measured.paths))
    links = network.links
    for what, wanted, seen in (
            ("rate and buffer of", {link.name for link in links if link.bottleneck},
             {one.link for one in measured.bottlenecks}),
            ("the round-trip time over", set().union(*ways.values()), echoed),
            ("offloads of", {f"{link.from_node}/{link.device}" for link in links}, set(measured.offloads))):
        if seen and wanted - seen:
            yield Finding("suspect", f"{what} {', '.join(sorted(wanted - seen))} not measured")


def _round_trips(paths: Sequence[MeasuredPath], clock: str) -> Iterator[Finding]:
    worst, wrong = 0.0, 0
    late_us = _LATE_US.get(clock, (0, 0))
    yield from _jitter(paths)
    for path in paths:
        if path.measured_rtt_us is None:
            wrong += 1
            yield Finding("invalid", f"idle RTT {path.initiator}-{path.acceptor}: no answer")
            continue
        usual_us = path.base_rtt_us + path.serialisation_us + path.hosts_us + path.air_us
        least_us = usual_us - path.early_us
        # late: jitter of wires again, and frames that the data link sends again
        # on the air, stations back off
        most_us = usual_us + path.jitter_us + path.late_us
        expected_us = min(max(path.measured_rtt_us, least_us), most_us)
        error_us = max(0.0, abs(path.measured_rtt_us - expected_us) - _CLOCK_US)
        worst = max(worst, error_us / expected_us)
        if error_us > max(_TOLERANCE[clock] * expected_us, late_us[0]):
            wrong += 1
            bad = error_us > max(_INVALID[clock] * expected_us, late_us[1])
            yield Finding("invalid" if bad else "suspect", f"idle RTT {path.initiator}-{path.acceptor}: "
                          f"{path.measured_rtt_us / 1000:.3f} ms instead of {expected_us / 1000:.3f} ms")
    if paths and not wrong:
        jitter_us = max(path.jitter_us for path in paths)
        yield Finding("ok", f"idle RTTs of {len(paths)} paths within {worst:.4%} of the specification "
                            "plus serialisation" + f" and up to {jitter_us} us of jitter" * bool(jitter_us))


def _jitter(paths: Sequence[MeasuredPath]) -> Iterator[Finding]:
    """Where there is to be jitter a round trip without any is rare; several of them, or the only one, are no chance."""
    jittery = [(path, path.measured_rtt_us) for path in paths
               if path.jitter_us > _JITTER_US and path.measured_rtt_us is not None]
    without = [(path, rtt_us) for path, rtt_us in jittery
               if rtt_us <= path.base_rtt_us + path.serialisation_us + path.hosts_us + _CLOCK_US]
    if without and (len(without) > 1 or len(jittery) == 1):
        path, rtt_us = without[0]
        yield Finding("invalid", f"idle RTT {path.initiator}-{path.acceptor}: {rtt_us / 1000:.3f} ms have no jitter, "
                                 f"up to {path.jitter_us} us wanted ({len(without)} of {len(jittery)} paths)")


def _behind_others(link: Link, links: Mapping[str, Link], network: Network) -> bool:
    """True if whatever reaches a link has crossed a bottleneck that is never faster: all ways to it do, and there is
    one bottleneck only to which they come from."""
    before: set[str] = set()
    cells = {cell.name: standards.of(cell).most_bps() for cell in network.cells}
    most_bps = {name: varying.most(other, "rate_bps") for name, other in links.items() if other.bottleneck} | cells
    for path in network.paths:
        for hops in (airways.way(path, links), airways.way(path, links, back=True)):
            if link.name in hops:
                slower = [name for name in hops[:hops.index(link.name)]
                          if most_bps.get(name, math.inf) <= varying.least(link, "rate_bps")]
                before.add(slower[-1] if slower else "")
    return len(before) == 1 and "" not in before


def _saturated(measured: MeasuredBottleneck, link: Link, clock: str, frame_bytes: int) -> Iterator[Finding]:
    name, tolerance = link.name, _TOLERANCE[clock]
    if not measured.overloaded:
        yield Finding("suspect",
                      f"{name}: the hosts behind it cannot overload it, its rate and buffer were not measured")
        return
    packets = measured.window_packets
    # each frame was timed from its beginning to that of the next (testbed/guest/departures.py); where frames within a
    # window were counted, one more or less is no error
    timed = measured.busy_us is not None
    shows = 0.0 if timed else 1 / max(packets, 1)
    error = measured.measured_bps / link.rate_bps - 1
    level = "invalid" if abs(error) > max(_INVALID[clock], shows) or not packets else \
        "ok" if abs(error) <= max(tolerance, shows) else "suspect"
    limits = f", which can show {shows:.1%}" if shows > tolerance else ""
    yield Finding(level, f"{name} saturated carries {_rate(measured.measured_bps)} at layer 2 "
                         f"({error:+.4%}, over {packets} packets{limits})")
    if not measured.filled:
        yield Finding("suspect", f"{name}: its buffer of {units.show_duration(link.capacity_us / 1e6)} "
                                 f"({link.capacity_packets} packets) is too large to be filled, "
                                 "its limit was not measured")
        return
    unit, longest = ("packets", measured.longest_queue_packets) if link.limit_packets is not None \
        else ("bytes", measured.longest_queue_bytes)
    yield _buffer(link, unit, longest, measured.dropped_packets, tolerance, timed, frame_bytes)


def _buffer(link: Link, unit: str, longest: int, dropped: int, tolerance: float, all_seen: bool,
            frame_bytes: int) -> Finding:
    """Whether an overloaded buffer holds what it should, then drops. all_seen: not only looked at now and then, when
    a packet may have left and the next not have come; frame_bytes: of the test's packets."""
    packet = 1 if unit == "packets" else frame_bytes
    limit = link.limit
    least = limit // packet * packet * (1 - tolerance) - packet * (not all_seen)
    # an AQM may drop before the buffer is full
    early = queues.traits(link).tail_drop and longest < least
    if longest > limit or dropped == 0 or early:
        return Finding("invalid", f"{link.name} overloaded: the queue reached {longest} {unit} with "
                                  f"{dropped} drops, its limit is {limit}")
    return Finding("ok", f"{link.name} overloaded: the queue holds {longest} of {limit} {unit}, then drops")


def _rate(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.3f} Mbit/s" if rate_bps >= 1e6 else f"{rate_bps / 1e3:.3f} kbit/s"

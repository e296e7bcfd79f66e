# SPDX-License-Identifier: GPL-2.0-only
"""What the drivers in simulation/ read: one line of words for each thing, key=value where there is a key."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from testbed.core.errors import RunFailed
from testbed.engines._simulators import idle
from testbed.engines._simulators.workload import Work, bursts_file
from testbed.runs.plan import Plan
from topologies import queues
from topologies.links.records import Link, Network
from traffic.greedy.scenario import SEGMENT_BYTES
from traffic.workload.records import Flow

#: sysctls of a node
Settings = Mapping[str, int | str]
#: of a flow record, what its congestion control is to the simulator: more words for its order
Chosen = Callable[[Flow], Mapping[str, object]]
#: of a switch's port
_NO_ADDRESS = "0.0.0.0"
_PROBES: dict[str, dict[str, int]] = {
    "queue": {"interval_us": 10_000, "edge_interval_us": 1_000_000}, "sojourn": {"interval_us": 10_000},
    "tcp_info": {"interval_us": 1_000_000}, "tcp_probe": {}}


def line(what: str, *words: str, **values: object) -> str:
    """One order. Nothing in it has a space: names and numbers were checked when the scenario was read."""
    found = [what, *words, *(f"{key}={value:d}" if isinstance(value, bool) else f"{key}={value}"
                             for key, value in values.items())]
    for word in found:
        if not word or word.split() != [word]:
            raise RunFailed(f"{word!r} cannot be said in an order for a simulator")
    return " ".join(found) + "\n"


def network(description: Network, sysctls: Mapping[str, Settings]) -> Iterator[str]:
    """Nodes, links, routes. sysctls: of each node, as in a kernel.

    A switch is a node that forwards to hosts of its network, one by one.
    """
    for node in description.nodes:
        settings = sysctls[node.name]
        yield line("node", node.name, host=node.role == "host", sack=settings["net.ipv4.tcp_sack"],
                   ecn=settings["net.ipv4.tcp_ecn"], rcvbuf=_receive_buffer(settings),
                   sndbuf=str(settings["net.ipv4.tcp_wmem"]).split()[-1],
                   initcwnd=10 if node.initcwnd is None else node.initcwnd,
                   restart_after_idle=settings["net.ipv4.tcp_slow_start_after_idle"])
    for link in description.links:
        yield line("link", link.name, **{key: getattr(link, key) for key in (
            "from", "to", "device", "rate_bps", "delay_us", "loss_percent", "bottleneck")},
            address=link.address or _NO_ADDRESS, **_queue(link))
        for number in link.lose_segments:
            yield line("lose", link.name, sequence=(number - 1) * SEGMENT_BYTES, copies=link.lose_copies)
    owners = {link.mac: link.address for link in description.links}
    for node in description.nodes:
        for to, via, device in node.routes:
            yield line("route", node.name, to=to, via=via, device=device)
        for mac, device in node.forwarding:
            yield line("route", node.name, to=f"{owners[mac]}/32", via=owners[mac], device=device)


def _receive_buffer(settings: Settings) -> str:
    """The largest there is, which autotuning may reach; without that, the one that a socket begins with."""
    _, usual, largest = str(settings["net.ipv4.tcp_rmem"]).split()
    return largest if int(settings.get("net.ipv4.tcp_moderate_rcvbuf", 1)) else usual


def _queue(link: Link) -> dict[str, object]:
    """A link's queue and its options, booleans as numbers."""
    options = queues.kind(link.queue).for_simulators(link.queue_options)
    return {"queue": link.queue, **{name: int(value) if isinstance(value, bool) else value
                                    for name, value in options.items()}}


def measurements(description: Network) -> Iterator[str]:
    """What is measured before traffic."""
    for number, echo in enumerate(idle.echoes(description)):
        yield line("echo", number=number, **{"from": echo.path.initiator}, to=echo.path.acceptor,
                   to_address=echo.path.acceptor_address, expected_us=round(echo.expected_us))
    for one in idle.overloads(description):
        senders = (word for sender in one.plan.senders for word in (sender.host, sender.target, sender.address))
        yield line("overload", one.link.name, *senders, interval_ns=one.interval_ns, fill_s=one.plan.fill_s,
                   window_s=one.plan.window_s, drain_s=one.plan.drain_s)


def traffic(work: Work, chosen: Chosen) -> Iterator[str]:
    """All flows of a run."""
    for source in work.sources:
        flow, (first, count) = source.flow, source.initiator.ports
        yield line("tmix", flow=flow.flow, plan=source.plan.name, offset=source.offset, **source.counts,
                   initiator=flow.sender, initiator_address=flow.src, acceptor=flow.receiver, acceptor_address=flow.dst,
                   port=flow.dport, first_port=first, ports=count, base_rtt_us=flow.base_rtt_us,
                   output=source.plan.stem, **chosen(flow))
    for bulk in work.bulk:
        yield line("bulk", flow=bulk.flow, sender=bulk.sender, receiver=bulk.receiver, src=bulk.src, dst=bulk.dst,
                   sport=bulk.sport or 0, dport=bulk.dport, start_us=bulk.start_us, stop_us=bulk.stop_us,
                   bytes=bulk.bytes or 0, segment_bytes=bulk.segment_bytes, window=bulk.window,
                   **{} if bulk.bursts_us is None else {"bursts": bursts_file(bulk)}, **chosen(bulk))
    for one in work.datagrams:
        flow = one.flow
        yield line("datagrams", flow=flow.flow, sender=flow.sender, receiver=flow.receiver, dst=flow.dst,
                   dport=flow.dport, start_us=flow.start_us, stop_us=flow.stop_us,
                   payload_bytes=one.order["payload_bytes"],
                   **dict[str, object](gap_ns=one.order["gap_ns"]) if one.equal else {"departures": one.departures})


def probes(plan: Plan) -> Iterator[str]:
    """What is sampled, and how often."""
    for name, usual in _PROBES.items():
        if name in plan.scenario.probes:
            given = plan.scenario.probes[name] or {}
            yield line(name, **{key: given.get(key, default) for key, default in usual.items()})

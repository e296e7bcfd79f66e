# SPDX-License-Identifier: GPL-2.0-only
"""Counters of every link, for the law that no packet appears or vanishes."""
import socket
from collections.abc import Mapping

from testbed.probes._netlink import INGRESS, ROOT, Qdisc
from topologies import queues
from topologies.links import wires
from topologies.links.records import Link
from topologies.linux import tc
from topologies.linux.network import Network, wire_device

#: of a link, and the nodes at its ends
Counts = dict[str, int | str]
#: 2:1, where the netem that delays is, if that is apart
_BELOW_ROOT = 0x20001


class WhenMeasuringBegins:
    """A sampler that reads all counters once: at measure_from_us, or at the end of a run that ends before."""

    def __init__(self, network: Network, measure_from_us: int, duration_us: int) -> None:
        # called at 0 and at every multiple of the interval
        self.interval_us = measure_from_us or duration_us
        self._network, self._measure_from_us = network, measure_from_us
        self.links: dict[str, Counts] = {}

    def sample(self, t_us: int) -> None:
        """Read if it is due."""
        if t_us >= self._measure_from_us and not self.links:
            self.links = read_all(self._network)


def read_all(network: Network) -> dict[str, Counts]:
    """{link name: counters} now.

    entered = sent + dropped + queued is what reached the link's queue;
    wire_* is the delay line behind it, delivered packets go on to the next node. What is lost where the wire begins
    (lose_segments, every so many-th, a policer's) is chosen_dropped, a part of wire_dropped.
    """
    sending, receiving, chosen, early, marked, devices = {}, {}, {}, {}, {}, {}
    for name in network.node_names():
        with network.in_namespace(name):
            devices[name] = _device_counters()
            for out, back in network.ends_at(name):
                sending[out.name] = _qdisc(devices[name][out.device]["ifindex"])
                marked[out.name] = _marks(out, devices[name][out.device]["ifindex"])
                receiving[back.name] = _qdisc(devices[name][wire_device(out.device)]["ifindex"])
                # drops where the wire begins; not asked elsewhere, since system calls are dear here
                chosen[back.name] = _qdisc(devices[name][out.device]["ifindex"], INGRESS)[2] \
                    if wires.drops_at_ingress(back) else 0
                early[back.name] = _early(devices[name][wire_device(out.device)]["ifindex"]) \
                    if back.reorder else 0
    counters: dict[str, Counts] = {}
    for link in network.description.links:
        name = link.name
        queue, wire = sending[name], receiving[name]
        counters[name] = {
            "from": link.from_node, "to": link.to_node,
            "sent_packets": queue[1], "sent_bytes": queue[0], "dropped_packets": queue[2], "queued_packets": queue[4],
            "ce_marked_packets": marked[name],
            "device_tx_packets": devices[link.from_node][link.device]["tx_packets"],
            "device_rx_packets": devices[link.to_node][link.peer_device]["rx_packets"],
            "wire_delivered_packets": wire[1], "wire_dropped_packets": wire[2] + chosen[name],
            "chosen_dropped_packets": chosen[name], "wire_queued_packets": wire[4],
            "wire_delivered_bytes": wire[0], "wire_early_packets": early[name],
        }
    return counters


def difference(after: Mapping[str, Counts], before: Mapping[str, Counts]) -> dict[str, Counts]:
    """What was counted between two readings (queue lengths stay as they are at the end)."""
    return {link: {key: _since(key, value, before[link][key]) for key, value in counts.items()}
            for link, counts in after.items()}


def _since(key: str, now: int | str, then: int | str) -> int | str:
    return now - then if isinstance(now, int) and isinstance(then, int) and "queued" not in key else now


def _qdisc(ifindex: int, parent: int = ROOT) -> tuple[int, int, int, int, int]:
    qdisc = Qdisc(ifindex, parent)
    try:
        sent_bytes, sent_packets, drops, backlog_bytes, backlog_packets = qdisc.read()
    finally:
        qdisc.close()
    return sent_bytes, sent_packets, drops, backlog_bytes, backlog_packets


def _marks(link: Link, ifindex: int) -> int:
    """Packets that the queue has marked with CE, if it can."""
    if not queues.traits(link).marks:
        return 0
    qdisc = Qdisc(ifindex, tc.queue_parent(link))
    try:
        return qdisc.marks(link.queue)
    finally:
        qdisc.close()


def _early(ifindex: int) -> int:
    """Packets that the netem below the root has let go before others (topologies/linux/tc.py)."""
    qdisc = Qdisc(ifindex, _BELOW_ROOT)
    try:
        return qdisc.requeues()
    finally:
        qdisc.close()


def _device_counters() -> dict[str, dict[str, int]]:
    """/proc/net/dev of the current namespace, with interface numbers."""
    index = {name: number for number, name in socket.if_nameindex()}
    counters = {}
    with open("/proc/thread-self/net/dev", encoding="utf-8") as f:
        for line in f:
            name, separator, rest = line.partition(":")
            if separator:
                values = rest.split()
                name = name.strip()
                counters[name] = {"ifindex": index[name], "rx_packets": int(values[1]), "tx_packets": int(values[9])}
    return counters

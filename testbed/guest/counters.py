# SPDX-License-Identifier: GPL-2.0-only
"""Counters of every link, for the law that no packet appears or vanishes."""
from testbed.probes._netlink import INGRESS, ROOT, Qdisc


def read_all(network):
    """{link name: counters} now.

    entered = sent + dropped + queued is what reached the link's queue;
    wire_* is the delay line behind it, delivered packets go on to the next node. Chosen losses
    (lose_segments) are a part of wire_dropped.
    """
    sending, receiving, chosen, devices = {}, {}, {}, {}
    for name in network.topo.hosts():
        with network.in_namespace(name):
            devices[name] = _device_counters()
            for port, peer in network.topo.ports_of(name):
                sending[port.egress.name] = _qdisc(devices[name][port.device]["ifindex"])
                receiving[peer.egress.name] = _qdisc(devices[name][port.wire_device]["ifindex"])
                # drops where the wire begins; not asked elsewhere, since system calls are dear here
                chosen[peer.egress.name] = _qdisc(devices[name][port.device]["ifindex"], INGRESS)[2] \
                    if peer.egress.lose_segments else 0
    counters = {}
    for pair in network.topo.port_pairs:
        for port, peer in (pair, pair[::-1]):
            queue, wire = sending[port.egress.name], receiving[port.egress.name]
            counters[port.egress.name] = {
                "from": port.node, "to": peer.node,
                "sent_packets": queue[1], "sent_bytes": queue[0], "dropped_packets": queue[2], "queued_packets": queue[4],
                "device_tx_packets": devices[port.node][port.device]["tx_packets"],
                "device_rx_packets": devices[peer.node][peer.device]["rx_packets"],
                "wire_delivered_packets": wire[1], "wire_dropped_packets": wire[2] + chosen[port.egress.name],
                "chosen_dropped_packets": chosen[port.egress.name], "wire_queued_packets": wire[4],
            }
    return counters


def difference(after, before):
    """What was counted between two readings (queue lengths stay as they are at the end)."""
    return {link: {key: value - before[link][key] if isinstance(value, int) and "queued" not in key else value
                   for key, value in counts.items()}
            for link, counts in after.items()}


def _qdisc(ifindex, parent=ROOT):
    qdisc = Qdisc(ifindex, parent)
    try:
        return qdisc.read()
    finally:
        qdisc.close()


def _device_counters():
    """/proc/net/dev of the current namespace, with interface numbers."""
    import socket
    index = {name: number for number, name in socket.if_nameindex()}
    counters = {}
    with open("/proc/thread-self/net/dev") as f:
        for line in f:
            name, separator, rest = line.partition(":")
            if separator:
                values = rest.split()
                name = name.strip()
                counters[name] = {"ifindex": index[name], "rx_packets": int(values[1]), "tx_packets": int(values[9])}
    return counters

# SPDX-License-Identifier: GPL-2.0-only
"""The emulated link as tc is told: rate, buffer, delay and loss, each in its own place.

One direction of a link from A to B is

    A's egress                                                B's ingress
    [cutter or gate >] htb (rate) > buffer or AQM      -->    ifb: netem (serialisation, loss, delay) [> netem (delay)]

* A's egress holds the *queue*. htb takes a frame out of the buffer or AQM below it the moment its transmission starts:
  when the one before has been sent. So one frame is in transmission, whatever its size, and every other byte is in
  the queue, its limit, its AQM and its counters. A shaper that lets packets go as long as there is something in a
  bucket (tbf) would hide a bucket full of small packets from all of them.
* B's ingress is the *wire*: packets are redirected to an IFB device whose netem serialises them at the link's rate and
  delays them: netem's `rate` is the transmission time that htb waits for before it takes the next one.
  Chosen segments (topologies/links/losses.py) are lost where the wire begins.
* What the hosts at its ends do to packets (topologies/links/end_hosts.py) is there, too: jitter of the sender
  is jitter of the delay, which netem keeps in order as long as it has a rate; the receiver's interrupts
  and CPU are netems of their own below the first, which packets enter when they have arrived.
* What TCP hands over as one packet of many segments is cut into frames before it reaches the queue, by a tbf that is
  faster than any link (the cutter).

A link with a `schedule` (topologies/links/varying.py) can be changed while packets are in it:

* htb keeps its debt when its rate changes: the frame that is being sent goes on at the old rate, the next one
  has the new.
* The gate is there if the link has outages. It is shut by a least size of a packet (mpu) that its bucket never
  holds, and prio is there to wake the queue when it opens (topologies/linux/tc_messages.py). It is the cutter, too.
* A netem of its own delays, so that it can be told another delay; its rate without limit keeps the order.

Were netem placed below the shaper on A (as Mininet's TCLink does), packets in
flight would count as queued, AQMs would average over the delay line, and on an end
host netem would orphan the packets and switch off TCP small queues.

A link is here what raw/network.json lists: it was checked when the scenario was read.
"""
import math

from testbed.core import ip
from topologies import queues
from topologies.links import losses, varying, wires
from topologies.links.records import Link
from topologies.linux.rtnetlink import TICK_NS
from topologies.queues import Wanted

#: {handle of a qdisc or class, such as "10:" or "3:1": (kind, parameters)}
Facts = dict[str, tuple[str, Wanted]]

# Beside a frame: tc rounds a bucket down to its clock ticks, and cuts or drops what is larger than it.
_MORE_BURST_BYTES = 86
# A tbf sits above the queue; its own byte limit must never be the one that drops.
_NO_LIMIT_BYTES = 2**31 - 1
#: what a host has received and not yet looked at; the kernel's own usual limit (net.core.netdev_max_backlog)
_BACKLOG_PACKETS = 1000
_CELL_BYTES = 65535
#: netem keeps packets in order if it has a rate; at this one (bit/s) sending them takes 0 ns
ENDLESS_BPS = 8 * 10**15
#: of a gate that is open: no link is faster
GATE_BPS = 10**12
_MOST_32_BITS = 2**32 - 1
#: the type of the frames that wake a queue behind a gate; IEEE's for local experiments
WAKE_TYPE = 0x88B5


def wire_limit_packets(link: Link) -> int:
    """Packets the delay line may hold: well above its bandwidth-delay product of small packets."""
    longest_us = varying.most(link, "delay_us") + link.jitter_us + wires.late_us(link) + 10_000
    return min(2**31 - 1, max(1000, int(4 * varying.most(link, "rate_bps") * longest_us / 1e6 / 8 / 64)))


def wire_device(device: str) -> str:
    """Name of the IFB that carries what arrives at a device."""
    return "w" + device


def gated(link: Link) -> bool:
    """True if there are times at which the link carries nothing."""
    return varying.varies(link, "up") or link.opportunities is not None


def cuts(link: Link) -> bool:
    """True if packets of many segments reach the link, which have to be cut before they are queued."""
    return link.gso


def queue_parent(link: Link) -> int:
    """The class that has the queue: of htb, or of the gate of a trace."""
    return 0x20001 if link.opportunities else 0x30001


def queue_words(link: Link) -> list[str]:
    """The queue as tc spells it."""
    return [link.queue, *queues.kind(link.queue).tc_words(link.queue_options)]


def _queue_lines(link: Link, parent: str) -> list[str]:
    """tc batch lines for the queue; none where only netlink can make it (topologies/linux/tc_messages.py)."""
    if not queues.kind(link.queue).KNOWN_TO_TC:
        return []
    return [f"qdisc add dev {link.device} parent {parent} handle 10: {' '.join(queue_words(link))}"]


def anew(link: Link) -> list[str]:
    """tc batch lines that take a queue away and make it again, in place of one that has seen packets. What only netlink
    can make is still to come."""
    major, minor = divmod(queue_parent(link), 1 << 16)
    return [f"qdisc del dev {link.device} parent {major}:{minor}", *_queue_lines(link, f"{major}:{minor}")]


def egress(link: Link, timer_period_us: int) -> list[str]:
    """tc batch lines for the sending side."""
    device, rate = link.device, f"{link.rate_bps}bit"
    if link.opportunities:
        return [*_waking(device), _gate(device, "parent 1:1", link.rate_bps, _frame_burst_bytes(link)),
                *_queue_lines(link, "2:1")]
    lines, parent = [], "root"
    if gated(link):
        lines, parent = [*_waking(device), _gate(device, "parent 1:1", GATE_BPS, gate_burst_bytes(link))], "parent 2:1"
    elif cuts(link):
        lines, parent = [_gate(device, "root", GATE_BPS, gate_burst_bytes(link))], "parent 2:1"
    credit = credit_bytes(link.rate_bps, timer_period_us)
    return [*lines, f"qdisc add dev {device} {parent} handle 3: htb default 1",
            f"class add dev {device} parent 3: classid 3:1 htb rate {rate} ceil {rate} burst {credit} "
            f"cburst {credit} quantum 1514",
            *_queue_lines(link, "3:1")]


def credit_bytes(rate_bps: int, timer_period_us: int) -> int:
    """By so much may the next frame start earlier, where timers are late. tc knows no less than a byte: none at all is
    said by netlink (topologies/linux/tc_messages.py)."""
    return max(1, timer_period_us * rate_bps // (8 * 10**6))


def gate_burst_bytes(link: Link) -> int:
    """What the gate lets through at once when it is open: a frame, if it is to cut what is larger."""
    return _frame_burst_bytes(link) if cuts(link) else _CELL_BYTES


def _frame_burst_bytes(link: Link) -> int:
    return link.mtu_bytes + ip.ETHERNET_BYTES + _MORE_BURST_BYTES


def _gate(device: str, parent: str, rate_bps: int, burst_bytes: int) -> str:
    return f"qdisc add dev {device} {parent} handle 2: tbf rate {rate_bps}bit burst {burst_bytes} " \
           f"limit {_NO_LIMIT_BYTES}"


def shaping(link: Link, timer_period_us: int, ended_us: int | None = None) -> Facts:
    """What the kernel must say of what `egress` puts above the queue (topologies/linux/read_back.py has the names).

    ended_us: None before the traffic, else its end: schedules have been followed, and gates opened.
    """
    gate: Wanted = {"rate": GATE_BPS // 8, "least_packet": 0,
                    "bucket_ticks": _bucket_ticks(gate_burst_bytes(link), GATE_BPS)}
    above: Facts = {"1:": ("prio", {"bands": 2})} if gated(link) else {}
    if link.opportunities:
        begins: Wanted = {"rate": link.rate_bps // 8, "least_packet": 0,
                          "bucket_ticks": _bucket_ticks(_frame_burst_bytes(link), link.rate_bps)}
        return {**above, "2:": ("tbf", begins if ended_us is None else gate)}
    if above or cuts(link):
        above["2:"] = "tbf", gate if above else {**gate, "limit": _NO_LIMIT_BYTES}
    rate_bps, credit = varying.state_at(link, ended_us).rate_bps, (0, 0)
    if timer_period_us:
        least, most = _bucket_ticks(credit_bytes(rate_bps, timer_period_us), rate_bps)
        credit = least, max(most, timer_period_us * 1000 // TICK_NS)
    return {**above, "3:": ("htb", {"default": 1}), "3:1": ("htb class", {
        "rate": rate_bps // 8, "ceil": rate_bps // 8, "bucket_ticks": credit, "ceil_bucket_ticks": credit,
        "quantum": 1514})}


def _bucket_ticks(size_bytes: int, rate_bps: int) -> tuple[int, int]:
    """The time that a bucket stands for, in the kernel's ticks: tc may round it to a whole microsecond, and the kernel
    to a tick; its arithmetic of lengths and times (psched_ratecfg_precompute) has 15 bits or more."""
    exact = size_bytes * 8 * 10**9 / rate_bps / TICK_NS
    slack = exact / 2**15 + 1000 / TICK_NS + 1
    return max(0, min(_MOST_32_BITS, int(exact - slack))), min(_MOST_32_BITS, math.ceil(exact + slack))


def _waking(device: str) -> list[str]:
    """A root that looks at its queue again whenever a frame of WAKE_TYPE is handed to it, and keeps nothing of that."""
    return [f"qdisc add dev {device} root handle 1: prio bands 2 priomap{' 0' * 16}",
            f"filter add dev {device} parent 1: protocol {WAKE_TYPE:#x} matchall action gact trap"]


def ingress(link: Link, wire_device: str, ip_version: int = 4) -> list[str]:
    """tc batch lines for the receiving side, where `wire_device` is an IFB."""
    device = link.peer_device
    delays = delays_apart(link)
    netem = (f"qdisc add dev {wire_device} root handle 2: netem limit {wire_limit_packets(link)} "
             f"delay {_uniform(*wire_delay_us(link))} rate {wire_bps(link, link.rate_bps)}bit{_loss(link)}")
    if link.duplicate_percent:
        netem += f" duplicate {link.duplicate_percent:.15g}%"
    return [
        f"qdisc add dev {device} handle ffff: ingress",
        *losses.filters(device, link.lose_segments, link.lose_copies, ip_version, link.mtu_bytes),
        f"filter add dev {device} parent ffff: protocol all matchall {_at_the_beginning(link)}"
        f"action mirred egress redirect dev {wire_device}",
        netem,
        *([f"qdisc add dev {wire_device} parent 2:1 handle 3: netem limit {wire_limit_packets(link)} "
           f"{_delay_apart(link)}"] if delays else []),
        *_arrival(link, wire_device, 3 if delays else 2),
    ]


def wire_bps(link: Link, rate_bps: int) -> int:
    """At which the wire sends, where the link has a rate; a shaper's wire is faster than any packet."""
    return ENDLESS_BPS if link.shaper else rate_bps


def delays_apart(link: Link) -> bool:
    """True if what delays packets is not what serialises them."""
    return varying.varies(link, "delay_us") or bool(link.jitter or link.reorder or link.retransmission)


def wire_delay_us(link: Link) -> tuple[float, float]:
    """(least, by how much more it may be) of the delay that is not apart."""
    delay_us = 0 if delays_apart(link) else link.delay_us
    if link.reorder:
        delay_us = link.delay_us - link.reorder.early_us
    return delay_us, link.jitter_us


def _delay_apart(link: Link) -> str:
    """The netem behind the one that serialises; with a rate, however large, it keeps packets in order."""
    in_order, delay_us = f" rate {ENDLESS_BPS}bit", link.delay_us
    if link.reorder:
        # a packet that is reordered does not wait here
        return f"delay {link.reorder.early_us}us reorder {link.reorder.share_percent:.15g}%"
    if link.jitter:
        in_order *= not link.jitter.reordering
        return f"delay {_uniform(delay_us, link.jitter.spread_us)}{in_order}"
    if link.retransmission:
        # the table of the delays comes by netlink (topologies/linux/tc_messages.py)
        return f"delay {delay_us}us{in_order} loss {100 * wires.lost_share(link.changed(loss_percent=0)):.15g}%"
    return f"delay {delay_us}us{in_order}"


def _uniform(least_us: float, spread_us: float) -> str:
    """netem draws uniformly from the mean less the jitter it is told to the mean plus that."""
    return f"{least_us + spread_us / 2:.1f}us {spread_us / 2:.1f}us" if spread_us else f"{least_us}us"


def _loss(link: Link) -> str:
    if (model := wires.gilbert_elliott(link)) is not None:
        shares = model.to_bad_percent, model.to_good_percent, model.bad_loss_percent, model.good_loss_percent
        return " loss gemodel " + " ".join(f"{share:.15g}%" for share in shares)
    return f" loss {link.loss_percent:.15g}%" if link.loss_percent else ""


def _at_the_beginning(link: Link) -> str:
    """Actions on every packet that reaches the wire, before it is handed to it."""
    if link.policer:
        # packets have no Ethernet header here, which links count
        return (f"action police rate {link.policer.rate_bps}bit burst {link.policer.burst_bytes} "
                f"mtu {max(2047, link.mtu_bytes + ip.ETHERNET_BYTES)} "
                "overhead 14 conform-exceed drop/pipe ")
    model = wires.periodic(link)
    return f"action gact pipe random determ drop {model.every} " if model is not None else ""


def _arrival(link: Link, wire_device: str, above: int) -> list[str]:
    """What a packet goes through in the host that receives it: its share of the CPU, and the wait for the others of
    its interrupt. That wait comes last, since what arrives together is what can be merged (GRO).

    above: the number of the netem above them."""
    stages = []
    if link.packet_cost_us:
        # netem's `rate` is for bytes: every frame is one cell of a size that takes this time, whatever its length
        stages.append(f"rate {_CELL_BYTES * 10**6 // link.packet_cost_us}bps 0 {_CELL_BYTES}")
    if link.coalescing_us:
        # a slot begins with the first packet that waits, and at its end all go on at once
        stages.append(f"slot {link.coalescing_us}us {link.coalescing_us}us")
    return [f"qdisc add dev {wire_device} parent {number}:1 handle {number + 1}: netem limit {_BACKLOG_PACKETS} {stage}"
            for number, stage in enumerate(stages, start=above)]

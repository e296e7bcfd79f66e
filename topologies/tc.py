# SPDX-License-Identifier: GPL-2.0-only
"""The emulated link as tc is told: rate, buffer, delay and loss, each in its own place.

One direction of a link from A to B is

    A's egress                          B's ingress
    tbf (rate) > buffer or AQM   -->    ifb: netem (serialisation, delay, loss)

* A's egress holds the *queue*: a token bucket at the link's rate, and below it the
  buffer (pfifo/bfifo) or the AQM. Nothing but waiting packets is counted there.
* B's ingress is the *wire*: packets are redirected to an IFB device whose netem
  serialises them at the link's rate and delays them. A token bucket lets a packet
  go the moment there are tokens, that is when its transmission would *start*;
  netem's `rate` adds the transmission time of each packet on an idle link.
  Chosen segments (topologies/losses.py) are lost where the wire begins.
* What the hosts at its ends do to packets (topologies/end_hosts.py) is there, too: jitter of the sender
  is jitter of the delay, which netem keeps in order as long as it has a rate; the receiver's interrupts
  and CPU are netems of their own below the first, which packets enter when they have arrived.

Were netem placed below the bucket on A (as Mininet's TCLink does), packets in
flight would count as queued, AQMs would average over the delay line, and on an end
host netem would orphan the packets and switch off TCP small queues.

A link is here what raw/network.json lists: it was checked when the scenario was read.
"""
from typing import Any

from topologies import losses

# A frame's worth of tokens and a little more: tc rounds the bucket down to its clock
# ticks, and a frame larger than the bucket would be dropped.
_MIN_BURST_BYTES = 1514 + 86
# The token bucket sits above the queue; its own byte limit must never be the one that drops.
_NO_LIMIT_BYTES = 2**31 - 1
#: what a host has received and not yet looked at; the kernel's own usual limit (net.core.netdev_max_backlog)
_BACKLOG_PACKETS = 1000
_CELL_BYTES = 65535
#: options without a value, and how tc spells that one is off (nothing: it is off by itself)
_FLAGS = {"ecn": "noecn", "harddrop": "", "adaptive": ""}


def burst_bytes(link: dict[str, Any], timer_period_us: int) -> int:
    """Bucket depth: one frame in virtual time; what one timer period lets through in real time.

    Above 1 Gbit/s, the tokens of the two microseconds that a timer may be late in virtual time, too, where
    the kernel's own looks at the clock take time.
    """
    fast = 1514 + int(link["rate_bps"] * 2 / 8e6) if link["rate_bps"] > 10**9 else 0
    return max(_MIN_BURST_BYTES, fast, int(link["rate_bps"] * timer_period_us / 8e6))


def wire_limit_packets(link: dict[str, Any]) -> int:
    """Packets the delay line may hold: well above its bandwidth-delay product of small packets."""
    longest_us = link["delay_us"] + link["jitter_us"] + 10_000
    return min(2**31 - 1, max(1000, int(4 * link["rate_bps"] * longest_us / 1e6 / 8 / 64)))


def queue_words(link: dict[str, Any]) -> list[str]:
    """The queue as tc spells it."""
    words = [link["queue"]]
    for name, value in link["queue_options"].items():
        if name in _FLAGS:
            off = _FLAGS[name] if link["queue"] != "red" else ""
            words += [name] if value else [off] if off else []
        elif name in ("target", "interval", "tupdate"):
            words += [name, f"{value}us"]
        elif name == "bandwidth":
            words += [name, f"{value}bit"]
        else:
            words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def egress(link: dict[str, Any], timer_period_us: int) -> list[str]:
    """tc batch lines for the sending side."""
    return [
        f"qdisc add dev {link['device']} root handle 1: tbf rate {link['rate_bps']}bit "
        f"burst {burst_bytes(link, timer_period_us)} limit {_NO_LIMIT_BYTES}",
        f"qdisc add dev {link['device']} parent 1:1 handle 10: {' '.join(queue_words(link))}",
    ]


def ingress(link: dict[str, Any], wire_device: str) -> list[str]:
    """tc batch lines for the receiving side, where `wire_device` is an IFB."""
    device = link["peer_device"]
    netem = (f"qdisc add dev {wire_device} root handle 2: netem limit {wire_limit_packets(link)} "
             f"delay {_delay(link)} rate {link['rate_bps']}bit")
    if link["loss_percent"]:
        netem += f" loss {link['loss_percent']:g}%"
    return [
        f"qdisc add dev {device} handle ffff: ingress",
        *losses.filters(device, link["lose_segments"], link["lose_copies"]),
        f"filter add dev {device} parent ffff: protocol all matchall "
        f"action mirred egress redirect dev {wire_device}",
        netem,
        *_arrival(link, wire_device),
    ]


def _delay(link: dict[str, Any]) -> str:
    """netem draws uniformly from the mean less the jitter it is told to the mean plus that."""
    if not link["jitter_us"]:
        return f"{link['delay_us']}us"
    half_us = link["jitter_us"] / 2
    return f"{link['delay_us'] + half_us:.1f}us {half_us:.1f}us"


def _arrival(link: dict[str, Any], wire_device: str) -> list[str]:
    """What a packet goes through in the host that receives it: its share of the CPU, and the wait for the others of
    its interrupt. That wait comes last, since what arrives together is what can be merged (GRO)."""
    stages = []
    if link["packet_cost_us"]:
        # netem's `rate` is for bytes: every frame is one cell of a size that takes this time, whatever its length
        stages.append(f"rate {_CELL_BYTES * 10**6 // link['packet_cost_us']}bps 0 {_CELL_BYTES}")
    if link["coalescing_us"]:
        # a slot begins with the first packet that waits, and at its end all go on at once
        stages.append(f"slot {link['coalescing_us']}us {link['coalescing_us']}us")
    return [f"qdisc add dev {wire_device} parent {number}:1 handle {number + 1}: netem limit {_BACKLOG_PACKETS} {stage}"
            for number, stage in enumerate(stages, start=2)]

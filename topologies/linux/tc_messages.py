# SPDX-License-Identifier: GPL-2.0-only
"""Messages of rtnetlink that change the qdiscs of a link while packets are in them, and make the one that tc does not
know (uapi/linux/pkt_sched.h).

tc would do, but starting a program takes a tenth of a second of wall time in a guest, and a link may change a
thousand times. Each function gives one message; several of them sent at once take effect at one instant.
Which qdisc has which handle is decided in topologies/linux/tc.py.
"""
import struct

from topologies import queues
from topologies.links import wires
from topologies.links.records import Link
from topologies.links.varying import State
from topologies.linux import tc
from topologies.linux.rtnetlink import HEADER, TICK_NS, attribute

_TCMSG = struct.Struct("=BxxxiIII")         # family, ifindex, handle, parent, info
_RTM_NEWQDISC, _RTM_NEWTCLASS = 36, 40
_REQUEST_AND_ACK, _CREATE = 0x1 | 0x4, 0x400 | 0x200         # NLM_F_CREATE, NLM_F_EXCL
_NESTED = 0x8000                                            # NLA_F_NESTED: newer parts of the kernel insist on it
_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS = 1, 2
RATESPEC = struct.Struct("=BBHhHI")        # cell_log, linklayer, overhead, cell_align, mpu, rate (bytes/s)
_ETHERNET = 1
_MOST_32_BITS = 2**32 - 1
#: a shut gate: a bucket of this size, of which every packet takes more than there is in it
_SHUT_BYTES_PER_S, _SHUT_BUCKET_BYTES, _SHUT_LEAST_BYTES = 1000, 1600, 65535


def shaper(ifindex: int, link: Link, timer_period_us: int) -> list[bytes]:
    """The shaper without credit, where timers are never late."""
    return [] if link.opportunities or timer_period_us else [rate(ifindex, link.rate_bps, 0)]


def queue(ifindex: int, link: Link) -> list[bytes]:
    """A queue that tc cannot make, or not as it is to be."""
    kind = queues.kind(link.queue)
    options = kind.netlink_options(link.queue_options)
    made = (_REQUEST_AND_ACK, 0) if kind.KNOWN_TO_TC else (_REQUEST_AND_ACK | _CREATE, _NESTED)
    return [_message(_RTM_NEWQDISC, ifindex, 0x100000, tc.queue_parent(link), link.queue, options, *made)
            ] if options else []


def rate(ifindex: int, rate_bps: int, timer_period_us: int) -> bytes:
    """A rate for the shaper (htb) of a link; timer_period_us: how late timers may be, which it makes good."""
    bytes_per_s, ticks = rate_bps // 8, min(_MOST_32_BITS, timer_period_us * 1000 // TICK_NS)
    return _message(_RTM_NEWTCLASS, ifindex, 0x30001, 0x30000, "htb", htb_class(bytes_per_s, ticks, 1514))


def htb_class(bytes_per_s: int, ticks: int, quantum_bytes: int) -> bytes:
    """Options of a class of htb: struct tc_htb_opt, and rates that do not fit into it."""
    spec = ratespec(bytes_per_s)
    options = attribute(1, spec + spec + struct.pack("=IIIII", ticks, ticks, quantum_bytes, 0, 0))
    if bytes_per_s > _MOST_32_BITS:
        options += attribute(6, struct.pack("=Q", bytes_per_s)) + attribute(7, struct.pack("=Q", bytes_per_s))
    return options


def gate(ifindex: int, link: Link, is_open: bool, limit_now: int | None = None) -> bytes:
    """Let everything through, or nothing. limit_now: of the queue, where that changes."""
    if is_open:
        bytes_per_s = tc.GATE_BPS // 8
        options = attribute(1, _tbf_options(link, bytes_per_s, 0, 0, limit_now)) \
            + attribute(4, struct.pack("=Q", bytes_per_s)) + attribute(6, struct.pack("=I", tc.gate_burst_bytes(link)))
    else:
        ticks = _SHUT_BUCKET_BYTES * 10**9 // _SHUT_BYTES_PER_S // TICK_NS
        options = attribute(1, _tbf_options(link, _SHUT_BYTES_PER_S, ticks, _SHUT_LEAST_BYTES, limit_now))
    return _message(_RTM_NEWQDISC, ifindex, 0x20000, 0x10001, "tbf", options)


def grant(ifindex: int, link: Link, size_bytes: int, limit_now: int | None = None) -> bytes:
    """Fill the bucket of a gate with so many bytes, which come to it but once."""
    options = attribute(1, _tbf_options(link, _SHUT_BYTES_PER_S, 0, 0, limit_now)) \
        + attribute(6, struct.pack("=I", size_bytes))
    return _message(_RTM_NEWQDISC, ifindex, 0x20000, 0x10001, "tbf", options)


def _tbf_options(link: Link, bytes_per_s: int, ticks: int, least_bytes: int, limit_now: int | None) -> bytes:
    """struct tc_tbf_qopt: rate, peak rate, limit, buffer, mtu. A FIFO right below a tbf gets its limit from it."""
    limit = limit_now or link.limit
    return ratespec(bytes_per_s, least_bytes) + bytes(RATESPEC.size) + struct.pack("=III", limit, ticks, 0)


def limit(ifindex: int, kind: str, value: int, parent: int = 0x30001) -> bytes:
    """Another limit for the queue."""
    place, number = queues.kind(kind).PLACES["limit"][0], struct.pack("=I", value)
    return _message(_RTM_NEWQDISC, ifindex, 0x100000, parent, kind,
                    attribute(place, number) if isinstance(place, int) else number)


def wire(ifindex: int, link: Link, state: State) -> bytes:
    """Another rate or loss for the wire, which delays as before."""
    least_us, spread_us = tc.wire_delay_us(link)
    return _message(_RTM_NEWQDISC, ifindex, 0x20000, _ROOT, "netem",
                    _netem(link, least_us + spread_us / 2, spread_us / 2, tc.wire_bps(link, state.rate_bps),
                           state.loss_percent, link.duplicate_percent) + _loss_model(link))


def delay(ifindex: int, link: Link, state: State) -> bytes:
    """Another delay, where that is apart."""
    return _message(_RTM_NEWQDISC, ifindex, 0x30000, 0x20001, "netem",
                    _netem(link, state.delay_us, 0, tc.ENDLESS_BPS, 0))


def setup(ifindex: int, link: Link) -> list[bytes]:
    """What tc cannot be told of a wire when it is made: the delays of a data link that sends again."""
    again = link.retransmission
    if not again:
        return []
    # netem: the mean + jitter x entry / 2**13, with entries of 16 bits
    options = _netem(link, link.delay_us, again.delay_us * 8192 / wires.TABLE_STEP, tc.ENDLESS_BPS,
                     100 * wires.lost_share(link.changed(loss_percent=0)))
    entries = [number * wires.TABLE_STEP for number, count in enumerate(wires.attempts(again)) for _ in range(count)]
    options += attribute(2, struct.pack(f"={len(entries)}h", *entries))
    return [_message(_RTM_NEWQDISC, ifindex, 0x30000, 0x20001, "netem", options)]


def _netem(link: Link, delay_us: float, jitter_us: float, rate_bps: int, loss_percent: float,
           duplicate_percent: float = 0) -> bytes:
    """struct tc_netem_qopt (latency, limit, loss, gap, duplicate, jitter) and attributes; reordering, where it is
    left out, stays."""
    bytes_per_s = rate_bps // 8
    options = struct.pack("=IIIIII", 0, tc.wire_limit_packets(link), share(loss_percent), 0, share(duplicate_percent),
                          0)
    options += attribute(10, struct.pack("=q", round(delay_us * 1000)))
    options += attribute(11, struct.pack("=q", round(jitter_us * 1000)))
    # struct tc_netem_rate: rate, overhead of a packet, size and overhead of a cell
    options += attribute(6, struct.pack("=IiIi", min(bytes_per_s, _MOST_32_BITS), 0, 0, 0))
    return options + (attribute(8, struct.pack("=Q", bytes_per_s)) if bytes_per_s > _MOST_32_BITS else b"")


def _loss_model(link: Link) -> bytes:
    """TCA_NETEM_LOSS with struct tc_netem_gemodel: netem forgets its model at a change that does not repeat it."""
    model = wires.gilbert_elliott(link)
    if model is None:
        return b""
    shares = model.to_bad_percent, model.to_good_percent, 100 - model.bad_loss_percent, model.good_loss_percent
    return attribute(5, attribute(2, struct.pack("=IIII", *map(share, shares))))


def share(percent: float) -> int:
    """A probability in the kernel's numbers."""
    return round(percent / 100 * _MOST_32_BITS)


def ratespec(bytes_per_s: int, least_bytes: int = 0) -> bytes:
    """struct tc_ratespec of Ethernet."""
    return RATESPEC.pack(0, _ETHERNET, 0, 0, least_bytes, min(bytes_per_s, _MOST_32_BITS))


def _message(what: int, ifindex: int, handle: int, parent: int, kind: str, options: bytes,
             flags: int = _REQUEST_AND_ACK, nested: int = 0) -> bytes:
    body = _TCMSG.pack(0, ifindex, handle, parent, 0) + attribute(_TCA_KIND, kind.encode() + b"\0") \
        + attribute(_TCA_OPTIONS | nested, options)
    return HEADER.pack(HEADER.size + len(body), what, flags, 0, 0) + body

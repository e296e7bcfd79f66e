# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel must say of the qdiscs and classes of a link, and what it says (uapi/linux/pkt_sched.h).

The numbers are the kernel's own: what it holds of a value of the scenario, to the bit where that is known, else the
interval that its unit, or tc's, leaves. The checks of the verdict use it.
"""
import struct

from topologies import queues
from topologies.links import varying, wires
from topologies.links.records import Link
from topologies.linux import tc
from topologies.linux.rtnetlink import TICK_NS, attributes
from topologies.linux.tc import Facts
from topologies.linux.tc_messages import share
from topologies.queues import Places, Wanted

#: of what is not a queue, where a parameter is. An attribute that is not there stands for 0
_PLACES: dict[str, Places] = {
    "tbf": {"rate": (1, 8, "I"), "rate64": (4, 0, "Q"), "least_packet": (1, 6, "H"), "limit": (1, 24, "I"),
            "bucket_ticks": (1, 28, "I")},
    "htb": {"default": ((2,), 8, "I")},
    "htb class": {"rate": (1, 8, "I"), "rate64": (6, 0, "Q"), "ceil": (1, 20, "I"), "ceil64": (7, 0, "Q"),
                  "bucket_ticks": (1, 24, "I"), "ceil_bucket_ticks": (1, 28, "I"), "quantum": (1, 32, "I")},
    "prio": {"bands": (None, 0, "I")},
    "netem": {"limit": (None, 4, "I"), "loss": (None, 8, "I"), "gap": (None, 12, "I"), "duplicate": (None, 16, "I"),
              "delay_ns": (10, 0, "q"), "jitter_ns": (11, 0, "q"), "reorder": (3, 0, "I"), "corrupt": (4, 0, "I"),
              "rate": (6, 0, "I"), "rate64": (8, 0, "Q"), "cell_bytes": (6, 8, "I"), "to_bad": ((5, 2), 0, "I"),
              "to_good": ((5, 2), 4, "I"), "bad_kept": ((5, 2), 8, "I"), "good_loss": ((5, 2), 12, "I"),
              "slot_least_ns": (12, 0, "q"), "slot_most_ns": (12, 8, "q")}}
#: what is in front of the attributes: struct tc_netem_qopt
_BEFORE_ATTRIBUTES = {"netem": 24}
_SHARES = ("probability", "loss", "duplicate", "reorder", "corrupt", "to_bad", "to_good", "bad_kept", "good_loss")
#: what a host that receives has: a frame is one cell, and waits in a queue of so many (topologies/linux/tc.py)
_CELL_BYTES, _BACKLOG_PACKETS = 65535, 1000


def places_of(kind: str) -> Places:
    """Where the parameters of a qdisc or class are in the kernel's options; none for a kind that is not known."""
    return queues.kind(kind).PLACES if kind in queues.names() else _PLACES.get(kind, {})


def dump_changes(kind: str) -> bool:
    """Whether the kernel changes the options that it shows by itself, such as by counters in them."""
    return queues.kind(kind).DUMP_CHANGES if kind in queues.names() else kind == "htb"


def decoded(kind: str, options: bytes) -> dict[str, int]:
    """Parameters out of the kernel's options of a qdisc ("tbf") or class ("htb class")."""
    places = places_of(kind)
    inner = attributes(options[_BEFORE_ATTRIBUTES.get(kind, 0):])
    found: dict[str, int] = {}
    for name, (number, at, form) in places.items():
        data = options
        if number is not None:
            first, *more = number if isinstance(number, tuple) else (number,)
            data = inner.get(first, b"")
            for one in more:
                data = attributes(data).get(one, b"")
        size = struct.calcsize(f"={form}")
        found[name] = struct.unpack_from(f"={form}", data, at)[0] if len(data) >= at + size else 0
    # rates that do not fit into 32 bits have an attribute of their own
    for name in [one for one in found if one.endswith("64")]:
        found[name[:-2]] = found.pop(name) or found[name[:-2]]
    return found


def differences(kind: str, options: bytes, wanted: Wanted) -> list[str]:
    """What is not as wanted, in words such as 'limit 10, not 5'."""
    found, wrong = decoded(kind, options), []
    for name, value in wanted.items():
        least, most = value if isinstance(value, tuple) else (value, value)
        if not least <= found[name] <= most:
            wrong.append(f"{name} {_show(name, found[name])}, not {_show(name, least)}"
                         + (f" to {_show(name, most)}" if most > least else ""))
    return wrong


def _show(name: str, value: int) -> str:
    return f"{value / 2**32:.10g}" if name in _SHARES else str(value)


# -- what must be --------------------------------------------------------------------------------

def sending(link: Link, timer_period_us: int, jiffy_us: int, ended_us: int | None = None) -> Facts:
    """Of the device that a link begins at. ended_us: None before the traffic, else its end; jiffy_us: a tick of the
    kernel's timer."""
    return {**tc.shaping(link, timer_period_us, ended_us), "10:": (link.queue, _queue(link, jiffy_us, ended_us))}


def arriving(link: Link, ended_us: int | None = None) -> Facts:
    """Of the device that carries what arrives."""
    facts: Facts = {"2:": ("netem", _serialising(link, ended_us))}
    if tc.delays_apart(link):
        facts["3:"] = "netem", _delaying(link, ended_us)
    if link.packet_cost_us:
        facts[f"{len(facts) + 2}:"] = "netem", {
            "rate": _CELL_BYTES * 10**6 // link.packet_cost_us, "cell_bytes": _CELL_BYTES,
            "limit": _BACKLOG_PACKETS}
    if link.coalescing_us:
        slot_ns = link.coalescing_us * 1000
        facts[f"{len(facts) + 2}:"] = "netem", {"slot_least_ns": slot_ns, "slot_most_ns": slot_ns, "rate": 0,
                                                "limit": _BACKLOG_PACKETS}
    return facts


def _queue(link: Link, jiffy_us: int, ended_us: int | None) -> Wanted:
    kind, options = link.queue, dict(link.queue_options)
    if ended_us is not None and varying.varies(link, "limit"):
        limit = varying.state_at(link, ended_us).limit
        options["limit"] = link.limit if limit is None else limit
    return queues.kind(kind).wanted(options, jiffy_us)


def _serialising(link: Link, ended_us: int | None) -> Wanted:
    state, model = varying.state_at(link, ended_us), wires.gilbert_elliott(link)
    least_us, spread_us = tc.wire_delay_us(link)
    wanted: Wanted = {"limit": tc.wire_limit_packets(link), "rate": tc.wire_bps(link, state.rate_bps) // 8, "gap": 0,
                      "reorder": 0, "corrupt": 0, "duplicate": _near(share(link.duplicate_percent)),
                      **_delays(least_us, spread_us)}
    if model is not None:
        return {**wanted, "to_bad": _near(share(model.to_bad_percent)),
                "to_good": _near(share(model.to_good_percent)),
                "bad_kept": _near(share(100 - model.bad_loss_percent)),
                "good_loss": _near(share(model.good_loss_percent))}
    return {**wanted, "loss": _near(share(state.loss_percent))}


def _delaying(link: Link, ended_us: int | None) -> Wanted:
    delay_us, in_order = varying.state_at(link, ended_us).delay_us, tc.ENDLESS_BPS // 8
    wanted: Wanted = {"limit": tc.wire_limit_packets(link), "duplicate": 0, "corrupt": 0, "reorder": 0, "gap": 0,
                      "loss": 0, "rate": in_order}
    if link.reorder:
        return {**wanted, **_delays(link.reorder.early_us, 0), "gap": 1, "rate": 0,
                "reorder": _near(share(link.reorder.share_percent))}
    if link.jitter:
        return {**wanted, **_delays(delay_us, link.jitter.spread_us),
                "rate": 0 if link.jitter.reordering else in_order}
    if link.retransmission:
        jitter_ns = link.retransmission.delay_us * 8192 * 1000 // wires.TABLE_STEP
        return {**wanted, **_delays(delay_us, 0), "jitter_ns": (jitter_ns - 1, jitter_ns + 1),
                "loss": _near(share(100 * wires.lost_share(link.changed(loss_percent=0))))}
    return {**wanted, **_delays(delay_us, 0)}


def _delays(least_us: float, spread_us: float) -> Wanted:
    """tc drops fractions of a microsecond (of the half of a spread), and then of a tick; netlink's messages do not."""
    middle_ns, half_ns = round((least_us + spread_us / 2) * 1000), round(spread_us / 2 * 1000)
    return {name: (ns - ns % 1000 - TICK_NS + 1, ns) if ns else 0
            for name, ns in (("delay_ns", middle_ns), ("jitter_ns", half_ns))}


def _near(number: int) -> tuple[int, int]:
    """A share in 32 bits, which tc may round the other way."""
    return max(0, number - 1), number + 1

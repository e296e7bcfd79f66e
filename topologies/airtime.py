# SPDX-License-Identifier: GPL-2.0-only
"""How long frames are on the air, and how long stations wait before them: from a cell of network.json.

The arithmetic of kernel-modules/air (dcf.c, csma.c) once more, in microseconds, for whoever wants to know what is to be
expected. Only plain values here: guest and checks use it.

IEEE 802.11-2016: tables 16-4 (802.11b, long preambles), 18-5 (802.11g, short slots) and clause 17.4.3; IEEE
802.15.4-2015: clauses 8 (constants and attributes of the MAC) and 10.1.
"""
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

Cell = Mapping[str, Any]

LOW_RATE = "802.15.4"

#: header of a data frame of an IBSS, LLC and SNAP, checksum; checksum and headers of an acknowledgement
_DATA_BYTES, _ACK_BYTES = 24 + 8 + 4, 14
#: 802.15.4: header of a data frame in one PAN with addresses of 64 bits, and checksum; an acknowledgement
_LOW_RATE_DATA_BYTES, _LOW_RATE_ACK_BYTES = 21 + 2, 5
#: RFC 6282: dispatch, ECN and the flow label that Linux chooses, next header and two addresses of which nothing is
#: known; then the hop limit, unless it is 64
_COMPRESSED_BYTES, _HOP_LIMIT_BYTES, _IPV6_BYTES = 2 + 3 + 1 + 16 + 16, 1, 40
#: 802.15.4 at 2.4 GHz: a symbol; a period of back-off, the most of a first back-off, the look at the channel, turning
#: round
_SYMBOL_US = 16
_PERIOD_US, _MOST_PERIODS, _LOOK_US, _TURN_US = 20 * _SYMBOL_US, 7, 8 * _SYMBOL_US, 12 * _SYMBOL_US


#: round trips that are tried at most, and how likely none of fewer may be without a repetition
_MOST_TRIPS, _DOUBT = 300, 1e-4
#: of full size that the queues of a radio of mac80211 have room for: 4 MiB (net/mac80211/tx.c), 2304 bytes each
_QUEUED_FRAMES = 1820


@dataclasses.dataclass(frozen=True)
class Access:
    """Constants of an 802.11 PHY, in us; slots: the most of a first back-off."""
    slot_us: int
    sifs_us: int
    difs_us: int
    slots: int


_ACCESS = {"802.11g": Access(9, 10, 28, 15), "802.11b": Access(20, 10, 50, 31)}


@dataclasses.dataclass(frozen=True)
class Way:
    """What a way over the air adds to the time of a packet on an idle channel: at least, and how much more at most."""
    least_us: float
    more_us: float


def access(cell: Cell) -> Access:
    """The constants of a cell of 802.11."""
    return _ACCESS[cell["standard"]]


def frame_us(cell: Cell, frame_bytes: int, rate_bps: int | None = None) -> float:
    """Airtime of a frame, checksum included; of 802.11g with its silence of 6 us behind it."""
    if cell["standard"] == LOW_RATE:
        return (6 + frame_bytes) * 2 * _SYMBOL_US
    rate = (rate_bps or cell["rate_bps"]) / 1e6
    if cell["standard"] == "802.11b":
        return 192 + math.ceil(frame_bytes * 8 / rate)
    return 26 + 4 * math.ceil((16 + 8 * frame_bytes + 6) / (4 * rate))


def data_bytes(cell: Cell, ip_bytes: int, forwarded: bool = False) -> int:
    """Size of the frame of an IP packet, checksum included; 802.15.4: if one frame is enough.

    forwarded: its hop limit is no longer 64.
    """
    if cell["standard"] == LOW_RATE:
        return ip_bytes - _IPV6_BYTES + _COMPRESSED_BYTES + _LOW_RATE_DATA_BYTES + _HOP_LIMIT_BYTES * forwarded
    return ip_bytes + _DATA_BYTES


def ack_us(cell: Cell) -> float:
    """Airtime of an acknowledgement: at the highest of 1, 2 (802.11b), 6, 12, 24 Mbit/s not above the frame's."""
    if cell["standard"] == LOW_RATE:
        return frame_us(cell, _LOW_RATE_ACK_BYTES)
    mandatory = (1, 2) if cell["standard"] == "802.11b" else (6, 12, 24)
    return frame_us(cell, _ACK_BYTES, max(rate for rate in mandatory if rate * 10**6 <= cell["rate_bps"]) * 10**6)


def saturated_bps(cell: Cell, ip_bytes: int) -> float:
    """Bits of IP packets per second of one station that always has one to send, alone on a channel of 802.11."""
    of = access(cell)
    each_us = of.difs_us + of.slots / 2 * of.slot_us + frame_us(cell, data_bytes(cell, ip_bytes)) + of.sifs_us + ack_us(
        cell)
    return ip_bytes * 8e6 / each_us


def most_bps(cell: Cell) -> float:
    """What a cell carries of large IP packets (802.15.4: of full frames), from one station that nobody disturbs.

    Less than the rate of its frames: that is what a link before or behind it is to be compared with.
    """
    if cell["standard"] != LOW_RATE:
        return saturated_bps(cell, 1500)
    # back-off, look, turn; frame; turn, acknowledgement; long space of 40 symbols
    each_us = _PERIOD_US * _MOST_PERIODS / 2 + _LOOK_US + _TURN_US + frame_us(cell, 127) + _TURN_US + ack_us(cell) \
        + 40 * _SYMBOL_US
    return 127 * 8e6 / each_us


def longest_queue_us(cell: Cell) -> int:
    """About how long it takes until all stations of a cell have sent what may wait at them; at most 100 s."""
    each_us = frame_us(cell, 127) + _PERIOD_US * _MOST_PERIODS if cell["standard"] == LOW_RATE \
        else 1500 * 8e6 / saturated_bps(cell, 1500)
    frames = cell["queue_packets"] or _QUEUED_FRAMES
    return min(100_000_000, int(2 * each_us * frames * len(cell["stations"])))


def round_trip(cells: Mapping[str, Cell], path: Mapping[str, Any], ip_bytes: int) -> Way:
    """What the air adds to the round trip of a packet and its answer, both so large, if nobody else sends."""
    least_us = more_us = 0.0
    for hop, (name, follows, forwarded) in enumerate(_hops(path)):
        least, more = _hop_us(cells[name], data_bytes(cells[name], ip_bytes, forwarded), first=not hop, follows=follows)
        least_us, more_us = least_us + least, more_us + more
    return Way(least_us, more_us)


def round_trips_for_a_clean_one(cells: Mapping[str, Cell], path: Mapping[str, Any]) -> int:
    """How many round trips there have to be until one of them, all but certainly, needed no repetition; at most 300."""
    clean = math.prod((1 - cells[name]["loss_percent"] / 100) ** 2 for name, _, _ in _hops(path))
    if clean == 1:
        return 1
    return min(_MOST_TRIPS, math.ceil(math.log(_DOUBT) / math.log1p(-clean))) if clean else _MOST_TRIPS


def way(path: Mapping[str, Any], links: Mapping[str, Mapping[str, Any]], back: bool = False) -> list[str]:
    """Names of links and cells on a path of network.json, in order; links: by name."""
    wires, hops = list(path["hops_back" if back else "hops"]), list(path.get("air_back" if back else "air", ()))
    if not hops:
        return wires
    at, found = path["acceptor" if back else "initiator"], []
    if not hops:
        return wires
    while wires or hops:
        if wires and links[wires[0]]["from"] == at:
            found.append(wires.pop(0))
            at = links[found[-1]]["to"]
        else:
            name, _, at = hops.pop(0)
            found.append(name)
    return found


def senders(network: Mapping[str, Any], flow: Mapping[str, Any]) -> set[str]:
    """Stations that send a flow's packets over the air, there; flow: a record with `sender` and `receiver`."""
    return {hop[1] for path in network["paths"] for ends, key in (
        (("initiator", "acceptor"), "air"), (("acceptor", "initiator"), "air_back"))
        if (path[ends[0]], path[ends[1]]) == (flow["sender"], flow["receiver"]) for hop in path.get(key, ())}


def _hops(path: Mapping[str, Any]) -> Iterator[tuple[str, bool, bool]]:
    """Of a round trip: (cell, right after another hop over the air, the packet has been forwarded)."""
    at = ""
    for hops, start in ((path["air"], path["initiator"]), (path["air_back"], path["acceptor"])):
        # who has a wire behind the radio answers later
        at = at if at == start else ""
        for cell, sender, receiver in hops:
            yield cell, sender == at, sender != start
            at = receiver


def _hop_us(cell: Cell, frame_bytes: int, first: bool, follows: bool) -> tuple[float, float]:
    """At least and how much more; what follows has to wait for the acknowledgement of what came."""
    airtime_us = frame_us(cell, frame_bytes)
    if cell["standard"] == LOW_RATE:
        answer_us = _TURN_US + ack_us(cell) if follows else 0.0
        return answer_us + _LOOK_US + _TURN_US + airtime_us, _PERIOD_US * _MOST_PERIODS - answer_us
    of = access(cell)
    wait_us = of.sifs_us + ack_us(cell) + of.difs_us
    if first:
        return airtime_us, 0.0
    return airtime_us + wait_us * follows, of.slots * of.slot_us + wait_us * (not follows)


def radio_device(station: Mapping[str, Any]) -> str:
    """The device whose queue and counters are those of a station's frames: below 6LoWPAN there is another one."""
    device: str = station["device"]
    return device.replace("-lowpan", "-wpan")

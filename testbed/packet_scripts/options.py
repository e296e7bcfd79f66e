# SPDX-License-Identifier: GPL-2.0-only
"""Options of TCP: as scripts write them, and as headers have them."""
from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Sequence

from testbed.packet_scripts.language import Option

END, NOP, MSS, WINDOW_SCALE, SACK_OK, SACK, TIMESTAMP, MD5, FAST_OPEN = 0, 1, 2, 3, 4, 5, 8, 19, 34
#: AccECN: the order of the three counters (RFC 9768, section 3.2.3)
ACC_ECN_0, ACC_ECN_1 = 172, 174
EXPERIMENTAL = 254
FAST_OPEN_MAGIC = b"\xf9\x89"
_LONE = (END, NOP)

Map = Callable[[int], int]


class BadOptions(ValueError):
    """Options of a header that no option begins or ends as they do."""


def encoded(options: Sequence[Option], sack: Map, echo: Map) -> bytes:
    """As a header has them; sack, echo: from numbers of the script to those of the connection."""
    parts = []
    for option in options:
        data = option.data
        if option.kind == TIMESTAMP:
            data = struct.pack("!II", option.numbers[0], echo(option.numbers[1]))
        elif option.kind == SACK:
            data = struct.pack(f"!{len(option.numbers)}I", *map(sack, option.numbers))
        parts.append(bytes([option.kind]) if option.kind in _LONE else bytes([option.kind, len(data) + 2]) + data)
    return b"".join(parts)


def decoded(header: bytes, sack: Map) -> tuple[Option, ...]:
    """What a header has; sack: from numbers of the connection to those of the script. BadOptions."""
    return tuple(_scripted(kind, data, sack) for kind, data in _split(header))


def _split(header: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(header):
        kind = header[place]
        if kind in _LONE:
            yield kind, b""
            place += 1
            continue
        length = header[place + 1] if place + 1 < len(header) else 0
        if not 2 <= length <= len(header) - place:
            raise BadOptions(f"option {kind} at byte {place} of the options has the length {length}")
        yield kind, header[place + 2:place + length]
        place += length


def _scripted(kind: int, data: bytes, sack: Map) -> Option:
    if kind == TIMESTAMP and len(data) == 8:
        return Option(kind, numbers=struct.unpack("!II", data))
    if kind == SACK and len(data) % 8 == 0:
        return Option(kind, numbers=tuple(map(sack, struct.unpack(f"!{len(data) // 4}I", data))))
    return Option(kind, data)


def without_value(option: Option) -> Option:
    """A timestamp of which only the echo is compared."""
    return dataclasses.replace(option, numbers=(0, option.numbers[1])) if option.kind == TIMESTAMP else option


def words(options: Sequence[Option] | None) -> str:
    """As a script writes them, `<...>`; nothing if there are none."""
    if options is None:
        return "<...>"
    return f"<{','.join(map(_word, options))}>" if options else ""


def _word(option: Option) -> str:
    kind, data, numbers = option.kind, option.data, option.numbers
    if kind == TIMESTAMP and numbers:
        return f"TS val {numbers[0]} ecr {numbers[1]}"
    if kind == SACK and numbers:
        return "sack " + " ".join(f"{a}:{b}" for a, b in zip(numbers[::2], numbers[1::2]))
    if kind == MSS and len(data) == 2:
        return f"mss {int.from_bytes(data, 'big')}"
    if kind == WINDOW_SCALE and len(data) == 1:
        return f"wscale {data[0]}"
    if kind in (ACC_ECN_0, ACC_ECN_1) and len(data) % 3 == 0:
        return " ".join(["ECN", *(f"{name} {int.from_bytes(data[3 * place:3 * place + 3], 'big')}"
                                  for place, name in zip(range(len(data) // 3), _counters(kind)))])
    if kind == EXPERIMENTAL and data[:2] == FAST_OPEN_MAGIC:
        return f"FOEXP {data[2:].hex()}".rstrip()
    name = {END: "eol", NOP: "nop", SACK_OK: "sackOK", FAST_OPEN: "FO", MD5: "md5"}.get(kind, f"kind-{kind}")
    return f"{name} {data.hex()}".rstrip()


def _counters(kind: int) -> tuple[str, str, str]:
    return ("e0b", "ceb", "e1b") if kind == ACC_ECN_0 else ("e1b", "ceb", "e0b")


def acc_ecn(counters: Sequence[tuple[str, int]]) -> Option:
    """The option with these counters in this order. ValueError if there is no such order."""
    names = tuple(name for name, _ in counters)
    for kind in (ACC_ECN_0, ACC_ECN_1):
        if names == _counters(kind)[:len(names)]:
            return Option(kind, b"".join(value.to_bytes(3, "big") for _, value in counters))
    raise ValueError("e0b, ceb, e1b or e1b, ceb, e0b in this order expected")

# SPDX-License-Identifier: GPL-2.0-only
"""What a packet script consists of. Times are in nanoseconds from the start of the script."""
from __future__ import annotations

import dataclasses
import enum
from typing import Union

from testbed.core.errors import UsageError


class ScriptError(UsageError):
    """A script that cannot be read: `file:line: what is wrong, and what would be right`."""


# --- expressions: arguments of system calls, and what they are to give back ----------------------------------------


@dataclasses.dataclass(frozen=True)
class Anything:
    """`...`: whatever is usual there; of what comes back, anything."""


@dataclasses.dataclass(frozen=True)
class Number:
    value: int


@dataclasses.dataclass(frozen=True)
class Text:
    value: bytes


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A name of a constant."""
    name: str


@dataclasses.dataclass(frozen=True)
class Either:
    """`A|B`"""
    parts: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True)
class Sequence:
    """`[A, B]`"""
    items: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True)
class Field:
    """`name=value`, or only a value; `msg_iov(2)=[...]` has a count, which the list gives again."""
    name: str
    value: Expression


@dataclasses.dataclass(frozen=True)
class Structure:
    """`{A, B}` or `{name=A, other=B}`"""
    fields: tuple[Field, ...]


@dataclasses.dataclass(frozen=True)
class Function:
    """`htons(80)`, `inet_addr("192.0.2.1")`"""
    name: str
    arguments: tuple[Expression, ...]


Expression = Union[Anything, Number, Text, Symbol, Either, Sequence, Structure, Function]


# --- times -----------------------------------------------------------------------------------------------------------


class Clock(enum.Enum):
    """What a time counts from."""
    START = "start"             # 0.1
    BEFORE = "before"           # +0.1: from the event before
    ANY = "any"                 # *


@dataclasses.dataclass(frozen=True)
class When:
    """Time of an event; end_ns: of a range (`+1~+1.1`), or when a blocking call returns (`0...0.1`)."""
    clock: Clock
    start_ns: int = 0
    end_ns: int | None = None
    blocking: bool = False


# --- packets ---------------------------------------------------------------------------------------------------------


class Way(enum.Enum):
    """Which way a packet goes, as the kernel under test sees it."""
    IN = "<"
    OUT = ">"


@dataclasses.dataclass(frozen=True)
class IpFields:
    """What a script says of IP's header; None: nothing."""
    ecn: int | None = None
    tos: int | None = None
    ttl: int | None = None

    def words(self) -> str:
        parts = [] if self.ecn is None else [f"[{ECN_NAMES[self.ecn]}]"]
        more = [f"{name} {value}" for name, value in (("tos", self.tos), ("ttl", self.ttl)) if value is not None]
        return " ".join([*parts, *([f"({', '.join(more)})"] if more else [])])


ECN_NAMES = {0: "noecn", 1: "ect1", 2: "ect0", 3: "ce"}


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of TCP. words: as a script writes it; kind, data: as the header has it.

    Of timestamps and of blocks of SACK the numbers are kept instead of data, since they are relative in scripts.
    """
    kind: int
    data: bytes = b""
    numbers: tuple[int, ...] = ()
    #: md5 without a digest: any
    any_data: bool = False


@dataclasses.dataclass(frozen=True)
class Tcp:
    """A segment; ack, window and urgent: None where the script says nothing. options None: `<...>`, any."""
    flags: frozenset[str]
    start: int
    end: int
    ack: int | None = None
    window: int | None = None
    urgent: int | None = None
    options: tuple[Option, ...] | None = ()

    @property
    def length(self) -> int:
        return (self.end - self.start) % (1 << 32)


@dataclasses.dataclass(frozen=True)
class Udp:
    length: int


@dataclasses.dataclass(frozen=True)
class Icmp:
    """type, code: as numbers of the script's version of IP; quoted: the packet that it is about."""
    words: str
    type: int
    code: int
    mtu: int = 0
    quoted: Tcp | Udp | None = None


@dataclasses.dataclass(frozen=True)
class Packet:
    way: Way
    ip: IpFields
    transport: Tcp | Udp | Icmp


# --- events ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Call:
    """A system call; result None: whatever it gives back; errno: its name, "" if the script does not say."""
    name: str
    arguments: tuple[Expression, ...]
    result: int | None
    errno: str


@dataclasses.dataclass(frozen=True)
class Shell:
    """A line for /bin/sh, which has to succeed."""
    command: str


@dataclasses.dataclass(frozen=True)
class Python:
    """Statements of Python, which see what TCP_INFO says."""
    code: str


@dataclasses.dataclass(frozen=True)
class Event:
    line: int
    when: When
    what: Packet | Call | Shell | Python
    #: as it is in the script, in one line
    text: str


@dataclasses.dataclass(frozen=True)
class Options:
    """Lines `--name=value` at the beginning, with what they are without. Addresses: those of packetdrill's scripts."""
    ip_version: str = "ipv4"
    local_ip: str = ""
    remote_ip: str = ""
    bind_port: int = 8080
    connect_port: int = 8080
    mtu: int = 0
    #: of large segments that arrive: as if the network card had put together segments of this size; 0: one segment
    mss: int = 0
    #: how far a time may be off: the larger of the two; the share is of the time since the event before
    tolerance_us: int = 0
    tolerance_percent: float = 0
    #: how much of time one step of outgoing timestamps is; 0: they are not compared
    tcp_ts_tick_us: int = 0
    #: whether a segment of the script is one that the kernel sends; else it may be several that follow each other
    strict_segments: bool = False
    #: ours: congestion control of all sockets, as --cca takes it
    cca: str = ""
    #: ours: what the kernel must have, or the script is skipped
    needs: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Script:
    file: str
    options: Options
    events: tuple[Event, ...]

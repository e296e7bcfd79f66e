# SPDX-License-Identifier: GPL-2.0-only
"""What every kind of queue starts from: its limit, its traits, and how tc and netlink spell its options."""
import abc
import dataclasses
import struct
from collections.abc import Mapping
from typing import ClassVar

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.ip import ETHERNET_BYTES, MTU_BYTES

#: qdiscs count in 32 bits; no time that a queue works with is longer than an hour
MOST = 2**32 - 1
HOUR_US = 3600 * 10**6

#: the value of an option: times in microseconds, rates in bit/s
Option = int | float | bool | str
#: options of a queue as a link of network.json has them
Options = Mapping[str, Option]
#: {parameter: (number of its netlink attribute, offset in it, format of struct)}; None for the number: the options
#: themselves; a tuple: an attribute inside an attribute
Places = dict[str, tuple[int | tuple[int, ...] | None, int, str]]
#: {parameter: what the kernel must report, or the least and the most that it may report}
Wanted = dict[str, int | tuple[int, int]]

#: suffixes of tc's numbers, by the unit of a field
_TC_UNITS = {"us": "us", "bps": "bit"}


def packets_for_time(rate_bps: int, buffer_us: int, mtu_bytes: int = MTU_BYTES) -> int:
    """Packets of the largest size that a buffer of `buffer_us` holds at `rate_bps` (at least 1)."""
    return max(1, round(rate_bps * buffer_us / 1e6 / 8 / mtu_bytes))


def bytes_for_time(rate_bps: int, buffer_us: int, mtu_bytes: int = MTU_BYTES) -> int:
    """Bytes that a buffer of `buffer_us` holds at `rate_bps` (at least a frame)."""
    return max(mtu_bytes + ETHERNET_BYTES, round(rate_bps * buffer_us / 8e6))


@dataclasses.dataclass(frozen=True)
class Traits:
    """What probes, checks and the guest need to know of a queue. network.json lists the names of those that hold."""
    #: it drops arriving packets only, and only when it is full
    tail_drop: bool = False
    #: it treats packets alike, whatever flow they belong to, and keeps their order
    flow_blind: bool = False
    #: it may drop packets that it has already queued
    drops_queued: bool = False
    #: it may drop a queued packet and report that of the arriving one, which it has queued
    may_deny: bool = False
    #: it may remove queued packets without counting them as drops
    drops_uncounted: bool = False
    #: it holds packets back while the link is idle
    paces: bool = False
    #: it may mark packets with CE instead of dropping them (RFC 3168)
    marks: bool = False
    #: it may drop a packet that it has marked
    drops_marked: bool = False
    #: it may count the mark of one packet twice
    counts_marks_twice: bool = False

    def names(self) -> list[str]:
        """Names of those that hold."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name)]


@dataclasses.dataclass(frozen=True)
class Queue(abc.ABC):
    """A queue; an option that is not given is None. `limit_us`: the limit as a time.

    A kind of queue is one file with one subclass. Its fields are tc's options, with the unit at the end.
    """
    kind: str = fields.word()
    limit_us: int | None = fields.time(default=None, least=1, most=HOUR_US)

    #: what always holds; `traits` adds what depends on options
    TRAITS: ClassVar[Traits] = Traits()
    #: whether its limit counts bytes
    IN_BYTES: ClassVar[bool] = False
    #: whether its limit can change while packets are in it
    CAN_CHANGE: ClassVar[bool] = False
    #: where the kernel's dump of the qdisc has each option
    PLACES: ClassVar[Places]
    #: whether the kernel changes the dump by itself, such as by counters in it
    DUMP_CHANGES: ClassVar[bool] = False
    #: offset of the number of marked packets (32 bits) in the qdisc's own statistics
    MARKED_AT: ClassVar[int]
    #: whether tc knows the kind; else `netlink_options` makes it
    KNOWN_TO_TC: ClassVar[bool] = True
    #: whether tc has a word for a flag that is off, such as noecn
    TC_SAYS_NO: ClassVar[bool] = True
    #: whether it cuts packets of many segments by itself
    CUTS: ClassVar[bool] = False
    #: the feature that the kernel must have (testbed/engines/_features.py)
    KERNEL_FEATURE: ClassVar[str] = ""
    #: whether it is made for L4S: scalable flows wait apart from all others
    FOR_L4S: ClassVar[bool] = False

    @abc.abstractmethod
    def hard_limit(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> int:
        """The limit as the qdisc counts it; FieldError if it cannot be."""

    def frame_takes_bytes(self, mtu_bytes: int) -> int:
        """What a full packet takes of a limit in bytes."""
        return mtu_bytes + ETHERNET_BYTES

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Option]:
        """{option: value}, all that are given or computed."""
        others = {fields.plain(field.name): getattr(self, field.name) for field in dataclasses.fields(self)
                  if fields.plain(field.name) not in ("kind", "limit")}
        given = {name: value for name, value in others.items() if value is not None}
        return {"limit": self.hard_limit(rate_bps, mtu_bytes), **given}

    def describe(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, object]:
        """The queue as a link of network.json has it."""
        options = self.options(rate_bps, mtu_bytes)
        limit, frame_bytes = self.hard_limit(rate_bps, mtu_bytes), mtu_bytes + ETHERNET_BYTES
        takes_bytes = self.frame_takes_bytes(mtu_bytes)
        packets = limit // takes_bytes if self.IN_BYTES else limit
        size = limit * frame_bytes // takes_bytes if self.IN_BYTES else limit * frame_bytes
        return {"queue": self.kind, "queue_options": options, "queue_traits": self.traits(options).names(),
                "limit_packets": None if self.IN_BYTES else limit, "limit_bytes": limit if self.IN_BYTES else None,
                "capacity_packets": packets, "capacity_bytes": size, "capacity_us": round(size * 8e6 / rate_bps)}

    @classmethod
    def traits(cls, options: Options) -> Traits:
        """What holds of a queue with these options."""
        return dataclasses.replace(cls.TRAITS, marks=cls.TRAITS.marks or bool(options.get("ecn")))

    @classmethod
    def l4s_codepoints(cls, options: Options) -> frozenset[str]:
        """ECN codepoints of the packets that count as L4S traffic: ect1, or what a queue for them takes."""
        return frozenset({"ect1"})

    # -- what tc and netlink are told ----------------------------------------------------------------

    @classmethod
    def tc_words(cls, options: Options) -> list[str]:
        """The options as tc spells them."""
        words = []
        units = {fields.plain(field.name): _TC_UNITS.get(fields.unit_of(field.name), "")
                 for field in dataclasses.fields(cls)}
        for name, value in options.items():
            if isinstance(value, bool):
                words += [name] if value else [f"no{name}"] if cls.TC_SAYS_NO else []
            else:
                words += [name, cls.tc_number(name, value) + (units[name] if name != "limit" else "")]
        return words

    @classmethod
    def tc_number(cls, name: str, value: int | float | str) -> str:
        """One value as tc spells it, without its unit."""
        return str(value)

    @classmethod
    def netlink_options(cls, options: Options) -> bytes:
        """Netlink attributes of the options, where tc cannot set them; empty where it can."""
        return b""

    @classmethod
    def for_simulators(cls, options: Options) -> Options:
        """The options as the drivers in simulation/ read them."""
        return options

    # -- what the kernel says ------------------------------------------------------------------------

    @classmethod
    def wanted(cls, options: Options, jiffy_us: int) -> Wanted:
        """What the kernel's dump must have. jiffy_us: a tick of the kernel's timer."""
        return {name: cls.as_held(name, value, jiffy_us) for name, value in options.items()}

    @classmethod
    def as_held(cls, name: str, value: Option, jiffy_us: int) -> int | tuple[int, int]:
        """One option as the kernel holds it."""
        return int(value)

    @classmethod
    def held_probability(cls, options: Options) -> float | None:
        """The `probability` that the kernel can hold in its place; None for a kind without that option."""
        return None

    @classmethod
    def marked_packets(cls, statistics: bytes) -> int:
        """How many packets it has marked, from the qdisc's own statistics (TCA_STATS_APP)."""
        return int(struct.unpack_from("=I", statistics, cls.MARKED_AT)[0])


@dataclasses.dataclass(frozen=True)
class InPackets(Queue):
    """A queue whose limit counts packets."""
    limit: int | None = fields.count(default=None)

    USUAL_LIMIT: ClassVar[int] = 1000
    LEAST_LIMIT: ClassVar[int] = 1
    MOST_LIMIT: ClassVar[int] = MOST

    def hard_limit(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> int:
        limit = self.USUAL_LIMIT if self.limit is None else self.limit
        if self.limit_us is not None:
            limit = packets_for_time(rate_bps, self.limit_us, mtu_bytes)
        if not self.LEAST_LIMIT <= limit <= self.MOST_LIMIT:
            raise FieldError("limit", f"from {self.LEAST_LIMIT} to {self.MOST_LIMIT} packets expected, not {limit}")
        return limit


@dataclasses.dataclass(frozen=True)
class InBytes(Queue):
    """A queue whose limit counts bytes; it has to be given, where there is no usual one."""
    limit_bytes: int | None = fields.size(default=None)

    IN_BYTES: ClassVar[bool] = True
    USUAL_LIMIT: ClassVar[int | None] = None

    def hard_limit(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> int:
        limit, takes_bytes = self.USUAL_LIMIT if self.limit_bytes is None else self.limit_bytes, \
            self.frame_takes_bytes(mtu_bytes)
        if self.limit_us is not None:
            limit = bytes_for_time(rate_bps, self.limit_us, mtu_bytes) * takes_bytes // (mtu_bytes + ETHERNET_BYTES)
        if limit is None:
            raise FieldError("limit", "is missing")
        if not takes_bytes <= limit <= MOST:
            raise FieldError("limit", f"from {takes_bytes} to {MOST} B expected, not {limit} B")
        return limit


def in_jiffies(time_us: int, jiffy_us: int) -> int:
    """A time that the kernel rounds up to ticks of its timer."""
    return -(-time_us // jiffy_us) * jiffy_us

# SPDX-License-Identifier: GPL-2.0-only
"""What waits in front of a link: the queues a scenario can ask for, with the options of each.

    queue: {kind: pfifo, limit: 850}            a limit in packets,
    queue: {kind: bfifo, limit: 150 kB}         in bytes where the qdisc counts bytes (bfifo, red),
    queue: {kind: codel, limit: 100 ms}         or, for every kind, the time that the link needs to send it

Options have tc's names. An option that is not given has the kernel's default, for red the one that tc's
manual page recommends.
"""
import abc
import dataclasses
import math
from typing import Any, ClassVar

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.ip import ETHERNET_BYTES, MTU_BYTES

#: qdiscs count in 32 bits; no time that a queue works with is longer than an hour
MOST = 2**32 - 1
_HOUR_US = 3600 * 10**6


def packets_for_time(rate_bps: int, buffer_us: int, mtu_bytes: int = MTU_BYTES) -> int:
    """Packets of the largest size that a buffer of `buffer_us` holds at `rate_bps` (at least 1)."""
    return max(1, round(rate_bps * buffer_us / 1e6 / 8 / mtu_bytes))


def bytes_for_time(rate_bps: int, buffer_us: int, mtu_bytes: int = MTU_BYTES) -> int:
    """Bytes that a buffer of `buffer_us` holds at `rate_bps` (at least a frame)."""
    return max(mtu_bytes + ETHERNET_BYTES, round(rate_bps * buffer_us / 8e6))


@dataclasses.dataclass(frozen=True)
class Queue(abc.ABC):
    """Any queue; an option that is not given is None. `limit_us`: the limit as a time."""
    kind: str = fields.word()
    limit_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)

    in_bytes: ClassVar[bool] = False
    #: whether its limit can change while packets are in it
    can_change: ClassVar[bool] = False

    @abc.abstractmethod
    def hard_limit(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> int:
        """The limit as the qdisc counts it; FieldError if it cannot be."""

    def frame_takes_bytes(self, mtu_bytes: int) -> int:
        """What a full packet takes of a limit in bytes."""
        return mtu_bytes + ETHERNET_BYTES

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Any]:
        """What tc is told: {option: value}; times in microseconds, rates in bit/s."""
        others = {fields.plain(field.name): getattr(self, field.name) for field in dataclasses.fields(self)
                  if fields.plain(field.name) not in ("kind", "limit")}
        given = {name: value for name, value in others.items() if value is not None}
        return {"limit": self.hard_limit(rate_bps, mtu_bytes), **given}

    def describe(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Any]:
        """The queue as a link of network.json has it."""
        options = self.options(rate_bps, mtu_bytes)
        limit, frame_bytes = options["limit"], mtu_bytes + ETHERNET_BYTES
        takes_bytes = self.frame_takes_bytes(mtu_bytes)
        packets = limit // takes_bytes if self.in_bytes else limit
        size = limit * frame_bytes // takes_bytes if self.in_bytes else limit * frame_bytes
        return {"queue": self.kind, "queue_options": options,
                "limit_packets": None if self.in_bytes else limit, "limit_bytes": limit if self.in_bytes else None,
                "capacity_packets": packets, "capacity_bytes": size, "capacity_us": round(size * 8e6 / rate_bps)}


@dataclasses.dataclass(frozen=True)
class InPackets(Queue):
    """A queue whose limit counts packets."""
    limit: int | None = fields.count(default=None)

    usual_limit: ClassVar[int] = 1000
    least_limit: ClassVar[int] = 1
    most_limit: ClassVar[int] = MOST

    def hard_limit(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> int:
        limit = self.usual_limit if self.limit is None else self.limit
        if self.limit_us is not None:
            limit = packets_for_time(rate_bps, self.limit_us, mtu_bytes)
        if not self.least_limit <= limit <= self.most_limit:
            raise FieldError("limit", f"from {self.least_limit} to {self.most_limit} packets expected, not {limit}")
        return limit


@dataclasses.dataclass(frozen=True)
class InBytes(Queue):
    """A queue whose limit counts bytes; it has to be given, where there is no usual one."""
    limit_bytes: int | None = fields.size(default=None)

    in_bytes: ClassVar[bool] = True
    usual_limit: ClassVar[int | None] = None

    def hard_limit(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> int:
        limit, takes_bytes = self.usual_limit if self.limit_bytes is None else self.limit_bytes, \
            self.frame_takes_bytes(mtu_bytes)
        if self.limit_us is not None:
            limit = bytes_for_time(rate_bps, self.limit_us, mtu_bytes) * takes_bytes // (mtu_bytes + ETHERNET_BYTES)
        if limit is None:
            raise FieldError("limit", "is missing")
        if not takes_bytes <= limit <= MOST:
            raise FieldError("limit", f"from {takes_bytes} to {MOST} B expected, not {limit} B")
        return limit


@dataclasses.dataclass(frozen=True)
class Pfifo(InPackets):
    """Drop tail, counted in packets."""
    can_change: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class Bfifo(InBytes):
    """Drop tail, counted in bytes."""
    can_change: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class Red(InBytes):
    """Random early detection; by default as the manual page of tc-red advises, marking up to 2 %."""
    min_bytes: int | None = fields.size(default=None, least=1, most=MOST)
    max_bytes: int | None = fields.size(default=None, least=1, most=MOST)
    avpkt_bytes: int | None = fields.size(default=None, least=1, most=65535)
    burst: int | None = fields.count(default=None, least=1, most=10**6)
    bandwidth_bps: int | None = fields.rate(default=None, least=8)
    probability: float = fields.number(default=0.02, above=0, most=1)
    ecn: bool | None = fields.flag(default=None)
    harddrop: bool | None = fields.flag(default=None)
    adaptive: bool | None = fields.flag(default=None)

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Any]:
        avpkt = self.avpkt_bytes or _usual_avpkt(mtu_bytes)
        given = {**super().options(rate_bps, mtu_bytes), "avpkt": avpkt}
        limit = given["limit"]
        highest = given.get("max") or min(3 * given.get("min", limit), limit // 4)
        lowest = given.get("min") or max(1, highest // 3)
        burst = given.get("burst") or math.ceil((2 * lowest + highest) / (3 * avpkt))
        options = {"bandwidth": rate_bps, **given, "min": lowest, "max": highest, "burst": burst}
        if not lowest < highest <= limit:
            raise FieldError("max", f"min < max <= limit expected, not {lowest}, {highest} and {limit} B")
        _check_average(lowest, burst, avpkt, highest, "B")
        _check_probability(self.probability, highest - lowest)
        return {name: options[name] for name in ("limit", "min", "max", "avpkt", "burst", "bandwidth", "probability",
                                                 "ecn", "harddrop", "adaptive") if name in options}


@dataclasses.dataclass(frozen=True)
class Choke(InPackets):
    """CHOKe: RED, and a packet that finds one of its own flow at a random place is dropped together with that."""
    min: int | None = fields.count(default=None, least=1, most=MOST)
    max: int | None = fields.count(default=None, least=1, most=MOST)
    avpkt_bytes: int | None = fields.size(default=None, least=1, most=65535)
    burst: int | None = fields.count(default=None, least=1, most=10**6)
    bandwidth_bps: int | None = fields.rate(default=None, least=8)
    probability: float = fields.number(default=0.02, above=0, most=1)
    ecn: bool | None = fields.flag(default=None)

    # CHOKE_MAX_QUEUE of the kernel
    most_limit: ClassVar[int] = 128 * 1024 - 1

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Any]:
        avpkt = self.avpkt_bytes or _usual_avpkt(mtu_bytes)
        given = {**super().options(rate_bps, mtu_bytes), "avpkt": avpkt}
        limit = given["limit"]
        # as tc has them
        highest = given.get("max") or max(2, limit // 4)
        lowest = given.get("min") or max(1, highest // 3)
        burst = given.get("burst") or math.ceil((2 * lowest + highest) / 3)
        options = {"bandwidth": rate_bps, **given, "min": lowest, "max": highest, "burst": burst}
        if not lowest < highest <= limit:
            raise FieldError("max", f"min < max <= limit expected, not {lowest}, {highest} and {limit} packets")
        _check_average(lowest * avpkt, burst, avpkt, highest, "packets")
        _check_probability(self.probability, (highest - lowest) * avpkt)
        return {name: options[name] for name in ("limit", "min", "max", "avpkt", "burst", "bandwidth", "probability",
                                                 "ecn") if name in options}


@dataclasses.dataclass(frozen=True)
class Cake(InBytes):
    """CAKE without its shaper (the link has its own). Its limit counts the kernel's memory; it always marks."""
    rtt_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    priority: str | None = fields.word(choices=("besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence"),
                                       default=None)
    isolation: str | None = fields.word(choices=("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost",
                                                 "dual-dsthost", "triple-isolate"), default=None)
    ack_filter: str | None = fields.word(choices=("off", "on", "aggressive"), default=None)

    #: what it has by itself: 10240 frames of the interface's MTU
    usual_limit: ClassVar[int | None] = 10240 * (MTU_BYTES + ETHERNET_BYTES)

    def frame_takes_bytes(self, mtu_bytes: int) -> int:
        """What the kernel counts for a full packet (its truesize)."""
        if mtu_bytes != MTU_BYTES:
            raise FieldError("kind", f"cake counts memory, and how much a packet takes is known for an MTU of "
                                     f"{MTU_BYTES} B only, not of {mtu_bytes} B")
        return 2304


@dataclasses.dataclass(frozen=True)
class DualPi2(InPackets):
    """DualPI2 (RFC 9332): a queue for scalable congestion controls beside one for the others, coupled. It always marks.

    step_thresh: the wait from which all that waits for scalable ones is marked; classify: which packets are of them.
    """
    target_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    tupdate_us: int | None = fields.time(default=None, least=1, most=4_000_000)
    alpha: float | None = fields.number(default=None, above=0, most=1000)
    beta: float | None = fields.number(default=None, above=0, most=1000)
    step_thresh_us: int | None = fields.time(default=None, most=4_000_000)
    min_qlen_step: int | None = fields.count(default=None, most=MOST)
    coupling_factor: int | None = fields.count(default=None, least=1, most=255)
    overload: str | None = fields.word(choices=("drop", "overflow"), default=None)
    drop_at: str | None = fields.word(choices=("dequeue", "enqueue"), default=None)
    classify: str | None = fields.word(choices=("l4s_ect", "any_ect"), default=None)
    classic_protection: int | None = fields.count(default=None, most=100)

    usual_limit: ClassVar[int] = 10_000


@dataclasses.dataclass(frozen=True)
class Codel(InPackets):
    """Controlled delay (RFC 8289)."""
    can_change: ClassVar[bool] = True
    target_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    interval_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    ecn: bool | None = fields.flag(default=None)


@dataclasses.dataclass(frozen=True)
class FqCodel(InPackets):
    """Fair queueing with CoDel (RFC 8290)."""
    can_change: ClassVar[bool] = True
    flows: int | None = fields.count(default=None, least=1, most=65536)
    target_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    interval_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)
    ecn: bool | None = fields.flag(default=None)

    usual_limit: ClassVar[int] = 10240


@dataclasses.dataclass(frozen=True)
class Pie(InPackets):
    """Proportional integral controller enhanced (RFC 8033)."""
    can_change: ClassVar[bool] = True
    target_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    tupdate_us: int | None = fields.time(default=None, least=1, most=_HOUR_US)
    alpha: int | None = fields.count(default=None, most=32)
    beta: int | None = fields.count(default=None, most=32)
    ecn: bool | None = fields.flag(default=None)


@dataclasses.dataclass(frozen=True)
class FqPie(Pie):
    """Fair queueing with PIE."""
    flows: int | None = fields.count(default=None, least=1, most=65536)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)

    usual_limit: ClassVar[int] = 10240


@dataclasses.dataclass(frozen=True)
class Fq(InPackets):
    """Fair queueing with pacing."""
    can_change: ClassVar[bool] = True
    flow_limit: int | None = fields.count(default=None, least=1, most=MOST)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)

    usual_limit: ClassVar[int] = 10_000


@dataclasses.dataclass(frozen=True)
class Sfq(InPackets):
    """Stochastic fair queueing; `perturb`: how often its hash changes."""
    perturb_us: int | None = fields.time(default=None, most=_HOUR_US)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)

    usual_limit: ClassVar[int] = 127
    # 127 packets of each of 128 flows
    least_limit: ClassVar[int] = 2
    most_limit: ClassVar[int] = 127 * 128

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Any]:
        options = super().options(rate_bps, mtu_bytes)
        if self.perturb_us is not None:
            if self.perturb_us % 1_000_000:
                raise FieldError("perturb", "whole seconds such as '10 s' expected")
            options["perturb"] = self.perturb_us // 1_000_000
        return options


QUEUES: dict[str, type[Queue]] = {
    "pfifo": Pfifo, "bfifo": Bfifo, "red": Red, "codel": Codel, "fq_codel": FqCodel, "pie": Pie, "fq_pie": FqPie,
    "fq": Fq, "sfq": Sfq, "choke": Choke, "cake": Cake, "dualpi2": DualPi2}
#: those whose limit a schedule may change
CHANGEABLE = [kind for kind, queue in QUEUES.items() if queue.can_change]


def field() -> Any:
    """The field of a section that says which queue there is; by default 1000 packets, drop tail."""
    return fields.tagged(QUEUES, default={}, usual="pfifo")


def _usual_avpkt(mtu_bytes: int) -> int:
    """An average packet: the 1000 bytes of tc-red's manual page, which are two thirds of Ethernet's MTU."""
    return round(mtu_bytes * 1000 / MTU_BYTES)


def _check_average(lowest_bytes: int, burst: int, avpkt_bytes: int, highest: int, unit: str) -> None:
    """FieldError if the kernel cannot average a queue up to `highest` (as it counts) over so many packets."""
    weight = red_weight(lowest_bytes, burst, avpkt_bytes)
    if weight is None:
        raise FieldError("burst", f"{burst} packets of {avpkt_bytes} B are too few for min = {lowest_bytes} B")
    if highest.bit_length() + weight >= 32:
        raise FieldError("burst", f"the kernel cannot average over {burst} packets up to max = {highest} {unit}")


def _check_probability(probability: float, width: int) -> None:
    """FieldError if tc has no number for a probability at `max` that grows over so many bytes (tc_red.c)."""
    if probability / width <= 2**-31:
        raise FieldError("probability", f"more than {width / 2**31:.3g} expected where max - min is {width} B: less is "
                                        "0 to tc")


def red_weight(lowest: int, burst: int, avpkt: int) -> int | None:
    """The averaging weight 2**-n that tc computes for a RED queue, as n; None if there is none (tc_red.c)."""
    packets = burst + 1 - lowest / avpkt
    if packets < 1:
        return None
    return next((n for n in range(1, 32) if packets <= (1 - (1 - 0.5**n)**burst) / 0.5**n), None)

# SPDX-License-Identifier: GPL-2.0-only
"""The sections by which scenarios describe links; how a link is emulated is in topologies/linux/tc.py."""
import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import TypeVar

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from topologies import queues
from topologies.links import impairments, losses, mahimahi, records, schedule, varying
from topologies.links.impairments import LEAST_RATE_BPS, MOST_DELAY_US, MOST_RATE_BPS
from topologies.links.schedule import MOST_CHANGES, Entry

_Default = TypeVar("_Default")

#: of links that have none of their own, while a topology's section is read
_USUAL_MTU: contextvars.ContextVar[int | None] = contextvars.ContextVar("usual_mtu", default=None)


def _mtu() -> int | None:
    found: int | None = fields.size(default=None, least=ip.LEAST_MTU_BYTES[4], most=ip.MOST_MTU_BYTES)
    return found


@dataclasses.dataclass(frozen=True)
class Usual:
    """What a topology's section says of all its links."""
    mtu_bytes: int | None = _mtu()

    @contextlib.contextmanager
    def for_links(self) -> Iterator[None]:
        """Context manager: links that are read in the block have it, unless they say otherwise."""
        token = _USUAL_MTU.set(self.mtu_bytes)
        try:
            yield
        finally:
            _USUAL_MTU.reset(token)


@dataclasses.dataclass(frozen=True)
class Access:
    """A link that only has a rate and queues, such as all access links of a topology together."""
    rate_bps: int = fields.rate(least=LEAST_RATE_BPS, most=MOST_RATE_BPS)
    queue: queues.Queue = queues.field()
    mtu_bytes: int | None = _mtu()

    def __post_init__(self) -> None:
        self._take_usual_mtu()
        try:
            self.queue.options(self.rate_bps, self.mtu)
        except FieldError as problem:
            raise problem.inside("queue") from None

    def _take_usual_mtu(self) -> None:
        if self.mtu_bytes is None and _USUAL_MTU.get() is not None:
            object.__setattr__(self, "mtu_bytes", _USUAL_MTU.get())

    @property
    def mtu(self) -> int:
        """The largest packet, in bytes."""
        return self.mtu_bytes or ip.MTU_BYTES

    @property
    def frame_bytes(self) -> int:
        """The same as the link counts it."""
        return self.mtu + ip.ETHERNET_BYTES

    def delayed(self, delay_us: int) -> "Link":
        """The same as a link with a one-way delay."""
        return Link(rate_bps=self.rate_bps, queue=self.queue, mtu_bytes=self.mtu_bytes, delay_us=delay_us)


@dataclasses.dataclass(frozen=True)
class Link(impairments.Impaired, Access):
    """One direction of a link. Rates are layer 2 (Ethernet header, no FCS).

    loss_percent: random loss; lose_segments: which segments of a bulk transfer are lost, the first
    lose_copies times that they pass; schedule: how it changes during a run; trace: a file in mahimahi's
    format, whose opportunities decide when packets leave the queue. The file is read when the length of the run is
    known (`during`).
    """
    delay_us: int = fields.time(default=0, most=MOST_DELAY_US)
    loss_percent: float = fields.percent(default=0.0)
    lose_segments: tuple[int, ...] = fields.listing(fields.count(least=1, most=losses.LAST_SEGMENT), default=(),
                                                    distinct=True)
    lose_copies: int = fields.count(default=1, least=1, most=losses.MOST_LOSSES)
    schedule: tuple[Entry, ...] | None = fields.listing(fields.section(Entry), default=None, least=1, most=MOST_CHANGES)
    trace: str | None = fields.word(default=None)

    def __post_init__(self) -> None:
        self._take_usual_mtu()
        if self.trace is None:
            super().__post_init__()
            self.changes()
        elif self.mtu > mahimahi.FRAME_BYTES - ip.ETHERNET_BYTES:
            raise FieldError("mtu", f"at most {mahimahi.FRAME_BYTES - ip.ETHERNET_BYTES} B expected on a link with a "
                                    f"trace, whose opportunities carry {mahimahi.FRAME_BYTES} bytes each")
        for number, one in enumerate(self.schedule or (), start=1):
            if self.trace is not None and (one.rate_bps or one.walk):
                raise FieldError(f"schedule.{number}.{'rate' if one.rate_bps else 'walk'}", "not together with trace, "
                                 "which says when packets may leave; delay, loss, limit or outage expected")
        impairments.check(self)
        if len(self.lose_segments) * self.lose_copies > losses.MOST_LOSSES:
            raise FieldError("lose_segments", f"{len(self.lose_segments)} segments, {self.lose_copies} copies of each: "
                                              f"more than {losses.MOST_LOSSES} losses")

    def during(self, until_us: int | None = None) -> dict[str, object]:
        """What a link of network.json has of its trace, schedule and queue, in a run that ends at until_us (None: after
        the trace). FieldError if that cannot be."""
        found: dict[str, object] = {}
        rate_bps = self.rate_bps
        if self.trace is not None:
            try:
                times, period_us = mahimahi.read(self.trace, until_us)
            except FieldError as problem:
                raise problem.inside("trace") from None
            found["opportunities"] = {"times": [list(one) for one in times], "period_us": period_us}
            # the end and not the beginning, so that whole periods have their rate
            rate_bps = round(varying.mean_rate_bps(records.Link(found), 1, 1 + (until_us or period_us or 0)))
            if rate_bps:
                found["trace_bps"] = rate_bps
            elif self.queue.limit_us is not None:
                raise FieldError("queue.limit", f"is a time, and {self.trace} offers nothing before the end of the "
                                                "run: packets or bytes expected")
        if changes := self.changes(rate_bps):
            found["schedule"] = changes
        try:
            return {**found, **self.queue.describe(rate_bps or self.rate_bps, self.mtu)}
        except FieldError as problem:
            raise problem.inside("queue") from None

    def changes(self, rate_bps: int = 0) -> list[dict[str, float]]:
        """The schedule as a link of network.json has it; FieldError if there can be none such. rate_bps: by which a
        limit in time is counted."""
        if self.schedule is None:
            return []
        if not self.queue.CAN_CHANGE and any(entry.limit or entry.limit_bytes for entry in self.schedule):
            raise FieldError("schedule", f"the limit of a queue {self.queue.kind} cannot change during a run; those "
                                         f"that can: {', '.join(queues.with_changing_limits())}")
        start: schedule.State = {
            "rate_bps": self.rate_bps, "delay_us": self.delay_us, "loss_percent": self.loss_percent,
            "limit": self.queue.hard_limit(rate_bps or self.rate_bps, self.mtu), "up": True}
        try:
            found = schedule.expand(self.schedule, start, self.queue.IN_BYTES)
        except FieldError as problem:
            raise problem.inside("schedule") from None
        if self.queue.IN_BYTES and any(change.get("limit", queues.MOST) < self.frame_bytes for change in found):
            raise FieldError("schedule", f"limits of at least {self.frame_bytes} B, a full frame, expected")
        return found


@dataclasses.dataclass(frozen=True)
class BothWays:
    """The two directions of a link."""
    left_to_right: Link = fields.section(Link)
    right_to_left: Link = fields.section(Link)

    def __post_init__(self) -> None:
        if self.left_to_right.mtu != self.right_to_left.mtu:
            raise FieldError("right_to_left.mtu", f"{self.left_to_right.mtu} B expected as in left_to_right, not "
                                                  f"{self.right_to_left.mtu} B: both ends of a link have one MTU")


def in_time(section: object, end_us: int) -> None:
    """FieldError with the place of the first link, in a topology as a file has it, whose trace cannot be had in a run
    that ends at end_us."""
    if isinstance(section, dict) and isinstance(section.get("trace"), str):
        link: Link = fields.decode(Link, section)
        link.during(end_us)
    elif isinstance(section, (dict, list)):
        for name, inside in section.items() if isinstance(section, dict) else enumerate(section, start=1):
            try:
                in_time(inside, end_us)
            except FieldError as problem:
                raise problem.inside(str(name)) from None


def both_ways(default: _Default = fields.REQUIRED) -> BothWays | _Default:
    """A field for a link: one section for both directions, or `left_to_right` and `right_to_left` in it."""
    def read(value: object) -> BothWays:
        if isinstance(value, dict) and not {"left_to_right", "right_to_left"} & value.keys():
            link = fields.decode(Link, value)
            return BothWays(left_to_right=link, right_to_left=link)
        return fields.decode(BothWays, value)
    found: BothWays | _Default = fields.custom(read, default)
    return found

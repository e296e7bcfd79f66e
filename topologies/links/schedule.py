# SPDX-License-Identifier: GPL-2.0-only
"""The section `schedule` of a link direction: how it changes while a run takes place (docs/howto/links.md).

    schedule:
      - {at: 10 s, rate: 20 Mbit/s}                                     a step
      - {at: 12 s, until: 15 s, every: 100 ms, rate: 5 Mbit/s}          a ramp, from what is so at 12 s
      - {at: [20 s, 21 s, 22 s], delay: [10 ms, 30 ms, 20 ms]}          a table
      - {at: 30 s, outage: 2 s}                                         nothing is carried, packets wait
      - {at: 40 s, until: 60 s, every: 50 ms, walk: {least: 2 Mbit/s, most: 20 Mbit/s, step: 10 %}}

Times are those of the experiment: 0 is when traffic begins. What is here becomes the plain list of changes that
topologies/links/varying.py explains.
"""
import dataclasses
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from topologies import queues
from topologies.links.impairments import LEAST_RATE_BPS, MOST_DELAY_US, MOST_RATE_BPS

#: a change takes a few system calls, and its note a row of a table
MOST_CHANGES = 20_000
_LONGEST_US = 10**12
_LEAST_EVERY_US = 1000
_USUAL_EVERY_US = 100_000
_TABLE = ("rate_bps", "delay_us", "loss_percent", "limit")
_SHOWN = {"up": "outages that begin after the end of the one before"}

#: what is so of each quantity; None if nothing is known
State = dict[str, float | None]


@dataclasses.dataclass(frozen=True)
class Walk:
    """A random walk of the rate: each step multiplies it by something between 1 / (1 + step) and 1 + step."""
    least_bps: int = fields.rate(least=LEAST_RATE_BPS, most=MOST_RATE_BPS)
    most_bps: int = fields.rate(least=LEAST_RATE_BPS, most=MOST_RATE_BPS)
    step_percent: float = fields.percent(default=10.0, above=0)
    seed: int = fields.count(default=1, most=2**32)

    def __post_init__(self) -> None:
        if self.least_bps >= self.most_bps:
            raise FieldError("most", "more than least expected")

    def values(self, start_bps: float, count: int) -> Iterator[int]:
        """The rates after each of `count` steps; the same for the same seed."""
        draws, rate = random.Random(self.seed), float(start_bps)
        for _ in range(count):
            rate *= (1 + self.step_percent / 100) ** draws.uniform(-1, 1)
            rate = min(max(rate, self.least_bps), self.most_bps)
            yield round(rate)


@dataclasses.dataclass(frozen=True)
class Entry:
    """at: one time or several; each quantity one value, or one for each time."""
    at_us: tuple[int, ...] = fields.listing(fields.time(most=_LONGEST_US), least=1, most=MOST_CHANGES, single=True)
    until_us: int | None = fields.time(default=None, most=_LONGEST_US)
    every_us: int | None = fields.time(default=None, least=_LEAST_EVERY_US, most=_LONGEST_US)
    rate_bps: tuple[int, ...] | None = fields.listing(
        fields.rate(least=LEAST_RATE_BPS, most=MOST_RATE_BPS), default=None, least=1, most=MOST_CHANGES, single=True)
    delay_us: tuple[int, ...] | None = fields.listing(
        fields.time(most=MOST_DELAY_US), default=None, least=1, most=MOST_CHANGES, single=True)
    loss_percent: tuple[float, ...] | None = fields.listing(
        fields.percent(), default=None, least=1, most=MOST_CHANGES, single=True)
    limit: tuple[int, ...] | None = fields.listing(
        fields.count(least=1, most=queues.MOST), default=None, least=1, most=MOST_CHANGES, single=True)
    limit_bytes: tuple[int, ...] | None = fields.listing(
        fields.size(least=ip.LEAST_FRAME_BYTES, most=queues.MOST), default=None, least=1, most=MOST_CHANGES,
        single=True)
    outage_us: int | None = fields.time(default=None, least=1, most=_LONGEST_US)
    walk: Walk | None = fields.section(Walk, default=None)

    def __post_init__(self) -> None:
        _check(self)

    def values(self, quantity: str) -> tuple[float, ...] | None:
        """Those of a quantity: one, or one for each time."""
        found: tuple[float, ...] | None = getattr(self, quantity)
        return found


@dataclasses.dataclass(frozen=True)
class _Begins:
    """When a change is to be."""
    at_us: tuple[int, ...] = fields.listing(fields.time(most=_LONGEST_US), least=1, most=MOST_CHANGES, single=True)


def _check(entry: Entry) -> None:
    """What needs several fields of an entry at once."""
    tables = {name: values for name in (*_TABLE, "limit_bytes") if (values := entry.values(name)) is not None}
    if not tables and entry.outage_us is None and entry.walk is None:
        raise FieldError("", "says nothing that changes: rate, delay, loss, limit, outage or walk expected")
    if any(later <= earlier for earlier, later in zip(entry.at_us, entry.at_us[1:])):
        raise FieldError("at", "times in increasing order expected")
    for name, values in tables.items():
        if len(values) not in (1, len(entry.at_us)):
            raise FieldError(fields.plain(name), f"{len(entry.at_us)} values expected, one for each time, not "
                                                 f"{len(values)}")
    if entry.limit is not None and entry.limit_bytes is not None:
        raise FieldError("limit", "is there in packets and in bytes; which of them?")
    if entry.until_us is None:
        if entry.walk is not None:
            raise FieldError("until", "is missing: a walk ends some time")
        if entry.every_us is not None:
            raise FieldError("every", "only with until, of a ramp or walk")
        return
    if (entry.until_us - entry.at_us[0]) // _every_us(entry) > MOST_CHANGES:
        raise FieldError("every", f"more than {MOST_CHANGES} steps; fewer with a larger one")
    if len(entry.at_us) > 1 or entry.until_us < entry.at_us[0] + _every_us(entry):
        raise FieldError("until", "a ramp or walk has one time at which it begins, and ends one step later or after")
    if entry.outage_us is not None or entry.walk is not None and entry.rate_bps is not None:
        raise FieldError("until", "a ramp of rate, delay, loss or limit, or a walk expected, not both or an outage")


def expand(entries: Sequence[Entry], start: State, in_bytes: bool) -> list[dict[str, float]]:
    """All changes in order of time. start: the link before them; in_bytes: how its queue counts.

    FieldError (with the number of the entry) if they are not in order, or too many.
    """
    at: dict[int, dict[str, float]] = {}
    now, latest = dict(start), dict.fromkeys((*_TABLE, "up"), -1)
    for number, one in enumerate(entries, start=1):
        for name, at_us, value in _of_entry(one, now, in_bytes, number):
            if at_us <= latest[name]:
                what = _SHOWN.get(name, f"changes of {fields.plain(name)} in order of time")
                raise FieldError(f"{number}.at", f"{what} expected, and {at_us / 1e6:g} s is not after "
                                                 f"{latest[name] / 1e6:g} s")
            latest[name], now[name] = at_us, value
            at.setdefault(at_us, {})[name] = value
            if len(at) > MOST_CHANGES:
                raise FieldError(f"{number}", f"more than {MOST_CHANGES} changes; a ramp has fewer with a larger "
                                              "'every'")
    return [{"at_us": at_us, **at[at_us]} for at_us in sorted(at)]


def _of_entry(one: Entry, now: State, in_bytes: bool, number: int) -> Iterator[tuple[str, int, float]]:
    """(quantity, when, value) of each change."""
    for name in _TABLE:
        values = one.values(name)
        if name == "limit":
            if (one.limit_bytes if not in_bytes else one.limit) is not None:
                raise FieldError(f"{number}.limit", f"{'bytes' if in_bytes else 'packets'} expected, as the queue "
                                                    "counts")
            values = one.limit_bytes if in_bytes else one.limit
        if values is None:
            continue
        if one.until_us is not None:
            begin, end = now[name], values[0]
            if begin is None:
                raise FieldError(f"{number}.{fields.plain(name)}", "a ramp needs a value to begin with")
            times = _steps(one, one.until_us)
            for step, at_us in enumerate(times, start=1):
                value = begin + (end - begin) * step / len(times)
                yield name, at_us, value if name == "loss_percent" else round(value)
            continue
        for position, at_us in enumerate(one.at_us):
            yield name, at_us, values[position if len(values) > 1 else 0]
    if one.outage_us is not None:
        for at_us in one.at_us:
            yield "up", at_us, False
            yield "up", at_us + one.outage_us, True
    rate_bps = now["rate_bps"]
    if one.walk is not None and one.until_us is not None and rate_bps is not None:
        times = _steps(one, one.until_us)
        for at_us, value in zip(times, one.walk.values(rate_bps, len(times))):
            yield "rate_bps", at_us, value


def _steps(one: Entry, until_us: int) -> list[int]:
    """The times of a ramp's or walk's steps: the first `every` after it begins, the last where it ends."""
    every_us = _every_us(one)
    begin_us, count = one.at_us[0], (until_us - one.at_us[0]) // every_us
    return [begin_us + every_us * step for step in range(1, count)] + [until_us]


def _every_us(one: Entry) -> int:
    return _USUAL_EVERY_US if one.every_us is None else int(one.every_us)


def in_time(section: object, end_us: int) -> None:
    """FieldError with the place of the first entry, in a topology as a file has it, that begins after the run's end."""
    children: Iterable[tuple[object, object]] = ()
    if isinstance(section, (dict, list)):
        children = section.items() if isinstance(section, dict) else enumerate(section, start=1)
    for name, inside in children:
        try:
            if name == "schedule" and isinstance(inside, list):
                _entries_in_time(inside, end_us)
            else:
                in_time(inside, end_us)
        except FieldError as problem:
            raise problem.inside(str(name)) from None


def _entries_in_time(entries: Sequence[Mapping[str, object]], end_us: int) -> None:
    for number, one in enumerate(entries, start=1):
        # one that makes no sense was refused before
        first_us: int = fields.decode(_Begins, {key: one[key] for key in ("at", "at_us") if key in one}).at_us[0]
        if first_us >= end_us:
            raise FieldError(f"{number}.at", f"{first_us / 1e6:g} s is not before the end at {end_us / 1e6:g} s")

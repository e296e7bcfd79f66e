# SPDX-License-Identifier: GPL-2.0-only
"""Links that change during a run: what is so at which time, told from the `schedule` of a link of network.json.

A schedule is a list of changes in order of time (topologies/links/records.py). Before the first change, and for what
it does not name, a link is as its other fields say. Guest, checks and analysis use it.

A link with a trace has `opportunities` in place of a rate. Those within an outage of its schedule are not there.
"""
import bisect
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topologies.links.records import Change, Link

#: of an opportunity of a trace: a full frame
FRAME_BYTES = 1514
#: what a schedule may change
QUANTITIES = ("rate_bps", "delay_us", "loss_percent", "limit", "up")


class State(NamedTuple):
    """What is so of a link from an instant on."""
    rate_bps: int
    delay_us: int
    loss_percent: float
    #: as the queue counts; None of a link that does not say it
    limit: int | None
    #: whether it carries anything
    up: bool

    @property
    def carries_bps(self) -> int:
        """The rate; 0 while nothing is carried."""
        return self.rate_bps if self.up else 0


def changes(link: Link) -> Sequence[Change]:
    """The link's changes in order of time; none for one that stays as it is."""
    return link.schedule


def varies(link: Link, quantity: str) -> bool:
    """True if a schedule changes this."""
    return any(change.has(quantity) for change in link.schedule)


def initial(link: Link) -> State:
    """What is so before the first change."""
    limit = link.limit_packets if link.limit_packets is not None else link.limit_bytes
    return State(link.rate_bps, link.delay_us, link.loss_percent, limit, True)


def changed(state: State, change: Change) -> State:
    """What is so after a change."""
    return state._replace(**{name: getattr(change, name) for name in QUANTITIES if change.has(name)})


def states(link: Link) -> Iterator[tuple[int, State]]:
    """(from when in us, all that is so from then on), the first from 0 on or before."""
    state = initial(link)
    yield 0, state
    for change in link.schedule:
        state = changed(state, change)
        yield change.at_us, state


def state_at(link: Link, ended_us: int | None) -> State:
    """What is so of a link that may change before the traffic (None), or once that has ended."""
    return initial(link) if ended_us is None else [
        state for from_us, state in states(link) if from_us <= ended_us][-1]


def spans(link: Link, from_us: float, to_us: float) -> Iterator[tuple[float, float, State]]:
    """(begin, end, state) of the parts of an interval in which nothing changes."""
    known = list(states(link))
    ends_us = [*(begin_us for begin_us, _ in known[1:]), max(to_us, known[-1][0])]
    for (begin_us, state), end_us in zip(known, ends_us):
        begin, end = max(from_us, begin_us), min(to_us, end_us)
        if begin < end:
            yield begin, end, state


def opportunities(link: Link, from_us: float, to_us: float) -> Iterator[tuple[int, int]]:
    """(time in us, how many full frames may leave) of a link with a trace, from_us included, to_us not."""
    if link.opportunities is None:
        return
    times, period_us = link.opportunities.times, link.opportunities.period_us
    ups = [(at_us, state.up) for at_us, state in states(link)] if varies(link, "up") else [(0, True)]
    for turn in itertools.count(max(0, int(from_us) // period_us - 1)) if period_us else (0,):
        begin_us = turn * (period_us or 0)
        if begin_us >= to_us:
            return
        for at_us, count in itertools.islice(times, bisect.bisect_left(
                times, from_us - begin_us, key=operator.itemgetter(0)), None):
            at_us += begin_us
            if at_us >= to_us:
                break
            # what changes at an instant does so before it
            if ups[max(0, bisect.bisect_right(ups, (at_us, True)) - 1)][1]:
                yield at_us, count


def nominal_bps(link: Link) -> float:
    """The rate of which a load is a share: that before the first change; of a trace the mean over the run."""
    return float(link.trace_bps or link.rate_bps)


def mean_rate_bps(link: Link, from_us: float, to_us: float) -> float:
    """The mean over an interval of the rate, of a link with a trace of what it offers from from_us until before to_us.

    0 if nothing is carried in it.
    """
    if link.opportunities:
        return sum(count for _, count in opportunities(link, from_us, to_us)) * FRAME_BYTES * 8e6 \
            / max(to_us - from_us, 1)
    if not link.schedule:
        return float(link.rate_bps)
    bits = sum((end - begin) * state.carries_bps for begin, end, state in spans(link, from_us, to_us))
    return bits / max(to_us - from_us, 1)


def values(link: Link, quantity: str) -> set[int]:
    """Every value that rate_bps, delay_us or limit ever has."""
    return {getattr(state, quantity) for _, state in states(link)}


def most(link: Link, quantity: str) -> int:
    """The largest of them."""
    return max(values(link, quantity))


def least(link: Link, quantity: str) -> int:
    """The smallest of them."""
    return min(values(link, quantity))


def longest_pause_us(link: Link, until_us: float = math.inf) -> float:
    """The longest time for which nothing is carried; of a link with a trace in a run that ends at until_us."""
    if link.opportunities:
        times_us = [0, *(at_us for at_us, _ in opportunities(link, 0, until_us))]
        return float(max(later - earlier for earlier, later in zip(times_us, [*times_us[1:], until_us])))
    longest, down_us = 0.0, None
    for at_us, state in states(link):
        if not state.up and down_us is None:
            down_us = at_us
        elif state.up and down_us is not None:
            longest, down_us = max(longest, at_us - down_us), None
    return math.inf if down_us is not None else longest

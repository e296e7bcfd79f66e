# SPDX-License-Identifier: GPL-2.0-only
"""Links that change during a run: what is so at which time, told from the `schedule` of a link of network.json.

A schedule is a list of changes in order of time: {"at_us": ..., and what is so from then on: "rate_bps", "delay_us",
"loss_percent", "limit" (as the queue counts), "up": whether it carries anything}. Before the first change, and for
what it does not name, a link is as its other fields say. Only plain values here: guest, checks and analysis use it.
"""
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

Link = Mapping[str, Any]
Json = dict[str, Any]
#: of an opportunity of a trace: a full frame
FRAME_BYTES = 1514
#: what a schedule may change
QUANTITIES = ("rate_bps", "delay_us", "loss_percent", "limit", "up")


def changes(link: Link) -> list[Json]:
    """The link's changes in order of time; [] for one that stays as it is."""
    found: list[Json] = link.get("schedule") or []
    return found


def varies(link: Link, quantity: str) -> bool:
    """True if a schedule changes this."""
    return any(quantity in change for change in changes(link))


def initial(link: Link) -> Json:
    """What is so before the first change."""
    return {"rate_bps": link["rate_bps"], "delay_us": link.get("delay_us", 0),
            "loss_percent": link.get("loss_percent", 0), "up": True,
            "limit": link.get("limit_packets") if link.get("limit_packets") is not None else link.get("limit_bytes")}


def states(link: Link) -> Iterator[tuple[int, Json]]:
    """(from when in us, all that is so from then on), the first from 0 on or before."""
    state = initial(link)
    yield 0, dict(state)
    for change in changes(link):
        state.update({name: change[name] for name in QUANTITIES if name in change})
        yield change["at_us"], dict(state)


def spans(link: Link, from_us: float, to_us: float) -> Iterator[tuple[float, float, Json]]:
    """(begin, end, state) of the parts of an interval in which nothing changes."""
    known = list(states(link))
    for (begin_us, state), (end_us, _) in zip(known, [*known[1:], (max(to_us, known[-1][0]), {})]):
        begin, end = max(from_us, begin_us), min(to_us, end_us)
        if begin < end:
            yield begin, end, state


def carries_bps(state: Mapping[str, Any]) -> int:
    """The rate in a state; 0 while nothing is carried."""
    return int(state["rate_bps"]) if state["up"] else 0


def opportunities(link: Link, from_us: float, to_us: float) -> Iterator[tuple[int, int]]:
    """(time in us, how many full frames may leave) of a link with a trace, from_us included, to_us not."""
    trace = link["opportunities"]
    for turn in itertools.count(max(0, int(from_us) // trace["period_us"] - 1)):
        begin_us = turn * trace["period_us"]
        if begin_us >= to_us:
            return
        yield from ((begin_us + at_us, count) for at_us, count in trace["times"] if from_us <= begin_us + at_us < to_us)


def mean_rate_bps(link: Link, from_us: float, to_us: float) -> float:
    """The mean of the rate over an interval."""
    if link.get("opportunities"):
        return sum(count for _, count in opportunities(link, from_us, to_us)) * FRAME_BYTES * 8e6 \
            / max(to_us - from_us, 1)
    if not changes(link):
        return float(link["rate_bps"])
    bits = sum((end - begin) * carries_bps(state) for begin, end, state in spans(link, from_us, to_us))
    return bits / max(to_us - from_us, 1)


def values(link: Link, quantity: str) -> set[Any]:
    """Every value that something ever has."""
    return {state[quantity] for _, state in states(link)}


def most(link: Link, quantity: str) -> Any:
    """The largest of them."""
    return max(values(link, quantity))


def least(link: Link, quantity: str) -> Any:
    """The smallest of them."""
    return min(values(link, quantity))


def longest_pause_us(link: Link) -> float:
    """The longest time for which nothing is carried."""
    longest, down_us = 0.0, None
    for at_us, state in states(link):
        if not state["up"] and down_us is None:
            down_us = at_us
        elif state["up"] and down_us is not None:
            longest, down_us = max(longest, at_us - down_us), None
    return float("inf") if down_us is not None else longest

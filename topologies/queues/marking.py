# SPDX-License-Identifier: GPL-2.0-only
"""Which queues mark packets with CE instead of dropping them (RFC 3168): from a link of network.json.

Only plain values here: guest, checks and analysis use it.
"""
from collections.abc import Mapping, Sequence
from typing import Any

Link = Mapping[str, Any]
#: these may drop a packet that they have marked: what RED has marked its queue may have no room for
_DROP_MARKED = ("red", "choke", "dualpi2")
#: these may count a packet twice: what DualPI2 marks by its probability it may mark by its step, too
_COUNT_TWICE = ("dualpi2",)
#: these mark whatever understands ECN, without being told to
_ALWAYS_MARK = ("cake", "dualpi2")


def marks(link: Link) -> bool:
    """True if the queue of a link may mark."""
    return link.get("queue") in _ALWAYS_MARK or bool((link.get("queue_options") or {}).get("ecn"))


def drops_marked(link: Link) -> bool:
    """True if what it has marked may not leave it all the same."""
    return link["queue"] in _DROP_MARKED


def counts_twice(link: Link) -> bool:
    """True if it may count the mark of one packet twice."""
    return link["queue"] in _COUNT_TWICE


def last_marking(way: Sequence[str], marking: set[str]) -> str | None:
    """The last link of a way (names) whose queue may mark, None if none does."""
    return next((name for name in reversed(way) if name in marking), None)

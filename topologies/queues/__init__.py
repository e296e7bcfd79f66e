# SPDX-License-Identifier: GPL-2.0-only
"""Kinds of queues, one file each, found by listing this folder: options, traits, tc's words, netlink's attributes.

    queue: {kind: pfifo, limit: 850}            a limit in packets,
    queue: {kind: bfifo, limit: 150 kB}         in bytes where the qdisc counts bytes (bfifo, red),
    queue: {kind: codel, limit: 100 ms}         or, for every kind, the time that the link needs to send it

A file `my_queue.py` holds one subclass of `InPackets` or `InBytes`; scenarios and the kernel name it `my_queue`.
Options have tc's names. An option that is not given has the kernel's default, for red the one of tc's manual page.
"""
import functools
import importlib
import pathlib
from collections.abc import Sequence

from testbed.core import fields
from topologies.links.records import Link
from topologies.queues._queue import MOST, Places, Queue, Traits, Wanted

__all__ = ["MOST", "Places", "Queue", "Traits", "Wanted", "field", "kind", "kinds", "last_marking", "names", "traits",
           "with_changing_limits"]


@functools.cache
def names() -> list[str]:
    """Names of all kinds."""
    return sorted(file.stem for folder in __path__ for file in pathlib.Path(folder).glob("[a-z]*.py"))


@functools.cache
def kind(name: str) -> type[Queue]:
    """The kind of queue of this name; FieldError if there is none."""
    if name not in names():
        raise fields.FieldError("kind", f"one of {', '.join(names())} expected, not {fields.show(name)}")
    module = importlib.import_module(f"{__name__}.{name}")
    return next(thing for thing in vars(module).values()
                if isinstance(thing, type) and issubclass(thing, Queue) and thing.__module__ == module.__name__)


@functools.cache
def kinds() -> dict[str, type[Queue]]:
    """{name: kind} of all."""
    return {name: kind(name) for name in names()}


def with_changing_limits() -> list[str]:
    """Names of the kinds whose limit can change during a run."""
    return [name for name, one in kinds().items() if one.CAN_CHANGE]


def field() -> Queue:
    """The field of a section that says which queue there is; by default 1000 packets, drop tail."""
    found: Queue = fields.tagged(kinds(), default={}, usual="pfifo")
    return found


def traits(link: Link) -> Traits:
    """Traits of the queue of a link of network.json. Runs of earlier versions do not list them there."""
    if link.has("queue_traits"):
        return Traits(**dict.fromkeys(link.queue_traits, True))
    return kind(link.queue).traits(link.queue_options if link.has("queue_options") else {})


def last_marking(way: Sequence[str], marking: set[str]) -> str | None:
    """The last link of a way (names) whose queue may mark, None if none does."""
    return next((name for name in reversed(way) if name in marking), None)

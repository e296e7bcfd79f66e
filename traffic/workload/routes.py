# SPDX-License-Identifier: GPL-2.0-only
"""Paths of a network between hosts, as scenarios name them: "n4->n1" sends from n4 to n1."""
import dataclasses
import re
from collections.abc import Iterable

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.links.records import Link, Network, Path

#: how sections spell a path
PATH_PATTERN = r"\s*[A-Za-z0-9_-]+\s*->\s*[A-Za-z0-9_-]+\s*"
_EXAMPLE = "n4->n1"


def path_field() -> str | None:
    """A section's field that names a path."""
    return fields.word(pattern=PATH_PATTERN, example=_EXAMPLE, default=None)


def paths_field() -> tuple[str, ...]:
    """A section's field `paths`: by default the first one, in the direction of the acceptor's data."""
    return fields.listing(fields.word(pattern=PATH_PATTERN, example=_EXAMPLE), default=(), single=True)


@dataclasses.dataclass(frozen=True)
class Route:
    """A path in the direction in which something is sent over it."""
    sender: str
    receiver: str
    src: str
    dst: str
    base_rtt_us: int
    hops: tuple[str, ...]           # names of the link directions there ...
    hops_back: tuple[str, ...]      # ... and back


def bottlenecks(network: Network) -> dict[str, Link]:
    """{name: link} of the link directions that are bottlenecks."""
    return {link.name: link for link in network.links if link.bottleneck}


def routes(network: Network) -> list[Route]:
    """The network's paths, from the initiator to the acceptor."""
    return [_route(path) for path in network.paths]


def back(route: Route) -> Route:
    """The same path in the other direction."""
    return Route(route.receiver, route.sender, route.dst, route.src, route.base_rtt_us, route.hops_back, route.hops)


def _route(path: Path) -> Route:
    return Route(path.initiator, path.acceptor, path.initiator_address, path.acceptor_address, path.base_rtt_us,
                 tuple(path.hops), tuple(path.hops_back))


def in_time(latest_us: int, stop_us: int, field: str) -> None:
    """FieldError if a flow may begin as late as it or all stop."""
    if latest_us >= stop_us:
        raise FieldError(field, f"flows may begin as late as {latest_us / 1e6:g} s, but stop at {stop_us / 1e6:g} s")


def find(network: Network, names: Iterable[str], field: str = "paths") -> list[Route]:
    """The routes named "sender->receiver"; without names the first path, in the direction of the acceptor's data.

    FieldError if the network has no path between two hosts.
    """
    forward = routes(network)
    known = {(route.sender, route.receiver): route for route in [*map(back, forward), *forward]}
    found = []
    for name in names:
        sender, receiver = (end.strip() for end in re.split("->", name, maxsplit=1))
        if (sender, receiver) not in known:
            some = [f"{route.receiver}->{route.sender}" for route in forward]
            raise fields.FieldError(field, f"no path {sender}->{receiver}; there are: {_some(some)}, and their reverse")
        found.append(known[sender, receiver])
    return found or [back(forward[0])]


def wakeup_cost_us(network: Network, node: str) -> int:
    """What each wake-up of a program on this host costs (topologies/links/end_hosts.py)."""
    return next(one.wakeup_cost_us for one in network.nodes if one.name == node)


def find_links(network: Network, names: Iterable[str], field: str = "target") -> list[Link]:
    """The bottleneck link directions with these names. FieldError if there are none."""
    known = bottlenecks(network)
    for name in names:
        if name not in known:
            raise fields.FieldError(field, f"one of {_some(known)} expected, not {fields.show(name)}")
    return [known[name] for name in names]


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:12]) + (f" ... ({len(names)})" if len(names) > 12 else "")

# SPDX-License-Identifier: GPL-2.0-only
"""Ways over the air: which stations they pass, and what hops add to round trips; from paths of network.json.

Guest and checks use it. How long a hop takes is the standard's (topologies/standards/).
"""
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Protocol

from topologies import standards
from topologies.links.records import Cell, Link, Network, Path

#: round trips that are tried at most, and how likely none of fewer may be without a repetition
_MOST_TRIPS, _DOUBT = 300, 1e-4


class Ends(Protocol):
    """The hosts of a flow."""
    sender: str
    receiver: str


@dataclasses.dataclass(frozen=True)
class Way:
    """What a way over the air adds to the time of a packet on an idle channel: at least, and how much more at most."""
    least_us: float
    more_us: float


def round_trip(cells: Mapping[str, Cell], path: Path, ip_bytes: int) -> Way:
    """What the air adds to the round trip of a packet and its answer, both so large, if nobody else sends."""
    least_us = more_us = 0.0
    for hop, (name, follows, forwarded) in enumerate(_hops(path)):
        standard = standards.of(cells[name])
        least, more = standard.hop_us(standard.data_bytes(ip_bytes, forwarded), first=not hop, follows=follows)
        least_us, more_us = least_us + least, more_us + more
    return Way(least_us, more_us)


def round_trips_for_a_clean_one(cells: Mapping[str, Cell], path: Path) -> int:
    """How many round trips there have to be until one of them, all but certainly, needed no repetition; at most 300."""
    clean = math.prod((1 - cells[name].loss_percent / 100) ** 2 for name, _, _ in _hops(path))
    if clean == 1:
        return 1
    return min(_MOST_TRIPS, math.ceil(math.log(_DOUBT) / math.log1p(-clean))) if clean else _MOST_TRIPS


def way(path: Path, links: Mapping[str, Link], back: bool = False) -> list[str]:
    """Names of links and cells on a path of network.json, in order; links: by name."""
    wires, hops = (list(path.hops_back), list(path.air_back)) if back else (list(path.hops), list(path.air))
    if not hops:
        return wires
    at, found = path.acceptor if back else path.initiator, []
    while wires or hops:
        if wires and links[wires[0]].from_node == at:
            found.append(wires.pop(0))
            at = links[found[-1]].to_node
        else:
            name, _, at = hops.pop(0)
            found.append(name)
    return found


def senders(network: Network, flow: Ends) -> set[str]:
    """Stations that send a flow's packets over the air, there."""
    return {hop[1] for path in network.paths for ends, hops in (
        ((path.initiator, path.acceptor), path.air), ((path.acceptor, path.initiator), path.air_back))
        if ends == (flow.sender, flow.receiver) for hop in hops}


def _hops(path: Path) -> Iterator[tuple[str, bool, bool]]:
    """Of a round trip: (cell, right after another hop over the air, the packet has been forwarded)."""
    at = ""
    for hops, start in ((path.air, path.initiator), (path.air_back, path.acceptor)):
        # who has a wire behind the radio answers later
        at = at if at == start else ""
        for cell, sender, receiver in hops:
            yield cell, sender == at, sender != start
            at = receiver

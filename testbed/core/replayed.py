# SPDX-License-Identifier: GPL-2.0-only
"""What workload.json says of a component whose connections are replayed, whichever kind of traffic made them."""
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol


@dataclasses.dataclass(frozen=True)
class Replayed:
    """A component whose flows are sources of many connections, with a plan each.

    mix: with several congestion controls "sources" take turns, or each source's "connections" are dealt out, so that
    it has a plan for each congestion control.
    """
    mix: str = "sources"
    #: clients that wait for answers, and think before they ask again; None for connections that do neither
    clients: int | None = None
    #: whether connections end before the run does
    closes: bool = True
    #: {"of": connections of another run, "drawn": how many of them are here, one after the other}
    alone: Mapping[str, int] | None = None

    @property
    def offers_load(self) -> bool:
        """Whether a load is meant: not by clients, nor by connections that are alone on the network."""
        return self.clients is None and self.alone is None

    def shares(self, variants: Collection[object]) -> int:
        """How many plans each source has."""
        return max(len(variants), 1) if self.mix == "connections" else 1

    def record(self, described: Mapping[str, object]) -> dict[str, object]:
        """The entry of workload.json; described: what else is said of the connections."""
        clients = {} if self.clients is None else {"clients": self.clients, "closes": self.closes}
        return {"mix": self.mix, **described, **clients, **({"alone": self.alone} if self.alone is not None else {})}


class _Component(Protocol):
    """What a component of workload.json says of it (traffic/workload/records.py)."""
    name: str
    mix: str | None
    clients: int | None
    closes: bool
    alone: Mapping[str, int] | None


def of(component: _Component) -> Replayed | None:
    """Of a component of workload.json; None if its connections are not replayed."""
    if component.mix is None:
        return None
    return Replayed(component.mix, component.clients, component.closes, component.alone)


def names(components: Iterable[_Component]) -> dict[str, Replayed]:
    """{name of a component: what is said of it} of those that are replayed."""
    return {component.name: found for component in components if (found := of(component)) is not None}

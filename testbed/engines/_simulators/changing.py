# SPDX-License-Identifier: GPL-2.0-only
"""Links that change during a run, as the drivers in simulation/ are told of them."""
from __future__ import annotations

import array
import pathlib
from collections.abc import Iterator

from testbed.engines._simulators.driver_orders import line
from topologies.links import varying
from topologies.links.records import Link, Network


def changes(network: Network) -> Iterator[str]:
    """An order for each change: all that is so of the link from then on, whatever of it is new."""
    for link in network.links:
        states = list(varying.states(link))
        for (_, before), (at_us, state) in zip(states, states[1:]):
            yield line("change", link.name, at_us=at_us, limit_changes=state.limit != before.limit,
                       **{name: getattr(state, name) for name in varying.QUANTITIES})


def traces(network: Network) -> Iterator[str]:
    """An order for each link with a trace, which names the file that `write_opportunities` leaves."""
    for link in network.links:
        if link.opportunities:
            yield line("trace", link.name, opportunities=_file(link))


def write_opportunities(network: Network, duration_us: int, folder: pathlib.Path) -> None:
    """The file of each link with a trace: when in us, how many full frames; 8 bytes each."""
    for link in network.links:
        if link.opportunities:
            numbers = array.array("q", (number for one in varying.opportunities(link, 0, duration_us)
                                        for number in one))
            (folder / _file(link)).write_bytes(numbers.tobytes())


def _file(link: Link) -> str:
    return f"{link.name}.opportunities"

# SPDX-License-Identifier: GPL-2.0-only
"""What the radio modules count, in files that they show (kernel-modules/air/module.c): a line for each station."""
from topologies import standards
from topologies.links.records import Cell

#: where modules show them
FOLDER = "/proc"


def path(cell: Cell) -> str:
    """The file of the module that makes the radios of a cell of network.json."""
    return f"{FOLDER}/{standards.of(cell).MODULE}"


def parse(text: str) -> tuple[list[dict[str, int]], int]:
    """([{column: value}] of the stations in order, ns in which anybody was on the air) of a module's file."""
    first, *rows, last = text.splitlines()
    names = first.split()
    return [dict(zip(names, map(int, row.split()))) for row in rows], int(last.split()[1])

# SPDX-License-Identifier: GPL-2.0-only
"""How CCAs, links and numbers look: the same in every figure and table."""

from __future__ import annotations

import math
from typing import NamedTuple

# Okabe & Ito, "Color Universal Design" (2008), without yellow (too pale on white).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#8a8a8a"


class Look(NamedTuple):
    colour: str
    dash: int   # gnuplot dash type
    point: int  # gnuplot point type


def looks(ccas: list[str]) -> dict[str, Look]:
    """Look of every CCA by its place; beyond the palette dashes and points differ."""
    points = (7, 5, 9, 11, 13, 6, 4)
    found = {}
    for index, cca in enumerate(ccas):
        turn, place = divmod(index, len(PALETTE))
        found[cca] = Look(PALETTE[place], 1 + turn, points[(place + turn) % len(points)])
    return found


def band(colour: str) -> str:
    """A colour three quarters of the way to white, for ranges around a line."""
    parts = (int(colour[at:at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * 0.72):02x}" for part in parts)


def direction(link: str) -> str:
    """right_to_left -> right to left"""
    return link.replace("_", " ")


def number(value: float, spread: float | None = None) -> str:
    """A number to the digits that its spread supports, else three significant ones."""
    if value == 0 and not spread:
        return "0"
    digits = 2 if spread else 3
    reference = abs(spread) if spread else abs(value)
    decimals = digits - 1 - math.floor(math.log10(reference))
    # Never more than six significant digits, never a rounded integer part.
    most = 5 - math.floor(math.log10(abs(value))) if value else 6
    return f"{value:.{max(0, min(decimals, most, 6))}f}"


def size(size_bytes: float) -> str:
    """A size in bytes, decimal prefixes: 3163 -> 3.2 kB"""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            return f"{float(f'{size_bytes / factor:.2g}'):g} {unit}"
    return f"{size_bytes:g} B"

# SPDX-License-Identifier: GPL-2.0-only
"""How subjects, links and numbers look: the same in every figure and table."""

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


def looks(names: list[str]) -> dict[str, Look]:
    """Look of every name by its place; beyond the palette dashes and points differ."""
    points = (7, 5, 9, 11, 13, 6, 4)
    found = {}
    for index, name in enumerate(names):
        turn, place = divmod(index, len(PALETTE))
        found[name] = Look(PALETTE[place], 1 + turn, points[(place + turn) % len(points)])
    return found


def band(colour: str) -> str:
    """A colour three quarters of the way to white, for ranges around a line."""
    parts = (int(colour[at:at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * 0.72):02x}" for part in parts)


def direction(link: str) -> str:
    """right_to_left -> right to left"""
    return link.replace("_", " ")


def number(value: float, digits: int = 3) -> str:
    """A number with at least so many significant digits; all digits before the point stay as they are."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def plus_minus(mean: float, half_width: float) -> tuple[str, str]:
    """A mean and its half width with the same decimals: two digits of the half width.

    At most one more digit than `number` gives the mean, so that a tiny spread
    does not make long columns; a spread that vanishes then reads "0.00".
    """
    if half_width == 0:
        return number(mean), "0"
    decimals = _decimals(mean, half_width)
    return f"{mean:.{decimals}f}", f"{half_width:.{decimals}f}"


def with_ends(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and both ends of its interval, with the same decimals: as `plus_minus` has them."""
    if low == high:
        return number(value), number(low), number(high)
    decimals = _decimals(value, (high - low) / 2)
    # what rounds to zero has no sign
    first, second, third = (f"{round(one, decimals) + 0.0:.{decimals}f}" for one in (value, low, high))
    return first, second, third


def _decimals(value: float, half_width: float) -> int:
    decimals = 1 - math.floor(math.log10(half_width))
    return max(0, min(decimals, 3 - math.floor(math.log10(abs(value)))) if value else decimals)


def log_ticks(low: float, high: float) -> str:
    """Tics of a logarithmic axis for gnuplot: 1, 2, 5 in each decade, only 1, or more of them on a short one."""
    steps = (1, 1.2, 1.5, 2, 3, 4, 5, 7) if high / low < 4 else (1, 2, 5) if high / low < 300 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0 ** decade for decade in decades for step in steps]
    return ", ".join(f"'{tick:g}' {tick:g}" for tick in ticks if low <= tick <= high)


def size(size_bytes: float) -> str:
    """A size in bytes, decimal prefixes: 3163 -> 3.2 kB"""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            return f"{float(f'{size_bytes / factor:.2g}'):g} {unit}"
    return f"{size_bytes:g} B"


def rate(rate_bps: float) -> str:
    """100000000 -> 100 Mbit/s"""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.6g} {unit}"
    return f"{rate_bps:g} bit/s"


def milliseconds(time_us: float) -> str:
    """2000 -> 2 ms"""
    return f"{time_us / 1e3:.4g} ms" if time_us < 1e6 else f"{time_us / 1e3:.0f} ms"


def seconds(time_us: float) -> str:
    """2500000 -> 2.5 s"""
    return f"{time_us / 1e6:.6g} s"

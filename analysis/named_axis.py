# SPDX-License-Identifier: GPL-2.0-only
"""An axis whose values are names, in gnuplot: they stand at 0, 1, ..., turned where they have no room side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import gnuplot

STEP, SHARE = 0.12, 0.8  # between subjects: at most, and of all together, of the distance of two names
LETTER_PX = 7
LEAST_PX = 35  # between names that are turned a little


class NamedAxis:
    """Of a panel that is `panel_px` wide. more_px: what a figure needs below it beyond the room for numbers."""

    def __init__(self, values: Sequence[str], panel_px: float) -> None:
        self._values = values
        longest_px, room_px = LETTER_PX * max(map(len, values)), panel_px / len(values)
        self._turned = 0 if longest_px <= room_px else 30 if room_px >= LEAST_PX else 60
        self.more_px = round(longest_px * math.sin(math.radians(self._turned)))

    def ticks(self, shown: bool) -> str:
        """With names if they are shown."""
        placed = ", ".join(f"{gnuplot.quote(value if shown else '')} {place}"
                           for place, value in enumerate(self._values))
        return f"set xtics {f'rotate by -{self._turned} left ' if self._turned else ''}({placed})"

    @property
    def ends(self) -> tuple[float, float]:
        return -0.5, len(self._values) - 0.5


def step(subjects: int) -> float:
    """Between two of so many subjects."""
    return min(STEP, SHARE / subjects)

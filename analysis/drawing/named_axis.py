# SPDX-License-Identifier: GPL-2.0-only
"""An axis whose values are names, in gnuplot: they stand at 0, 1, ..., turned where they have no room side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.drawing import gnuplot

LABEL_PX = 14  # from the bottom of the figure to the axis's name
STEP, SHARE = 0.12, 0.8  # between subjects: at most, and of all together, of the distance of two names
LETTER_PX = 7
LEAST_PX = 35  # between names that are turned a little
LEFT_PX = 60  # beside a panel, for the first name


class NamedAxis:
    """Of a panel that is `panel_px` wide. more_px: what a figure needs below it beyond the room for numbers."""

    def __init__(self, values: Sequence[str], panel_px: float) -> None:
        self._values = values
        longest_px, room_px = LETTER_PX * max(map(len, values)), panel_px / len(values)
        slanted = [turned for turned in (30, 60) if (turned > 30 or room_px >= LEAST_PX)
                   and longest_px * math.cos(math.radians(turned)) <= room_px / 2 + LEFT_PX]
        self._turned = 0 if longest_px <= room_px else (slanted or [90])[0]
        self.more_px = round(longest_px * math.sin(math.radians(self._turned)))

    def ticks(self, shown: bool) -> str:
        """With names if they are shown."""
        placed = ", ".join(f"{gnuplot.tick(value if shown else '')} {place}"
                           for place, value in enumerate(self._values))
        return f"set xtics {f'rotate by {self._turned} right ' if self._turned else ''}({placed})"

    def label(self, text: str, bottom: float) -> str:
        """What the axis is, `bottom` (0 to 1 of the figure) high: turned names push an xlabel out of some figures."""
        return f"unset xlabel; set label 2 {gnuplot.quote(text)} at graph 0.5, screen {bottom:g} center"

    @property
    def ends(self) -> tuple[float, float]:
        return -0.5, len(self._values) - 0.5


def step(subjects: int) -> float:
    """Between two of so many subjects."""
    return min(STEP, SHARE / subjects)

# SPDX-License-Identifier: GPL-2.0-only
"""Labels beside points of a plot, placed so that they do not cover each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.read.runs import Array

CHARACTER_PX, LINE_PX, GAP_PX = 8.0, 15.0, 9.0


class Box(NamedTuple):
    """Pixels; y grows upwards."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """Common area, square pixels."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(wide, 0) * max(high, 0)


def place(points: list[tuple[float, float]], texts: list[str], lines: Array,
          width: float, height: float) -> list[tuple[float, float]]:
    """Left end and middle of every label, pixels, for points in pixels.

    Takes for each label in turn the nearest of the places around its point
    that covers least of the labels and points so far and stays inside.
    `lines` are points (shape n x 2) of curves, better not covered either.
    """
    marks = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    taken: list[Box] = []
    for (x, y), text in zip(points, texts):
        wide = CHARACTER_PX * len(text)
        least, best = float("inf"), Box(x, y, x, y)
        for ring in range(1, 8):
            gap = GAP_PX * ring
            for left, middle in ((x + gap, y), (x - gap - wide, y), (x - wide / 2, y + gap + 4),
                                 (x - wide / 2, y - gap - 4), (x + gap, y + gap),
                                 (x + gap, y - gap), (x - gap - wide, y + gap),
                                 (x - gap - wide, y - gap)):
                box = Box(left, middle - LINE_PX / 2, left + wide, middle + LINE_PX / 2)
                area = wide * LINE_PX
                outside = area - box.overlap(Box(0, 0, width, height))
                crossed = np.count_nonzero((lines[:, 0] > left) & (lines[:, 0] < box.right)
                                           & (lines[:, 1] > box.bottom) & (lines[:, 1] < box.top))
                cost = (sum(box.overlap(other) for other in taken + marks)
                        + 4 * outside + (ring + min(crossed, 4)) * area / 30)
                if cost < least:
                    least, best = cost, box
        taken.append(best)
    return [(box.left, (box.bottom + box.top) / 2) for box in taken]

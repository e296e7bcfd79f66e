# SPDX-License-Identifier: GPL-2.0-only
"""Legends above figures of several panels: as many lines as their entries need, and room for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

LINE_PX = 18
ABOVE_PX = 8
WIDTH_LETTERS = 100  # of a figure 1000 pixels wide
SAMPLE_LETTERS = 6
MOST_COLUMNS = 6


def columns(labels: Sequence[str]) -> int:
    """How many entries of a legend fit side by side."""
    return max(1, min(MOST_COLUMNS, len(labels), WIDTH_LETTERS // (max(map(len, labels)) + SAMPLE_LETTERS)))


def lines(labels: Sequence[str]) -> int:
    """How many lines a legend has."""
    return math.ceil(len(labels) / columns(labels))


def more_px(labels: Sequence[str]) -> int:
    """What a figure that has room for one line of legend needs besides."""
    return LINE_PX * (lines(labels) - 1)


def above(labels: Sequence[str], left: float, height_px: float) -> str:
    """Gnuplot's command for a legend at the top of a figure, from `left` (0 to 1) on; height with more_px()."""
    bottom = 1 - (ABOVE_PX + LINE_PX * lines(labels)) / height_px
    # "horizontal" would take only as many columns as fit into one panel
    return (f"set key vertical left bottom at screen {left:g}, screen {bottom:g} samplen 2 "
            f"maxrows {lines(labels)}")

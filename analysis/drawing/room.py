# SPDX-License-Identifier: GPL-2.0-only
"""Room for the text of a figure: where texts of an SVG are, how far they leave the picture, and more room around it."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_TEXT = re.compile(r'<g transform="translate\(([-\d.]+),([-\d.]+)\)(?: rotate\(([-\d.]+)\))?"[^>]*font-size="([\d.]+)"'
                   r'[^>]*text-anchor="(\w+)">\s*<text>(.*?)</text>', re.S)
_NUMBER = r"([-\d.e]+)"
#: widths of letters in DejaVu Sans, which is wider than what papers use; of the size of the font
_NARROW, _WIDE, _DIGIT, _USUAL = 0.35, 0.95, 0.64, 0.6
#: from the base line
_ABOVE, _BELOW = 0.76, 0.24


class Text(NamedTuple):
    """A text, and its box in a picture: pixels from the upper left corner."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Text) -> float:
        """Pixels of the smaller side of what both cover; 0 if nothing."""
        return max(0.0, min(min(self.right, other.right) - max(self.left, other.left),
                            min(self.bottom, other.bottom) - max(self.top, other.top)))


class Margins(NamedTuple):
    """Pixels to add on each side of a picture."""

    left: int = 0
    right: int = 0
    bottom: int = 0
    top: int = 0


def width_of(text: str, size: float) -> float:
    """About how wide a text is, in the unit of its size."""
    return size * sum(_NARROW if letter in " .,:;'|()[]ijlt1/" and letter != "1" else
                      _WIDE if letter in "mwMW%→←" else _DIGIT if letter.isdigit() else _USUAL for letter in text)


def box(text: str, x: float, y: float, size: float, anchor: str = "start", turned: float = 0) -> Text:
    """Where a text is that begins, ends or is centred at a point of its base line; turned: degrees clockwise."""
    wide = width_of(text, size)
    begin = {"start": 0.0, "middle": -wide / 2, "end": -wide}[anchor]
    angle = math.radians(turned)
    corners = [(x + a * math.cos(angle) - b * math.sin(angle), y + a * math.sin(angle) + b * math.cos(angle))
               for a in (begin, begin + wide) for b in (-_ABOVE * size, _BELOW * size)]
    xs, ys = zip(*corners)
    return Text(text, min(xs), min(ys), max(xs), max(ys))


def texts(svg: str) -> list[Text]:
    """The texts of an SVG by gnuplot."""
    found = []
    for x, y, turned, size, anchor, inner in _TEXT.findall(svg):
        text = html.unescape(re.sub("<[^>]+>", "", inner)).strip()
        if text:
            found.append(box(text, float(x), float(y), float(size), anchor, float(turned or 0)))
    return found


def lacking(found: Iterable[Text], width: float, height: float) -> Margins:
    """How much more room texts need on each side."""
    boxes = list(found)
    if not boxes:
        return Margins()
    sides = (-min(one.left for one in boxes), max(one.right for one in boxes) - width,
             max(one.bottom for one in boxes) - height, -min(one.top for one in boxes))
    return Margins(*(math.ceil(side) + 2 if side > 0 else 0 for side in sides))


def crowded(found: Sequence[Text], at_most: float) -> list[tuple[str, str]]:
    """Pairs of texts that overlap by more than a number of pixels."""
    return [(one.text, other.text) for place, one in enumerate(found) for other in found[place + 1:]
            if one.overlap(other) > at_most]


def _sub(pattern: str, by: Callable[[re.Match[str]], str], line: str) -> str:
    return re.sub(pattern, by, line)


def widened(body: Sequence[str], margins: Margins, width: float, height: float) -> list[str]:
    """The commands of a figure for a picture with more room around it: what was where stays there, in pixels.

    Places are those that commands give in shares of the screen.
    """
    wide, high = width + margins.left + margins.right, height + margins.bottom + margins.top

    def across(share: str) -> str:
        return f"{(float(share) * width + margins.left) / wide:g}"

    def up(share: str) -> str:
        return f"{(float(share) * height + margins.bottom) / high:g}"

    def layout(match: re.Match[str]) -> str:
        left, right, bottom, top, between, below = match.groups()
        return (f"margins {across(left)},{across(right)},{up(bottom)},{up(top)} "
                f"spacing {float(between) * width / wide:g},{float(below) * height / high:g}")
    found = []
    for line in body:
        line = _sub(rf"([lr]margin at screen) {_NUMBER}", lambda m: f"{m[1]} {across(m[2])}", line)
        line = _sub(rf"([bt]margin at screen) {_NUMBER}", lambda m: f"{m[1]} {up(m[2])}", line)
        line = _sub(rf"margins {_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\s+spacing {_NUMBER},{_NUMBER}", layout, line)
        line = _sub(rf"at screen {_NUMBER}, ?screen {_NUMBER}",
                    lambda m: f"at screen {across(m[1])}, screen {up(m[2])}", line)
        line = _sub(rf"(graph {_NUMBER}), ?screen {_NUMBER}", lambda m: f"{m[1]}, screen {up(m[3])}", line)
        found.append(line)
    return found

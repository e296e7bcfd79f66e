# SPDX-License-Identifier: GPL-2.0-only
"""Time series that a reader can zoom: thinned, packed into a limit of bytes, and the library that draws them.

Thinning keeps of each of many equal spans of time the first, the last, the smallest and the largest value (M4: Jugel et
al., VLDB 2014), so that no peak is lost: nothing is averaged.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np

from analysis.read import zooms
from analysis.read.runs import AnalysisError, Array

#: the largest page, bytes; what tables and figures leave of it is for series
MOST_PAGE_BYTES = 4_900_000
#: the most that series take
MOST_BYTES = 2_500_000
#: a series has no fewer spans than LEAST_SPANS (rather, there are fewer runs), and no more than MOST_SPANS
LEAST_SPANS, MOST_SPANS = 100, 1000
NO_ROOM = "No time series to zoom: tables and figures leave no room for them."
LIBRARY = Path("/usr/share/javascript/dygraphs")

_POINT_BYTES = 16 / 3   # two numbers of 16 bits, in base64
_AROUND_BYTES = 120     # what else is written down of a series
_STEPS = 65_535


class Series(NamedTuple):
    """One curve: of which chart, of what (a link, a flow), as numbers over microseconds in order."""

    chart: str      # a chart of templates/series.js
    of: str         # link or flow
    place: int      # which of the links or flows
    t_us: Array
    values: Array


class Missing(AnalysisError):
    """dygraphs is not installed."""


class Packed(TypedDict):
    """A curve as the page reads it: its chart, name and place, its largest value, and its numbers."""

    c: str
    k: str
    i: int
    max: float
    d: str


class ExploredRun(TypedDict):
    """A run as the page reads it: what the two boxes choose it by, start of the measurement and end in s, names of its
    links and flows. states: (from, to, name, colour), s; span: what is shown at first, s; anchor: where on the page
    there is more of it, its name by default."""

    name: str
    row: str
    seed: int | str
    series: list[Packed]
    start: float
    end: float
    links: list[str]
    flows: list[str]
    states: NotRequired[list[tuple[float, float, str, str]]]
    span: NotRequired[tuple[float, float]]
    anchor: NotRequired[str]


class Explored(TypedDict, total=False):
    """What the template needs: series, how they were thinned, and the library; or why there are none."""

    problem: str
    script: str
    style: str
    spans: int
    #: {run that is left out: why}
    problems: dict[str, str]
    runs: list[ExploredRun]
    left_out: int
    left_out_which: str


class Candidate(NamedTuple):
    """A run that may have room: its curves, and what the page reads of it with these. Both are asked when its turn has
    come."""

    name: str
    end_us: float
    curves: Callable[[], Sequence[Series]]
    about: Callable[[list[Packed]], ExploredRun]


def fit(candidates: Sequence[Candidate], room_bytes: float, lengths: Sequence[int] = ()) -> Explored:
    """As many of these runs, in this order, as there is room for. {} where none has any series.

    room_bytes: how much larger the page may become; lengths: points of each curve of a typical run, without them of
    the first one.
    """
    if not candidates:
        return {}
    try:
        script, style_sheet = library()
    except Missing as problem:
        return {"problem": str(problem)}
    room = min(MOST_BYTES, room_bytes - len(script) - len(style_sheet))
    problems: dict[str, str] = {}
    spans, count, used = 0, len(candidates), 0
    found: list[ExploredRun] = []
    for one in candidates:
        if len(found) >= count:
            break
        try:
            curves = one.curves()
            if not curves:
                continue
            if not spans:
                spans, count = plan(0.9 * room, lengths or [len(curve.t_us) for curve in curves], len(candidates))
            packed = [pack(curve, one.end_us, spans) for curve in curves]
        except Exception as problem:    # the fault of what was given to read
            problems[one.name] = str(problem) if isinstance(problem, AnalysisError) else \
                f"{type(problem).__name__}: {problem}"
            continue
        run = one.about(packed)
        size = len(json.dumps(run))
        if used + size <= room:
            used += size
            found.append(run)
    if not found:
        why = [f"{name}: {problem}" for name, problem in problems.items()]
        return {"problem": "; ".join(["No time series to zoom", *why]) if why else NO_ROOM} if spans or why else {}
    return {"script": script, "style": style_sheet, "spans": spans, "problems": problems, "runs": found,
            "left_out": len(candidates) - len(found) - len(problems)}


def library() -> tuple[str, str]:
    """(script, style sheet) of dygraphs, to be put into the page. Missing if it is not there."""
    try:
        script = (LIBRARY / "dygraph.min.js").read_text(encoding="utf-8")
        sheet = (LIBRARY / "dygraph.min.css").read_text(encoding="utf-8")
    except OSError:
        raise Missing("No time series to zoom: dygraphs is not installed (Debian package libjs-dygraphs, make setup)."
                      ) from None
    # without the line that has a browser look for the source, and nothing that would end the element around it
    for end in ("//# sourceMappingURL", "/*# sourceMappingURL"):
        script, sheet = script.partition(end)[0], sheet.partition(end)[0]
    return script.replace("</script", "<\\/script"), sheet.replace("</style", "")


def plan(room_bytes: float, lengths: Sequence[int], runs: int) -> tuple[int, int]:
    """(spans of a series, runs): as many spans as there is room for, fewer runs where that would be too few.

    lengths: of the series of one run, points.
    """
    def size(spans: int) -> float:
        return sum(min(length, 4 * spans) * _POINT_BYTES + _AROUND_BYTES for length in lengths)

    count = max(0, min(runs, int(room_bytes / max(1.0, size(LEAST_SPANS)))))
    # bisect: the most spans that still fit
    low, high = LEAST_SPANS, MOST_SPANS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count * size(middle) <= room_bytes else (low, middle - 1)
    return low, count


def pack(one: Series, end_us: float, spans: int) -> Packed:
    """A curve as the page reads it: d is base64 of 16-bit numbers, little end first: all times, then all values.

    Times are 1/65535 of the run, values 1/65535 of the largest one; times that would fall together move by one.
    """
    kept = zooms.thinned(one.t_us, one.values, spans)
    top = float(one.values.max()) or 1.0
    order = np.arange(len(kept))
    times = np.round(one.t_us[kept] / end_us * _STEPS).astype(int)
    times = np.minimum(np.maximum.accumulate(times - order) + order, _STEPS - order[::-1])
    numbers = np.concatenate([times, np.round(one.values[kept] / top * _STEPS)]).astype("<u2")
    return {"c": one.chart, "k": one.of, "i": one.place, "max": float(f"{top:.6g}"),
            "d": base64.b64encode(numbers.tobytes()).decode("ascii")}

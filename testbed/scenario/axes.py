# SPDX-License-Identifier: GPL-2.0-only
"""The axes of a sweep: which fields or choices take which values, as `--sweep` and `sweep:` spell them.

    --sweep topology.central.queue.limit=85,170,850         values
    --sweep traffic.rate=0.5..10.5/0.5 Mbit/s               from .. to / step, all in one unit
    --sweep load=60,110                                     options of a choice

    sweep: {axes: {traffic.load: 10..90/10 %, topology.central.delay: [2 ms, 20 ms]}}       every combination
    sweep: {points: [{traffic.load: 60 %, timing.test: 100 s}, {traffic.load: 85 %}]}       just these
    quick: {sweep: {axes: {traffic.load: [60 %]}}}          of a short version, in place of the other

Values are text, as after `--set key=`.
"""
import itertools
import json
import math
import re
from collections.abc import Sequence
from decimal import Context, Decimal

from testbed.core import units
from testbed.core.errors import UsageError
from testbed.core.yaml_file import YamlFile

Point = dict[str, str]
MOST_POINTS = 10_000
_NUMBER = r"([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%][A-Za-z/]*)?"
_RANGE = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*(?:/\s*{_NUMBER}\s*)?")
_LONGEST_NUMBER = 60
_EXACT = Context(prec=100)


def values(text: str) -> list[str]:
    """'85, 170' -> ['85', '170']; '1..2/0.5 ms' -> ['1 ms', '1.5 ms', '2 ms']. ValueError, one line."""
    found: list[str] = []
    for part in _parts(text):
        match = _RANGE.fullmatch(part)
        found += _range(part, match) if match else [part]
        if len(found) > MOST_POINTS:
            raise ValueError(f"more than {MOST_POINTS} values")
    if not found or "" in found:
        raise ValueError("values such as 10,20,50 or 10..50/10 expected")
    repeated = next((value for number, value in enumerate(found) if value in found[:number]), None) \
        if len(set(found)) < len(found) else None
    if repeated is not None:
        raise ValueError(f"{repeated} is there twice")
    return found


def _parts(text: str) -> list[str]:
    """Parts between commas, but for commas in brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        depth += (character in "[{" and not quote) - (character in "]}" and not quote)
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _range(text: str, match: re.Match[str]) -> list[str]:
    first, first_unit, last, last_unit, step, step_unit = match.groups()
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("numbers of fewer digits expected")
    named = list(dict.fromkeys(unit for unit in (first_unit, last_unit, step_unit) if unit))
    unit = named[0] if named else ""
    if len(named) > 1:
        given = (first, first_unit), (last, last_unit), (step, step_unit)
        unit, (first, last, step) = _common_unit(text, given, named)
    begin, end = Decimal(first), Decimal(last)
    by = Decimal(step) if step else Decimal(1)
    if not by:
        raise ValueError(f"{text}: a step other than 0 expected")
    by = abs(by) if end >= begin else -abs(by)
    count = math.floor(_EXACT.divide(_EXACT.subtract(end, begin), by)) + 1
    if count > MOST_POINTS:
        raise ValueError(f"{text}: {count} values, at most {MOST_POINTS} are possible" if count < 10**12
                         else f"{text}: at most {MOST_POINTS} values are possible")
    numbers = [_EXACT.add(begin, _EXACT.multiply(by, Decimal(number))) for number in range(count)]
    return [f"{_plain(number)} {unit}".strip() for number in numbers]


def _common_unit(text: str, given: Sequence[tuple[str | None, str | None]], named: list[str]) \
        -> tuple[str, list[str | None]]:
    """Numbers with different units, all in the unit that comes first."""
    if not all(unit for number, unit in given if number):
        raise ValueError(f"{text}: one unit for all, or one for each, expected")
    if len({units.factor(unit)[0] for unit in named}) > 1:
        raise ValueError(f"{text}: units of one kind expected")

    def converted(number: str, unit: str) -> str:
        ratio = Decimal(units.factor(unit)[1]) / Decimal(units.factor(named[0])[1])
        return _plain(_EXACT.multiply(Decimal(number), ratio))
    return named[0], [converted(number, unit) if number and unit else None for number, unit in given]


def _plain(number: Decimal) -> str:
    """'1.50' -> '1.5', '1E+2' -> '100'."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def of_options(options: Sequence[str]) -> dict[str, list[str]]:
    """{key: values} of the --sweep options. UsageError."""
    axes: dict[str, list[str]] = {}
    for option in options:
        key, separator, text = option.partition("=")
        key = key.strip()
        if not separator or not key:
            raise UsageError(f"--sweep {option}: key=values expected, such as topology.central.queue.limit=85,170,850")
        if key in axes:
            raise UsageError(f"--sweep {key}: given twice")
        try:
            axes[key] = values(text)
        except ValueError as problem:
            raise UsageError(f"--sweep {key}: {problem}") from None
    return axes


def of_file(source: YamlFile, place: str = "sweep") -> list[Point]:
    """The points of a file's section `sweep`, or of the one at `place`; [{}] without it. ScenarioError."""
    section = source.mapping(place)
    for key in section:
        if key not in ("axes", "points"):
            raise source.error(f"{place}.{key}", "unknown field; fields are: axes, points")
    if "axes" in section and "points" in section:
        raise source.error(f"{place}.points", "either axes or points expected")
    if "points" in section:
        points = section["points"]
        if not isinstance(points, list) or not points or not all(isinstance(point, dict) and point for point in points):
            raise source.error(f"{place}.points", "a list of mappings from fields to values expected")
        if len(points) > MOST_POINTS:
            raise source.error(f"{place}.points", f"{len(points)} points, at most {MOST_POINTS} are possible")
        return [{key: _text(source, f"{place}.points.{number}.{key}", value) for key, value in point.items()}
                for number, point in enumerate(points, start=1)]
    axes = section.get("axes", {})
    if not isinstance(axes, dict):
        raise source.error(f"{place}.axes", "a mapping of fields to values expected")
    return product({key: _axis(source, f"{place}.axes.{key}", given) for key, given in axes.items()})


def _axis(source: YamlFile, field: str, given: object) -> list[str]:
    """The values of one axis of a file."""
    try:
        if not isinstance(given, list):
            return values(_text(source, field, given))
        if not given:
            raise ValueError("at least one value expected")
        found = [_text(source, f"{field}.{number}", value) for number, value in enumerate(given, start=1)]
        if len(set(found)) < len(found):
            raise ValueError("a value is there twice")
    except ValueError as problem:
        raise source.error(field, str(problem)) from None
    return found


def _text(source: YamlFile, field: str, value: object) -> str:
    """A value of a file as it would be given to --set."""
    if isinstance(value, (list, dict)) or field not in source.texts:
        return json.dumps(value, ensure_ascii=False)
    return source.texts[field]


def product(axes: dict[str, list[str]], points: Sequence[Point] = ({},)) -> list[Point]:
    """Every point combined with every combination of values. UsageError if there are too many."""
    count = len(points) * math.prod(map(len, axes.values()))
    if count > MOST_POINTS:
        raise UsageError(f"sweep: {count} points, at most {MOST_POINTS} are possible")
    return [{**point, **dict(zip(axes, combination))}
            for point in points for combination in itertools.product(*axes.values())]

# SPDX-License-Identifier: GPL-2.0-only
"""An experiment: runs of one scenario, for some subjects and seeds, and in a sweep for some points.

Rows of tables, curves and panels of figures are pairs of a subject and a point.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.drawing.style import Look, looks
from analysis.flows import camps, slowdown
from analysis.metrics import Metric, measured
from analysis.read.runs import AnalysisError, Run, State
from analysis.read.zooms import Span
from testbed.checks import read_verdict
from testbed.core import shapes, units
from testbed.core.errors import TestbedError
from testbed.core.run_files import ExperimentRecord, Verdict

MOST_DRAWN = 8  # rows of a sweep in a figure that shows single rows
#: what numbers without a unit count: limits of queues that count packets, the distance of periodic losses, the choice
#: of scenarios with Tmix
_COUNTED = {".queue.limit": "packets", ".every": "packets", ".load": "%"}
#: as testbed/runs/experiment.py calls it
KERNEL_AXIS = "kernel"
_ID = re.compile(r"[0-9a-f]{8,64}")


class Row(NamedTuple):
    """A subject at a point; `label` tells it from the others of its experiment."""

    subject: str
    point: tuple[str, ...]  # values in the order of the axes
    label: str


class Axis(NamedTuple):
    """What a sweep varies; `numbers` has the values in base units, None if they are no numbers, but names."""

    key: str
    short: str
    values: list[str]
    numbers: list[float] | None
    unit: str

    @property
    def places(self) -> list[float]:
        """Where the values stand on an axis: names one beside the other."""
        return self.numbers if self.numbers is not None else [float(place) for place in range(len(self.values))]

    @property
    def label(self) -> str:
        """Its name with the unit of its numbers: buffer (BDP)."""
        return f"{self.short} ({self.unit})" if self.unit else self.short

    @property
    def head(self) -> str:
        """What stands above its values in a table: its name, with the unit unless the values have it."""
        return self.label if all(map(_is_plain, self.values)) else self.short

    def with_unit(self, value: str) -> str:
        """8 BDP, 10 MB"""
        return f"{value} {self.unit}" if self.unit and _is_plain(value) else value

    def say(self, value: str) -> str:
        return f"{self.short}={value}"


class Experiment:
    """An experiment folder."""

    def __init__(self, path: Path | str, only: Collection[str] | None = None) -> None:
        """only: ids of the runs that count, whatever else was listed since; None: all."""
        self.path = Path(path).resolve()
        self.description = read_description(self.path)
        runs = self.path.parent / "runs"
        self.runs = [Run(runs / listed.id, listed) for listed in self.description.runs
                     if only is None or listed.id in only]
        #: companion runs, with the same connections alone on the idle network; {name: what is wrong with it}
        self.idle = [Run(runs / listed.id, listed) for listed in self.description.idle]
        self.idle_problems: dict[str, str] = {}
        #: {name of a run: why it could not be compared with its baseline}
        self.baseline_problems: dict[str, str] = {}
        #: what figures with a part drawn larger are to show; None: what each of them chooses
        self.zoom: Span | None = None

    @property
    def scenario(self) -> str:
        return self.description.scenario or self.path.name

    @cached_property
    def engine(self) -> str:
        """The engine of its runs; several where somebody listed runs of several."""
        return self._of_runs("engine") or self.description.engine or ""

    @cached_property
    def kernel(self) -> str:
        """The kernel's release, '' where there was none."""
        return self._of_runs("kernel")

    def _of_runs(self, fact: str) -> str:
        return ", ".join(dict.fromkeys(text for run in self.runs if run.finished and (text := getattr(run, fact))))

    @property
    def parameters(self) -> dict[str, object]:
        """Choices of the scenario, the same for all runs."""
        swept = {axis.key for axis in self.axes}
        return {key: value for key, value in self.description.parameters.items() if key not in swept}

    @cached_property
    def axes(self) -> list[Axis]:
        keys = list(dict.fromkeys(key for run in self.runs for key in run.point))
        declared = self.description.axes
        order = [key for key in declared if key in keys] + [key for key in keys if key not in declared]
        short = _short(order)
        return [axis_of(key, short[key], list(dict.fromkeys([
            *declared.get(key, []), *(run.point[key] for run in self.runs if key in run.point)])),
            names=key == KERNEL_AXIS and self._has_kernels, unit=self.description.units.get(key, "")) for key in order]

    @property
    def _has_kernels(self) -> bool:
        return bool(self.description.kernels)

    @cached_property
    def kernel_place(self) -> int | None:
        """Which of the axes are its kernels; None where runs have one kernel, or none."""
        return next((place for place, axis in enumerate(self.axes) if axis.key == KERNEL_AXIS),
                    None) if self._has_kernels else None

    @cached_property
    def subjects(self) -> list[str]:
        """In the order asked for; it decides colours and the reference of comparisons."""
        used = list(dict.fromkeys(run.subject for run in self.runs))
        asked = [name for name in self.description.subjects if name in used]
        return list(dict.fromkeys(asked + used))

    @cached_property
    def points(self) -> list[tuple[str, ...]]:
        """The points of the sweep, by the order of values on its axes; one empty point without a sweep."""
        places = [{value: place for place, value in enumerate(axis.values)} for axis in self.axes]
        found = {self._point(run) for run in self.runs}
        return sorted(found, key=lambda point: [place.get(value, -1) for place, value in zip(places, point)])

    @cached_property
    def centre(self) -> tuple[str, ...] | None:
        """Of a sweep of one thing at a time: the point from which all others differ on one axis; else None."""
        def apart(one: tuple[str, ...], other: tuple[str, ...]) -> int:
            return sum(a != b for a, b in zip(one, other))
        varied = sum(len(axis.values) > 1 for axis in self.axes)
        return next((point for point in self.points if all(apart(point, other) <= 1 for other in self.points)),
                    None) if varied > 1 else None

    def _point(self, run: Run) -> tuple[str, ...]:
        return tuple(run.point.get(axis.key, "") for axis in self.axes)

    @cached_property
    def rows(self) -> list[Row]:
        """Point by point, the subjects in their order."""
        there = {(run.subject, self._point(run)) for run in self.runs}
        return [Row(subject, point, self._label(subject, point)) for point in self.points
                for subject in self.subjects if (subject, point) in there]

    def _label(self, subject: str, point: tuple[str, ...]) -> str:
        return " ".join([subject, *(axis.say(value) for axis, value in zip(self.axes, point) if value)])

    def row_of(self, run: Run) -> Row:
        point = self._point(run)
        return Row(run.subject, point, self._label(run.subject, point))

    @cached_property
    def names(self) -> dict[Row, dict[int, str]]:
        """{row: {seed: name of its run}}"""
        found: dict[Row, dict[int, str]] = {}
        for run in self.runs:
            found.setdefault(self.row_of(run), {})[run.seed] = run.name
        return found

    def reference(self, row: Row) -> Row:
        """What a row is compared with: the first subject at the same point."""
        return next(other for other in self.rows if other.point == row.point)

    @cached_property
    def drawn(self) -> list[Row]:
        """Rows that figures of single rows show: all, in a sweep those of the first points."""
        shown: list[Row] = []
        for point in self.points:
            rows = [row for row in self.rows if row.point == point and self.usable(row)]
            if shown and self.axes and len(shown) + len(rows) > MOST_DRAWN:
                break
            shown += rows
        return shown

    @property
    def drawn_note(self) -> str:
        """The sentence of a caption that says what part of a sweep is drawn; '' if it is all."""
        points = list(dict.fromkeys(row.point for row in self.drawn))
        if len(points) == len(self.points):
            return ""
        named = "; ".join(", ".join(axis.say(value) for axis, value in zip(self.axes, point)) for point in points)
        return f" Of the {len(self.points)} points of the sweep only the first {len(points)}: {named}."

    def looks(self, rows: Iterable[Row]) -> dict[str, Look]:
        """{label: look}: colours tell subjects apart, dashes and marks points; with one subject, colours points."""
        rows = list(rows)
        points = list(dict.fromkeys(row.point for row in rows))
        if len(points) < 2:
            by_subject = looks(self.subjects)
            return {row.label: by_subject[row.subject] for row in rows}
        if len(self.subjects) == 1:
            return looks([row.label for row in rows])
        by_subject, by_point = looks(self.subjects), looks([str(point) for point in points])
        return {row.label: Look(by_subject[row.subject].colour, 1 + points.index(row.point) % 6,
                                by_point[str(row.point)].point) for row in rows}

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """{name of a finished run: its verdict}; damaged ones are left out."""
        found = {}
        for run in self.runs:
            if run.finished:
                try:
                    found[run.name] = read_verdict(run.path, measured(run).errors)
                except TestbedError as error:
                    run.state = State("damaged", str(error))
        return found

    def verdict(self, run: Run) -> str:
        """valid, suspect, invalid; else the state of the run: failed, missing, damaged."""
        if run.name in self.verdicts:
            return str(self.verdicts[run.name]["verdict"])
        return run.state.kind

    @cached_property
    def usable_runs(self) -> list[Run]:
        """Runs that may enter means and figures: finished and not invalid."""
        return [run for run in self.runs if self.verdict(run) in ("valid", "suspect")]

    @cached_property
    def _usable(self) -> dict[Row, list[Run]]:
        found: dict[Row, list[Run]] = {}
        for run in self.usable_runs:
            found.setdefault(self.row_of(run), []).append(run)
        return found

    @property
    def idle_subject(self) -> str:
        """What the companion runs use; several where commands with other first subjects made them."""
        return ", ".join(dict.fromkeys(run.subject for run in self.idle))

    def values(self, run: Run) -> pd.DataFrame:
        """The metrics of a run (metric, scope, unit, value), with those against its companion run and its baseline.

        A companion that is of no use is noted in idle_problems, a baseline in baseline_problems.
        """
        known: pd.DataFrame | None = run.__dict__.get("_values")
        if known is None:
            known = measured(run).values
            baseline = self._baseline(run)
            if baseline is not None:
                try:
                    more = pd.DataFrame(camps.against(run, baseline), columns=list(Metric._fields))
                    known = pd.concat([known, more], ignore_index=True)
                except TestbedError as error:
                    self.baseline_problems[run.name] = str(error)
            idle = next((one for one in self.idle if (one.seed, one.point) == (run.seed, run.point)), None)
            if idle is not None:
                try:
                    # a Run of its own, so that the tables are freed afterwards
                    more = pd.DataFrame(slowdown.compute(Run(run.path), self._usable_idle(idle)),
                                        columns=list(Metric._fields))
                    known = pd.concat([known, more], ignore_index=True)
                except TestbedError as error:
                    self.idle_problems[idle.name] = str(error)
            run.__dict__["_values"] = known
        return known

    def _baseline(self, run: Run) -> Run | None:
        """The usable run, with the same seed at the same point, in which all camps are what its standard camp is."""
        subject = camps.baseline_subject(run)
        return next((one for one in self.usable_runs if subject and (one.subject, one.seed, one.point) == (
            subject, run.seed, run.point)), None)

    def _usable_idle(self, idle: Run) -> Run:
        """AnalysisError if a companion run cannot be used."""
        if not idle.finished:
            raise AnalysisError(f"{idle.name} is {idle.state.kind}: {idle.state.message}")
        if "_verdict" not in idle.__dict__:
            idle.__dict__["_verdict"] = read_verdict(idle.path, measured(idle).errors)
        verdict = idle.__dict__["_verdict"]
        if verdict["verdict"] == "invalid":
            reasons = "; ".join(reason["message"] for reason in verdict["reasons"])
            raise AnalysisError(f"{idle.name} is invalid: {reasons}")
        return idle

    def discard(self, names: Collection[str]) -> None:
        """Take runs that turned out to be unreadable out of the usable ones."""
        self.usable_runs = [run for run in self.usable_runs if run.name not in names]
        for name in ("_usable", "drawn"):
            self.__dict__.pop(name, None)

    def usable(self, row: Row) -> list[Run]:
        return self._usable.get(row, [])

    @property
    def command(self) -> list[str]:
        """What was typed last to make it, [] if that is not known."""
        return _command(self.description.command)

    @property
    def commands(self) -> list[list[str]]:
        """All that was typed to make it, the last of it last."""
        return [words for words in map(_command, [*self.description.earlier_commands, self.description.command])
                if words]


def read_description(path: Path) -> ExperimentRecord:
    """experiment.json, in one clear line if it is of another version or damaged."""
    file = path / "experiment.json"
    content = shapes.read_json(file)
    schema = content.get("schema")
    if schema != 2:
        command = shlex.join(_command(content.get("command")))
        age = "a newer" if isinstance(schema, int) and schema > 2 else "an older"
        raise AnalysisError(f"{file}: made by {age} version of the testbed: run the scenario again"
                            + (f"; its command was: {command}" if command else ""))
    shapes.check(content, shapes.of(ExperimentRecord), str(file))
    description = ExperimentRecord(content, str(file))
    names: set[str] = set()
    for listed in (*description.runs, *description.idle):
        if not _ID.fullmatch(listed.id):
            raise AnalysisError(f"{file}: runs: {listed.id!r} is not the id of a run")
        if listed.name in names:
            raise AnalysisError(f"{file}: runs: two runs are named {listed.name!r}")
        names.add(listed.name)
    return description


def _command(words: object) -> list[str]:
    if not isinstance(words, list) or not words:
        return []
    found = [str(word) for word in words]
    return found if found[0].endswith("testbed") else ["bin/testbed", *found]


def _short(keys: list[str]) -> dict[str, str]:
    """The shortest ends of dotted keys that tell them apart: topology.central.queue.limit -> limit."""
    found = {}
    for key in keys:
        parts = key.split(".")
        ends = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        found[key] = next((end for end in ends if sum(
            other == end or other.endswith(f".{end}") for other in keys) == 1), key)
    return found


def axis_of(key: str, short: str, values: list[str], names: bool = False, unit: str = "") -> Axis:
    """Quantities become numbers in the unit of the first value, so that '10 Mbit/s' stands at 10.

    names: values are no numbers, whatever they look like (6.9 is before 6.12). unit: of values that have none.
    """
    if names:
        return Axis(key, short, values, None, "")
    found = [_number(value) for value in values]
    kinds = {kind for _, kind in found}
    if not values or len(kinds) > 1 or None in kinds:
        return Axis(key, short, values, None, "")
    numbers = [number for number, _ in found]
    if kinds == {""}:
        unit = unit or next((counted for end, counted in _COUNTED.items() if f".{key}".endswith(end)), "")
        return Axis(key, short, values, [number for number, _ in found if number is not None], unit)
    named = re.match(r"[-+\d.eE_]*\s*(\D*)$", values[0])
    unit = named[1].strip() if named else ""
    factor = (_number(f"1 {unit}")[0] or 1.0) if unit else 1.0
    return Axis(key, short, values, [number / factor for number in numbers], unit)


def _is_plain(value: str) -> bool:
    """Whether it is a number without a unit."""
    return _number(value)[1] == ""


def _number(text: str) -> tuple[float, str | None]:
    """(value in base units, kind of quantity) of '85', '10 Mbit/s', '60 %'; (0, None) if it is neither."""
    try:
        return (float(text), "") if math.isfinite(float(text)) else (0.0, None)
    except ValueError:
        pass
    try:
        found = units.parse(text)
    except ValueError:
        return 0.0, None
    return (float(found[1]), found[0]) if found else (0.0, None)

# SPDX-License-Identifier: GPL-2.0-only
"""Published results: what others measured, cell by cell, and the scenario that repeats it.

A result is two files in the folder that a suite names as its `results`. NAME.yaml is a part of the suite, with

    source: who measured it, where and on what
    quantities: [{name: share, metric: mean_agg_throughput_l4, scope: cca_bbr, label: goodput of the BBR flows}]
    switches: [{name: offloads, set: {hosts.offloads: gso+gro}, sweep: {buffer: [1, 2]}, why: ...}]
    open: what stays unexplained, and what was tried

and NAME.csv has the published numbers, in the units of the metrics: the axes of the sweep, `cca` where several are
listed, `quantity`, and then either `trial` and `value`, or `least` and `most`, of which one may be empty.

    buffer,flows,quantity,trial,value
    1,1,share,1,8.152325

A switch is a cause that somebody suspects: the same cells are run with something else, and those that differ
without it and agree with it are explained by it.
"""
import csv
import dataclasses
import functools
import io
import math
import pathlib
from collections.abc import Iterator, Sequence

from testbed.core import fields, guesses, metric_names
from testbed.core.errors import ScenarioError
from testbed.core.fields import FieldError
from testbed.core.files import read_regular
from testbed.core.published_cells import About, Cause, Cell, Compared
from testbed.core.yaml_file import YamlFile
from testbed.core.yaml_nodes import MOST_BYTES
from testbed.scenario import ccas, scenario
from testbed.scenario.sections import LONGEST_NAME
from testbed.scenario.suite_parts import (MOST_PARTS, Part, Selection, as_text, beside, look_for, part_name, percent,
                                          real, sentence, settings)

_TRIALS, _BOUNDS = ("trial", "value"), ("least", "most")


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What is compared, see `Compared`."""
    name: str = part_name()
    metric: str = fields.word(pattern="[a-z][a-z0-9_]*", example="drop_rate")
    scope: str = fields.word(default="all")
    label: str = sentence()
    within: float | None = percent(default=None)
    why_within: str = sentence(default="")
    resolution: float = real(default=0.0)

    def __post_init__(self) -> None:
        if (self.within is None) != (not self.why_within):
            raise FieldError("why_within", "within and why_within belong together")


@dataclasses.dataclass(frozen=True)
class Switch(Selection):
    """A suspected cause: what is set besides, and of which values of the sweep; ccas: {congestion control of the
    result: what takes its place}."""
    name: str = part_name()
    kernel: str = fields.word(default="")
    ccas: dict[str, str] = settings(default={})
    why: str = sentence()

    def __post_init__(self) -> None:
        if not (self.set or self.choices or self.kernel or self.ccas):
            raise FieldError("set", "at least one of set, choices, ccas and kernel expected")


@dataclasses.dataclass(frozen=True)
class Result(Part):
    """A published result."""
    source: str = sentence()
    quantities: tuple[Quantity, ...] = fields.listing(fields.section(Quantity), least=1, most=MOST_PARTS)
    switches: tuple[Switch, ...] = fields.listing(fields.section(Switch), default=(), most=MOST_PARTS)
    open: str = sentence(default="")
    #: of the CSV file, all of them
    cells: tuple[Cell, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.title:
            raise FieldError("title", "is missing")
        for kind in ("quantities", "switches"):
            names = [one.name for one in getattr(self, kind)]
            if len(set(names)) < len(names):
                raise FieldError(kind, "two have the same name")

    def asked(self, short: bool) -> list[Cell]:
        """The cells that a run of the suite has."""
        sweep = self.selection(short).sweep
        return [cell for cell in self.cells if all(value in sweep[axis] for axis, value in cell.point.items())]

    def about(self) -> About:
        """What a page says of it."""
        return About(self.name, self.title, self.source, {
            one.name: Compared(one.name, one.metric, one.scope, one.label, one.within, one.why_within, one.resolution)
            for one in self.quantities}, [(one.what, one.why) for one in self.deviations],
            {one.name: Cause(one.why, one.ccas) for one in self.switches}, self.open)

    def switched(self, short: bool) -> dict[str, Part]:
        """{name of a switch: the part that runs with it}; none of those that a short version has no cell of."""
        asked = self.selection(short)
        found = {}
        for one in self.switches:
            sweep = {axis: tuple(value for value in one.sweep.get(axis, values) if value in values)
                     for axis, values in asked.sweep.items()}
            if all(sweep.values()):
                found[one.name] = Part(
                    name=f"{self.name}-{one.name}", title=self.title, scenario=self.scenario, sweep=sweep,
                    choices={**asked.choices, **one.choices}, set={**asked.set, **one.set},
                    ccas=tuple(one.ccas.get(cca, cca) for cca in self.ccas),
                    beside=one.ccas.get(self.beside, self.beside), seeds=self.seeds, speed=self.expected_speed(short),
                    kernel=one.kernel or self.kernel, engines=self.engines)
        return found


def read(path: pathlib.Path) -> Result:
    """The result of a YAML file and the CSV file beside it. ScenarioError with file, line and field."""
    file = YamlFile(path, {field.name for field in dataclasses.fields(Result)} - {"name", "cells", "outputs"})
    name = path.stem
    try:
        tree: dict[str, object] = _as_dict(as_text(file, file.tree, ""))
        result = fields.decode(Result, dict(tree, name=name))
    except FieldError as problem:
        raise file.error(problem.field, str(problem)) from None
    look_for(file, "scenario", lambda: scenario.find(beside(path, result.scenario)))
    if result.ccas:
        look_for(file, "ccas", lambda: ccas.parse(result.subjects(result.ccas)))
    known = metric_names.units()
    for place, quantity in enumerate(result.quantities, start=1):
        if quantity.metric not in known:
            raise file.error(f"quantities.{place}.metric",
                             f"no such metric; {guesses.alternatives(quantity.metric, sorted(known))}")
    for place, switch in enumerate(result.switches, start=1):
        for axis in switch.sweep:
            if axis not in result.sweep:
                raise file.error(f"switches.{place}.sweep.{axis}",
                                 f"is not swept; {guesses.alternatives(axis, sorted(result.sweep))}")
        for cca, instead in switch.ccas.items():
            field = f"switches.{place}.ccas.{cca}"
            if cca not in (*result.ccas, result.beside):
                raise file.error(field, f"is not used; {guesses.alternatives(cca, sorted(result.ccas))}")
            if instead in (*result.ccas, result.beside) or not instead.replace("-", "").isalnum():
                raise file.error(field, f"the name of another congestion control expected, not {instead[:40]!r}")
            look_for(file, field, functools.partial(ccas.parse, instead))
    if any(len(f"{name}-{one.name}") > LONGEST_NAME for one in result.switches):
        raise file.error("switches", "the file's name and a switch's have more than "
                                     f"{LONGEST_NAME} characters together")
    if result.quick.sweep is not None and set(result.quick.sweep) != set(result.sweep):
        raise file.error("quick.sweep", f"the axes of the whole sweep expected: {', '.join(result.sweep)}")
    cells = _read_cells(path.with_suffix(".csv"), result)
    return dataclasses.replace(result, scenario=beside(path, result.scenario), cells=tuple(cells))


def _as_dict(value: object) -> dict[str, object]:
    """The tree of a file, whose top level is a mapping."""
    assert isinstance(value, dict)
    return value


def _read_cells(path: pathlib.Path, result: Result) -> list[Cell]:
    """Cells in the order of the file. ScenarioError with the line."""
    rows = _Rows(path, result)
    found: dict[tuple[object, ...], Cell] = {}
    short = result.quick.sweep or {}
    for line, row in rows:
        point = {axis: rows.one_of(line, axis, row[axis], list(dict.fromkeys([*values, *short.get(axis, ())])))
                 for axis, values in result.sweep.items()}
        cca = rows.one_of(line, "cca", row["cca"], result.ccas) if "cca" in row else ""
        quantity = rows.one_of(line, "quantity", row["quantity"], [one.name for one in result.quantities])
        key = (*point.values(), cca, quantity)
        if rows.of_trials:
            value = rows.number(line, "value", row["value"])
            before = found.get(key, Cell(point, cca, quantity, (), None, None, 99))
            if row["trial"] != str(len(before.trials) + 1):
                raise rows.error(line, f"trial: {len(before.trials) + 1} expected, not {row['trial'][:20]!r}")
            found[key] = before._replace(trials=(*before.trials, value),
                                         decimals=min(before.decimals, _decimals(row["value"])))
        else:
            least, most = (rows.number(line, name, row[name]) if row[name] else None for name in _BOUNDS)
            if key in found:
                raise rows.error(line, "this cell is there already")
            if least is most is None or least is not None and most is not None and least > most:
                raise rows.error(line, "least and most: at least one expected, the smaller first")
            found[key] = Cell(point, cca, quantity, (), least, most, 0)
    if not found:
        raise rows.error(1, "no published value")
    return list(found.values())


def _decimals(text: str) -> int:
    """Digits behind the point of a number as it is written: 2 of 8.15, 9 of 1.5e-8, -2 of 1e2."""
    mantissa, _, exponent = text.lower().partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)


class _Rows:
    """The rows of a CSV file by the names of its columns, with their lines."""

    def __init__(self, path: pathlib.Path, result: Result) -> None:
        self._path = path
        try:
            data = read_regular(path, MOST_BYTES)
            if len(data) > MOST_BYTES:
                raise ScenarioError(f"{path}: larger than {MOST_BYTES} bytes")
            self._lines = [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)]
        except OSError as problem:
            raise ScenarioError(f"{path}: {problem.strerror}: published values expected") from None
        except (UnicodeDecodeError, csv.Error) as problem:
            raise ScenarioError(f"{path}: no table of values separated by commas: {problem}") from None
        head = self._lines[0] if self._lines else []
        self.of_trials = "trial" in head
        expected = [*result.sweep, *(["cca"] if len(result.ccas) > 1 else []), "quantity",
                    *(_TRIALS if self.of_trials else _BOUNDS)]
        if sorted(head) != sorted(expected):
            raise self.error(1, f"columns {','.join(expected)} expected, not {','.join(head)[:100]}")

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]]]:
        for line, row in enumerate(self._lines[1:], start=2):
            if len(row) != len(self._lines[0]):
                raise self.error(line, f"{len(self._lines[0])} values expected, not {len(row)}")
            yield line, dict(zip(self._lines[0], map(str.strip, row)))

    def error(self, line: int, message: str) -> ScenarioError:
        return ScenarioError(f"{self._path}:{line}: {message}")

    def one_of(self, line: int, column: str, value: str, known: Sequence[str]) -> str:
        if value not in known:
            raise self.error(line, f"{column}: {guesses.alternatives(value, list(known))}; not {value[:60]!r}")
        return value

    def number(self, line: int, column: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(line, f"{column}: a number expected, not {text[:60]!r}")
        return value

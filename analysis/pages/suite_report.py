# SPDX-License-Identifier: GPL-2.0-only
"""A suite as a page and tables: the scorecard, then part by part the outputs, verdicts, parameters and deviations."""

from __future__ import annotations

import json
import math
import shlex
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis import stats
from analysis.compare.suite import (BETTER, DIFFERENT, EQUAL, NO_VALUE, NO_VERDICT, NOBODY, RECIPROCAL, UNKNOWN, WORDS,
                                    WORSE, Output, Parameter, Part, Statement, Suite, SuiteRecord, as_run)
from analysis.pages import findings, page_folder, report_page, report_tables, templates
from analysis.pages.columns import Column
from analysis.pages.report_tables import Difference, Table, TableRow
from analysis.read.experiment import Experiment, Row
from analysis.read.tables import COMPARISON_COLUMNS
from testbed.core import shapes, units
from testbed.core.fields import unit_of

_FILES = {"index.html", "suite.json", "tables"}
#: classes of report.css
MARKS = {BETTER: "better", EQUAL: "equal", WORSE: "worse", DIFFERENT: "different", UNKNOWN: "unknown",
         NO_VERDICT: "unknown", NO_VALUE: "unknown"}
#: what stands in the scorecard, of one point among few, and of one output
_SIGNS = {BETTER: "\u25b2", EQUAL: "=", WORSE: "\u25bc", DIFFERENT: "\u2260", UNKNOWN: "?", NO_VERDICT: NO_VERDICT,
          NO_VALUE: NO_VALUE}
_SHORT = {**_SIGNS, **{word: f"{_SIGNS[word]} {word}" for word in (BETTER, EQUAL, WORSE, DIFFERENT)}}
_WISHES = {"higher": "higher", "lower": "lower", "one": "nearer to 1", "none": "\u2013"}
#: points that have a word each in the scorecard; of more of them, words are counted
_MOST_POINTS = 6
#: rows of a part's table that are shown unfolded
_MOST_ROWS = 30
_CSV = {"scorecard": "every comparison: means, difference, interval, n, p-values, and the scorecard's word",
        "outputs": "mean and 95 % interval of every output", "runs": "every run, and its verdict",
        "parameters": "parameters as published and as run", "deviations": "what is not as published, and why"}


class Chip(NamedTuple):
    """What the scorecard says of a point (or of how many): text, its class, and the numbers for people who point."""

    text: str
    mark: str
    title: str


class Line(NamedTuple):
    """A line of the scorecard: an output, and for each congestion control what is said of it."""

    label: str
    unit: str
    wish: str
    cells: list[list[Chip]]


def read(folder: Path, margin: float | None = None) -> Suite:
    """The suite whose report a folder is; its experiments are beside it. margin: another than that of the report.

    AnalysisError if suite.json is damaged.
    """
    description = shapes.read(SuiteRecord, folder / "suite.json")
    return Suite(description, folder.parent, description.margin if margin is None else margin)


def _described(suite: Suite) -> SuiteRecord:
    """What suite.json says: the margin, and the command, are those of this report."""
    words = list(suite.description.command)
    if "--margin" in words:
        at = words.index("--margin")
        del words[at:at + 2]
    words += ["--margin", f"{100 * suite.margin:g}%"] if suite.margin != stats.MARGIN else []
    return suite.description.changed(command=words, margin=suite.margin)


def write(suite: Suite, folder: Path) -> Path:
    """Write folder/index.html, suite.json and tables/; returns the path of the page.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    with page_folder(folder, _FILES, "report of a suite") as building:
        (building / "suite.json").write_text(json.dumps(_described(suite).content(), indent=1) + "\n", encoding="utf-8")
        for name, table in _tables(suite).items():
            table.to_csv(building / "tables" / f"{name}.csv", index=False, float_format="%.10g")
        (building / "index.html").write_text(_page(suite), encoding="utf-8", errors="replace")
    return folder / "index.html"


def _page(suite: Suite) -> str:
    parts = [_part(part) for part in suite.parts]
    return str(templates().get_template("suite.html.j2").render(
        suite=suite.description, baseline=suite.baseline, subjects=suite.subjects, parts=parts,
        names=WORDS, words=[_SHORT[word] for word in WORDS],
        counts=[(subject, suite.counts(subject)) for subject in suite.subjects], verdicts=_all_verdicts(suite),
        findings=findings.Findings(list(suite.sentences())[:findings.MOST_SENTENCES], ""),
        who=[(subject, _who(suite, subject)) for subject in (suite.baseline, *suite.subjects)],
        seeds=suite.seeds_to_decide(), csv=_CSV, command=shlex.join(_described(suite).command),
        margin=f"{100 * suite.margin:g}", confidence=f"{100 * stats.CONFIDENCE:g}",
        least=stats.LEAST))


def _who(suite: Suite, subject: str) -> str:
    """What stands behind the name of a congestion control, as its runs say; '' without any."""
    run = next((run for part in suite.parts if part.experiment for run in part.experiment.runs
                if run.subject == subject and run.finished), None)
    said = [one.title or one.source or one.kernel_cca for one in run.variants if one.under_test] if run else []
    return "; ".join(dict.fromkeys(said))


def _all_verdicts(suite: Suite) -> dict[str, object]:
    """Of all parts together, as of one experiment."""
    found = [report_page.verdicts(part.experiment) for part in suite.parts if part.experiment]
    counts: Counter[str] = Counter()
    for one in found:
        counts.update(dict(one["counts"]))
    order = ("valid", "suspect", "missing", "invalid", "failed", "damaged")
    named = [(name, counts[name]) for name in order if counts[name]]
    problems = [part for part in suite.parts if part.problem]
    return {"counts": named, "worst": "failed" if problems else named[-1][0] if named else "missing",
            "used": sum(one["used"] for one in found), "runs": sum(counts.values()), "problems": problems}


def _part(part: Part) -> dict[str, object]:
    """What the template shows of a part."""
    experiment = part.experiment
    shown = [output for output in part.outputs if part.results]
    return {"name": part.name, "title": part.title, "of": part.description, "problem": part.problem,
            "experiment": experiment, "lines": [_line(part, output) for output in shown],
            "points": _points(experiment) if experiment else "",
            "sentence": _sentence(experiment) if experiment else "",
            "verdicts": report_page.verdicts(experiment) if experiment else None,
            "repeats": report_tables.repeats(part.results) if part.results else [],
            "table": _table(part), "many": bool(experiment and len(experiment.rows) > _MOST_ROWS),
            "orders": [axis.values for axis in experiment.axes] if experiment else [],
            "most_seeds": max((len(experiment.usable(row)) for row in experiment.rows), default=0) if experiment else 0,
            "report": f"../{urllib.parse.quote(experiment.path.name)}/report/index.html" if experiment else "",
            "parameters": [(one["what"], one["published"], _as_run(part, one))
                           for one in part.description.parameters]}


def _sentence(experiment: Experiment) -> str:
    """How many runs of which length."""
    seeds = sorted({run.seed for run in experiment.runs})
    points = f"{len(experiment.points)} points, " if len(experiment.points) > 1 else ""
    lengths = sorted({run.interval.end_us / 1e6 for run in experiment.usable_runs})
    each = f" of {lengths[0]:g}{f' to {lengths[-1]:g}' if len(lengths) > 1 else ''} s" if lengths else ""
    return (f"{len(experiment.runs)} run{'s' * (len(experiment.runs) != 1)}{each}: {points}"
            f"seed{'s' * (len(seeds) != 1)} {report_tables.seed_list(seeds)}")


def _points(experiment: Experiment) -> str:
    """What its points differ in, or the only one."""
    if len(experiment.points) > 1:
        return f"by {', '.join(axis.short for axis in experiment.axes)}"
    return ", ".join(f"{axis.short} {axis.with_unit(axis.values[0])}" for axis in experiment.axes)


def _line(part: Part, output: Output) -> Line:
    cells = []
    several = part.experiment is not None and len(part.experiment.points) > 1
    for subject in part.subjects:
        found = [one for one in part.statements if (one.output, one.row.subject) == (output, subject)]
        if not found:
            cells.append([Chip("\u2013", MARKS[NO_VALUE], "no run has a value")])
        elif len(found) <= _MOST_POINTS:
            cells.append([Chip(f"{_at(part, one.row)} {_sign(one, _SIGNS)}" if several else _sign(one, _SHORT),
                               MARKS[one.word], f"{one.word}: {_numbers(one)}") for one in found])
        else:
            counts = Counter(one.word for one in found)
            cells.append([Chip(f"{counts[word]} {_SHORT[word]}", MARKS[word],
                               f"{word} at {counts[word]} of {len(found)} points") for word in WORDS if counts[word]])
    return Line(output.label, _unit(part, output), _WISHES[output.better], cells)


def _sign(one: Statement, signs: dict[str, str]) -> str:
    return NOBODY if one.scale == NOBODY else signs[one.word]


def _at(part: Part, row: Row) -> str:
    """The point of a row in as few words as possible."""
    axes = part.experiment.axes if part.experiment else []
    return ", ".join(value if len(axes) == 1 else axis.say(value) for axis, value in zip(axes, row.point))


def _unit(part: Part, output: Output) -> str:
    unit = part.results.unit(output.metric, output.scope) if part.results else None
    return "" if unit in (None, "1") else str(unit)


def _numbers(one: Statement) -> str:
    """A comparison in a line."""
    if one.compared is None:
        return one.scale or "one side has no value; or one never got there, and the other was there at once"
    found = one.compared.comparison
    value, interval = report_tables.with_interval(found)
    shown = ("not reached in some runs; of 1/time, " * (one.scale == RECIPROCAL) + value
             + (f" ({interval})" if interval else ""))
    if found.silence:
        return f"{shown}; {found.silence}"
    return (f"{shown}, n = {found.n}, p = "
            f"{report_tables.p_value(one.compared.decision.p)}, p of not equal = "
            f"{report_tables.p_value(one.compared.decision.p_equal)} (Holm)")


def _table(part: Part) -> Table | None:
    """Outputs of every congestion control at every point, and the differences one by one."""
    results = part.results
    if results is None:
        return None
    experiment, columns = results.experiment, [Column(one.metric, one.scope, one.label) for one in part.outputs]
    heads = [(report_tables.head(results, column), report_tables.unit_words(results, column)) for column in columns]
    rows = []
    for row, point in zip(experiment.rows, report_tables.spans([row.point for row in experiment.rows])):
        seeds = sorted({run.seed for run in experiment.usable(row)})
        rows.append(TableRow(point, row.subject, str(len(seeds)), report_tables.seed_list(seeds), [
            _cell(part, row, output, column) for output, column in zip(part.outputs, columns)],
            row.subject == part.baseline))
    return Table("Outputs", report_tables.SUBJECT, heads, rows, [axis.head for axis in experiment.axes],
                 list(_differences(part, heads)),
                 report_tables.notes(results, columns, (one.compared for one in part.statements if one.compared)))


def _cell(part: Part, row: Row, output: Output, column: Column) -> report_tables.Cell | None:
    assert part.results is not None
    found = report_tables.cell(part.results, row, column, None)
    said = part.of(row, output)
    if found is None or said is None or said.word in (NO_VALUE, NO_VERDICT):
        return found
    return found._replace(mark=MARKS[said.word], words=f"{said.word} (against {part.baseline}): {_numbers(said)}")


def _differences(part: Part, heads: list[tuple[str, str]]) -> Iterator[Difference]:
    """Row by row, those of the scorecard."""
    assert part.results is not None
    named = dict(zip(part.outputs, heads))
    order = {row: place for place, row in enumerate(part.results.experiment.rows)}
    found = sorted((one for one in part.statements if one.compared), key=lambda one: order[one.row])
    for one, point in zip(found, report_tables.spans([one.row.point for one in found])):
        what, unit = named[one.output]
        what += f", {one.scale}" if one.scale else ""
        unit = f"1/{unit}" if one.scale == RECIPROCAL else unit
        assert one.compared is not None
        yield report_tables.difference(one.compared, what, unit, point, [])._replace(
            mark=MARKS[one.word], words=one.compared.comparison.silence or one.word
            + (f" within {one.compared.comparison.within}" * (one.word == EQUAL)))


def _as_run(part: Part, parameter: Parameter) -> str:
    if parameter["text"]:
        return parameter["text"]
    return "; ".join(dict.fromkeys(_value(key, value) for key, value in as_run(part, parameter["run"]))) or "\u2013"


def _value(key: str, value: object) -> str:
    """('timing.test_us', 479000000) -> '479 s'"""
    if isinstance(value, list):
        return ", ".join(_value(key, one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return str(value)
    unit = next(filter(None, map(unit_of, reversed(key.split(".")))), "")
    if unit == "bps":
        return units.show_rate(value)
    if unit == "us":
        size, name = (1e6, "s") if abs(value) >= 1e6 else (1e3, "ms") if abs(value) >= 1e3 or not value else (1, "us")
        return f"{value / size:g} {name}"
    if key.endswith("_packets"):
        return f"{value:g} packets"
    return f"{value:g} {'B' if unit == 'bytes' else '%' if unit == 'percent' else ''}".rstrip()


def _tables(suite: Suite) -> dict[str, pd.DataFrame]:
    """The tables behind the page, by their names."""
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in _CSV}
    rows["deviations"] += [{"part": "", **one} for one in suite.description.deviations]
    for part in suite.parts:
        rows["deviations"] += [{"part": part.name, **one} for one in part.description.deviations]
        rows["parameters"] += [{"part": part.name, "parameter": one["what"], "published": one["published"],
                                "as_run": _as_run(part, one)} for one in part.description.parameters]
        rows["scorecard"] += [_compared(part, one) for one in part.statements]
        if part.results:
            rows["outputs"] += list(_outputs(part))
        if part.experiment:
            rows["runs"] += [{"part": part.name, "run": run.name, "id": run.path.name, "subject": run.subject,
                              "point": _at(part, part.experiment.row_of(run)), "seed": run.seed,
                              "verdict": part.experiment.verdict(run)} for run in part.experiment.runs]
    columns = {"scorecard": ["part", "point", *COMPARISON_COLUMNS, "resolution", "better", "word",
                             "seeds_to_decide"],
               "outputs": ["part", "point", "subject", "metric", "scope", "unit", "n", "seeds", "mean", "ci95_low",
                           "ci95_high"],
               "runs": ["part", "run", "id", "subject", "point", "seed", "verdict"],
               "parameters": ["part", "parameter", "published", "as_run"], "deviations": ["part", "what", "why"]}
    return {name: pd.DataFrame(rows[name], columns=columns[name]) for name in _CSV}


def _compared(part: Part, one: Statement) -> dict[str, object]:
    """A row of scorecard.csv."""
    said: dict[str, object] = {
        "part": part.name, "point": _at(part, one.row), "metric": one.output.metric, "scope": one.output.scope,
        "unit": "1/" * (one.scale == RECIPROCAL) + _unit(part, one.output), "reference": part.baseline,
        "subject": one.row.subject, "better": one.output.better, "word": one.word,
        "seeds_to_decide": part.seeds_to_decide(one)}
    if one.compared is None:
        return said
    found, decision = one.compared.comparison, one.compared.decision
    return {**said, "family": part.title, "method": found.method, "seeds": " ".join(map(str, one.compared.seeds)),
            "n_reference": found.n_reference, "n": found.n, "reference_mean": found.reference, "mean": found.mean,
            "scale": "factor" if found.ratio else "difference", "difference": found.difference,
            "ci95_low": found.low, "ci95_high": found.high, "p": found.p, "p_holm": decision.p,
            "p_equal": found.p_equal, "p_equal_holm": decision.p_equal, "margin_percent": 100 * found.margin,
            "margin": found.margin_in_unit, "resolution": found.resolution,
            "result": decision.words}


def _outputs(part: Part) -> Iterator[dict[str, object]]:
    """Rows of outputs.csv."""
    assert part.results is not None
    for row in part.results.experiment.rows:
        for output in part.outputs:
            sample = part.results.keyed(row, output.metric, output.scope)
            if sample:
                found = part.results.summarise(output.metric, sample.values())
                yield {"part": part.name, "point": _at(part, row), "subject": row.subject, "metric": output.metric,
                       "scope": output.scope, "unit": part.results.unit(output.metric, output.scope), "n": found.n,
                       "seeds": " ".join(str(key.seed) for key in sorted(sample)), "mean": found.mean,
                       "ci95_low": found.low, "ci95_high": found.high}

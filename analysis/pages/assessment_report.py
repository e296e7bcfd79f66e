# SPDX-License-Identifier: GPL-2.0-only
"""An assessment as a page, in Markdown, as a table and figures."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.compare.assessment import (FAILS, JUDGE, MEETS, NOTHING, SEEDS, UNKNOWN, WORDS, Assessed, Finding, limits,
                                         say)
from analysis.compare.assessment_figure import draw
from analysis.drawing import style
from analysis.pages import inline, put_in_place, scratch, templates
from analysis.pages.regress_report import plain
from analysis.read.runs import AnalysisError
from testbed.core import assessed

_FILES = {"index.html", "assessment.md", "tables", "figures"}
_MARKS = {MEETS: "agrees", FAILS: "open", JUDGE: "explained", SEEDS: "explained", UNKNOWN: "none", NOTHING: "open"}
_OF = {assessed.VALUE: "", assessed.RATIO: ", over the reference's", assessed.HARM: ", of the reference",
       assessed.SHARE: ", over the reference's"}
HEADS = ("test", "at", "against", "value (95 % interval; n)", "measured", "threshold", "verdict")


class Section(NamedTuple):
    """A criterion on the page. rows: (class of the verdict, cells)."""

    one: Assessed
    mark: str
    why: str
    rows: list[tuple[str, list[str]]]
    figure: str


def write(found: Sequence[Assessed], folder: Path, title: str, description: str, command: Sequence[str],
          short: bool) -> Path:
    """Write folder/index.html, assessment.md, tables/findings.csv and figures/; returns the path of the page.

    AnalysisError when the folder is there and is not one of these, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or not _FILES >= {path.name for path in folder.iterdir()}):
        raise AnalysisError(f"{folder}: is there already and is no assessment; move it away")
    with scratch(folder) as building:
        (building / "tables").mkdir()
        (building / "figures").mkdir()
        _table(found).to_csv(building / "tables/findings.csv", index=False, float_format="%.10g")
        sections = [_section(one, building / "figures") for one in found]
        (building / "assessment.md").write_text(markdown(found, title, command), encoding="utf-8", errors="replace")
        (building / "index.html").write_text(str(templates().get_template("assessment.html.j2").render(
            title=title, description=description, candidate=_candidate(found), counts=_counts(found), heads=HEADS,
            sections=sections, command=shlex.join(command), short=short)), encoding="utf-8", errors="replace")
        put_in_place(building, folder)
    return folder / "index.html"


def _candidate(found: Sequence[Assessed]) -> str:
    return found[0].candidate if found else ""


def _counts(found: Sequence[Assessed]) -> str:
    """meets: 5; does not meet: 2"""
    counts = Counter(one.word for one in found)
    return "; ".join(f"{word}: {counts[word]}" for word in WORDS if counts[word])


def _section(one: Assessed, figures: Path) -> Section:
    name = draw(one, figures)
    return Section(one, _MARKS[one.word], _why(one), [(_MARKS[finding.word], _cells(finding))
                                                      for finding in one.findings],
                   inline(figures / f"{name}.svg") if name else "")


def _why(one: Assessed) -> str:
    """The finding that makes the verdict, in a line."""
    if not one.findings:
        return one.about.not_run or "; ".join(one.problems) or "not run"
    return "" if one.word == MEETS else say(one.decisive[0])


def _cells(finding: Finding) -> list[str]:
    unit = finding.unit if finding.unit not in ("", "1") else ""
    of = finding.test.of
    point = ", ".join(f"{axis.rpartition('.')[2]} {value}" for axis, value in finding.point.items())
    measured = ", ".join(f"{name} {style.number(value)}" for name, value in finding.measured.items())
    value = _value(finding) + (f" {unit}" if of == assessed.VALUE else "")
    return [finding.test.label + _OF[of], point, finding.against, value,
            f"{measured} {unit}".strip(), limits(finding.test), _said(finding)]


def _value(finding: Finding) -> str:
    """1.31 (1.2 to 1.4; 5)"""
    found = finding.found
    if found is None:
        return "-"
    interval = f"{style.number(found.low)} to {style.number(found.high)}; " \
        if found.low is not None and found.high is not None else ""
    return f"{style.number(found.mean)} ({interval}{found.n})"


def _said(finding: Finding) -> str:
    if finding.why_not:
        return f"{finding.word}: {finding.why_not}"
    return finding.word + (f" (about {finding.needed})" if finding.needed else "")


def _table(found: Sequence[Assessed]) -> pd.DataFrame:
    """A row for each finding, and one for each criterion without any."""
    columns = ["section", "criterion", "test", "statistic", "metric", "scope", "point", "against", "unit", "n", "mean",
               "ci95_low", "ci95_high", "meets", "fails", "verdict", "seeds_needed", "values", "experiment"]
    rows: list[tuple[object, ...]] = []
    for one in found:
        for finding in one.findings:
            test, got = finding.test, finding.found
            rows.append((one.about.section, one.about.name, test.name, test.of, test.metric, test.scope, ", ".join(
                f"{axis}={value}" for axis, value in finding.point.items()), finding.against, finding.unit,
                len(finding.values), got.mean if got else None, got.low if got else None, got.high if got else None,
                test.threshold.meets, test.threshold.fails, finding.word, finding.needed,
                " ".join(f"{value:.10g}" for value in finding.values), one.folder_name))
        if not one.findings:
            rows.append((one.about.section, one.about.name, *[""] * 7, 0, *[None] * 5, one.word, None, "",
                         one.folder_name))
    return pd.DataFrame(rows, columns=columns)


def markdown(found: Sequence[Assessed], title: str, command: Sequence[str]) -> str:
    """The same as Markdown: a line for each criterion, then each with its findings."""
    lines = [f"# {plain(title)}: {plain(_candidate(found))}", "", f"**{_counts(found)}**", "",
             "| section | criterion | | verdict | because |", "|---|---|---|---|---|"]
    lines += [f"| {one.about.section} | {plain(one.about.title)} | {one.about.level} | {one.word} | "
              f"{plain(_why(one))} |" for one in found]
    for one in found:
        lines += ["", f"## {one.about.section} {plain(one.about.title)}: {one.word}", "", plain(one.about.asks), ""]
        lines += [f"* {plain(problem)}" for problem in one.problems]
        if one.findings:
            lines += ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
            lines += ["| " + " | ".join(map(plain, _cells(finding))) + " |" for finding in one.findings]
            lines += ["", *(f"* {plain(test.label)}: {limits(test)}. {plain(test.threshold.why)}"
                            for test in one.about.tests)]
        lines += [f"* {plain(one.runs_said)}"] if one.runs_said else []
        lines += [f"* Not run: {plain(one.about.not_run)}"] if one.about.not_run else []
        lines += [f"* {plain(what)}: {plain(why)}" for what, why in one.about.deviations]
    return "\n".join([*lines, "", f"    {shlex.join(command)}", ""])

# SPDX-License-Identifier: GPL-2.0-only
"""A kernel against its base as a page, in Markdown, as a table, and as test cases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis import stats
from analysis.compare import changes
from analysis.compare.regress import BROKEN, CHANGED, Outcome, Regression
from analysis.pages import page_folder, templates
from analysis.pages.markdown import plain
from analysis.read import junit

_FILES = {"index.html", "regress.md", "tables"}


def write(found: Regression, folder: Path, command: Sequence[str], margin: float, description: str) -> Path:
    """Write folder/index.html, regress.md and tables/; returns the path of the page.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    with page_folder(folder, _FILES, "comparison of kernels") as building:
        _table(found).to_csv(building / "tables/changes.csv", index=False)
        (building / "regress.md").write_text(markdown(found, command), encoding="utf-8", errors="replace")
        (building / "index.html").write_text(str(templates().get_template("regress.html.j2").render(
            found=found, description=description, command=shlex.join(command), most=changes.MOST_TOLD,
            margin=f"{100 * margin:g}", confidence=f"{100 * stats.CONFIDENCE:g}", least=stats.LEAST,
            sections=[(one, changes.Section("", one.rows)) for one in found.outcomes])),
            encoding="utf-8", errors="replace")
    return folder / "index.html"


def _table(found: Regression) -> pd.DataFrame:
    """A row for each changed metric, and one for each congestion control (and point) without one."""
    rows: list[tuple[object, ...]] = []
    for outcome in found.outcomes:
        for event in outcome.events:
            rows.append((outcome.name, outcome.state, event.who, "", "", "", "", "", "", "", "", event.good,
                         event.words))
        for row in outcome.rows:
            for one in row.changes:
                of = one.difference
                rows.append((outcome.name, outcome.state, row.who, one.metric, one.scope, of.unit, of.n, of.reference,
                             of.mean, of.difference, of.interval, one.good, one.words))
            if not row.changes:
                rows.append((outcome.name, outcome.state, row.who, "", "", "", row.pairs, "", "", "", "", "",
                             row.summary))
    return pd.DataFrame(rows, columns=["scenario", "state", "congestion_control", "metric", "scope", "unit", "n",
                                       "base", "kernel", "difference", "ci95", "better_or_worse", "words"])


def markdown(found: Regression, command: Sequence[str]) -> str:
    """The same as text, for mails and comments."""
    lines = [f"# {plain(found.other)} against {plain(found.base)}", "", f"**{plain(found.sentence)}**", ""]
    for outcome in found.outcomes:
        lines.append(f"* **{plain(outcome.name)}**: {plain(outcome.words)}")
        if outcome.state in CHANGED:
            lines += [f"  * {plain(one.who)}: {plain(one.words)}" for one in outcome.events]
            section = changes.Section("", outcome.rows)
            for row in section.changed:
                lines.append(f"  * {plain(row.who)}: {plain(row.summary)}")
                lines += [f"    * {plain(one.words)}" for one in row.changes[:changes.MOST_TOLD]]
                if len(row.changes) > changes.MOST_TOLD:
                    lines.append(f"    * and {len(row.changes) - changes.MOST_TOLD} more")
            lines += [f"  * {plain(who)}: {plain(said)}" for who, said in section.others]
        for row in outcome.rows:
            if row.counters:
                more = len(row.counters) - changes.MOST_TOLD
                told = "; ".join(row.counters[:changes.MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
                lines.append(f"  * {plain(row.who)}, counters of the stack: {plain(told)}")
    lines += ["", "| kernel | release | source | identity |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(map(plain, level)) + " |" for level in found.kernels]
    return "\n".join([*lines, "", f"    {shlex.join(command)}", ""])


def test_cases(found: Regression) -> list[junit.Case]:
    """A test case for each congestion control (and point) of a scenario; a changed one is a failure, whether it is
    better or worse: its type says which."""
    return [case for outcome in found.outcomes for case in _cases(outcome)]


def _cases(outcome: Outcome) -> list[junit.Case]:
    name = f"regress.{outcome.name}"
    if outcome.state == BROKEN:
        return [junit.Case(name, outcome.name, "error", outcome.words)]
    cases = [junit.Case(name, one.who, "failure", one.words, one.good) for one in outcome.events]
    if outcome.same:
        cases.append(junit.Case(name, outcome.name, "", outcome.same))
    for row in outcome.rows:
        goods = {one.good for one in row.changes}
        kind = changes.WORSE if changes.WORSE in goods else changes.BETTER if changes.BETTER in goods else "different"
        text = "\n".join([row.summary, *(one.words for one in row.changes)])
        cases.append(junit.Case(name, row.who, "failure" if row.changes else "", text, kind if row.changes else ""))
    return cases

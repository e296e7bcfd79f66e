# SPDX-License-Identifier: GPL-2.0-only
"""Test cases of a draft as a page, in Markdown and as a table."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis import cases
from analysis.cases import FAILED, OPEN, PASSED, Finding, figure
from analysis.cases.evidence import Point, Seen
from analysis.pages import inline, page_folder, templates, zoomable
from analysis.pages.markdown import plain
from analysis.pages.zoomable import Candidate, ExploredRun, Packed, Series

_FILES = {"index.html", "cases.md", "cases.csv", "figures"}
_MARKS = {PASSED: "agrees", FAILED: "open", OPEN: "none"}


class Judged(NamedTuple):
    """A case on a path with a congestion control. commands: of its runs; problem: why it could not be run."""

    number: int
    subject: str
    point: Point
    word: str
    findings: Sequence[Finding]
    commands: Sequence[str]
    seen: Seen | None
    problem: str
    moment: str = ""


class Asked(NamedTuple):
    """What a case is."""

    number: int
    title: str
    asks: str


class Drawn(NamedTuple):
    """A figure: what it shows, as data URI, and the time series of its run."""

    what: str
    picture: str
    series: str


def write(found: Sequence[Judged], asked: Sequence[tuple[int, str, str]], subjects: Sequence[str], folder: Path,
          title: str, description: str, command: Sequence[str]) -> Path:
    """Write folder/index.html, cases.md, cases.csv and figures/; returns the path of the page.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    about = [Asked(*one) for one in asked]
    with page_folder(folder, _FILES, "report of test cases") as building:
        _rows(found).to_csv(building / "cases.csv", index=False)
        figures = {one.number: _figures(found, one, subjects, building / "figures") for one in about}
        (building / "cases.md").write_text(markdown(found, about, subjects, command), encoding="utf-8")
        template = templates().get_template("cases.html.j2")
        page = {"title": title, "description": description, "sentences": sentences(found, subjects), "cases": about,
                "subjects": subjects, "cells": _cells(found), "marks": _MARKS, "figures": figures,
                "shades": figure.SHADES, "command": shlex.join(command),
                "judged": {one.number: [each for each in found if each.number == one.number] for one in about}}
        without = template.render(**page, explored={}, explored_names=())
        candidates = _candidates(found)
        most = max(([len(curve.t_us) for curve in one.curves()] for one in candidates), key=sum,
                   default=list[int]())
        explored = zoomable.fit(candidates, zoomable.MOST_PAGE_BYTES - len(without.encode(errors="replace")), most)
        explored["left_out_which"] = ""
        (building / "index.html").write_text(template.render(
            **page, explored=explored, explored_names={run["name"] for run in explored.get("runs", ())}),
            encoding="utf-8", errors="replace")
    return folder / "index.html"


def sentences(found: Sequence[Judged], subjects: Sequence[str]) -> list[str]:
    """How many cases each congestion control passes."""
    said = []
    for subject in subjects:
        words = {number: word for (number, name), (word, _) in _cells(found).items() if name == subject}
        by_word = {word: [str(number) for number, its in sorted(words.items()) if its == word] for word in cases.WORDS}
        said.append(f"{subject}: {len(by_word[PASSED])} of {len(words)} cases passed on all of their paths"
                    + "".join(f"; {word}: case{'s'[:len(by_word[word]) != 1]} {', '.join(by_word[word])}"
                              for word in (FAILED, OPEN) if by_word[word]))
    return said


def _cells(found: Sequence[Judged]) -> dict[tuple[int, str], tuple[str, str]]:
    """{case, congestion control: (verdict on all paths, on how many of them)}. Failed if one is, else open if one
    is."""
    cells = {}
    for number, subject in dict.fromkeys((one.number, one.subject) for one in found):
        words = [one.word for one in found if (one.number, one.subject) == (number, subject)]
        word = FAILED if FAILED in words else OPEN if OPEN in words else PASSED
        cells[number, subject] = word, f"{words.count(word)} of {len(words)}"
    return cells


def _candidates(found: Sequence[Judged]) -> list[Candidate]:
    """What can be zoomed: first one path of each case and congestion control, those of the figures."""
    return [Candidate(_series_name(one), one.seen.last_us, partial(_curves, one.seen), partial(_about, one, one.seen))
            for one in sorted(found, key=lambda one: one is not _drawn(found, one.number, one.subject)) if one.seen]


def _series_name(one: Judged) -> str:
    """What the page calls a run among its time series."""
    return f"case {one.number}, {one.subject}, {one.point}"


def _curves(seen: Seen) -> list[Series]:
    known = [(place, one, one.values.notna().to_numpy() & (one.t_us >= 0).to_numpy())
             for place, one in enumerate(figure.curves(seen, 0, seen.last_us))]
    return [Series(one.chart, "flow", place, one.t_us.to_numpy(dtype=float)[kept],
                   one.values.to_numpy(dtype=float)[kept]) for place, one, kept in known if kept.sum() > 1]


def _about(one: Judged, seen: Seen, packed: list[Packed]) -> ExploredRun:
    begin_us, end_us = figure.span(seen, one.point, one.moment)
    return {"name": _series_name(one), "row": f"case {one.number}", "seed": f"{one.subject}, {one.point}",
            "series": packed, "start": 0.0, "end": seen.last_us / 1e6, "links": [],
            "flows": [each.name for each in figure.curves(seen, 0, seen.last_us)],
            "states": figure.states(seen), "span": (begin_us / 1e6, end_us / 1e6), "anchor": f"case-{one.number}"}


def _drawn(found: Sequence[Judged], number: int, subject: str) -> Judged | None:
    """One path of a case with a congestion control: the first that does not pass, or else the first."""
    mine = [one for one in found if one.number == number and one.subject == subject and one.seen]
    return next((one for one in mine if one.word != PASSED), mine[0] if mine else None)


def _figures(found: Sequence[Judged], about: Asked, subjects: Sequence[str], folder: Path) -> list[Drawn]:
    drawn = []
    for place, subject in enumerate(subjects):
        one = _drawn(found, about.number, subject)
        if one and one.seen:
            name = f"case-{about.number}-{place + 1}"
            figure.draw(one.seen, one.point, one.moment, folder, name)
            drawn.append(Drawn(f"{subject}, {one.point}: {one.word}", inline(folder / f"{name}.svg"),
                               _series_name(one)))
    return drawn


def _rows(found: Sequence[Judged]) -> pd.DataFrame:
    return pd.DataFrame([(one.number, one.subject, one.point.rate_bps, one.point.rtt_us, one.word, finding.word,
                          finding.text, " ; ".join(one.commands)) for one in found
                         for finding in [*one.findings, *([Finding(OPEN, one.problem)] if one.problem else [])]],
                        columns=["case", "congestion_control", "rate_bps", "rtt_us", "verdict", "part", "finding",
                                 "commands"])


def markdown(found: Sequence[Judged], about: Sequence[Asked], subjects: Sequence[str], command: Sequence[str]) -> str:
    """The table of cases, then what was found in each."""
    cells = _cells(found)
    lines = [*(f"**{said}**  " for said in sentences(found, subjects)), "",
             "| case | " + " | ".join(map(plain, subjects)) + " |", "|---|" + "---|" * len(subjects)]
    for one in about:
        lines.append(f"| {one.number} {plain(one.title)} | " + " | ".join(
            "{} ({})".format(*cells[one.number, subject]) if (one.number, subject) in cells else "-"
            for subject in subjects) + " |")
    for one in about:
        lines += ["", f"## {one.number} {plain(one.title)}", "", plain(one.asks) + ".", ""]
        for each in (each for each in found if each.number == one.number):
            texts = "; ".join(f"{finding.word}: {plain(finding.text)}" for finding in each.findings) or each.problem
            lines.append(f"* {plain(each.subject)}, {each.point}: **{each.word}**. {texts}")
    return "\n".join([*lines, "", f"    {shlex.join(command)}", ""])

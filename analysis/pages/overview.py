# SPDX-License-Identifier: GPL-2.0-only
"""One page of all experiments of a results folder, to search: results/index.html."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from analysis import figures
from analysis.pages import templates
from analysis.pages.report_page import counted
from analysis.read.experiment import read_description
from testbed.checks import VERDICTS
from testbed.core.errors import EnvironmentProblem, TestbedError
from testbed.core.files import write_text
from testbed.core.run_files import KnownRun

#: pages beside an experiment's report
_MORE = {"sensitivity": "sensitivity"}
#: what can be chosen from: (key of a card, heading)
FILTERS = (("scenario", "scenario"), ("subjects", "congestion control"), ("engine", "engine"), ("kernel", "kernel"),
           ("states", "verdict"))


def build_overview(results: Path, runs: Mapping[str, KnownRun], failed: Mapping[str, str],
                   output: Path | None = None) -> Path:
    """Write the page into `output` (default: the results folder).

    runs: {id: what the index knows of a run}; failed: {what could not be run: why}.

    An experiment that cannot be read is listed with the reason. Verdicts are those judged last. Returns the page's
    path; EnvironmentProblem if it cannot be written.
    """
    folder = (output or results).absolute()
    results = results.absolute()
    cards = [_card(path.parent, folder, runs) for path in sorted(results.glob("*/experiment.json"))]
    cards.sort(key=lambda card: str(card["date"]), reverse=True)
    choices = [(key, heading, sorted({value for card in cards for value in _listed(card[key])}))
               for key, heading in FILTERS]
    html = templates().get_template("overview.html.j2").render(
        results=results.name, cards=cards, failed=failed, comparisons=_comparisons(results, folder),
        choices=[choice for choice in choices if len(choice[2]) > 1])
    page = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(page, html)
    except OSError as problem:
        raise EnvironmentProblem(f"{page}: cannot be written: {problem.strerror}") from None
    return page


def _listed(value: object) -> list[str]:
    return [value] * bool(value) if isinstance(value, str) else list(value) if isinstance(value, list) else []


def _card(experiment: Path, folder: Path, known: Mapping[str, KnownRun]) -> dict[str, object]:
    """What the page in `folder` says of an experiment; known: the runs that there are."""
    card: dict[str, object] = {
        "name": experiment.name, "title": experiment.name, "problem": "", "scenario": "", "subjects": [], "engine": "",
        "kernel": [], "states": [], "date": _date(experiment / "experiment.json"), "figure": "",
        "report": _link(folder, experiment / "report/index.html"),
        "more": {text: link for name, text in _MORE.items()
                 if (link := _link(folder, experiment / name / "index.html"))}}
    try:
        description = read_description(experiment)
    except (TestbedError, OSError) as problem:
        return {**card, "problem": str(problem), "states": ["damaged"]}
    listed = [(run, known.get(run.id)) for run in description.runs]
    there = [run for _, run in listed if run is not None]
    states = counted([_state(run) for _, run in listed])
    scenario = description.scenario
    dates = [_date(experiment.parent / "runs" / run.id / "run.json") for run in there]
    return {
        **card, "title": description.title or scenario or experiment.name, "scenario": scenario,
        "verdicts": states, "states": [name for name, _ in states["counts"]],
        "engine": description.engine or "", "figure": _figure(experiment, folder),
        "kernel": sorted({run.kernel for run in there if run.kernel}),
        "subjects": list(dict.fromkeys(run.subject for run, _ in listed)), "runs": len(listed),
        "missing": len(listed) - len(there), "seeds": len({run.seed for run, _ in listed}),
        "date": max(dates, default=card["date"]) or card["date"]}


def _state(run: KnownRun | None) -> str:
    """The verdict on a run, else what it is."""
    if run is None:
        return "missing"
    if run.status != "finished":
        return "failed" if run.status == "failed" else "damaged"
    return run.verdict if run.verdict and run.verdict in VERDICTS.values() else "not judged"


def _figure(experiment: Path, folder: Path) -> str:
    """The figure that says most about an experiment, as figure files say themselves; else the first of all."""
    drawn = experiment / "report" / "figures"
    found = [path for name in (*figures.for_overview(), "") for path in sorted(drawn.glob(f"{name}*.svg"))]
    return _link(folder, found[0]) if found else ""


def _date(path: Path) -> str:
    """When a file was written, UTC; '' if it is not there."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).strftime("%Y-%m-%d %H:%M")
    except (OSError, OverflowError, ValueError):
        return ""


def _comparisons(results: Path, folder: Path) -> list[tuple[str, str]]:
    """(name, link) of pages that are a folder's own: of `testbed compare` and `testbed suite run`."""
    return [(path.parent.name, _link(folder, path)) for path in sorted(results.glob("*/index.html"))
            if not (path.parent / "experiment.json").exists() and path.parent != folder]


def _link(folder: Path, page: Path) -> str:
    """Address of a file as seen from a folder, '' if it is not there."""
    return urllib.parse.quote(os.fsencode(os.path.relpath(page, folder))) if page.is_file() else ""

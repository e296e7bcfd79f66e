# SPDX-License-Identifier: GPL-2.0-only
"""One page of all reports of a results folder: results/index.html."""

from __future__ import annotations

import os
import tempfile
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.experiment import Experiment
from analysis.pages import templates
from analysis.report_page import title, verdicts
from analysis.runs import AnalysisError

#: figures that say most about an experiment, the first that it has is shown
_TELLING = ("ellipse", "sweep", "throughput", "recovery")
#: pages beside an experiment's report
_MORE = {"sensitivity": "sensitivity"}


def build_overview(results: Path, failed: Mapping[str, str]) -> Path:
    """Write results/index.html; failed: {what could not be run: why}. Returns its path; AnalysisError if it cannot be
    written. An experiment that cannot be read is listed with the reason."""
    cards = [_card(description.parent) for description in sorted(results.glob("*/experiment.json"))]
    html = templates().get_template("overview.html.j2").render(
        results=results.name, cards=cards, failed=failed, comparisons=_comparisons(results))
    page = results / "index.html"
    try:
        descriptor, part = tempfile.mkstemp(prefix=".index-", dir=results)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(html)
        os.chmod(part, 0o644)
        os.replace(part, page)
    except OSError as problem:
        raise AnalysisError(f"{page}: cannot be written: {problem.strerror}") from None
    return page


def _card(folder: Path) -> dict[str, Any]:
    """What the page says of an experiment."""
    results = folder.parent
    card: dict[str, Any] = {"name": folder.name, "problem": "", "report": _link(results, folder / "report/index.html"),
                            "more": {text: link for name, text in _MORE.items()
                                     if (link := _link(results, folder / name / "index.html"))}}
    try:
        experiment = Experiment(folder)
        run = next(iter(experiment.usable_runs), None)
        return {**card, "title": title(experiment, run), "verdicts": verdicts(experiment), "engine": experiment.engine,
                "kernel": experiment.kernel, "subjects": experiment.subjects, "runs": len(experiment.runs),
                "seeds": len({one.seed for one in experiment.runs}),
                "figure": next(filter(None, (_link(results, folder / "report/figures" / f"{name}.svg")
                                             for name in _TELLING)), "")}
    except AnalysisError as problem:
        return {**card, "title": folder.name, "problem": str(problem)}


def _comparisons(results: Path) -> list[tuple[str, str]]:
    """(name, link) of pages that are a folder's own: of `testbed compare`."""
    return [(path.parent.name, _link(results, path)) for path in sorted(results.glob("*/index.html"))
            if not (path.parent / "experiment.json").exists()]


def _link(results: Path, page: Path) -> str:
    """Address of a file as seen from the results folder, '' if it is not there."""
    return urllib.parse.quote(page.relative_to(results).as_posix()) if page.is_file() else ""

# SPDX-License-Identifier: GPL-2.0-only
"""HTML report of an experiment: report/index.html, figures/, tables/."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from analysis import figures, stats
from analysis.compare import changes, kernels
from analysis.compare.rows import Comparisons
from analysis.drawing import gnuplot
from analysis.pages import (columns, explore, inline, latex, page_folder, report_network, report_page, templates,
                            zoomable)
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results, flatten
from analysis.read.zooms import Span

_FILES = {"index.html", "tables", "figures"}
TABLES = {
    "summary": "mean and 95 % interval of every metric per congestion control, with n and seeds",
    "runs": "one row per run",
    "comparison": "every congestion control against the first, metric by metric: difference, interval, p, result",
    "kernels": "each kernel against each earlier one: runs that are the same to the byte, comparisons that differ",
    "kernels_comparison": "the same, metric by metric: difference, interval, p, result",
}


class Report(NamedTuple):
    """Where the page is, {name of a run: what is wrong with its files}, what changed from kernel to kernel, and how
    many runs it could not use ('' if it has all)."""

    path: Path
    problems: dict[str, str]
    kernels: list[str]
    unused: str


def build_report(experiment_dir: Path | str, margin: float = stats.MARGIN, zoom: Span | None = None,
                 paper: gnuplot.Paper | None = None) -> Report:
    """Write experiment_dir/report/ with an index.html; margin: what counts as equal, as a share of the reference;
    zoom: what figures of tcp_probe and tcptrace draw larger, by default about the first loss;
    paper: how figures for papers look, which stand in figures/paper/ then; the main tables are tables/*.tex.

    AnalysisError when the experiment cannot be read, or report/ has something that is none of a report's;
    EnvironmentProblem when it cannot be written. Runs that failed or whose files are damaged are listed in the report
    with their errors.
    """
    experiment = Experiment(experiment_dir)
    experiment.zoom = zoom
    results = Results(experiment)
    experiment.discard(results.problems)
    if experiment.runs and all(run.state.kind == "missing" for run in experiment.runs):
        raise AnalysisError(f"{experiment.path}: none of its {len(experiment.runs)} runs is there; "
                            "`testbed run` makes them again")
    end_us = max((run.interval.end_us for run in experiment.runs if run.finished), default=0)
    if zoom and zoom.start_us >= end_us:
        raise AnalysisError(f"{experiment.path}: no run lasts until {zoom.start_us / 1e6:g} s, where the part to draw "
                            f"larger begins; the longest ends at {end_us / 1e6:g} s")
    target = experiment.path / "report"
    with page_folder(target, _FILES, "report") as building:
        tables = columns.tables(results)
        comparisons = Comparisons(results, tables.all(), margin)
        pairs = kernels.pairs(results, tables.all(), margin)
        written = _write_tables(results, comparisons, pairs, building / "tables")
        with gnuplot.for_papers(paper):
            drawn, errors = figures.draw_all(experiment, building / "figures")
        changed = changes.of_kernels(results, tables.all(), pairs)
        page = {**report_page.context(results, comparisons, tables, margin, pairs), **kernels.context(results, pairs),
                "changes": changed, "most_changes": changes.MOST_TOLD}
        if paper is not None:
            for name, text in latex.tables(report_page.result_tables(results, comparisons, tables)).items():
                (building / "tables" / f"{name}.tex").write_text(text, encoding="utf-8")
        html = _render(experiment, page, drawn, errors, building, written)
        (building / "index.html").write_text(html, encoding="utf-8", errors="replace")
    problems = {run.name: run.state.message for run in experiment.runs if run.state.kind == "damaged"}
    problems |= {error["where"]: error["message"] for error in errors}
    return Report(target / "index.html", problems, [line for section in changed for line in section.lines()],
                  _unused(experiment))


def _unused(experiment: Experiment) -> str:
    usable = {run.name for run in experiment.usable_runs}
    kinds = Counter(experiment.verdict(run) for run in experiment.runs if run.name not in usable)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{kinds.total()} of {len(experiment.runs)} runs are not in it: {counts}" if kinds else ""


def _write_tables(results: Results, comparisons: Comparisons, pairs: list[kernels.Pair], folder: Path) -> list[str]:
    """Write summary.csv, runs.csv and (two subjects or more) comparison.csv, those of kernels; returns their names."""
    found = {"summary": results.summary(), "runs": results.runs()}
    if len(results.experiment.subjects) > 1:
        found["comparison"] = comparisons.frame()
    if pairs:
        found |= kernels.frames(pairs)
    for name, table in found.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.10g")
    return list(found)


def _render(experiment: Experiment, page: dict[str, object], drawn: list[figures.Figure], errors: list[dict[str, str]],
            folder: Path, tables: list[str]) -> str:
    """The page; what tables and figures leave of its size is for the series that can be zoomed."""
    template = templates().get_template("report.html.j2")
    page = {**page, "network_tables": report_network.tables(experiment), "figure_errors": errors,
            "figures": [{**figure._asdict(), "data": inline(folder / "figures" / f"{figure.name}.svg")}
                        for figure in drawn],
            "tables": [(name, TABLES[name]) for name in tables], "parameters": flatten(experiment.parameters)}
    without = template.render(**page, explored={}, explored_names=())
    explored = explore.context(experiment, zoomable.MOST_PAGE_BYTES - len(without.encode(errors="replace")))
    names = {run["name"] for run in explored.get("runs", ())}
    return str(template.render(**page, explored=explored, explored_names=names))

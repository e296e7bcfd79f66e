# SPDX-License-Identifier: GPL-2.0-only
"""Experiments against a reference as a page, tables, figures and lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis import stats
from analysis.compare import changes, figures as versus_figures, unchanged
from analysis.compare.experiments import Fact, Group, Versus
from analysis.drawing.style import number
from analysis.figures import Figure
from analysis.flows import per_connection, windows
from analysis.flows.per_connection import Ratios
from analysis.pages import findings, inline, page_folder, report_tables, templates
from analysis.pages.columns import Columns
from analysis.pages.report_tables import Difference
from analysis.read.runs import Run

_FILES = {"index.html", "tables", "figures"}


class Paired(NamedTuple):
    """Ratios of the times of single connections: a row (subject and point) of another experiment, by size class."""

    row: str
    label: str
    sizes: dict[str, Ratios]


class Parted(NamedTuple):
    """Where the windows of a flow part: a row of another experiment, a seed."""

    row: str
    label: str
    seed: int
    parting: windows.Parting


class Cost(NamedTuple):
    """What runs cost, on average over n: seconds of virtual and of wall time, bytes of the largest process."""

    row: str
    label: str
    n: int
    virtual_s: float
    wall_s: float
    ratio: float
    largest_process_bytes: float | None


class Findings(NamedTuple):
    """What is shown beside the comparison of metrics."""

    paired: dict[str, list[Paired]]     # by the kind of what is paired
    parted: list[Parted]
    costs: list[Cost]


def find(group: Group) -> Findings:
    """Connections one by one, windows, and costs."""
    paired = {kind.name: [Paired(row.label, label, {one.size: one for one in found}) for row in group.rows
                          for label, pairs in group.pairs(row).items()
                          if (found := per_connection.ratios(kind, pairs))] for kind in per_connection.KINDS}
    parted = [Parted(row.label, label, mine.seed, one) for row in group.rows
              for label, pairs in group.pairs(row).items() for mine, theirs in pairs[:1]
              for one in windows.partings(mine, theirs)]
    costs = [cost for row in group.rows for label, runs in group.runs(row).items()
             if (cost := _cost(row.label, label, runs))]
    return Findings(paired, parted, costs)


def _cost(row: str, label: str, runs: Sequence[Run]) -> Cost | None:
    known = [(run.status.wall_s, run.status.virtual_s) for run in runs if run.status.wall_s and run.status.virtual_s]
    if not known:
        return None
    wall, virtual = (sum(values) / len(known) for values in zip(*known))
    sizes = [float(run.status.largest_process_bytes) for run in runs
             if run.status.wall_s and run.status.virtual_s and run.status.largest_process_bytes]
    return Cost(row, label, len(known), virtual, wall, virtual / wall, sum(sizes) / len(sizes) if sizes else None)


def write(group: Group, folder: Path, command: str) -> tuple[Path, Findings]:
    """Write folder/index.html, figures/ and tables/; returns the path of the page, and what was found for it.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    with page_folder(folder, _FILES, "comparison of experiments") as building:
        found = find(group)
        tables = _csv(group, found)
        for name, table in tables.items():
            table.to_csv(building / "tables" / f"{name}.csv", index=False, float_format="%.10g")
        (building / "index.html").write_text(_page(group, found, building, list(tables), command), encoding="utf-8",
                                             errors="replace")
    return folder / "index.html", found


def _csv(group: Group, found: Findings) -> dict[str, pd.DataFrame]:
    compared = [one.comparisons.frame().assign(other=one.other.path.name) for one in group.versus]
    facts = [pd.DataFrame(one.facts(), columns=list(Fact._fields)).assign(other_experiment=one.other.path.name)
             for one in group.versus]
    tables = {"comparison": pd.concat(compared), "facts": pd.concat(facts), "costs": pd.DataFrame(found.costs)}
    for name, rows in found.paired.items():
        if rows:
            tables[name] = pd.DataFrame([
                {"row": one.row, "engine_or_experiment": one.label, "size": size, "pairs_of_runs": ratio.pairs,
                 "n": ratio.n, "only_one_percent": ratio.only_one, "p10": ratio.low, "p50": ratio.median,
                 "p90": ratio.high, "p50_ci95_low": (ratio.interval or (None, None))[0],
                 "p50_ci95_high": (ratio.interval or (None, None))[1]}
                for one in rows for size, ratio in one.sizes.items()])
    if found.parted:
        tables["partings"] = pd.DataFrame([
            {"row": one.row, "engine_or_experiment": one.label, "seed": one.seed, "flow": one.parting.flow,
             "by": one.parting.by, "until": one.parting.until, "state": one.parting.state,
             **{f"{side}_{key}": value for side in ("reference", "other")
                for key, value in (getattr(one.parting, side)._asdict().items() if one.parting.reference else ())}}
            for one in found.parted])
    return tables


def _page(group: Group, found: Findings, building: Path, tables: Sequence[str], command: str) -> str:
    beside, wide = versus_figures.draw(group, building / "figures")

    def shown(figures: Sequence[Figure]) -> list[dict[str, str]]:
        return [{**figure._asdict(), "data": inline(building / "figures" / f"{figure.name}.svg")} for figure in figures]
    return str(templates().get_template("versus.html.j2").render(
        group=group, reference=group.reference, labels=group.labels, first=group.labels[group.reference.path],
        sections=[{"versus": one, "label": group.labels[one.other.path], "sentence": sentence(one),
                   "facts": one.facts(), "alone": one.alone(), "tables": list(_tables(one, _results(one))),
                   "folded": list(_tables(one, [*one.tables.load, *one.tables.sizes]))} for one in group.versus],
        changes=changed(group), most_changes=changes.MOST_TOLD, findings=shows(group),
        repeats=repeats(group), found=found, kinds=per_connection.KINDS,
        sizes=per_connection.SIZES, number=number,
        beside=shown(beside), wide=shown(wide), csv=[(name, _CSV[name]) for name in tables],
        axes=[axis.head for axis in group.reference.axes], confidence=f"{100 * stats.CONFIDENCE:g}",
        margin=f"{100 * group.margin:g}", command=command))


_CSV = {"comparison": "all metrics: difference, interval, p-values, result", "facts": "what differs",
        "costs": "wall time and memory", "connections": "connections one by one, by size",
        "exchanges": "exchanges one by one, by size", "partings": "where congestion windows part"}


def _tables(versus: Versus, tables: Sequence[Columns]) -> Iterator[tuple[str, list[Difference]]]:
    for table in tables:
        rows = report_tables.differences(versus.results[1], versus.comparisons, table)
        if rows:
            yield table.title, rows


def _results(versus: Versus) -> list[Columns]:
    """What is shown at once; times by size, and load, on demand."""
    tables = versus.tables
    return [*tables.links, *tables.connections, *tables.slowdown, *tables.flows, *tables.fairness]


def repeats(group: Group) -> list[str]:
    """What is said of seeds that are one run, of each experiment."""
    results = [group.versus[0].results[0], *(one.results[1] for one in group.versus)]
    return [f"{one.experiment.path.name}, {said}" for one in results for said in report_tables.repeats(one)]


def changed(group: Group) -> list[changes.Section]:
    """What changed in each experiment against the reference."""
    first = group.labels[group.reference.path]
    return [changes.of_experiments(one, group.labels[one.other.path], first) for one in group.versus]


def shows(group: Group) -> findings.Findings:
    """What the numbers show, in sentences, of each experiment against the reference."""
    first, several = group.labels[group.reference.path], len(group.versus) > 1
    found = []
    for one in group.versus:
        label = group.labels[one.other.path]
        found.append(findings.of_comparison(one.results[1], one.comparisons, list(one.pairs),
                                            f"In {label}, {{}}" if several else "{}"))
    said = [text for one in found for text in one.sentences]
    others = "Each" if several else group.labels[group.versus[0].other.path]
    return findings.Findings(said[:findings.MOST_SENTENCES], f"{others} against {first}. {found[0].note}".strip())


def sentence(versus: Versus) -> str:
    """What was compared, and whether runs could be paired."""
    methods = {one.comparison.method for table in versus.tables.all()
               for one in versus.comparisons.family(table.title)}
    count = len(versus.pairs)
    said = {frozenset({stats.PAIRED}): "Runs of the same seed replay the same traffic and are compared one by one.",
            frozenset({stats.WELCH}): "Runs of both have other seeds or other traffic: only their means are compared.",
            frozenset({stats.NO_TEST}): "One run each: there is no interval, and nothing can be said. "
                                        "Run five seeds or more."}
    how = said.get(frozenset(methods), "The column \u2018test\u2019 says which runs could be compared one by one.")
    return (f"{count} congestion control{'s' * (count != 1)}{' and points' * bool(versus.other.axes)} "
            f"of {versus.other.path.name}, each against the same in {versus.reference.path.name}. {how}{_same(versus)}")


def _same(versus: Versus) -> str:
    """What is said of runs that left the same raw data; '' if there are none."""
    same, count = unchanged.count((mine, theirs) for mine, theirs in versus.runs() if mine.seed == theirs.seed)
    if not same:
        return ""
    if same == count:
        return f" All raw data are the same to the byte: {unchanged.WORDS}."
    return f" The raw data of {same} of {count} pairs of runs are the same to the byte."


def lines(group: Group, found: Findings) -> Iterator[str]:
    """The same for a terminal: what changed, in what the experiments differ, then a line for each comparison that the
    tables of results have."""
    for section in changed(group):
        yield from section.lines()
    for versus in group.versus:
        facts = versus.facts()
        yield f"{group.labels[group.reference.path]} -> {group.labels[versus.other.path]}:"
        yield from (f"  {one.kind}, {one.name}: {one.reference} -> {one.other}" for one in facts)
        if not facts:
            yield "  nothing differs in scenario, engine, kernel and code"
    yield from shows(group).sentences
    yield from repeats(group)
    for versus in group.versus:
        yield sentence(versus)
        for title, rows in _tables(versus, _results(versus)):
            yield f"{title}:"
            yield from _aligned([_words(one) for one in rows])
    for kind in per_connection.KINDS:
        if found.paired[kind.name]:
            yield f"{kind.name.capitalize()} one by one, time over that in the reference (10 %, median, 90 %):"
            yield from _aligned([[one.row, one.label, f"{ratio.low:.3f}", f"{ratio.median:.4f}", f"{ratio.high:.3f}",
                                  f"n={ratio.pairs} x {ratio.n:.0f}"]
                                 for one in found.paired[kind.name] if (ratio := one.sizes.get(per_connection.ALL))])
    if found.parted:
        yield "Congestion windows part by more than a segment:"
        yield from _aligned([[one.row, one.label, f"flow {one.parting.flow}", where(one.parting), one.parting.state]
                             for one in found.parted])
    yield from (f"left out: {reason}" for reason in group.left_out)


def where(parting: windows.Parting) -> str:
    """Until where windows are the same, in words."""
    until = f"{parting.until:g} s" if parting.by == "time" else f"{parting.until:.0f} bytes acknowledged"
    if parting.reference is None or parting.other is None:
        return f"not within {until}"
    return (f"the same until {until}; then {parting.reference.cwnd:g} and {parting.other.cwnd:g} "
            f"at {parting.reference.time_s:.3f} and {parting.other.time_s:.3f} s")


def _words(one: Difference) -> list[str]:
    point = " ".join(text for text, _ in one.point)
    return [f"{one.subject} {point}".strip(), one.what, f"{one.reference} -> {one.mean} {one.unit}".rstrip(),
            f"{one.difference} ({one.interval})" if one.interval else one.difference,
            f"n={one.n}{f', {one.method}' if one.method else ''}", one.words]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()

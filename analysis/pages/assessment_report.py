# SPDX-License-Identifier: GPL-2.0-only
"""An assessment as a page, in Markdown, as a table and figures."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis import stats
from analysis.compare import assessment
from analysis.compare.assessment import (FAILS, JUDGE, MEETS, NOTHING, SEEDS, UNKNOWN, WORDS, Assessed, Finding, limits,
                                         name_of, say)
from analysis.compare.assessment_figure import draw
from analysis.drawing import style
from analysis.pages import Head, inline, page_folder, templates
from analysis.pages.markdown import plain
from testbed.core import assessed
from traffic.workload.records import Variant

_FILES = {"index.html", "assessment.md", "tables", "figures"}
_MARKS = {MEETS: "agrees", FAILS: "open", JUDGE: "explained", SEEDS: "explained", UNKNOWN: "none", NOTHING: "open"}
HEADS = ("test", "at", "against", "value (95 % interval; n)", "worst seed", "measured", "threshold", "verdict")
#: (term, what it means on the page)
GLOSSARY = (
    ("candidate, reference", "the congestion control that is assessed; one that the Internet uses, in the same place"),
    ("seed", "a run with start times, losses and traffic of its own; with the same seed, candidate and reference meet "
             "the same"),
    ("seat", "which of two flows a congestion control has; of pairs, both are run"),
    ("ratio", "the candidate's value over that of the reference in its place, with the same seed"),
    ("harm", "what a reference loses beside the candidate, compared with what it has beside itself: 1 - beside the "
             "candidate / beside itself where more is better, 1 - beside itself / beside the candidate where less is. "
             "Below 0: it gains"),
    ("share", "what the candidate has beside the reference, over what the reference has there beside itself"),
    ("worst seed", "the seed, and of pairs the seat, with the worst value: a mean can hide it"),
    ("meets", "the whole 95 % interval of the mean is on the good side of the first threshold. Where it is said so, no "
              f"seed is beyond the second one, either, of at least {stats.LEAST_EQUAL}: then, with 95 %, fewer than "
              "one seed in five is"),
    ("does not meet", "the mean is beyond the second threshold, and stays so by Holm's correction over all findings of "
                      "this page: that any finding is said to fail by chance has a probability of 5 % at most"),
    ("needs judgement", "the mean is between the thresholds, or single seeds are beyond the second"),
    ("needs more seeds", "the runs do not decide it; the number is how many would, if mean and spread stay"),
    ("cannot be tested here", "the testbed has no means for it, and says why"),
    ("no verdict", "something could not be run"))


class Section(NamedTuple):
    """A criterion on the page. rows: (class of the verdict, cells)."""

    one: Assessed
    mark: str
    why: str
    rows: list[tuple[str, list[str]]]
    figure: str


def write(found: Sequence[Assessed], folder: Path, head: Head, hashes: Mapping[str, str], looks: int = 1) -> Path:
    """Write folder/index.html, assessment.md, tables/findings.csv and figures/; returns the path of the page. The
    findings are corrected for their number, and for that of looks at them.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    family = assessment.correct(found, looks)
    facts = provenance(found, hashes)
    with page_folder(folder, _FILES, "assessment") as building:
        _table(found).to_csv(building / "tables/findings.csv", index=False, float_format="%.10g")
        sections = [_section(one, building / "figures") for one in found]
        _runs(found).to_csv(building / "tables/runs.csv", index=False)
        (building / "assessment.md").write_text(markdown(found, head, facts, family, looks), encoding="utf-8",
                                                errors="replace")
        (building / "index.html").write_text(str(templates().get_template("assessment.html.j2").render(
            title=head.title, description=head.description, candidate=_candidate(found), counts=_counts(found),
            heads=HEADS, sections=sections, command=shlex.join(head.command), short=head.short, glossary=GLOSSARY,
            facts=facts, family=family, looks=looks)), encoding="utf-8", errors="replace")
    return folder / "index.html"


def provenance(found: Sequence[Assessed], hashes: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the numbers were made with: (what, which). hashes: SHA-256 of the files that say what is asked."""
    experiments = [one.experiment for one in found if one.experiment]
    runs = [run for experiment in experiments for run in experiment.runs if run.finished]
    variants = {variant.name: variant for run in runs for variant in run.variants}
    facts = [("kernel", _distinct(run.kernel for run in runs)),
             ("kernel's build", _distinct(run.plan.kernel_key for run in runs))]
    facts += [(f"congestion control {name}", _version(variants[name])) for name in variants]
    seeds = sorted({run.seed for run in runs})
    facts += [("seeds", ", ".join(map(str, seeds))),
              ("testbed", _distinct(" ".join(filter(None, [run.environment.testbed_version,
                                                           run.environment.code_version])) for run in runs)),
              ("code inside the guest", _distinct(run.plan.guest_code for run in runs)),
              ("runs", f"{len({run.path for run in runs})}; tables/runs.csv has the SHA-256 of each")]
    return [*(facts if runs else []), *((f"SHA-256 of {name}", digest) for name, digest in hashes.items())]


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))


def _version(variant: Variant) -> str:
    """reno of the kernel; tcp_mine.c with SHA-256"""
    if variant.quic:
        return str(variant.title)
    if variant.module_sha256:
        name = Path(variant.module).name if variant.module else variant.module_name
        said = f"{name}, SHA-256 {variant.module_sha256}"
    else:
        said = f"{variant.kernel_cca} of the kernel"
    settings = {**variant.sysctls, **variant.parameters}
    return said + "".join(f", {name} = {value}" for name, value in settings.items())


def _runs(found: Sequence[Assessed]) -> pd.DataFrame:
    """Every run, with its verdict and the hash of its raw data."""
    rows = [(one.about.section, one.about.name, run.path.name, run.subject, run.seed, ", ".join(
        f"{axis}={value}" for axis, value in run.point.items()), experiment.verdict(run),
        run.status.raw_sha256 if run.finished else "", experiment.path.name)
        for one in found if (experiment := one.experiment) for run in experiment.runs]
    return pd.DataFrame(rows, columns=["section", "criterion", "run", "subject", "seed", "point", "verdict",
                                       "raw_sha256", "experiment"])


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
    if one.word == MEETS:
        return next((finding.shortfall for finding in one.findings if finding.shortfall), "")
    return say(one.decisive[0])


def _cells(finding: Finding) -> list[str]:
    unit = finding.unit if finding.unit not in ("", "1") else ""
    of = finding.test.of
    measured = ", ".join(f"{name} {_number(value)}" for name, value in finding.measured.items())
    value = _value(finding) + (f" {unit}" if of in assessed.IN_UNIT else "")
    return [name_of(finding.test), finding.at, finding.against, value, _worst(finding),
            f"{measured} {unit}".strip(), limits(finding.test), _said(finding)]


def _value(finding: Finding) -> str:
    """1.31 (1.2 to 1.4; 5)"""
    found = finding.found
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{_number(found.mean)} ({found.n})"
    values = found.mean, found.low, found.high
    mean, low, high = style.with_ends(*values) if all(map(math.isfinite, values)) else map(_number, values)
    return f"{mean} ({low} to {high}; {found.n})"


def _number(value: float) -> str:
    return style.number(value) if math.isfinite(value) else "infinite"


def _worst(finding: Finding) -> str:
    """0.71 (seed 3); in a seat 0.88 (seed 2, seat 1)"""
    if finding.worst is None:
        return "-"
    said = f"{_number(finding.worst.value)} (seed {finding.worst.seed})"
    if finding.worst_in_seat:
        seat, one = finding.worst_in_seat
        said += f"; in a seat {_number(one.seats[seat - 1])} (seed {one.seed}, seat {seat})"
    return said


def _said(finding: Finding) -> str:
    """needs more seeds: 14 (n = 4 of 5; why)"""
    notes = "; ".join(filter(None, [finding.shortfall, finding.why]))
    return finding.word + (f": {finding.needed}" if finding.needed else "") + (f" ({notes})" if notes else "")


def _table(found: Sequence[Assessed]) -> pd.DataFrame:
    """A row for each finding, and one for each criterion without any."""
    columns = ["section", "criterion", "test", "statistic", "metric", "scope", "point", "against", "unit", "n", "asked",
               "mean", "ci95_low", "ci95_high", "worst", "worst_in_seat", "meets", "fails", "p", "p_holm", "verdict",
               "seeds_needed", "seeds", "values", "experiment"]
    rows: list[tuple[object, ...]] = []
    for one in found:
        for finding in one.findings:
            test, got = finding.test, finding.found
            rows.append((one.about.section, one.about.name, test.name, test.of, test.metric, test.scope, ", ".join(
                f"{axis}={value}" for axis, value in finding.point.items()), finding.against, finding.unit,
                len(finding.values), finding.asked, *((got.mean, got.low, got.high) if got else [None] * 3),
                finding.worst.value if finding.worst else None,
                finding.worst_in_seat[1].seats[finding.worst_in_seat[0] - 1] if finding.worst_in_seat else None,
                test.threshold.meets, test.threshold.fails, finding.p, finding.p_holm, finding.word, finding.needed,
                " ".join(str(seed.seed) for seed in finding.seeds),
                " ".join(f"{value:.10g}" for value in finding.values), one.folder_name))
        if not one.findings:
            rows.append((one.about.section, one.about.name, *[""] * 7, 0, 0, *[None] * 9, one.word, None, "", "",
                         one.folder_name))
    return pd.DataFrame(rows, columns=columns)


def markdown(found: Sequence[Assessed], head: Head, facts: Sequence[tuple[str, str]], family: int,
             looks: int = 1) -> str:
    """The same as Markdown: a line for each criterion, then each with its findings."""
    lines = [f"# {plain(head.title)}: {plain(_candidate(found))}", "", f"**{_counts(found)}**", "",
             f"Holm's correction of \"does not meet\" is over the findings of the page: {family}"
             + (f", times {looks} looks" if looks > 1 else "") + ".", "",
             "| section | criterion | the RFC says | verdict | because |", "|---|---|---|---|---|"]
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
    lines += ["", "## Terms", "", *(f"* {plain(term)}: {plain(meaning)}" for term, meaning in GLOSSARY)]
    lines += ["", "## Provenance", "", *(f"* {plain(what)}: {plain(which)}" for what, which in facts)]
    return "\n".join([*lines, "", f"    {shlex.join(head.command)}", ""])

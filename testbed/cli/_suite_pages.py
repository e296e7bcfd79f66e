# SPDX-License-Identifier: GPL-2.0-only
"""The pages of `testbed suite run`: what a suite makes of the runs of its parts."""
from __future__ import annotations

import argparse
import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from testbed import engines
from testbed.cli._experiment import Done
from testbed.core import fields
from testbed.runs.plan import Plan
from testbed.scenario import ccas, criteria, published, suite_parts, suites

if TYPE_CHECKING:
    from analysis.compare.assessment import Assessed
    from analysis.pages import Head
    from analysis.read.parts import Runs

_LONGEST_NAME = 120


@dataclasses.dataclass(frozen=True)
class Ran:
    """What came of a suite. chosen: the parts that were asked for; by their names: plans, done, and in problems why
    there are no results. subjects: the baseline and those under test. command: as it can be typed again.
    looks: how often criteria are judged at most, as seeds are added."""
    suite: suites.Suite
    chosen: Sequence[suite_parts.Part]
    plans: Mapping[str, Sequence[Plan]]
    subjects: Sequence[str]
    done: dict[str, Done]
    problems: dict[str, str]
    results: pathlib.Path
    arguments: argparse.Namespace
    command: Sequence[str]
    looks: int = 1

    @property
    def is_short(self) -> bool:
        return bool(self.arguments.version)

    @property
    def folder(self) -> pathlib.Path:
        return self.results / folder_name(self.suite, self.subjects, self.arguments)

    @property
    def head(self) -> Head:
        from analysis.pages import Head
        return Head(self.suite.title, self.suite.description, self.command, self.is_short)

    def runs(self, name: str) -> Runs:
        """What was run of a part."""
        from analysis.read.parts import Runs
        one = self.done.get(name)
        return Runs(self.results / one.folder.name, tuple(one.ids), self.problems.get(name, "")) if one else \
            Runs(None, (), self.problems.get(name, "not run"))


def has_one(suite: suites.Suite) -> bool:
    """Whether a suite has a page beside the reports of its parts."""
    return bool(suite.baseline or suite.results or suite.page or suite.criteria)


def write(ran: Ran) -> None:
    """Write the pages that a suite has, and print what they say in short."""
    if ran.suite.baseline:
        _compared(ran)
    if ran.suite.results:
        _published(ran)
    if ran.suite.page:
        _laid_out(ran)
    if ran.suite.criteria:
        _assessed(ran)


def _compared(ran: Ran) -> None:
    """The page that compares what was tested with the baseline."""
    from analysis.compare import suite as judged
    from analysis.pages import suite_report
    suite = ran.suite
    description = {
        "schema": 1, "name": suite.name, "title": suite.title, "source": suite.source, "quick": ran.is_short,
        "description": suite.description, "baseline": ran.subjects[0], "subjects": list(ran.subjects[1:]),
        "command": list(ran.command), "deviations": fields.encoded(suite.deviations),
        "left_out": [part.title or part.name for part in suite.parts if part not in ran.chosen],
        "parts": [_described(part, ran) for part in ran.chosen]}
    found = judged.Suite(judged.SuiteRecord(description), ran.results, ran.arguments.margin)
    page = suite_report.write(found, ran.folder)
    for line in filter(None, [*found.sentences(), found.seeds_to_decide()]):
        print(line)
    print(f"suite: {page}")


def _described(part: suite_parts.Part, ran: Ran) -> dict[str, object]:
    done = ran.done.get(part.name)
    return {"name": part.name, "title": part.title, "section": part.section, "not_run": part.not_run,
            "problem": ran.problems.get(part.name, ""), "experiment": done.folder.name if done else None,
            "runs": [plan.id for plan in ran.plans.get(part.name, ())],
            **{name: fields.encoded(getattr(part, name)) for name in ("outputs", "parameters", "deviations")}}


def _published(ran: Ran) -> None:
    """The page that lays results beside what was published."""
    from analysis.compare import published as beside
    from analysis.pages import published_report
    found = [beside.Judged(part.about(), part.asked(ran.is_short), ran.runs(part.name), {
        name: ran.runs(switched.name) for name, switched in part.switched(ran.is_short).items()})
        for part in ran.chosen if isinstance(part, published.Result)]
    page = published_report.write(found, ran.folder, ran.head)
    print(beside.sentence(found))
    print(f"suite: {page}")


def _laid_out(ran: Ran) -> None:
    """The page on which the suite lays out its parts."""
    from analysis import pages
    page, sentences = pages.module_of(ran.suite.page).write(
        {part.name: ran.runs(part.name) for part in ran.chosen}, ran.folder, ran.head)
    for line in sentences:
        print(line)
    print(f"suite: {page}")


def _assessed(ran: Ran) -> None:
    """The page that says which criteria a candidate meets."""
    from analysis.compare import assessment
    from analysis.pages import assessment_report
    found = assessments(ran)
    page = assessment_report.write(found, ran.folder, ran.head, suites.hashes(ran.suite, ran.chosen), ran.looks)
    for line in assessment.sentences(found):
        print(line)
    print(f"assessment: {page}")


def assessments(ran: Ran) -> list[Assessed]:
    """Each criterion with its runs."""
    from analysis.compare.assessment import Assessed
    candidate, = ccas.parse(ran.arguments.cca)
    references = [one.name for other in ran.suite.against for one in ccas.parse(other)]
    # modules say their names when they are built: of those that ran alone, in the order in which they were asked for
    asked = list(dict.fromkeys([candidate.name, *references]))
    built: dict[str, str] = {}
    for one in ran.done.values():
        alone = [subject for subject in one.subjects if "+" not in subject]
        if len(alone) == len(asked):
            built = dict(zip(asked, alone))
    name = built.get(candidate.name, next((one.subjects[0] for one in ran.done.values() if one.subjects),
                                          candidate.name))
    references = [built.get(one, one) for one in references]
    return [Assessed(part.about(), name, references, ran.runs(part.name))
            for part in ran.chosen if isinstance(part, criteria.Criterion)]


def folder_name(suite: suites.Suite, subjects: Sequence[str], arguments: argparse.Namespace) -> str:
    """suite-iccrg-quick-mine-cubic"""
    words = ["suite", suite.name, *filter(None, [arguments.version]), *subjects[1:]]
    words += map(_in_a_name, arguments.cca.split(",")) if (suite.results or suite.criteria) and arguments.cca else []
    words += ["against", subjects[0]] if arguments.baseline else []
    words += ["against", *map(_in_a_name, arguments.against.split(","))] if arguments.against else []
    words += ["only", *sorted(set(filter(None, map(str.strip, arguments.only.split(",")))))] if arguments.only else []
    words += [arguments.engine] if arguments.engine not in (None, engines.DEFAULT) else []
    if arguments.kernel:
        words.append("kernel" + pathlib.Path(arguments.kernel).name)
    words += [f"hz{arguments.hz}"] * bool(arguments.hz) + sorted(arguments.kernel_options)
    name = "-".join(words)
    return name if len(name) <= _LONGEST_NAME else \
        f"{name[:_LONGEST_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _in_a_name(cca: str) -> str:
    """A congestion control as a part of a folder's name: tcp_mine of ./tcp_mine.c"""
    return pathlib.PurePath(cca.strip()).stem.replace(":", "-")

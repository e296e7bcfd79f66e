# SPDX-License-Identifier: GPL-2.0-only
"""JUnit XML: verdicts of runs and expectations of an experiment as test cases, for continuous integration.

The form is the one that Jenkins, GitLab and others read (no standard says what it is): testsuites, testsuite with
counts, testcase with failure, error or skipped inside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from analysis.read import expectations
from analysis.read.expectations import Outcome
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from testbed.core.errors import EnvironmentProblem

# what XML 1.0 has no character for
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(path: Path, experiments: Sequence[tuple[Experiment, Sequence[Outcome]]]) -> None:
    """A test suite for each experiment. EnvironmentProblem if the file cannot be written."""
    root = ElementTree.Element("testsuites")
    for experiment, outcomes in experiments:
        _suite(root, experiment, outcomes)
    _save(path, root)


class Case(NamedTuple):
    """A test case. kind: failure, error, or '' of one that passed; text: its first line is the message; type: of a
    failure."""

    classname: str
    name: str
    kind: str
    text: str
    type: str = ""


def write_cases(path: Path, name: str, cases: Sequence[Case]) -> None:
    """One test suite of cases. EnvironmentProblem if the file cannot be written."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=_text(name))
    for one in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=_text(one.classname), name=_text(one.name))
        if one.kind:
            _said(case, one.kind, one.text)
            if one.type:
                case[0].set("type", _text(one.type))
        else:
            ElementTree.SubElement(case, "system-out").text = _text(one.text)
    _count(suite)
    _save(path, root)


def _save(path: Path, root: ElementTree.Element) -> None:
    ElementTree.indent(root)
    try:
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as problem:
        raise EnvironmentProblem(f"{path}: cannot be written: {problem.strerror}") from None


def _suite(root: ElementTree.Element, experiment: Experiment, outcomes: Sequence[Outcome]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=_text(experiment.path.name))
    for run in experiment.runs:
        _run(suite, experiment, run)
    for outcome in outcomes:
        _expectation(suite, experiment, outcome)
    _count(suite)


def _count(suite: ElementTree.Element) -> None:
    suite.set("tests", str(len(suite)))
    for kind in ("failure", "error", "skipped"):
        suite.set({"failure": "failures", "error": "errors"}.get(kind, kind), str(len(suite.findall(f"*/{kind}"))))


def _run(suite: ElementTree.Element, experiment: Experiment, run: Run) -> None:
    """An invalid run is a failure, one that did not finish an error; what makes one suspect is its output."""
    verdict = experiment.verdict(run)
    wall_s = run.status.wall_s if run.finished else None
    case = ElementTree.SubElement(suite, "testcase", classname=f"{_text(experiment.path.name)}.runs",
                                  name=_text(run.name))
    if wall_s is not None:
        case.set("time", f"{wall_s:.3f}")
    found = experiment.verdicts.get(run.name)
    reasons = [reason["message"] for reason in found["reasons"]] if found else []
    if verdict == "invalid":
        _said(case, "failure", "invalid: " + "; ".join(reasons))
    elif verdict == "suspect":
        ElementTree.SubElement(case, "system-out").text = _text("suspect: " + "; ".join(reasons))
    elif verdict != "valid":
        _said(case, "error", f"{verdict}: {run.state.message}")


def _expectation(suite: ElementTree.Element, experiment: Experiment, outcome: Outcome) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=f"{_text(experiment.path.name)}.expectations",
                                  name=_text(f"{outcome.row.label}: {outcome.expectation.text}"))
    kind = {expectations.NOT_MET: "failure", expectations.UNKNOWN: "error",
            expectations.NOT_CONCERNED: "skipped"}.get(outcome.result)
    if kind:
        _said(case, kind, f"{outcome.result}: {outcome.found}")
    else:
        ElementTree.SubElement(case, "system-out").text = _text(outcome.found)


def _said(case: ElementTree.Element, kind: str, message: str) -> None:
    first = message.strip().splitlines()[0] if message.strip() else message
    ElementTree.SubElement(case, kind, message=_text(first)).text = _text(message)


def _text(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)

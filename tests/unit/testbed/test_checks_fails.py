# SPDX-License-Identifier: GPL-2.0-only
"""Every check of the verdict fails where it should: each way it has of saying so is shown a run that is so."""
import ast
import importlib
import re
import sys

import pytest

from testbed import PROJECT_DIR, checks
from tests.unit.testbed import (bad_air, bad_kernels, bad_links, bad_quic, bad_real_time, bad_runs, bad_senders,
                                evidence_files)

CHECKS = [*bad_runs.CHECKS, *bad_real_time.CHECKS, *bad_links.CHECKS, *bad_air.CHECKS,
          *bad_senders.CHECKS, *bad_kernels.CHECKS, *bad_quic.CHECKS]


@pytest.mark.parametrize("bad", CHECKS, ids=lambda bad: f"{bad.check}: {bad.name}")
def test_a_bad_run_is_found(tmp_path, bad):
    files = evidence_files.good_files()
    bad.spoil(files)
    found = evidence_files.findings(tmp_path, bad.check, files, **bad.evidence)
    assert any(level == bad.level and re.search(bad.message, text) for level, text in found), found


@pytest.mark.parametrize("number", range(len(bad_real_time.FINE)))
def test_what_a_wall_clock_may_do_is_fine(tmp_path, number):
    check, change = bad_real_time.FINE[number]
    files = evidence_files.good_files()
    change(files)
    found = evidence_files.findings(tmp_path, check, files, clock="real")
    assert found and {level for level, _ in found} == {"ok"}, found


@pytest.mark.parametrize("number", range(len(bad_links.FINE)))
def test_what_a_schedule_says_is_fine(tmp_path, number):
    check, change = bad_links.FINE[number]
    files = evidence_files.good_files()
    change(files)
    found = evidence_files.findings(tmp_path, check, files)
    assert found and {level for level, _ in found} == {"ok"}, found


def test_every_check_has_a_run_that_it_fails():
    assert {bad.check for bad in CHECKS if bad.level in ("suspect", "invalid")} == set(checks.names())


def test_every_check_is_in_the_document():
    text = (PROJECT_DIR / "docs/reference/verdict.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == checks.names()


def places(check):
    """(first, last line) of every Finding in a check's code that may be suspect or invalid."""
    source = importlib.import_module(f"testbed.checks.{check}").__file__
    with open(source, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    calls = [node for node in ast.walk(tree)
             if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"]
    words = [{getattr(part, "value", getattr(part, "id", None)) for part in ast.walk(call.args[0])} for call in calls]
    # a level may be computed by a function of the check's own
    computed = [any(isinstance(part, ast.Call) for part in ast.walk(call.args[0])) for call in calls]
    return [(call.lineno, call.end_lineno) for call, said, function in zip(calls, words, computed)
            if {"suspect", "invalid", "level"} & said or function]


@pytest.mark.parametrize("check", checks.names())
def test_every_bad_finding_of_a_check_is_made_by_one_of_them(tmp_path, monkeypatch, check):
    module = importlib.import_module(f"testbed.checks.{check}")
    lines = set()

    def noting(level, message):
        if level in ("suspect", "invalid"):
            lines.add(sys._getframe(1).f_lineno)
        return checks.Finding(level, message)
    monkeypatch.setattr(module, "Finding", noting)
    for bad in CHECKS:
        if bad.check == check:
            files = evidence_files.good_files()
            bad.spoil(files)
            evidence_files.findings(tmp_path, check, files, **bad.evidence)
    assert places(check)
    unseen = [first for first, last in places(check) if not any(first <= line <= last for line in lines)]
    assert not unseen, f"testbed/checks/{check}.py, lines {unseen}: no bad run in bad_runs.py is found there"


def test_a_queue_that_nothing_leaves(tmp_path):
    """An outage over the whole measured time: there is nothing to compare, unless the counters saw packets leave."""
    files = evidence_files.good_files()
    bad_links.stuck_from(9)(files)
    assert ("not applicable", "right_to_left: no packet left its queue in the measured time") \
        in evidence_files.findings(tmp_path, "littles_law", files)

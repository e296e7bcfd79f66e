# SPDX-License-Identifier: GPL-2.0-only
"""Everything in the corpus ends with its exit code and its message, and leaves nothing behind."""
from __future__ import annotations

import pathlib

import pytest

from tests.hostile import (cases_arguments, cases_cca, cases_fields, cases_lookup, cases_modules, cases_packet_scripts,
                           cases_results, cases_suites, cases_surroundings, cases_tmix, cases_vectors, cases_yaml,
                           runner)
from tests.hostile.case import Case

CASES: list[Case] = [case for module in (
    cases_yaml, cases_fields, cases_arguments, cases_cca, cases_vectors, cases_tmix, cases_results, cases_surroundings,
    cases_modules, cases_lookup, cases_suites, cases_packet_scripts) for case in module.CASES]


def test_the_corpus_is_large_and_names_are_distinct() -> None:
    assert len(CASES) >= 250
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile(case: Case, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    ended = runner.carry_out(case, tmp_path, request.getfixturevalue("finished") if case.with_results else None)
    runner.check_answer(case, ended)
    if case.after:
        case.after(tmp_path / "work")

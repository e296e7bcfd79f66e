# SPDX-License-Identifier: GPL-2.0-only
"""Suite files that are no good, and parts that there are not."""
from __future__ import annotations

from tests.hostile.case import Case, Content
from tests.hostile.cases_yaml import _as_a_folder, _bomb

SUITE = """\
title: Small
source: nowhere
baseline: sack
ccas: [cubic]
seeds: 2
parts:
  - name: one
    section: "1"
    scenario: access-link
    outputs: [{metric: drop_rate, scope: right_to_left, label: drops, better: lower}]
"""


def suite(name: str, text: Content | None, says: str, *options: str, **more: object) -> Case:
    """`testbed suite list small.yaml` must refuse a suite file; text: None, if it is not there."""
    return Case(f"suite-{name}", ["suite", "list", "small.yaml", *options], 2, says,
                {} if text is None else {"small.yaml": text}, **more)  # type: ignore[arg-type]


def changed(old: str, new: str) -> str:
    assert SUITE.count(old) == 1, old
    return SUITE.replace(old, new)


CASES = [
    suite("missing", None, r"small\.yaml: no such suite file"),
    suite("empty", "", r"small\.yaml:1: a mapping of sections expected"),
    suite("a-folder", None, r"small\.yaml: no such suite file", prepare=_as_a_folder),
    suite("alias-bomb", _bomb, r"small\.yaml.*(too many|more than|aliases)"),
    suite("not-utf-8", SUITE.encode() + b"# \xff", r"small\.yaml:11: not text in UTF-8"),
    suite("a-scenario", "name: small\ntopology: {kind: dumbbell}\n", r"small\.yaml:1: name: unknown section"),
    suite("baseline-that-is-a-list", changed("baseline: sack", "baseline: [sack]"), r"small\.yaml:3: baseline: "),
    suite("scenario-out-of-its-folder", changed("access-link", "../../../etc/passwd"),
          r"small\.yaml:9: parts\.1\.scenario: no scenario '\.\./"),
    suite("option-as-a-value", changed("scenario: access-link", "scenario: access-link\n    set: {--cca: x}"),
          r"small\.yaml:10: parts\.1\.set\.--cca: names such as"),
    suite("number-of-thousands-of-digits", changed("seeds: 2", f"seeds: {'9' * 5000}"), r"small\.yaml:5: seeds: "),
    suite("control-characters", changed("title: Small", 'title: "a\\u001b[2Jb"'), r"small\.yaml:1: title: printable"),
    suite("no-such-part", SUITE, r"--only two: no such part of small; there are: one", "--only", "two"),
    suite("only-the-baseline", SUITE, r"--cca: a congestion control besides the baseline, sack, expected", "--cca",
          "sack"),
]

# SPDX-License-Identifier: GPL-2.0-only
"""Assessments of congestion controls whose faults are known: each is found, and what is known to be right is not
blamed. A run of the short version for each, some minutes long."""
import csv
import pathlib

import pytest
import yaml

from testbed import cli
from traffic.quic import programs

HERE = pathlib.Path(__file__).parent
KNOWN = yaml.safe_load((HERE / "known_answers.yaml").read_text(encoding="utf-8"))
WORDS = {"meets": "meets", "more_seeds": "needs more seeds"}


@pytest.fixture(scope="module", autouse=True)
def _results(tmp_path_factory):
    """The references run once for all candidates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTBED_RESULTS", str(tmp_path_factory.mktemp("results")))
        yield


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_found(name, capsys):
    module = HERE / "modules" / f"tcp_{name}.c"
    candidate = str(module) if module.exists() else name
    if name.startswith("quic:") and not programs.is_built(stack := name.split(":")[1]) and programs.missing(stack):
        pytest.skip(programs.missing(stack))
    only = ",".join({test.partition(".")[0] for tests in KNOWN[name].values() for test in tests})
    assert cli.main(["assess", candidate, "--quick", "--yes", "--only", only]) == 0
    page = pathlib.Path(capsys.readouterr().out.split("assessment: ")[1].splitlines()[0])
    with open(page.parent / "tables/findings.csv", encoding="utf-8", newline="") as file:
        found = [(f"{row['criterion']}.{row['test']}", row["verdict"]) for row in csv.DictReader(file)]
    for test in KNOWN[name]["fails"]:
        assert (test, "does not meet") in found, f"{name} must fail {test}: {[one for one in found if one[0] == test]}"
    for key, expected in WORDS.items():
        for test in KNOWN[name].get(key, []):
            words = {word for one, word in found if one == test}
            assert words == {expected}, f"{name}, {test}: {expected} expected, not {words}"

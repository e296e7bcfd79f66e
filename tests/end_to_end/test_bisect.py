# SPDX-License-Identifier: GPL-2.0-only
"""docs/howto/bisect.md: its example finds the commit, in the guest. Without jitter three seeds are enough."""
import csv
import re
import shlex
import subprocess

import pytest

from tests.end_to_end.command_line import PROJECT, CommandLine

PAGE = (PROJECT / "docs/howto/bisect.md").read_text()


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """(what the example's command said, the folder): the same two commands that the page has."""
    testbed = CommandLine(tmp_path_factory.mktemp("bisect"))
    (testbed.folder / "one-flow.yaml").write_text(re.search(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)[1])
    script, bisect = re.search(r"^```console\n(.*?)^```", PAGE, re.S | re.M)[1].splitlines()
    tree = str(testbed.folder / "mine")
    words = [word.replace("~/mine", tree) for word in shlex.split(script)]
    subprocess.run(words, cwd=PROJECT, check=True)
    words = [word.replace("~/mine", tree).replace("one-flow.yaml", str(testbed.folder / "one-flow.yaml"))
             for word in shlex.split(bisect)][1:]
    return testbed, words, testbed(*words)


def test_the_commit_is_found(done):
    testbed, _, said = done
    assert said.returncode == 0, said.stderr
    first, subject, _ = said.stdout.splitlines()[-3:]
    log = subprocess.run(["git", "-C", testbed.folder / "mine", "log", "--format=%H", "--grep=Be gentle"], check=True,
                         capture_output=True, text=True).stdout.strip()
    assert first == f"first bad commit: {log}" and subject.strip() == "Be gentle"


def test_what_did_not_change_is_not_run_again(done):
    """Ten revisions, two different modules: six runs, whatever the number of steps."""
    testbed, _, said = done
    assert len(list((testbed.folder / "results/runs").glob("[0-9a-f]*"))) == 6
    table, = (testbed.folder / "results").glob("*-bisect-mine*/bisect.csv")
    rows = list(csv.DictReader(table.open()))
    assert [row["subject"] for row in rows[:2]] == ["First version", "Release"]
    for row in rows[2:]:
        if row["subject"] == "Half a clean-up":
            assert row["state"] == "skipped" and "tcp_mine.c" in row["why"]
        else:
            assert row["state"] in ("good", "bad") and "the same to the byte as with" in row["why"]
            assert float(row["p"]) <= 0.05


def test_given_again_it_goes_on_where_it_was(done):
    testbed, words, first = done
    again = testbed(*words)
    assert again.stdout == first.stdout and "traffic" not in again.stderr

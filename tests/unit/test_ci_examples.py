# SPDX-License-Identifier: GPL-2.0-only
"""The files of docs/examples/ci call what there is, and say what the how-to says of them."""
import os
import re
import subprocess

import pytest
import yaml

from testbed.scenario import scenario
from tests.unit.test_documents import PROJECT

FOLDER = PROJECT / "docs/examples/ci"


def commands(text):
    """Every word that names a file of the testbed."""
    return re.findall(r"(?<!\S)testbed/(\S+)", text)


@pytest.mark.parametrize("name, jobs", [("github.yml", "jobs"), ("gitlab.yml", "compare")])
def test_they_call_what_there_is(name, jobs):
    text = (FOLDER / name).read_text()
    assert jobs in yaml.safe_load(text)
    called = commands(text)
    assert {"setup.sh", "docs/examples/ci/compare.sh"} <= set(called)
    for file in called:
        assert os.access(PROJECT / file, os.X_OK), file


def test_the_scenario_expects_something():
    runs = scenario.expand(str(FOLDER / "mine.yaml"))
    assert runs and "expect:" in (FOLDER / "mine.yaml").read_text()


@pytest.mark.parametrize("codes, result", [((0, 0), 0), ((6, 0), 6), ((0, 4), 4), ((6, 4), 4)])
def test_exit_codes(tmp_path, codes, result):
    """Both comparisons take place, whatever the first one finds."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/testbed").write_text(
        '#!/bin/sh\necho "$(basename "$2") $5$6" >> calls\n'
        'case $2 in access-link) exit %d;; *) exit %d;; esac\n' % codes[::-1])
    (tmp_path / "bin/testbed").chmod(0o755)
    done = subprocess.run([FOLDER / "compare.sh", tmp_path, "./tcp_mine.c"], cwd=tmp_path)
    assert done.returncode == result
    assert (tmp_path / "calls").read_text() == "mine.yaml --seeds5\naccess-link cubic,./tcp_mine.c--seeds\n"

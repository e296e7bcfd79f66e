# SPDX-License-Identifier: GPL-2.0-only
"""docs/howto/expectations.md on the command line: messages, exit codes, test cases; runs do not depend on them."""
import os
import re
import subprocess
from xml.etree import ElementTree

import pytest

from tests.end_to_end import toy_checkout
from tests.end_to_end.command_line import PROJECT

PAGE = (PROJECT / "docs/howto/expectations.md").read_text()


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    """Function that runs the scenario of the page in the engine toy, in which every bottleneck is full."""
    folder = tmp_path_factory.mktemp("expecting")
    code = toy_checkout.make(folder / "code")
    (folder / "expecting.yaml").write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])

    def run(*words):
        command = re.search(r"\$ bin/testbed (run expecting.yaml .*)", PAGE)[1].split()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TESTBED_RESULTS": str(folder / "results"),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([code / "bin/testbed", *command, "--engine", "toy", "--no-report", *words], cwd=folder,
                              env=environment, capture_output=True, text=True, timeout=300)
    run.folder = folder
    return run


def test_the_example(testbed):
    done = testbed()
    assert done.returncode == 0, done.stderr
    documented = re.findall(r"^    (expected of .*|test cases: .*)", PAGE, re.MULTILINE)
    numbers = r"(?<=met: )[\d.]+"
    assert [re.sub(numbers, "_", line) for line in done.stdout.splitlines()] == [
        re.sub(numbers, "_", line) for line in documented]
    suite, = ElementTree.parse(testbed.folder / "results.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["6", "0", "0", "2"]

    done = testbed("--set", "expect=[utilisation < 50 %, drops:nowhere < 1]")
    assert done.returncode == 6 and "1 run is already there" in done.stderr
    assert done.stderr.splitlines()[-1] == "testbed: of 2 expectations, 1 not met, 1 cannot be judged"
    done = testbed("--set", "expect=[{that: drops < 1, after: greedy.stop}]")
    assert done.returncode == 2 and "--set expect: 1.after: the window begins at 6 s and ends at 6 s" in done.stderr
    done = testbed("--set", "expect=[throughputs < 50 %]")
    assert done.returncode == 2 and "--set expect: 1: no metric throughputs" in done.stderr

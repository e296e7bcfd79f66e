# SPDX-License-Identifier: GPL-2.0-only
"""Examples of the documents: the scenarios in their blocks of YAML."""
import re

from testbed import PROJECT_DIR


def scenario(page, number=0):
    """The text of a scenario that a page of docs/ has as an example."""
    text = (PROJECT_DIR / "docs" / page).read_text()
    return re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[number]


def exact(page, number=0):
    """The same, with greedy flows that start when they are to and hosts without jitter."""
    return scenario(page, number).replace("kind: greedy", "kind: greedy, start_within: 0 s") + "hosts: {jitter: 0 us}\n"

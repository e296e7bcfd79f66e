# SPDX-License-Identifier: GPL-2.0-only
"""Descriptions say what a scenario has, whatever was set."""
import re

import pytest

from testbed.scenario import descriptions, scenario

_NUMBER = re.compile(r"\d+ (k|M|G)?(bit/s|ms|us|s|%|packets|bytes|B|kB)\b")


@pytest.mark.parametrize("name", scenario.names())
def test_numbers_come_from_the_scenario(name):
    loaded = scenario.load(name)
    raw = str(loaded.file.tree["description"])
    assert not _NUMBER.search(raw), "numbers of a scenario that --set may change: {topology.central.rate}"
    # nothing is left out: every field is there as long as nobody takes it away
    assert loaded.description.count(". ") == " ".join(raw.split()).count(". ")
    assert "{" not in loaded.description


def test_settings_are_followed():
    found = scenario.load("long-flows", settings=["topology.central.queue.limit=1000"]).description
    assert "a buffer of 1000 packets" in found and "over 10 Mbit/s" in found


def test_a_buffer_in_time_is_no_packets():
    found = scenario.load("long-flows", settings=["topology.central.queue.limit=20 ms"]).description
    assert "a buffer of 20 ms:" in found


TREE = {"topology": {"central": {"rate": "1 Mbit/s", "left_to_right": {"delay": "1 ms"}, "right_to_left": {
    "delay": "2 ms"}}}, "traffic": [{"name": "a", "load": "50 %"}]}


@pytest.mark.parametrize("text, trees, said", [
    ("A link of {topology.central.rate}.", [TREE], "A link of 1 Mbit/s."),
    ("Load {traffic.a.load}, {traffic.1.load}.", [TREE], "Load 50 %, 50 %."),
    ("A delay of {topology.central.delay}.", [TREE], "A delay of 1 ms or 2 ms."),
    ("Something. Of {topology.left.rate} it is. Else.", [TREE], "Something. Else."),
    ("Of {topology}. All.", [TREE], "All."),
    ("Rates: {rate}.", [{"rate": f"{n} Mbit/s"} for n in (1, 2)], "Rates: 1 Mbit/s or 2 Mbit/s."),
    ("Limit {queue.limit}.", [{"queue": {"limit": n}} for n in range(1, 7)], "Limit 1, 2, ... or 6 packets."),
])
def test_values(text, trees, said):
    assert descriptions.filled(text, trees) == said

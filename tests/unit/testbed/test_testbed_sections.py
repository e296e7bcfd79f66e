# SPDX-License-Identifier: GPL-2.0-only
"""Sections of a scenario file, and where their errors are said to be."""
import pytest

from testbed.core.errors import ScenarioError
from testbed.scenario import scenario

_TEXT = """\
name: small
title: Small
topology: {kind: dumbbell, central: {rate: 20 Mbit/s, queue: {limit: 50}}, edge: {rate: 1 Gbit/s},
           left_delays: [0 ms, 5 ms], right_delays: [2 ms]}
timing: {prefill: 0 s, warmup: 1 s, test: 3 s}
traffic:
"""


@pytest.mark.parametrize("traffic, message", [
    ("  - kind: greedy\n    paths: [n1->n1]\n", "small.yaml:8: traffic.greedy.paths: "),
    ("  - kind: cbr\n    name: voice\n    rate: 0 bit/s\n", "small.yaml:9: traffic.voice.rate: "),
    ("  kind: greedy\n  paths: [n1->n1]\n", "small.yaml:8: traffic.paths: ")])
def test_a_single_component_is_named_if_it_is_in_a_list(tmp_path, traffic, message):
    (tmp_path / "small.yaml").write_text(_TEXT + traffic)
    with pytest.raises(ScenarioError, match=message):
        scenario.load(str(tmp_path / "small.yaml"))

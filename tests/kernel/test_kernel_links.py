# SPDX-License-Identifier: GPL-2.0-only
"""The examples of docs/links.md, run as they stand there: what links do is measured against what they were told."""
import pathlib
import re

import pytest
import yaml

from topologies import varying

_PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/links.md").read_text(encoding="utf-8")
FRAME_BYTES = 1514


def example(name):
    """The scenario that the page has under this name."""
    block = re.search(rf"`examples/{name}\.yaml`.*?```yaml\n(.*?)```", _PAGE, re.DOTALL)
    assert block and len(block.group(1).splitlines()) <= 15
    return yaml.safe_load(block.group(1))


@pytest.fixture(scope="module")
def run_example(run_scenario):
    """run_example(name) -> FinishedRun; every example is run once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = run_scenario(example(name))
            verdict = made[name].json("verdict.json")
            assert verdict["verdict"] == "valid", verdict["reasons"]
        return made[name]
    return get


def changing(run):
    return next(link for link in run.json("raw/network.json")["links"] if varying.changes(link))


def samples_of(run, link):
    queue = run.table("queue")
    queue = queue[queue["link"] == link["name"]]
    # some are noted a microsecond early
    return queue.assign(t_us=(queue["t_us"] + 5) // 10 * 10).set_index("t_us")


def test_rates_step_at_their_times(run_example):
    """Each second has its rate within 0.1 %, the first sample after a step is one of the new rate."""
    run = run_example("steps")
    link = changing(run)
    sent = samples_of(run, link)["sent_bytes"]
    for second in range(1, 39):
        rate_bps = varying.mean_rate_bps(link, second * 1e6, (second + 1) * 1e6)
        carried = sent[(second + 1) * 1_000_000] - sent[second * 1_000_000]
        # a packet at either end; where a step is, the frame that was being sent goes on at the old rate
        assert abs(carried * 8 - rate_bps) <= max(0.001 * rate_bps, 2 * 8 * FRAME_BYTES), second
    for at_us, rate_bps in ((10_000_000, 20e6), (20_000_000, 5e6), (30_000_000, 15e6)):
        first = sent[at_us + 20_000] - sent[at_us + 10_000]
        assert abs(first - rate_bps / 8 * 0.01) <= 1.5 * FRAME_BYTES


def test_ten_seconds_at_a_rate_are_within_a_tenth_of_a_percent(run_example):
    sent = samples_of(run_example("steps"), changing(run_example("steps")))["sent_bytes"]
    for begin_s, rate_bps in ((0, 10e6), (10, 20e6), (20, 5e6), (30, 15e6)):
        begin, end = begin_s * 1_000_000 + 100_000, begin_s * 1_000_000 + 9_990_000
        assert (sent[end] - sent[begin]) * 8e6 / (end - begin) == pytest.approx(rate_bps, rel=0.001)


def test_every_change_is_noted_when_it_took_effect(run_example):
    changes = run_example("steps").table("link_changes")
    assert changes["due_us"].tolist() == changes["t_us"].tolist() == [10_000_000, 20_000_000, 30_000_000]
    assert changes["rate_bps"].tolist() == [20_000_000, 5_000_000, 15_000_000]
    assert changes["delay_us"].tolist() == [5000, 5000, 1000]

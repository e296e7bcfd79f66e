# SPDX-License-Identifier: GPL-2.0-only
"""Workloads of which each of several targets has the load, and of which others offer a part of it."""

import pytest

from traffic.replay.plan import read_plan
from traffic.tmix.order import Order, Run, SourcePath, WorkloadError
from traffic.tmix.sources import Synthesised
from traffic.tmix.workload import build_workload

QUICK = dict(prefill_us=10_000_000, from_us=20_000_000, to_us=60_000_000)
ROW = {f"{way}{number}": 100_000_000 for way in ("right", "left") for number in (1, 2, 3)}
LONG = SourcePath(60_000, ["right1", "right2", "right3"], ["left3", "left2", "left1"])
SHORT = [SourcePath(60_000, [f"right{number}"], [f"left{number}"]) for number in (1, 2, 3)]


def order_of(**options):
    return Order(**{"rates_bps": ROW, "targets": ["left1", "left2", "left3"], "load": 0.6, "begin_us": 0, **QUICK,
                    **options})


def build_row(folder, paths=(LONG, *SHORT), **options):
    """Three links in a row, one source that crosses them all and one for each."""
    return build_workload(Synthesised(len(paths)), paths, order_of(**options), folder)


def test_each_of_several_targets_has_the_load_on_request(tmp_path):
    worst = {}
    for on_each in (False, True):
        made = [build_row(tmp_path, seed=seed, on_each=on_each) for seed in (1, 2, 3)]
        worst[on_each] = max(abs(one["offered_bps"][f"left{number}"] / 60e6 - 1)
                             for one in made for number in (1, 2, 3))
        for one in made:
            assert sum(one["offered_bps"][f"left{number}"] for number in (1, 2, 3)) == pytest.approx(180e6, rel=0.01)
            assert ("source_factors" in one, one.get("load_on")) == ((True, "each") if on_each else (False, None))
    # what crosses all of them keeps the scale, and the sources of one link make up for the difference
    assert made[0]["source_factors"][0] == 1 and 1 not in made[0]["source_factors"][1:]
    plans = [read_plan(tmp_path / f"source{source}.plan") for source in range(4)]
    assert [plan.header["scale"] / made[-1]["scale"] for plan in plans] == pytest.approx(made[-1]["source_factors"])
    assert worst[True] < 0.02 < 0.03 < worst[False]


def test_a_target_without_a_source_of_its_own_cannot_have_its_load(tmp_path):
    with pytest.raises(WorkloadError, match="a load on each target needs sources for each that cross no other"):
        build_row(tmp_path, (LONG, *SHORT[:2]), seed=1, on_each=True)
    assert build_row(tmp_path, (LONG, *SHORT), seed=1, on_each=True, scale="mean").get("load_on") is None


def test_what_others_offer_makes_transfers_longer(tmp_path):
    """A long transfer proceeds at the share that everybody's load leaves of the link."""
    options = {"targets": ["left1"], "load": 0.25, "seed": 1}
    shares_bps = [Run.of(order_of(load_of_all=of_all, **options), SHORT[:1]).shares_bps.tolist()
                  for of_all in (None, 0.25, 0.5, 1.0)]
    assert shares_bps == [[75e6], [75e6], [50e6], [10e6]]
    alone, beside = (build_row(tmp_path, SHORT[:1], load_of_all=of_all, **options) for of_all in (None, 1.0))
    assert alone["scale"] != beside["scale"] and abs(beside["load_error"]) < 0.01 and beside["target_load"] == 0.25

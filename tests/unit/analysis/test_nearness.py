# SPDX-License-Identifier: GPL-2.0-only
"""What `testbed bisect` decides by: nearer to good or bad, seed by seed."""
import math

import pytest

from analysis.stats import nearness

GOOD = {1: 10.0, 2: 14.0, 3: 9.0, 4: 12.0}
BAD = {key: value + 6 for key, value in GOOD.items()}


def shifted(by, noise=(0.1, -0.1, 0.2, -0.2)):
    return {key: value + by + extra for (key, value), extra in zip(GOOD.items(), noise)}


@pytest.mark.parametrize("by, side", [(0, "good"), (2, "good"), (4, "bad"), (6, "bad"), (9, "bad"), (-3, "good")])
def test_the_nearer_side(by, side):
    for ratio in (False, True):
        assert nearness.judge(GOOD, BAD, shifted(by), ratio).side == side
    # the same where the bad one is lower
    mirrored = {"good": "bad", "bad": "good"}[side]
    assert nearness.judge(BAD, GOOD, shifted(by), False).side == mirrored


def test_the_middle_is_neither():
    found = nearness.judge(GOOD, BAD, shifted(3.05, (1.0, -1.1, 2.0, -2.0)), False)
    assert found.side == "" and found.n == 4 and found.needed > 4
    assert found.comparison.low < 0 < found.comparison.high


def test_as_many_seeds_as_it_says_would_tell():
    differences = [value - (GOOD[key] + BAD[key]) / 2 for key, value in shifted(3.4, (1.0, -1.1, 1.0, -1.2)).items()]
    found = nearness.judge(GOOD, BAD, shifted(3.4, (1.0, -1.1, 1.0, -1.2)), False)
    assert found.side == ""
    more = (differences * math.ceil(found.needed / 4))[:found.needed + 4]
    seeds = {number: float(number) for number in range(len(more))}
    many = nearness.judge(seeds, {key: value + 6 for key, value in seeds.items()},
                          {key: value + 3 + extra for (key, value), extra in zip(seeds.items(), more)}, False)
    assert many.side == "bad"


def test_pairs_see_what_the_spread_of_seeds_hides():
    """Seeds that differ by far more than good and bad do."""
    good = {seed: 100.0 * seed for seed in range(1, 5)}
    bad = {seed: value + 1 for seed, value in good.items()}
    assert nearness.apart(good, bad, False, 0.001).side == "bad"
    assert nearness.judge(good, bad, {seed: value + 0.9 for seed, value in good.items()}, False).side == "bad"


def test_the_same_values_as_one_end_are_that_end():
    assert nearness.judge(GOOD, BAD, dict(GOOD), False).side == "good"
    assert nearness.judge(GOOD, BAD, dict(BAD), False).side == "bad"


def test_ends_that_are_not_apart():
    assert nearness.apart(GOOD, BAD, False, 0.05).side == "bad"
    chance = nearness.apart(GOOD, shifted(0.1), False, 0.05)
    assert chance.side == "" and not chance.comparison.distinguishable and chance.needed > 4
    small = nearness.apart(GOOD, shifted(0.1, (0, 0, 0, 0.001)), False, 0.05)
    assert small.side == "" and small.comparison.distinguishable
    same = nearness.apart(GOOD, dict(GOOD), False, 0.05)
    assert same.side == "" and same.needed is None


def test_how_far_it_is_from_one_to_the_other():
    for by, way in ((0, 0), (6, 1), (3, 0.5), (-3, -0.5)):
        assert nearness.way(GOOD, BAD, {key: value + by for key, value in GOOD.items()}, False) == pytest.approx(way)
    assert nearness.way({1: 1.0, 2: 1.0}, {1: 4.0, 2: 4.0}, {1: 2.0, 2: 2.0}, True) == pytest.approx(0.5)


@pytest.mark.parametrize("values, says", [({1: 10.0}, "1 seeds with the same traffic"), ({9: 1.0, 8: 1.0}, "0 seeds"),
                                          ({1: 10.0, 2: math.inf}, "not reached")])
def test_what_cannot_be_compared(values, says):
    with pytest.raises(ValueError, match=says):
        nearness.judge(GOOD, BAD, values, False)

# SPDX-License-Identifier: GPL-2.0-only
"""What is promised of the intervals and tests, counted over thousands of drawn experiments.

Draws are seeded: the counts are the same every time, and no test here fails by chance. With 4,000 draws a share of 95 %
is known to 0.7 %.
"""

import numpy as np
import pytest

from analysis import groups, stats
from analysis.flows import fairness
from analysis.stats import precision

DRAWS = 4_000
SEEDS = 5
#: of the mean queueing delay on the access link at 60 %, quick version: mean and spread between seeds, ms
DELAY, BETWEEN_SEEDS = 8.5, 1.95


@pytest.fixture
def rng():
    return np.random.default_rng(9)


def share(flags):
    return sum(flags) / DRAWS


def experiments(rng, difference, own, seeds=SEEDS, level=DELAY):
    """Draws of (reference, other): both see the same seeds, and have a spread `own` each besides."""
    traffic = rng.normal(level, BETWEEN_SEEDS, (DRAWS, seeds))
    return zip(traffic + rng.normal(0, own, (DRAWS, seeds)),
               traffic + difference + rng.normal(0, own, (DRAWS, seeds)))


@pytest.mark.parametrize("seeds", [2, 5, 10])
def test_intervals_of_means_hold_the_mean(rng, seeds):
    found = [stats.summarise(sample) for sample in rng.normal(DELAY, BETWEEN_SEEDS, (DRAWS, seeds))]
    assert share(one.low <= DELAY <= one.high for one in found) == pytest.approx(0.95, abs=0.015)


def test_intervals_of_geometric_means_hold_the_median(rng):
    found = [stats.summarise(sample, ratio=True) for sample in rng.lognormal(np.log(17), 0.4, (DRAWS, SEEDS))]
    assert share(one.low <= 17 <= one.high for one in found) == pytest.approx(0.95, abs=0.015)


def test_paired_intervals_hold_the_difference(rng):
    found = [stats.compare_paired(*pair) for pair in experiments(rng, 2.4, 0.5)]
    assert share(one.low <= 2.4 <= one.high for one in found) == pytest.approx(0.95, abs=0.015)


def test_paired_intervals_of_ratios_hold_the_factor(rng):
    traffic = rng.normal(2, 0.5, (DRAWS, SEEDS))
    pairs = zip(np.exp(traffic), np.exp(traffic + np.log(1.5) + rng.normal(0, 0.2, (DRAWS, SEEDS))))
    found = [stats.compare_paired(*pair, ratio=True) for pair in pairs]
    assert share(one.low <= 1.5 <= one.high for one in found) == pytest.approx(0.95, abs=0.015)


def test_welch_intervals_hold_the_difference_of_unequal_samples(rng):
    pairs = zip(rng.normal(5, 2, (DRAWS, 8)), rng.normal(7.4, 0.7, (DRAWS, 4)))
    found = [stats.compare_unpaired(*pair) for pair in pairs]
    assert share(one.low <= 2.4 <= one.high for one in found) == pytest.approx(0.95, abs=0.015)


def test_pairs_find_what_welch_misses(rng):
    """A true difference of 2.4 ms: the spread of the seeds, which both see, hides it from Welch."""
    pairs = list(experiments(rng, 2.4, 0.4))
    welch = share(stats.compare_unpaired(*pair).distinguishable for pair in pairs)
    paired = share(stats.compare_paired(*pair).distinguishable for pair in pairs)
    assert welch == pytest.approx(0.42, abs=0.05) and paired > 0.99


@pytest.mark.parametrize("compare", [stats.compare_paired, stats.compare_unpaired])
def test_differences_that_are_not_there(rng, compare):
    """Paired in one case of twenty; Welch in fewer, as it does not know that the seeds are the same."""
    found = share(compare(*pair).distinguishable for pair in experiments(rng, 0, 0.4))
    if compare is stats.compare_paired:
        assert found == pytest.approx(0.05, abs=0.015)
    else:
        assert found < 0.01


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("seeds, spread, own", [(5, 0.1, 0.004), (10, 0.1, 0.004), (5, 0.18, 0.01), (5, 0.3, 0.01)])
def test_what_differs_by_the_margin_is_called_equal_in_one_case_of_twenty(rng, seeds, spread, own, factor):
    """A difference of 5 % of the true mean, in all seeds alike or in each of its own; spreads relative to the mean.

    With 5 % of the mean as measured, taken for the true one, it was 7 to 12 % where all seeds differ alike.
    """
    draws = 2_500
    traffic = rng.normal(1, spread, (draws, seeds))
    first, noise = traffic + rng.normal(0, own, (draws, seeds)), rng.normal(0, own, (draws, seeds))
    for second in (traffic + (factor - 1) + noise, factor * traffic + noise):
        equal = [stats.compare_paired(*pair).p_equal <= 0.05 for pair in zip(first, second)]
        assert 0.03 < sum(equal) / draws < 0.065


@pytest.mark.parametrize("seeds, spread", [(5, 0.025), (10, 0.045)])
def test_unpaired_means_that_differ_by_the_margin(rng, seeds, spread):
    """Welch's test, where the spread leaves it a chance to say equal."""
    first, second = rng.normal(1, spread, (DRAWS, seeds)), rng.normal(1.05, spread, (DRAWS, seeds))
    assert share(stats.compare_unpaired(*pair).p_equal <= 0.05
                 for pair in zip(first, second)) == pytest.approx(0.05, abs=0.015)


def test_what_is_equal_is_called_equal_when_the_spread_is_small(rng):
    found = [stats.compare_paired(*pair) for pair in experiments(rng, 0, 0.1, stats.LEAST_EQUAL)]
    assert share(one.p_equal <= 0.05 for one in found) > 0.99


def test_one_table_of_many_comparisons_is_wrong_in_one_case_of_twenty(rng):
    """40 comparisons without any difference: one by one, most tables would have a wrong statement."""
    tables = 500
    draws = rng.normal(100, 1, (tables, 40, 2, SEEDS))
    families = [[stats.compare_paired(*pair) for pair in table] for table in draws]
    wrong = sum(any(one.different for one in stats.decide(family)) for family in families) / tables
    assert wrong == pytest.approx(0.05, abs=0.03)
    assert sum(any(one.distinguishable for one in family) for family in families) / tables > 0.8


@pytest.mark.parametrize("spread, coverage", [(0.05, 0.94), (0.1, 0.92), (0.2, 0.945)])
def test_adding_seeds_until_intervals_are_narrow_costs_coverage(rng, spread, coverage):
    """Stopping when the spread looks small favours spreads that look too small (docs/explanation/statistics.md)."""
    draws = 2_000
    held = 0
    for values in rng.normal(1, spread, (draws, 400)):
        count = precision.LEAST_SEEDS[precision.MEAN]
        while True:
            found = stats.summarise(values[:count])
            one = precision.Reached(None, "", "", count, found.relative_half_width, stats.seeds_needed(found, 0.05))
            if one.enough() or count == 400:
                break
            count = precision.next_count([one], count, 400)
        held += found.low <= 1 <= found.high
    assert held / draws == pytest.approx(coverage, abs=0.015)


@pytest.mark.parametrize("spread, most, coverage, seeds", [
    (0.05, 30, 0.965, 17), (0.07, 30, 0.955, 23), (0.1, 30, 0.95, 28), (0.07, 400, 0.945, 27), (0.1, 400, 0.945, 48),
    (0.15, 400, 0.94, 98)])
def test_what_adding_seeds_costs_intervals_of_medians(rng, spread, most, coverage, seeds):
    """Intervals of order statistics hold a little more than 95 %, and the rule takes about as much from them."""
    draws = 2_000
    held, used = 0, 0
    for values in rng.normal(1, spread, (draws, most)):
        count = precision.LEAST_SEEDS[precision.MEDIAN]
        while True:
            found = stats.summarise_median(values[:count])
            needed = precision._needed(found, 0.05, precision.MEDIAN)
            one = precision.Reached(None, "", "", count, found.relative_half_width, needed, precision.MEDIAN)
            if one.enough() or count == most:
                break
            count = precision.next_count([one], count, most)
        held += found.low <= 1 <= found.high
        used += count
    assert held / draws == pytest.approx(coverage, abs=0.015) and used / draws == pytest.approx(seeds, rel=0.05)


@pytest.mark.parametrize("difference, spread", [(1.0, 1.0), (1.0, 2.0), (1.0, 4.0)])
def test_the_seeds_that_a_scorecard_asks_for_decide_about_as_often_as_not(rng, difference, spread):
    """Half the width of an interval that is as wide as the difference leaves 0 out in about every other sample."""
    seeds = stats._fewest(spread, difference)
    pairs = rng.normal(difference, spread, (DRAWS, seeds))
    reference = 100 + 0.001 * np.arange(seeds)
    decided = share(stats.compare_paired(reference, reference + sample).p <= 0.05 for sample in pairs)
    assert 0.45 < decided < 0.65


SHAPES = {"normal": (lambda rng, size: rng.normal(1, 0.1, size), 1.0),
          "wide normal": (lambda rng, size: rng.normal(1, 0.25, size), 1.0),
          "exponential": (lambda rng, size: rng.exponential(1, size), 1.0),
          "lognormal": (lambda rng, size: rng.lognormal(0, 1, size), float(np.exp(0.5))),
          "two modes": (lambda rng, size: np.where(rng.random(size) < 0.2, 3.0, 1.0) + rng.normal(0, 0.05, size), 1.4)}


def drawn(name, seeds, draws=4_000):
    draw, mean = SHAPES[name]
    return draw(np.random.default_rng(seeds), (draws, seeds)), mean


@pytest.mark.parametrize("shape, seeds, holds, width", [
    ("normal", 5, 0.95, 1.0), ("normal", 10, 0.95, 1.0), ("wide normal", 5, 0.95, 1.0),
    ("exponential", 5, 0.94, 1.7), ("exponential", 10, 0.97, 1.9),
    ("lognormal", 5, 0.91, 1.95), ("lognormal", 10, 0.955, 2.15),
    # a mode that no seed shows is in no interval: 0.8 ** 5 = 0.33 of the experiments, 0.8 ** 10 = 0.11
    ("two modes", 5, 0.67, 1.5), ("two modes", 10, 0.89, 2.4)])
def test_intervals_hold_the_mean_whatever_the_shape(shape, seeds, holds, width):
    """width: the median one, as a multiple of Student's."""
    samples, mean = drawn(shape, seeds)
    found = [stats.summarise(sample) for sample in samples]
    share = sum(one.low <= mean <= one.high for one in found) / len(found)
    assert share == pytest.approx(holds, abs=0.015) and (share > 0.9 or shape == "two modes")
    student = 2 * stats.t_quantile(seeds - 1) * samples.std(axis=1, ddof=1) / seeds ** 0.5
    assert np.median([(one.high - one.low) / of for one, of in zip(found, student)]) == pytest.approx(width, abs=0.12)


@pytest.mark.parametrize("shape, seeds, draws", [
    *((shape, seeds, 300) for shape in ("normal", "exponential", "lognormal") for seeds in (5, 10, 14)),
    ("two modes", 5, 300), ("two modes", 10, 300), ("two modes", 14, 1_500)])
def test_means_that_are_40_percent_apart_are_not_called_equal(shape, seeds, draws):
    """Two modes against one, whose means are 1.4 and 1; of the other shapes, one against 1.4 times as much.

    Below 14 seeds never. With 14, two modes are in some of those experiments in which no seed shows the other, 4.4 %.
    """
    second, _ = drawn(shape, seeds, draws)
    rng = np.random.default_rng(99)
    first = rng.normal(1, 0.05, second.shape) if shape == "two modes" else SHAPES[shape][0](rng, second.shape) / 1.4
    for compare in (stats.compare_paired, stats.compare_unpaired):
        wrong = sum(stats.decide([compare(*pair)])[0].equal for pair in zip(first, second)) / len(second)
        assert wrong < 0.05 and (0.01 < wrong) == (shape == "two modes" and seeds >= stats.LEAST_EQUAL)


@pytest.mark.parametrize("seeds, spread, equal", [(13, 0.01, 0), (14, 0.02, 1), (14, 0.05, 0.94),
                                                  (14, 0.07, 0.63), (30, 0.07, 0.97)])
def test_how_often_what_is_equal_is_called_so(seeds, spread, equal):
    """Pairs whose differences have a standard deviation of `spread`, as a share of the mean."""
    rng = np.random.default_rng(5)
    first = rng.normal(1, 0.1, (500, seeds))
    second = first + rng.normal(0, spread, first.shape)
    found = sum(stats.decide([stats.compare_paired(*pair)])[0].equal for pair in zip(first, second)) / len(first)
    assert found == pytest.approx(equal, abs=0.04)


def jains_index(shares):
    return shares.sum(axis=-1) ** 2 / shares.shape[-1] / (shares ** 2).sum(axis=-1)


def shares_of_index(index, flows, size):
    """Draws of normal shares whose mean Jain's index is `index`."""
    noise = np.random.default_rng(1).normal(0, 1, (20_000, flows))
    low, high = 0.0, 0.4
    while high - low > 1e-5:
        spread = (low + high) / 2
        low, high = (spread, high) if jains_index(1 + spread * noise).mean() > index else (low, spread)
    return 1 + low * np.random.default_rng(flows).normal(0, 1, (*size, flows))


# shapes of what is 1 at most
BOUNDED = {"Jain's index of 2 flows": lambda rng, size: jains_index(rng.normal(1, 0.1, (*size, 2))),
           "Jain's index of 10 flows": lambda rng, size: jains_index(rng.normal(1, 0.1, (*size, 10))),
           "1 less lognormal": lambda rng, size: 1 - np.minimum(0.02 * rng.lognormal(0, 1, size), 1),
           "normal, far from 1": lambda rng, size: rng.normal(0.5, 0.05, size)}


@pytest.mark.parametrize("shape, seeds, without, holds, width", [
    ("Jain's index of 2 flows", 5, 0.83, 0.92, 1.9), ("Jain's index of 2 flows", 10, 0.87, 0.97, 2.2),
    ("Jain's index of 10 flows", 5, 0.94, 0.955, 1.4), ("1 less lognormal", 5, 0.83, 0.91, 1.9),
    ("1 less lognormal", 10, 0.84, 0.95, 2.1), ("normal, far from 1", 5, 0.95, 0.95, 1.0)])
def test_intervals_near_the_most_that_a_value_can_be(rng, shape, seeds, without, holds, width):
    """Without a bound, intervals are Student's, and pass 1; width: the median one, as a multiple of these."""
    mean = BOUNDED[shape](rng, (400_000,)).mean()
    samples = BOUNDED[shape](rng, (DRAWS, seeds))
    plain = [stats.summarise(sample) for sample in samples]
    found = [stats.summarise(sample, most=1.0) for sample in samples]
    assert share(one.low <= mean <= one.high for one in plain) == pytest.approx(without, abs=0.015)
    assert share(one.low <= mean <= one.high for one in found) == pytest.approx(holds, abs=0.015)
    assert all(one.high <= 1 for one in found)
    ratios = [(one.high - one.low) / (of.high - of.low) for one, of in zip(found, plain)]
    assert np.median(ratios) == pytest.approx(width, abs=0.1)


@pytest.mark.parametrize("compare", [stats.compare_paired, stats.compare_unpaired])
def test_differences_near_the_most_that_a_value_can_be(rng, compare):
    """Jain's indices of two flows whose shares vary by 0.05 and by 0.2: Student's intervals hold in 83 to 84 %."""
    first, second = (jains_index(rng.normal(1, spread, (DRAWS, SEEDS, 2))) for spread in (0.05, 0.2))
    true = second.mean() - first.mean()
    for most, holds in ((np.inf, 0.835), (1.0, 0.925)):
        found = [compare(*pair, most=most) for pair in zip(first, second)]
        assert share(one.low <= true <= one.high for one in found) == pytest.approx(holds, abs=0.02)


@pytest.mark.parametrize("shape, seeds, holds", [("exponential", 5, 0.88), ("exponential", 10, 0.90),
                                                 ("lognormal", 5, 0.82), ("lognormal", 10, 0.84)])
def test_skew_that_is_a_small_share_of_the_mean_is_not_seen(shape, seeds, holds):
    """A tenth of the mean is skewed, the rest is the same in all seeds: Student's interval, which fails as it does."""
    samples, mean = drawn(shape, seeds)
    found = [stats.summarise(9 * mean + sample) for sample in samples]
    assert sum(one.low <= 10 * mean <= one.high for one in found) / len(found) == pytest.approx(holds, abs=0.015)


@pytest.mark.parametrize("mean, seeds, holds, none", [(0.3, 5, 0.99, 0.22), (1, 5, 0.99, 0.01), (3, 5, 0.96, 0),
                                                      (1, 14, 0.975, 0)])
def test_intervals_of_small_counts(rng, mean, seeds, holds, none):
    """none: the share of experiments whose values are all the same, which have no interval."""
    found = [stats.summarise(sample) for sample in rng.poisson(mean, (DRAWS, seeds)).astype(float)]
    known = [one for one in found if one.low is not None]
    assert 1 - len(known) / DRAWS == pytest.approx(none, abs=0.015)
    assert sum(one.low <= mean <= one.high for one in known) / len(known) == pytest.approx(holds, abs=0.015)


@pytest.mark.parametrize("index", [0.99999, 0.99])
@pytest.mark.parametrize("flows", [2, 4, 10, 50])
def test_indices_of_fairness_that_differ_by_the_margin_are_seldom_called_equal(flows, index):
    """Of few flows Jain's index is skewed, whose spread is a small share of its mean: with Student's error it was 14 %
    of two flows, 10 % of four and 8 % of ten."""
    draws, seeds = 1_000, stats.LEAST_EQUAL
    first = jains_index(np.random.default_rng(7).permutation(shares_of_index(index, flows, (draws, seeds))))
    second = jains_index(shares_of_index(index - fairness.JAIN_MARGIN, flows, (draws, seeds)))
    for compare in (stats.compare_paired, stats.compare_unpaired):
        found = [compare(*pair, margin=0, resolution=fairness.JAIN_MARGIN, most=1.0) for pair in zip(first, second)]
        assert sum(one.p_equal <= 0.05 for one in found) / draws < 0.065


@pytest.mark.parametrize("seeds, flows, variation, equal", [
    (14, 2, 0.02, 1), (14, 2, 0.05, 0.98), (14, 2, 0.1, 0.44), (14, 10, 0.1, 0.93), (30, 2, 0.1, 0.79)])
def test_how_often_equal_fairness_is_called_so(seeds, flows, variation, equal):
    """Shares with this coefficient of variation between flows, on both sides."""
    rng = np.random.default_rng(3)
    pairs = zip(*(jains_index(rng.normal(1, variation, (500, seeds, flows))) for _ in range(2)))
    found = [stats.compare_paired(*pair, margin=0, resolution=fairness.JAIN_MARGIN, most=1.0) for pair in pairs]
    assert sum(one.p_equal <= 0.05 for one in found) / 500 == pytest.approx(equal, abs=0.06)


def test_margins_of_fairness_are_a_coefficient_of_variation_of_a_tenth():
    """Two flows at 1:1.22; 5 % of Jain's index would call 1:1 and 1:1.55 equal."""
    shares = np.array([1, 1.22])
    assert shares.std() / shares.mean() == pytest.approx(0.1, abs=0.001)
    assert 1 - jains_index(shares) == pytest.approx(fairness.JAIN_MARGIN, abs=0.0005)
    parts = shares / shares.sum()
    assert 1 + (parts * np.log2(parts)).sum() == pytest.approx(fairness.ENTROPY_MARGIN_BIT, abs=0.0005)
    for flows in (10, 100):
        parts = np.repeat([0.9, 1.1], flows // 2) / flows
        assert np.log2(flows) + (parts * np.log2(parts)).sum() == pytest.approx(fairness.ENTROPY_MARGIN_BIT, abs=0.0005)
    assert 1 - jains_index(np.array([1, 1.55])) < stats.MARGIN < 1 - jains_index(np.array([1, 1.6]))


@pytest.mark.parametrize("compare", [stats.compare_paired, stats.compare_unpaired])
def test_a_table_of_thirty_rows_of_all_shapes_is_seldom_wrong(compare):
    """Nothing differs: skewed values, two modes, small counts, shares near 0 and 1."""
    rng, tables = np.random.default_rng(4), 300
    draws = [(draw, np.inf) for draw, _ in SHAPES.values()] + [(draw, 1.0) for draw in BOUNDED.values()] + [
        (lambda rng, size: rng.poisson(0.3, size).astype(float), np.inf),
        (lambda rng, size: rng.poisson(3, size).astype(float), np.inf),
        (lambda rng, size: np.where(rng.random(size) < 0.1, 5.0, 0.0), np.inf),
        (lambda rng, size: rng.beta(1, 30, size), 1.0)]
    wrong = 0
    for _ in range(tables):
        found = [compare(*draws[place % len(draws)][0](rng, (2, SEEDS)), most=draws[place % len(draws)][1])
                 for place in range(30)]
        wrong += any(one.different for one in stats.decide(found))
    assert 0 < wrong / tables <= 0.04


@pytest.mark.parametrize("shape, seeds", [("normal", 5), ("exponential", 5), ("lognormal", 5), ("two modes", 10)])
def test_how_often_what_does_not_differ_is_called_different(shape, seeds):
    draw, _ = SHAPES[shape]
    rng = np.random.default_rng(seeds)
    pairs = zip(draw(rng, (1_000, seeds)), draw(rng, (1_000, seeds)))
    assert sum(stats.decide([stats.compare_paired(*pair)])[0].different for pair in pairs) / 1_000 <= 0.055


def test_one_mode_against_two_of_the_same_mean():
    """Where no seed shows the rare mode, the typical seed differs, and the word is about that: 0.8 ** 5 = 0.33."""
    second, mean = drawn("two modes", 5, 1_000)
    first = np.random.default_rng(1).normal(mean, 0.05, second.shape)
    found = sum(stats.decide([stats.compare_paired(*pair)])[0].different for pair in zip(first, second)) / 1_000
    assert found == pytest.approx(0.33, abs=0.03)


@pytest.mark.parametrize("shape, seeds, found", [
    ("normal", 5, 0.045), ("normal", 10, 0.042), ("normal", 14, 0.035), ("exponential", 5, 0.02),
    ("exponential", 10, 0.026), ("lognormal", 5, 0.03), ("lognormal", 10, 0.03),
    # nearly all experiments in which a seed shows the other mode: 0.67 and 0.89
    ("two modes", 5, 0.69), ("two modes", 10, 0.90), ("two modes", 14, 0.957)])
def test_how_often_seeds_are_said_to_fall_into_groups(shape, seeds, found):
    samples, _ = drawn(shape, seeds, 2_000)
    told = sum((groups.p_value(sample) or 1.0) <= 0.05 for sample in samples) / len(samples)
    assert told == pytest.approx(found, abs=0.02) and (told < 0.05 or shape == "two modes")


@pytest.mark.parametrize("seeds", [6, 10, 20])
def test_intervals_of_medians_hold_the_median_of_any_shape(rng, seeds):
    modes = np.where(rng.random((DRAWS, seeds)) < 0.2, 3.0, 1.0) + rng.normal(0, 0.01, (DRAWS, seeds))
    for samples, median in ((rng.lognormal(0, 1, (DRAWS, seeds)), 1.0), (rng.exponential(1, (DRAWS, seeds)), np.log(2)),
                            (modes, 1 + 0.01 * 0.3186)):     # of the normal part, the 62.5th percentile
        found = [stats.summarise_median(sample) for sample in samples]
        assert share(one.low <= median <= one.high for one in found) >= 0.94


def test_few_values_have_no_interval_of_the_median():
    assert stats.summarise_median([3, 1, 2, 5, 4]) == stats.Summary(5, 3, None, None, None)
    assert stats.summarise_median([3, 1, 2, 5, 4, 9]) == stats.Summary(6, 3.5, None, 1, 9)


@pytest.mark.parametrize("seeds, holds", [(5, 0.884), (10, 0.92), (14, 0.935)])
def test_intervals_of_differences_of_skewed_values(rng, seeds, holds):
    """The other side is 1.4 times the reference, with a spread of its own."""
    traffic = rng.lognormal(0, 1, (DRAWS, seeds))
    own = rng.lognormal(0, 0.3, (DRAWS, seeds)) / np.exp(0.045)
    true = 0.4 * np.exp(0.5)
    paired = [stats.compare_paired(*pair) for pair in zip(traffic, 1.4 * traffic * own)]
    assert share(one.low <= true <= one.high for one in paired) == pytest.approx(holds, abs=0.015)
    welch = [stats.compare_unpaired(*pair) for pair in zip(traffic, 1.4 * rng.lognormal(0, 1, (DRAWS, seeds)))]
    assert share(one.low <= true <= one.high for one in welch) >= 0.95

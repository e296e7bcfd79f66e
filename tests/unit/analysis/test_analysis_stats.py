# SPDX-License-Identifier: GPL-2.0-only
"""Intervals, comparisons and adjusted p-values against values worked out by hand and against scipy.stats."""

import math

import pytest
from hypothesis import example, given, strategies as st
from scipy import stats as reference

from analysis import stats
from analysis.stats import (Comparison, compare_paired, compare_unpaired, decide, holm, seeds_needed, summarise,
                            t_quantile)


@pytest.mark.parametrize("degrees, quantile", [(1, 12.7062), (2, 4.3027), (4, 2.7764),
                                               (9, 2.2622), (1e9, 1.95996)])
def test_quantiles_of_the_printed_table(degrees, quantile):
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-5)


def test_interval_by_hand():
    """12, 14, 16: mean 14, sd 2, half width 4.3027 * 2 / sqrt(3) = 4.9683."""
    found = summarise([12, 14, 16])
    assert (found.n, found.mean, found.sd) == (3, 14, 2)
    assert found.half_width == pytest.approx(4.9683, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((9.0317, 18.9683), abs=1e-4)
    assert found.relative_half_width == pytest.approx(4.9683 / 14, abs=1e-4)


def test_seeds_needed_by_hand():
    """8, 10, 12: mean 10, sd 2. Of 0.5, 1.999 * 2 / sqrt(63) = 0.504 is too wide, 1.998 * 2 / sqrt(64) = 0.4996 not."""
    assert seeds_needed(summarise([8, 10, 12]), 0.05) == 64
    assert seeds_needed(summarise([-8, -10, -12]), 0.05) == 64
    assert seeds_needed(summarise([8, 10, 12]), 5) == 2
    assert seeds_needed(summarise([7, 7]), 0.01) == 2 == seeds_needed(summarise([0, 0]), 0.01)
    assert seeds_needed(summarise([-1, 1]), 0.05) is None
    found = summarise([1, 4, 16], ratio=True)
    n = seeds_needed(found, 0.5)
    assert t_quantile(n - 1) * found.sd / n ** 0.5 <= math.log(1.5) < t_quantile(n - 2) * found.sd / (n - 1) ** 0.5
    with pytest.raises(ValueError, match="nothing about spread"):
        seeds_needed(summarise([1]), 0.05)
    with pytest.raises(ValueError, match="above 0"):
        seeds_needed(summarise([1, 2]), 0)


def test_seeds_that_decide_by_hand():
    """Differences 8, 10, 12 of 1000: mean 10, sd 2, a margin of 50 leaves 40; then of 100, where the margin is 5."""
    def compare_paired(reference, values):          # a reference that has a little spread
        return stats.compare_paired([one * (1 + 2e-6 * (place % 2)) for place, one in enumerate(reference)], values)
    found = compare_paired([1000] * 3, [1008, 1010, 1012])
    assert stats.seeds_to_decide(found) == 5                         # the least that are judged
    found = compare_paired([1000] * 3, [1000, 1012, 1024])           # sd 12, d 12, 38 are left
    assert stats.seeds_to_decide(found) == 7                         # different: 2.4469 * 12 / sqrt(7) = 11.1
    assert stats.seeds_to_decide(compare_paired([1000] * 3, [999, 1000, 1002])) == 14   # the least that are equal
    found = compare_paired([100] * 3, [90, 100, 113])                # sd 11.53, d 1, 4 are left
    n = stats.seeds_to_decide(found)
    assert t_quantile(n - 1) * 11.5326 / n ** 0.5 <= 4 + 1e-4
    assert 4 < t_quantile(n - 2) * 11.5326 / (n - 1) ** 0.5 and n == 35
    assert stats.seeds_to_decide(found, undecided=20) > 60
    # the same values again and again are as many seeds: that many tell, and far fewer do not
    for times, told in ((12, True), (5, False)):
        decision, = decide([compare_paired([100] * 3 * times, [90, 100, 113] * times)])
        assert (decision.equal or decision.different) is told


@pytest.mark.parametrize("reference, values, ratio", [
    ([1], [2], False), ([0, 0, 0], [-1, 0, 1], False)])
def test_no_number_of_seeds_is_known_to_decide(reference, values, ratio):
    assert stats.seeds_to_decide(compare_paired(reference, values, ratio)) is None


def test_seeds_that_decide_a_ratio_or_samples_without_pairs():
    log_values = [math.exp(one) for one in (-0.1, 0.0, 0.13)]
    found = compare_paired([1, 1 + 2e-6, 1], log_values, ratio=True)
    widest = math.log(1.05) - 0.01
    n = stats.seeds_to_decide(found)
    assert t_quantile(n - 1) * 0.115326 / n ** 0.5 <= widest + 1e-5
    assert widest < t_quantile(n - 2) * 0.115326 / (n - 1) ** 0.5
    # variances 100 and 112.3, as one of pairs with sd 14.57; of the margin, 5, the difference leaves 4.33
    assert stats.seeds_to_decide(compare_unpaired([90, 100, 110], [91, 99, 112])) == 46


def test_geometric_mean_by_hand():
    """1, 4, 16: logarithms 0, 1.3863, 2.7726; geometric mean 4, half width 4.3027 * 1.3863 / sqrt(3) = 3.4438."""
    found = summarise([1, 4, 16], ratio=True)
    assert found.mean == pytest.approx(4) and found.sd == pytest.approx(math.log(4))
    assert (found.low, found.high) == pytest.approx((4 / math.exp(3.4438), 4 * math.exp(3.4438)), rel=1e-4)
    assert found.half_width is None and found.relative_half_width == pytest.approx(math.exp(3.4438) - 1, rel=1e-4)


def test_one_value_has_no_interval():
    found = summarise([5])
    assert (found.n, found.mean) == (1, 5)
    assert found.sd is found.low is found.high is found.half_width is found.relative_half_width is None


def test_means_of_zero_have_no_relative_width():
    assert summarise([-1, 1]).relative_half_width == math.inf


@pytest.mark.parametrize("values", [[0, 0], [3, 3, 3], [5, 5.000004, 5]])
def test_without_spread_there_is_no_interval(values):
    found = summarise(values)
    assert (found.sd, found.low, found.high, found.half_width, found.relative_half_width) == (0, None, None, None, None)
    assert summarise([5, 5.00001, 5]).low < 5


def test_a_skewed_sample_has_a_longer_side_by_hand():
    """1, 1, 1, 1, 6: mean 2, sd 2.236, error 1. Second and third moment 4 and 12: skewness 12 / 8 / sqrt(5) = 0.6708.

    Above, the error is 1 + 6 * 0.6708 = 5.025. With 10 added, the spread is 0.19 of the mean, and both sides are alike.
    """
    found = summarise([1, 1, 1, 1, 6])
    # 2 - 2.7764 is below 0
    assert found.low == 0 and found.half_width is None
    assert found.high == pytest.approx(2 + 2.7764 * 5.0249, abs=1e-3)
    assert found.relative_half_width == pytest.approx(2.7764 * 5.0249 / 2, abs=1e-3)
    mirrored = summarise([-1, -1, -1, -1, -6])
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, 2.7764 - 2), abs=1e-4)
    assert summarise([11, 11, 11, 11, 16]).half_width == pytest.approx(2.7764, abs=1e-4)


def test_what_is_never_negative_has_no_interval_below_zero():
    """Counts of timeouts: Student's lower end would be 1 - 2.776 * 1 = -1.776, and a longer tail is above."""
    found = summarise([0, 0, 0, 0, 5])
    assert found.low == 0 and found.high is not None and found.high > 3.776
    below = summarise([-1, 0, 0, 0, 6])
    assert below.low is not None and below.low < 0


def test_differences_of_skewed_samples_have_a_longer_side_by_hand():
    """Each side's third moment, 12, is divided by 5 * 5; those of both sides cancel."""
    other = [20.0, 20.1, 20.2, 20.1, 20.0]
    found = compare_unpaired([1, 1, 1, 1, 6], other)
    assert found.difference - found.low == pytest.approx(5.025 * (found.high - found.difference), rel=0.01)
    same = compare_unpaired([1, 1, 1, 1, 6], [2, 2, 2, 2, 7])
    assert same.difference - same.low == pytest.approx(same.high - same.difference)
    pairs = compare_paired([1, 1.1, 1, 1.1, 1], [2, 2.1, 2, 2.1, 7])
    assert pairs.high - pairs.difference > 4 * (pairs.difference - pairs.low)
    assert pairs.distinguishable == (pairs.low > 0)


@pytest.mark.parametrize("call", [lambda: summarise([]), lambda: compare_unpaired([], [1, 2]),
                                  lambda: compare_paired([], [])])
def test_no_value_is_an_error(call):
    with pytest.raises(ValueError, match="at least one"):
        call()


def test_values_that_have_no_partner_are_an_error():
    with pytest.raises(ValueError, match="as many values on both sides, not 2 and 3"):
        compare_paired([1, 2], [1, 2, 3])


@pytest.mark.parametrize("margin", [0, 1, -0.05, math.nan])
def test_margins_are_shares(margin):
    with pytest.raises(ValueError, match="margin between 0 and 1"):
        compare_paired([1, 2], [1, 2], margin=margin)


def test_ratios_are_above_zero():
    with pytest.raises(ValueError, match="above zero, not 0"):
        summarise([1, 0], ratio=True)


def test_welch_by_hand():
    """1,2,3 and 4,6,8: s2/n 1/3 and 4/3, df = (5/3)^2 / (1/18 + 16/18) = 2.9412; t = 4 / 1.2910 = 3.0984."""
    found = compare_unpaired([1, 2, 3], [4, 6, 8])
    half = t_quantile(2.9411765) * math.sqrt(5 / 3)
    assert (found.method, found.n_reference, found.n, found.difference) == ("Welch", 3, 3, 4)
    assert found.low == pytest.approx(4 - half) and found.high == pytest.approx(4 + half)
    assert half == pytest.approx(4.1540, abs=2e-3)
    assert found.p == pytest.approx(reference.ttest_ind([4, 6, 8], [1, 2, 3], equal_var=False).pvalue)
    assert found.distinguishable is False


def test_pairs_by_hand():
    """Differences 1, 2, 3: mean 2, sd 1, half width 4.3027 / sqrt(3) = 2.4841; t = 3.4641, 2 degrees: p = 0.0742."""
    found = compare_paired([10, 20, 30], [11, 22, 33])
    assert (found.method, found.n_reference, found.n) == ("paired", 3, 3)
    assert (found.reference, found.mean, found.difference) == (20, 22, 2)
    assert (found.low, found.high) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert found.p == pytest.approx(0.0742, abs=1e-4)


def test_pairs_find_what_welch_does_not():
    """A difference of 1 with a spread of 0.1, on seeds that differ by 10."""
    before, after = [10, 20, 30, 40], [11.0, 21.1, 30.9, 41.0]
    assert compare_paired(before, after).distinguishable is True
    assert compare_unpaired(before, after).distinguishable is False


def test_pairs_of_ratios_by_hand():
    """Factors 2, 2, 4: logarithms 0.6931, 0.6931, 1.3863; their mean is that of the factor 2.5198."""
    found = compare_paired([1, 10, 100], [2, 20, 400], ratio=True)
    assert (found.reference, found.difference) == pytest.approx((10, 16 ** (1 / 3)))
    half = 4.3027 * 0.40019 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((2.5198 / math.exp(half), 2.5198 * math.exp(half)), rel=1e-3)


def test_equivalence_by_hand():
    """100 against 101, 102, 103, margin 5 %: 102 is 3 below 105, sd of the differences is 1; t = 3 sqrt(3) = 5.196.

    2 degrees of freedom: p = 0.01755. From the other side, 95, it is 7 with a smaller p.
    """
    reference = [100, 100, 100.0002]                # without any spread nothing would be said
    found = compare_paired(reference, [101, 102, 103])
    assert found.p_equal == pytest.approx(0.01755, abs=1e-4)
    assert compare_paired(reference, [101, 102, 103], margin=0.01).p_equal > 0.5


def test_equivalence_against_a_mean_that_is_measured_by_hand():
    """90, 100, 110 against 91, 100, 109, margin 5 %.

    Less 1.05 of the reference: -3.5, -5, -6.5, mean -5, sd 1.5, t = -5 sqrt(3) / 1.5 = -5.7735. Less 0.95 of it:
    5.5, 5, 4.5, mean 5, sd 0.5, a larger t. 2 degrees of freedom: p = 0.01436. With 5 for 5 % of a mean that is known,
    the differences 1, 0, -1 would have sd 1, and p = 0.0065.
    """
    found = compare_paired([90, 100, 110], [91, 100, 109])
    assert found.p_equal == pytest.approx(0.01436, abs=1e-5)
    assert (found.difference, found.p) == (0, 1)


def test_equivalence_is_that_of_two_tests():
    """Against each value of the reference and 5 % of it."""
    first, second = [90.0, 100, 110, 105], [91.0, 99, 112, 105]
    most, least = [1.05 * a for a in first], [0.95 * a for a in first]
    assert compare_paired(first, second).p_equal == pytest.approx(max(
        reference.ttest_rel(second, most, alternative="less").pvalue,
        reference.ttest_rel(second, least, alternative="greater").pvalue))
    assert compare_unpaired(first, second).p_equal == pytest.approx(max(
        reference.ttest_ind(second, most, equal_var=False, alternative="less").pvalue,
        reference.ttest_ind(second, least, equal_var=False, alternative="greater").pvalue))


def test_seeds_that_differ_do_not_hide_equality():
    """The same in every seed but for a hundredth, on seeds that differ widely: t = -1.5 sqrt(3) / 0.51."""
    assert compare_paired([20, 30, 40], [20.01, 30, 39.99]).p_equal == pytest.approx(0.01822, abs=1e-5)


def test_ratios_are_equal_between_one_over_and_one_times_the_margin():
    logs = [0.01, 0.02, 0.015]
    found = compare_paired([1, 1, 1 + 2e-6], [math.exp(x) for x in logs], ratio=True)
    assert found.p_equal == pytest.approx(
        reference.ttest_1samp(logs, math.log(1.05), alternative="less").pvalue, rel=1e-3)


def test_margins_of_negative_means_are_as_wide():
    positive, negative = (compare_paired([sign * v for v in (10, 11, 12)], [sign * v for v in (10.1, 11, 12.2)])
                          for sign in (1, -1))
    assert positive.p_equal == pytest.approx(negative.p_equal) and positive.p_equal < 0.05


@pytest.mark.parametrize("compare", [compare_paired, compare_unpaired])
def test_single_runs_cannot_be_told_apart_or_together(compare):
    found = compare([1], [5])
    assert found.difference == 4 and found.low is found.p is found.p_equal is found.distinguishable is None
    assert found.method == ""


@pytest.mark.parametrize("compare, first, second, says", [
    (compare_paired, [0, 0], [0, 0], "none in any run"), (compare_unpaired, [0, 0, 0], [0, 0], "none in any run"),
    (compare_paired, [0], [0], "none in any run"),
    (compare_paired, [60.0, 61.0], [60.00000001, 61.00000001], "the same in both of each pair"),
    (compare_paired, [3, 3], [3, 3], "the same in both of each pair"),
    (compare_paired, [1, 2, 3], [2, 3, 4], "no spread between seeds"),
    (compare_paired, [3, 3], [4, 4.1], "no spread between seeds"),
    (compare_unpaired, [3, 3], [3, 3], "no spread between seeds"),
    (compare_unpaired, [3, 3.1], [4, 4.000001], "no spread between seeds")])
@pytest.mark.parametrize("times", [1, 5])
def test_without_spread_nothing_is_said(compare, first, second, says, times):
    found = compare(first * times, second * times)
    assert (found.low, found.high, found.p, found.p_equal) == (None, None, None, None)
    assert decide([found])[0] == stats.Decision(None, None, says)


def test_of_ratios_one_is_a_value_like_others():
    assert compare_paired([1.0] * 5, [1.0] * 5, ratio=True).silence == "the same in both of each pair"
    assert compare_paired([1.0] * 5, [2.0, 2.1, 2.2, 2.3, 2.1], ratio=True).silence == "no spread between seeds"


def test_none_on_one_side_is_a_finding():
    """Drops in every run against no drops at all."""
    for compare in (compare_paired, compare_unpaired):
        assert decide([compare([0] * 5, [7, 9, 8, 7, 9])])[0].words == "different"


@pytest.mark.parametrize("seeds, words", [(4, "n = 4: no verdict below 5 seeds"), (5, "different")])
def test_below_five_seeds_there_is_no_verdict(seeds, words):
    one = compare_paired([10, 11, 12, 13, 14][:seeds], [20, 21.1, 22, 23.2, 24][:seeds])
    few = compare_unpaired([10, 11, 12, 13, 14], [20, 21.1, 22, 23.2, 24][:seeds])
    assert [found.words for found in decide([one])] == [found.words for found in decide([few])] == [words]
    assert one.low is not None


def test_what_has_no_verdict_is_no_member_of_the_family():
    sure, few = compare_paired([10, 11, 12, 13, 14], [11, 12.9, 13, 14.8, 15]), compare_paired([1, 2, 3], [4, 5, 7])
    assert decide([sure, few, few])[0] == decide([sure])[0]


@pytest.mark.parametrize("seeds, words", [(13, "not distinguishable"), (14, "equal within 5 %")])
def test_below_fourteen_seeds_nothing_is_equal(seeds, words):
    noise = [0.001 * (-1) ** place * (1 + place % 3) for place in range(seeds)]
    values = [10 + place % 4 for place in range(seeds)]
    for compare in (compare_paired, compare_unpaired):
        words_of = decide([compare([10 + one for one in noise], [10 - 2 * one for one in noise])])[0].words
        assert words_of == words
    assert decide([compare_paired(values, [a + b for a, b in zip(values, noise)])])[0].words == words


def test_holm_by_hand():
    """0.01, 0.04, 0.03 of three: 3 * 0.01, then 2 * 0.03, then 1 * 0.04 but not below its predecessor."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.6]) == [1.0, None, 1.0]
    assert holm([None]) == [None] and holm([]) == []


def test_words_of_a_family():
    """One by one 0.02 is a difference; among four it is none."""
    def of(p, p_equal):
        return Comparison("paired", False, 14, 14, 1.0, 1.0, 0.0, 0.0, 0.0, p, p_equal, 0.05)
    alone = decide([of(0.02, 0.9)])
    assert [one.words for one in alone] == ["different"]
    found = decide([of(0.02, 0.9), of(0.001, 0.001), of(0.9, 0.001), of(0.9, 0.9),
                    Comparison("", False, 1, 1, 1.0, 1.0, 0.0, None, None, None, None, 0.05, 0.0, "a reason")])
    assert [one.words for one in found] == [
        "not distinguishable", "different, by less than 5 %", "equal within 5 %", "not distinguishable",
        "a reason"]
    assert found[0].p == pytest.approx(0.06)
    assert [one.different for one in found] == [False, True, False, False, False]
    assert [one.equal for one in found] == [False, True, True, False, False]


samples = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8)
pairs = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=8)


# a variance whose square is too small to be a number
@example([0.0, 0.0], [0.0, 2.4154367920231774e-116])
@given(samples, samples)
def test_unpaired_comparison_is_antisymmetric(first, second):
    there, back = compare_unpaired(first, second), compare_unpaired(second, first)
    assert there.difference == pytest.approx(-back.difference, abs=1e-6) and there.silence == back.silence
    if there.low is None:
        return
    assert there.low == pytest.approx(-back.high, rel=1e-9, abs=1e-6)
    assert there.p == pytest.approx(back.p)


@given(pairs)
def test_paired_comparison_is_that_of_scipy(values):
    first, second = zip(*values)
    found = compare_paired(first, second)
    if found.low is not None and found.difference - found.low == pytest.approx(found.high - found.difference):
        assert found.p == pytest.approx(reference.ttest_rel(second, first).pvalue, rel=1e-6, abs=1e-9)
        assert (found.p <= 0.05) == (not found.low <= 0 <= found.high)


@given(samples)
def test_mean_lies_in_its_interval(values):
    found = summarise(values)
    assert found.sd == 0 and found.low is None or found.low <= found.mean <= found.high


@pytest.mark.parametrize("compare", [stats.compare_paired, stats.compare_unpaired])
def test_what_is_closer_than_values_are_known_is_equal(compare):
    """0.1 s and 0.12 s, sampled each 20 ms, and then each 50 ms."""
    reference, values = [0.100, 0.101, 0.099, 0.100] * 4, [0.120, 0.121, 0.119, 0.1201] * 4
    found = [compare(reference, values, resolution=resolution) for resolution in (0, 0.004, 0.02, 0.05)]
    decided = [stats.decide([one])[0] for one in found]
    assert [one.words for one in decided] == ["different", "different", "different",
                                              "different, by less than its resolution"]
    assert [one.widest for one in found] == pytest.approx([0.005, 0.005, 0.02, 0.05])
    assert [one.p for one in found] == [found[0].p] * 4 and found[1].p_equal == found[0].p_equal
    assert found[3].within == "its resolution" and found[1].within == "5 %"
    same = compare(reference, reference[::-1], resolution=0.05)
    assert stats.decide([same])[0].words == "equal within its resolution"


def test_where_the_margin_is_more_the_resolution_does_not_count():
    reference, values = [9.0, 11.0, 10.0], [9.1, 11.2, 10.0]
    assert stats.compare_paired(reference, values, resolution=0.4).p_equal == \
        stats.compare_paired(reference, values).p_equal
    zeros = stats.compare_paired([0.0] * 14, [0.0, 0.001] * 7, resolution=0.02)
    assert zeros.p_equal < 0.05 and zeros.widest == 0.02 and zeros.within == "its resolution"


def test_a_resolution_needs_fewer_seeds():
    reference, values = [0.10, 0.14, 0.12, 0.10], [0.13, 0.10, 0.13, 0.11]
    needed = [stats.seeds_to_decide(stats.compare_paired(reference, values, resolution=one)) for one in (0, 0.06)]
    assert needed[0] > needed[1]
    ratios = [stats.compare_paired(reference, values, ratio=True, resolution=one) for one in (0, 0.06)]
    assert ratios[0].p_equal == ratios[1].p_equal and ratios[1].within == "5 %"

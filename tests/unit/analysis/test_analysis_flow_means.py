# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of single flows, from series made by hand: every value is computed by hand beside it."""
import math

import numpy as np
import pytest

from analysis.flows import flow_means

MS = 1000


def test_bins_are_at_multiples_of_their_width():
    assert flow_means.edges(5 * MS, 85 * MS).tolist() == [20 * MS, 40 * MS, 60 * MS, 80 * MS]
    assert flow_means.edges(20 * MS, 60 * MS).tolist() == [20 * MS, 40 * MS, 60 * MS]


def test_rates_are_zero_beyond_the_samples():
    """5000 bytes in 20 ms are 2 Mbit/s."""
    edges = flow_means.edges(0, 80 * MS)
    rates = flow_means.rates_mbps(edges, np.array([0, 20, 40]) * MS, np.array([0, 5000, 6250]))
    assert rates.tolist() == [2, 0.5, 0, 0]


def test_growth_of_a_counter_in_a_window():
    times, counter = np.array([0, 100, 200]), np.array([0, 50, 250])
    assert flow_means.growth(0, 1000, times, counter) == 250
    assert flow_means.growth(50, 150, times, counter) == 150 - 25


def test_states_hold_until_the_next_sample():
    times, values = np.array([10, 20, 40]), np.array([1, 5, 2])
    found = flow_means.held(np.array([0, 10, 19, 20, 39, 99]), times, values)
    assert math.isnan(found[0]) and found[1:].tolist() == [1, 1, 5, 5, 2]
    # 1 for 20, 5 for 20, 2 for 60
    assert flow_means.time_mean(0, 100, times, values) == pytest.approx((20 + 100 + 120) / 100)
    # within [15, 30): 1 for 5, 5 for 10
    assert flow_means.time_mean(15, 30, times, values) == pytest.approx((5 + 50) / 15)


def test_variation():
    assert flow_means.variation(np.array([1.0, 3.0])) == pytest.approx(math.sqrt(2) / 2)
    assert math.isnan(flow_means.variation(np.array([0.0, 0.0]))) and math.isnan(flow_means.variation(np.array([1.0])))


def test_power_is_the_mean_of_the_ratios():
    """10 Mbit/s at 20 ms and nothing at 50 ms; a bin without an sRTT does not count."""
    assert flow_means.power(np.array([10.0, 0, 7]), np.array([20.0, 50, np.nan])) == pytest.approx((500 + 0) / 2)
    assert math.isnan(flow_means.power(np.array([1.0]), np.array([np.nan])))


def test_utilities_leave_out_bins_without_throughput():
    rates = np.array([0, 1, math.e, 4, 0])
    assert flow_means.utility_pf(rates) == pytest.approx((0 + 1 + math.log(4)) / 3)
    assert flow_means.utility_mpdf(rates) == pytest.approx(-(1 + 1 / math.e + 0.25) / 3)
    assert math.isnan(flow_means.utility_pf(np.zeros(3))) and math.isnan(flow_means.utility_mpdf(np.zeros(3)))


def test_transit_time_is_the_area_between_what_was_written_and_what_was_read():
    """1000 bytes over 10 ms, read evenly 30 ms later."""
    written_us, read_us = np.array([0, 10]) * MS, np.array([0, 30, 40]) * MS
    assert flow_means.transit_ms(written_us, np.array([0, 1000]), read_us, np.array([0, 0, 1000])) == pytest.approx(30)
    # what was never read counts in no mean: as above, with 500 bytes more at the end
    longer = np.array([0, 10, 20]) * MS
    assert flow_means.transit_ms(longer, np.array([0, 1000, 1500]), read_us, np.array([0, 0, 1000])) == \
        pytest.approx(30)
    assert math.isnan(flow_means.transit_ms(written_us, np.array([0, 9]), read_us, np.zeros(3)))


def test_recovery_lasts_from_the_first_sample_in_it_to_the_first_behind():
    times = np.arange(0, 100, 10) * MS
    states = [0, 3, 3, 0, 0, 3, 0, 4, 4, 0]         # 20 ms and 10 ms; 4 is no fast recovery
    assert flow_means.recovery_ms(times, np.array(states)) == pytest.approx(15)
    # one that has not ended lasts until the last sample
    assert flow_means.recovery_ms(times, np.array([0] * 7 + [3] * 3)) == pytest.approx(20)
    assert math.isnan(flow_means.recovery_ms(times, np.zeros(10)))


def test_inter_delivery_time():
    """10 segments in 10 ms, 1 in the next 10, none for 10, 2 in the next 10: 1, 10, 10 ms; gain 1/8."""
    times, delivered = np.array([0, 10, 20, 30, 40]) * MS, np.array([0, 10, 11, 11.9, 13])
    second = 1 + (10 - 1) / 8
    third = second + (10 - second) / 8
    assert flow_means.inter_delivery_ms(times, delivered) == pytest.approx((1 + second + third) / 3)
    assert math.isnan(flow_means.inter_delivery_ms(times[:1], delivered[:1]))


def test_shares_are_those_of_the_flows_with_throughput():
    """Shares 1/4 and 3/4; one alone, the other not yet there; a bin of nobody."""
    rates = np.array([[1.0, 3, 0], [0, 5, 0], [0, 0, 0]])
    jain, entropy, product = flow_means.shares(rates)
    assert jain == pytest.approx(((1 + 3) ** 2 / (2 * (1 + 9)) + 1) / 2)
    assert entropy == pytest.approx((0.25 * 2 + 0.75 * math.log2(4 / 3) + 0) / 2)
    assert product == pytest.approx((3 + 5) / 2)
    assert all(math.isnan(value) for value in flow_means.shares(np.zeros((2, 3))))
    n = 4
    equal, log, power = flow_means.shares(np.full((5, n), 2.0))
    assert (equal, log, power) == (pytest.approx(1), pytest.approx(math.log2(n)), pytest.approx(2 ** n))

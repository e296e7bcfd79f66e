# SPDX-License-Identifier: GPL-2.0-only
"""Wire bytes, offered load, scale, shuffle and prefill against values computed by hand."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from traffic.tmix.batch import from_vectors
from traffic.tmix.load import expected_share_bps, offered_bps, pieces, scale_starts, search_scale, thirds_bps
from traffic.tmix.prefill import Candidates, at_flow_rate, flow_bps, prefill
from traffic.tmix.shuffle import bin_us, permutation, shuffle_starts
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, SEQ, Adu, Vector

I, A = INITIATOR, ACCEPTOR


def wire_of(*vectors, rtt_us=100_000, share_bps=1e9):
    return pieces(from_vectors(vectors).with_explicit_fins(), rtt_us, share_bps)


def vector(*adus, kind=SEQ, start_us=0, mss=None):
    return Vector(start_us, kind, (0, 0), tuple(Adu(*adu) for adu in adus), mss=mss)


def test_wire_bytes_of_a_request_and_a_response():
    # 300 bytes: 1 packet; 14480 bytes: 10 packets of 1448, 5 ACKs. The acceptor closes.
    wire = wire_of(vector((I, 0, 300), (A, 0, 14480)))
    left_to_right = (74 + 66) + (300 + 66) + 5 * 66 + 66
    right_to_left = 74 + 66 + (14480 + 10 * 66) + 2 * 66
    assert wire.connection_bytes.tolist() == [[left_to_right], [right_to_left]]


def test_wire_bytes_with_small_packets():
    # 1000 bytes at 484 each: 3 packets, 2 ACKs
    wire = wire_of(vector((I, 0, 1000), mss=(496, 496)))
    assert wire.connection_bytes.tolist() == [[74 + 66 + 1000 + 3 * 66 + 2 * 66],
                                              [74 + 2 * 66 + 66]]


def test_times_of_a_sequential_connection():
    # share 8 Mbit/s: 1 us per byte. RTT 100 ms.
    wire = wire_of(vector((I, 0, 934), (A, 7000, 934), (A, 5000, 1934), (I, 300, 434)),
                   share_bps=8e6)
    # packets of 1000, 1000, 2 packets of 2066, 500 bytes: all in the initial window
    begin = [100_000, 100_000 + 1000 + 50_000 + 7000]
    begin.append(begin[1] + 1000 + 5000)
    begin.append(begin[2] + 2066 + 50_000 + 300)
    assert wire.begin_us[:4].tolist() == begin
    assert (wire.end_us - wire.begin_us)[:4].tolist() == [1000, 1000, 2066, 500]
    assert wire.data_end_us.tolist() == [begin[3] + 500]
    assert wire.begin_us[4] == begin[3] + 500 + 1_000_000       # FIN a second later


def test_times_of_a_concurrent_connection():
    wire = wire_of(vector((A, 10, 934), (I, 0, 934), (A, 20, 934), (I, 30, 934), (I, 5, 0),
                          (A, 6, 0), kind=CONC), share_bps=8e6)
    assert wire.begin_us.tolist() == [100_010, 100_000, 101_030, 101_030, 102_035, 102_036]


def test_slow_start_takes_round_trips():
    # 10 packets: one window. 11..30: one more round trip. After 10 packets the window is 20.
    for packets, round_trips in ((10, 0), (11, 1), (30, 1), (31, 2)):
        wire = wire_of(vector((I, 0, packets * 1448)), share_bps=1e15)
        assert wire.end_us[0] - wire.begin_us[0] == pytest.approx(round_trips * 100_000, abs=1)
    wire = wire_of(vector((I, 0, 14480), (I, 0, 20 * 1448)), share_bps=1e15)
    assert wire.end_us[1] - wire.begin_us[1] == pytest.approx(0, abs=1)


def test_offered_load_counts_what_falls_into_the_interval():
    wire = wire_of(vector((I, 0, 934)), vector((I, 0, 934)), share_bps=8e6)
    starts = np.array([0, 1_000_000])
    # everything: SYN and ACK, one packet, one ACK, FIN and ACKs
    total = np.array([74 + 66 + 1000 + 132, 74 + 66 + 66]) * 2 * 8
    assert offered_bps(wire, starts, 0, 10_000_000) == pytest.approx(total / 10)
    # the first half of the first connection's data piece, which carries the handshake too
    begin = int(wire.begin_us[0])
    assert offered_bps(wire, starts, begin, begin + 500)[0] == pytest.approx(
        (74 + 66 + 1000) / 2 * 8 / 500e-6)
    assert offered_bps(wire, np.array([-1, -1]), 0, 10_000_000).tolist() == [0, 0]
    with pytest.raises(ValueError):
        offered_bps(wire, starts, 5, 5)


def test_thirds():
    wire = wire_of(*[vector((I, 0, 100))] * 4, rtt_us=0)
    thirds = thirds_bps(wire, np.array([0, 0, 1_200_000, 2_400_000]), 0, 3_600_000)
    # a connection of one packet offers 74+66+166 bytes at once and 132 a second later
    assert thirds[0] == pytest.approx([2 * 438 * 8 / 1.2, 438 * 8 / 1.2, 438 * 8 / 1.2])


def test_expected_share():
    assert expected_share_bps(100e6, 0.6) == pytest.approx(40e6)
    assert expected_share_bps(100e6, 1.1) == pytest.approx(10e6)


@given(st.floats(1e3, 1e10), st.floats(1e-3, 1e3), st.floats(1e-2, 1e2))
def test_search_finds_the_scale_of_proportional_load(rate, right, guess):
    scale, load = search_scale(lambda s: rate * right / s, rate, guess)
    assert load == pytest.approx(rate, rel=0.002)
    assert scale == pytest.approx(right, rel=0.003)


def test_search_copes_with_jumps_and_reports_the_best():
    def stepped(scale):
        return 100.0 if scale > 1 else 120.0
    scale, load = search_scale(stepped, 105.0, 0.5)
    assert load == 100.0 and scale > 1
    with pytest.raises(ValueError, match="no load"):
        search_scale(lambda scale: 0.0, 5.0)


def test_scale_starts():
    assert scale_starts([0, 10, 15], 5.276).tolist() == [0, 53, 79]


def test_bins():
    assert bin_us(100e6) == 5_000_000
    assert bin_us(64e3) == 7_812_500_000


def test_shuffle_moves_whole_bins():
    starts = np.array([0, 3, 10, 19, 25, 31])
    # bins 0, 1, 2 of 10 us change places; 31 is behind the last whole bin
    places = permutation(3, random.Random("x").random)
    expected = [places[0] * 10, places[0] * 10 + 3, places[1] * 10, places[1] * 10 + 9,
                places[2] * 10 + 5, 31]
    assert shuffle_starts(starts, 10, "x", 35).tolist() == expected
    assert shuffle_starts(starts, 10, "x", 35).tolist() == expected
    assert shuffle_starts(np.array([], int), 10, 1).tolist() == []
    with pytest.raises(ValueError):
        shuffle_starts(starts, 0, 1)


def test_fisher_yates_by_hand():
    # the draws of random.Random(1) are 0.1344, 0.8474, 0.7638
    # i=3: j=int(.1344*4)=0 -> 3 1 2 0; i=2: j=int(.8474*3)=2; i=1: j=int(.7638*2)=1
    assert permutation(4, random.Random(1).random) == [3, 1, 2, 0]


def test_fisher_yates_is_uniform():
    seen = Counter(tuple(permutation(3, random.Random(seed).random)) for seed in range(3000))
    assert len(seen) == 6 and min(seen.values()) > 400


@given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(100, 10**5), st.integers())
def test_shuffle_keeps_places_inside_bins(starts, bin_length, seed):
    shuffled = shuffle_starts(starts, bin_length, seed)
    assert (shuffled % bin_length).tolist() == [start % bin_length for start in starts]
    assert 0 <= shuffled.min() and shuffled.max() <= max(starts)


def test_prefill_by_hand():
    #          over by 50   alive at 50   starts later   after prefill
    start = np.array([0, 10, 80, 100])
    end = np.array([50.0, 90.0, 1.0, 5.0])
    bits = np.array([7000.0, 30.0, 10.0, 9.0])
    placed, moved, window_us = prefill(start, Candidates(end, bits), 100, 2e6)
    # 40 bits at 2 Mbit/s take 20 us, so the window is [80, 100)
    assert window_us == 20
    assert moved.tolist() == [False, True, True, False]
    assert placed.tolist() == [-1, 82, 96, 100]
    # the same connections in a window that is given
    placed, moved, window_us = prefill(start, Candidates(end, bits), 100, 2e6, published_us=50)
    assert window_us == 50 and moved.tolist() == [False, True, True, False]
    assert placed.tolist() == [-1, 55, 90, 100]


def test_prefill_window_is_at_most_the_prefill_time_and_none_is_none():
    late = Candidates(np.array([90.0, 1.0]), np.array([1e9, 1e9]))
    for published_us in (None, 101):
        placed, moved, window_us = prefill(np.array([0, 60]), late, 100, 1e6, published_us)
        assert window_us == 100 and placed.tolist() == [0, 60]
    placed, moved, window_us = prefill(np.array([0, 60]), Candidates(np.zeros(2), np.ones(2)), 0, 1e6)
    assert window_us == 0 and placed.tolist() == [0, 60] and not moved.any()


def test_the_rate_of_a_connection_is_the_suites():
    """9 sources of 500 connections a second, scaled by 5.276, RTTs of 204 ms and two queues of 102 ms."""
    assert flow_bps(100e6, 9 * 500 / 5.276, 204_000 + 2 * 102_000) == pytest.approx(0.287e6, rel=0.002)
    assert flow_bps(8e6, 4, 500_000) == 4e6


def test_prefill_at_a_flow_rate_by_hand():
    # 1 bit a us. Of the first half: over at 50, at 51, far behind the prefill; of the second: short, long, later
    start = np.array([0, 10, 40, 60, 90, 150])
    bits = np.array([50.0, 41.0, 900.0, 5.0, 1000.0, 1000.0])
    candidates = at_flow_rate(start, bits, 1e6, 100)
    assert candidates.lasts_us.tolist() == bits.tolist()
    assert candidates.bits.tolist() == [50, 41, 60, 5, 10, 0]           # what is sent by 100
    placed, moved, window_us = prefill(start, candidates, 100, 2e6)
    assert moved.tolist() == [False, True, True, True, True, False]
    assert window_us == (41 + 60 + 5 + 10) / 2
    assert placed.tolist() == [-1, 42 + 5, 42 + 23, 42 + 34, 42 + 52, 150]

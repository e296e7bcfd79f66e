# SPDX-License-Identifier: GPL-2.0-only
"""How far thirds and load scatter by chance: by hand, and against the scatter of many loads."""
import numpy as np
import pytest

from testbed.core import steadiness
from traffic.tmix.batch import from_vectors
from traffic.tmix.chance import Starts, load_chance, thirds_chance
from traffic.tmix.load import Pieces, offered_bps, thirds_bps
from traffic.tmix.vectors import SEQ, Adu, Vector

TARGET = np.array([0.0, 1.0])


def transfers(sizes_bytes):
    """Pieces of connections that put one piece of no length on the second link."""
    n = len(sizes_bytes)
    return Pieces(np.arange(n + 1), np.arange(n), np.zeros(n), np.zeros(n), np.array([np.full(n, 7.0), sizes_bytes]),
                  np.zeros(n))


def test_difference_is_relative_to_the_second_third():
    assert steadiness.difference([5, 90, 99]) == pytest.approx(0.10) == steadiness.difference([5, 90, 81])
    assert steadiness.difference([1, 0, 1]) == float("inf")
    assert steadiness.accepted(0.0) == steadiness.accepted(0.01) == 0.05
    assert steadiness.accepted(0.02) == pytest.approx(0.08)


def test_by_hand():
    # two sources, bins of 10 us, [0, 60): thirds of two bins. Sums of the bins, source 0: 1 2 | 3 5 | 4 4, source 1:
    # nothing but 8 in the last bin
    start_us = np.array([0, 10, 20, 25, 30, 40, 50, 55, -1])
    source = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1])
    wire, starts = transfers([1.0, 2, 1, 2, 5, 4, 4, 8, 99]), Starts(start_us, source, 10)
    # last - second third: bins of the second third -3 -5 0 0 (mean -2), of the last 4 4 0 8 (mean 4)
    squares = (1 + 9 + 4 + 4) + (0 + 0 + 16 + 16)
    assert thirds_chance(wire, starts, 0, 60, TARGET) == pytest.approx(squares ** 0.5 / 8)
    # all bins: 1 2 3 5 4 4 0 0 0 0 0 8, mean 27 / 12
    squares = sum((x - 27 / 12) ** 2 for x in (1, 2, 3, 5, 4, 4, 0, 0, 0, 0, 0, 8))
    assert load_chance(wire, starts, 0, 60, TARGET) == pytest.approx(squares ** 0.5 / 27)
    assert thirds_chance(wire, starts, 100, 160, TARGET) == load_chance(wire, starts, 100, 160, TARGET) == 0


def test_a_single_large_transfer_is_chance():
    sizes = np.ones(600)
    sizes[450] = 10_000
    wire, starts = transfers(sizes), Starts(np.arange(600) * 10, np.zeros(600, int), 50)
    found = steadiness.difference(TARGET @ thirds_bps(wire, starts.start_us, 0, 6000))
    assert found > 49 and found <= steadiness.accepted(thirds_chance(wire, starts, 0, 6000, TARGET))


def test_a_load_that_rises_is_no_chance():
    start_us = np.sort(np.sqrt(np.random.default_rng(1).random(5000)) * 1e6).astype(int)
    wire, starts = transfers(np.full(5000, 100.0)), Starts(start_us, np.zeros(5000, int), 10_000)
    found = steadiness.difference(TARGET @ thirds_bps(wire, start_us, 0, 1_000_000))
    assert found == pytest.approx(2 / 3, abs=0.1)
    assert found > 2 * steadiness.accepted(thirds_chance(wire, starts, 0, 1_000_000, TARGET))


def test_it_is_the_scatter_of_many_loads():
    """Clusters of connections with heavy-tailed sizes: differences over their deviation have a deviation of 1."""
    rng, differences, errors = np.random.default_rng(2), [], []
    for _ in range(400):
        clusters = rng.poisson(400)
        counts = rng.geometric(0.25, clusters)
        start_us = np.repeat(rng.integers(0, 900_000, clusters), counts)
        wire = transfers(rng.pareto(1.5, len(start_us)).clip(0, 100) + 0.1)
        starts = Starts(start_us, np.zeros(len(start_us), int), 10_000)
        _, second, last = TARGET @ thirds_bps(wire, start_us, 0, 900_000)
        differences.append((last / second - 1) / thirds_chance(wire, starts, 0, 900_000, TARGET))
        mean_bps = 400 * 4 * (2.0 - 0.2 + 0.1) * 8e6 / 900_000     # of the Pareto distribution up to 100
        offered = offered_bps(wire, start_us, 0, 900_000)[1]
        errors.append((offered / mean_bps - 1) / load_chance(wire, starts, 0, 900_000, TARGET))
    assert np.std(differences) == pytest.approx(1, abs=0.12)
    assert np.std(errors) == pytest.approx(1, abs=0.12)
    assert np.mean(np.abs(differences) > steadiness.SIGMAS) < 0.003


def test_with_the_pieces_of_real_connections():
    from traffic.tmix.load import pieces
    batch = from_vectors([Vector(0, SEQ, (0, n), (Adu(0, 0, 100), Adu(1, 0, 5000))) for n in range(30)])
    wire = pieces(batch.with_explicit_fins(), 10_000, 1e7)
    starts = Starts(np.arange(30) * 100_000, np.zeros(30, int), 100_000)
    assert thirds_chance(wire, starts, 0, 3_000_000, TARGET) < 0.05     # one in each bin: as steady as can be

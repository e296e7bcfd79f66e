# SPDX-License-Identifier: GPL-2.0-only
"""The synthesiser keeps what its parameters promise."""

from dataclasses import replace

import numpy as np
import pytest

from traffic.tmix.synth import SynthParameters, pareto_mean, synthesise
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, check

PARAMETERS = SynthParameters(connections_per_second=300.0)


@pytest.fixture(scope="module")
def sample():
    return synthesise(300, 7, PARAMETERS)


def test_bounded_pareto_mean():
    # alpha 2 on [1, 2]: density (8/3) x^-3, mean (8/3) (1 - 1/2) = 4/3
    assert pareto_mean(2, 1, 2) == pytest.approx(4 / 3)


def test_same_seed_same_connections():
    for column in ("start_us", "side", "wait_us", "size_bytes", "mss", "first"):
        a, b, c = (getattr(synthesise(5, seed, PARAMETERS), column)
                   for seed in ((3, 1), (3, 1), (3, 2)))
        assert np.array_equal(a, b)
        assert column == "mss" or not np.array_equal(a, c)


def test_every_connection_can_be_replayed(sample):
    for vector in list(sample)[::97]:
        check(vector)


def test_means_and_bounds(sample):
    n = len(sample)
    assert n == pytest.approx(300 * 300, rel=0.03)
    payload = [sample.size_bytes[sample.side == side] for side in (INITIATOR, ACCEPTOR)]
    # means of heavy tails: the standard error of this sample is 2.5 %
    assert payload[ACCEPTOR].sum() / n == pytest.approx(36000, rel=0.12)
    assert payload[INITIATOR].sum() / n == pytest.approx(3600, rel=0.12)
    assert payload[ACCEPTOR].max() <= 20e6 and payload[INITIATOR].max() <= 5e6
    assert (sample.size_bytes >= 0).all() and (sample.wait_us >= 0).all()
    assert sample.wait_us.max() <= 60e6
    requests = (payload[INITIATOR] > 0).sum() / n
    assert requests == pytest.approx(PARAMETERS.requests_per_connection, rel=0.02)
    responses = (payload[ACCEPTOR] > 0).sum() / n
    assert responses == pytest.approx(PARAMETERS.responses_per_connection, rel=0.02)


def test_shares(sample):
    n = len(sample)
    assert (sample.kind == CONC).mean() == pytest.approx(0.05, abs=0.005)
    assert (sample.mss[:, 0] == 496).mean() == pytest.approx(0.10, abs=0.005)
    assert np.array_equal(sample.mss[:, 0], sample.mss[:, 1])
    assert (sample.size_bytes == 0).sum() / n == pytest.approx(0.5, abs=0.01)
    assert (sample.side[sample.first[:-1]] == ACCEPTOR).mean() == pytest.approx(
        0.08 * 0.96, abs=0.005)


def test_arrivals_are_sorted_steady_and_clustered(sample):
    assert (np.diff(sample.start_us) >= 0).all()
    assert 0 <= sample.start_us[0] and sample.start_us[-1] < 300e6
    per_second = np.bincount(sample.start_us // 1_000_000, minlength=300)
    # no ramp at the beginning: sessions are under way at 0
    assert per_second[:30].mean() == pytest.approx(per_second[30:].mean(), rel=0.08)
    # connections of a session come together: more variable than Poisson
    assert per_second.var() > 1.1 * per_second.mean()


def test_tails_are_heavy(sample):
    responses = np.sort(sample.size_bytes[(sample.side == ACCEPTOR) & (sample.size_bytes > 0)])
    largest = responses[-len(responses) // 100:].sum()
    assert largest > 0.3 * responses.sum()
    assert np.median(responses) < 2000


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="cannot be mixed"):
        synthesise(1, 1, replace(PARAMETERS, mean_acceptor_bytes=100))
    with pytest.raises(ValueError, match="duration"):
        synthesise(0, 1)


def test_a_duration_without_arrivals_is_an_empty_batch():
    assert len(synthesise(1e-5, 1)) == 0

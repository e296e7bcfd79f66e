# SPDX-License-Identifier: GPL-2.0-only
"""The synthesiser keeps what its parameters promise."""

from dataclasses import replace

import numpy as np
import pytest

from testbed.core import fields
from traffic.tmix.batch import from_vectors
from traffic.tmix.marginals import connection_bytes, marginals, top_share
from traffic.tmix.presets import PRESETS
from traffic.tmix.synth import SynthParameters, decode, pareto_mean, synthesise
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, SEQ, Adu, Vector, check

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


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("seed", range(1, 7))
def test_presets_have_the_marginals_that_they_state(name, seed):
    """100,000 connections. The standard deviation of unc-like's top-1 % share is 3 % of it, of the medians 0.5 %."""
    stated = PRESETS[name]
    parameters = replace(decode({"preset": name}), connections_per_second=1050)
    found = marginals(synthesise(100, seed, parameters).take(np.arange(100_000)))
    assert found["top_percent_share"] == pytest.approx(stated.top_percent_share, rel=0.1)
    assert found["median_bytes"] == pytest.approx(stated.median_bytes, rel=0.1)
    assert found["largest_bytes"] <= 60 * max(parameters.download_max_bytes, parameters.upload_max_bytes)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_means_that_they_state(name):
    """Shares of large connections fluctuate more: means of six samples, as above."""
    parameters = replace(decode({"preset": name}), connections_per_second=1000)
    shares = [marginals(synthesise(100, seed, parameters))["above_1mb_share"] for seed in range(1, 7)]
    assert np.mean(shares) == pytest.approx(PRESETS[name].above_1mb_share, rel=0.1)


def test_what_a_section_says_goes_before_its_preset():
    assert decode({}) == decode(None) == decode({"preset": "web"}) == SynthParameters()
    mine = decode({"preset": "unc-like", "mean_acceptor_bytes": 18000, "download_alpha": 1.5, "response_sigma": None})
    assert (mine.mean_acceptor_bytes, mine.download_alpha, mine.response_sigma) == (18000, 1.5, 1.7)
    assert mine.download_max_bytes == 1e9 and mine.request_sigma == SynthParameters().request_sigma
    assert decode(fields.encode(mine)) == mine
    for given, words in (({"preset": "heavy"}, "one of web, unc-like"), ({"preset": 1}, "one of"),
                         ({"preset": "unc-like", "colour": None}, "unknown field"), (5, "a mapping")):
        with pytest.raises(fields.FieldError, match=words):
            decode(given)


def test_every_parameter_of_a_preset_is_one():
    for preset in PRESETS.values():
        assert preset.parameters.keys() <= fields.encode(SynthParameters()).keys() and "preset" not in preset.parameters


def test_marginals_by_hand():
    """Connections of 100, 300 and 2,000,100 bytes."""
    batch = from_vectors([Vector(0, SEQ, (1, 1), (Adu(0, 0, 40), Adu(1, 0, 60))),
                          Vector(1, SEQ, (1, 2), (Adu(0, 0, 300), Adu(0, 9, 0))),
                          Vector(2, SEQ, (1, 3), (Adu(0, 0, 50), Adu(1, 0, 2_000_000), Adu(0, 0, 50)))])
    assert connection_bytes(batch).tolist() == [[40, 300, 100], [60, 0, 2_000_000]]
    assert marginals(batch) == pytest.approx({
        "median_bytes": 300, "mean_bytes": 2_000_500 / 3, "largest_bytes": 2_000_100,
        "top_percent_share": 2_000_100 / 2_000_500, "above_1mb_share": 2_000_000 / 2_000_060})
    assert top_share(np.array([1, 2, 3, 4]), 0.5) == 0.7 and top_share(np.zeros(3)) == 0

# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of one flow's ups and downs: the longest silence, the variation of its rate."""
import numpy as np
import pandas as pd
import pytest

from analysis.metrics import oscillation, silence
from analysis.read.runs import Interval, Run
from tests.unit.analysis import fixture

SHAPE = fixture.Shape(tcp_info_rows=2400)
ALONE = [fixture.flow(1, 10_000, "reno")]
#: the measurement interval of the fixture, s
FROM_S, TO_S = 2, 12


def values(of, run):
    return {(one.metric, one.scope): (one.unit, one.value) for one in of.compute(run)}


@pytest.fixture
def run(tmp_path):
    """run(acked, flows) -> a run of 12 s whose flow 1 has acked(t_s) bytes acknowledged, sampled every 100 ms."""
    def make(acked, flows=ALONE):
        path = fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=flows)
        table = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
        ours = (table["node"] == "n4") & (table["sport"] == 10_000)
        rows = table[ours].iloc[[0] * 120].assign(t_us=100_000 * np.arange(1, 121))
        rows["bytes_acked"] = [int(acked(t_us / 1e6)) for t_us in rows["t_us"]]
        fixture.save(path / "raw" / "tcp_info.csv.gz", rows)
        return Run(path)
    return make


def with_gap(begin_s, end_s):
    """1 Mbit/s, but for a time."""
    return lambda t_s: 125_000 * (t_s - np.clip(t_s - begin_s, 0, end_s - begin_s))


@pytest.mark.parametrize("begin_s, end_s, longest_s", [
    (20, 21, 0),                # none
    (5, 6.5, 1.5),
    (1, 3, 1),                  # what is before the measurement interval does not count
    (11, 20, 1),                # until the end
    (0, 12, 10),
])
def test_the_longest_silence(run, begin_s, end_s, longest_s):
    found = values(silence, run(with_gap(begin_s, end_s)))
    assert found == {("longest_silence", scope): ("s", pytest.approx(longest_s, abs=1e-9))
                     for scope in ("flow_1", "all")}


def test_two_silences_are_not_one(run):
    """What comes between them may be a single sample's."""
    assert values(silence, run(lambda t_s: (t_s > 5) + (t_s > 8)))["longest_silence", "flow_1"][1] == pytest.approx(3.9)


def test_the_longest_silence_of_a_part(run):
    inside = run(with_gap(5, 6.5)).within(Interval(6_000_000, 9_000_000))
    assert values(silence, inside)["longest_silence", "flow_1"][1] == pytest.approx(0.5)


def test_a_flow_is_not_silent_before_it_begins(run):
    flows = [fixture.flow(1, 10_000, "reno", start_us=4_000_000)]
    assert values(silence, run(with_gap(0, 5), flows))["longest_silence", "flow_1"][1] == pytest.approx(1)


def test_a_steady_rate_does_not_vary(run):
    found = values(oscillation, run(with_gap(20, 21)))
    assert found == {("throughput_cov_1s", "flow_1"): ("1", pytest.approx(0, abs=1e-9))}


def test_the_variation_of_a_rate(run):
    """Twice the rate in every other second, none in those between: the sample deviation of ten values 2 and 0."""
    found = values(oscillation, run(lambda t_s: 250_000 * (t_s // 2 + min(t_s % 2, 1))))
    assert found == {("throughput_cov_1s", "flow_1"): ("1", pytest.approx(np.std([2, 0] * 5, ddof=1)))}


@pytest.mark.parametrize("changes", [{"start_us": 3_000_000}, {"stop_us": 9_000_000}, {"bytes": 10_000}])
def test_no_variation_of_flows_that_are_there_for_a_part(run, changes):
    assert values(oscillation, run(with_gap(20, 21), [fixture.flow(1, 10_000, "reno", **changes)])) == {}


def test_no_variation_of_short_measurements(run):
    part = run(with_gap(20, 21)).within(Interval(2_000_000, 6_000_000))
    assert values(oscillation, part) == {}


def test_runs_without_listed_flows_have_neither(tmp_path):
    path = fixture.write_run(tmp_path / "run")
    assert values(silence, Run(path)) == {} and values(oscillation, Run(path)) == {}

# SPDX-License-Identifier: GPL-2.0-only
"""How narrow intervals are, and how many seeds would make them so."""

import pytest

from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from analysis.stats import precision
from analysis.stats.precision import Reached, judge, next_count
from tests.unit.analysis import fixture

DOWN = "right_to_left"
NOISY = fixture.Shape(noise=0.2, test_s=4)


def experiment(tmp_path, **options):
    return Experiment(fixture.write_experiment(tmp_path / "e", **{
        "ccas": ["reno"], "seeds": range(1, 7), "shapes": {"reno": NOISY}, **options}))


def test_metrics_of_tmix_by_themselves(tmp_path):
    found = judge(experiment(tmp_path), 0.05)
    assert {(one.metric, one.scope) for one in found} == {
        ("throughput_mean", DOWN), ("queueing_delay_mean", DOWN), ("flow_completion_time_p50", "all")}
    assert {one.n for one in found} == {6}
    assert [one.needed for one in found] == sorted((one.needed for one in found), reverse=True)
    assert all(one.enough() == (one.share <= 0.05) for one in found)


def test_metrics_of_long_flows_by_themselves(tmp_path):
    flows = [fixture.flow(1, 10_000, "reno"), fixture.flow(2, 10_001, "reno", base_rtt_us=80_000)]
    found = judge(experiment(tmp_path, tmix=False, flows=flows), 0.05)
    assert {one.metric for one in found} == {"queueing_delay_mean", "mean_agg_throughput_l4",
                                             "throughput_ratio_short_long"}
    assert {one.scope for one in found if one.metric == "queueing_delay_mean"} == {DOWN}


def test_metrics_that_are_named(tmp_path):
    made = experiment(tmp_path)
    found = judge(made, 0.05, ["goodput", "drop_rate:left_to_right"])
    assert {(one.metric, one.scope) for one in found} == {("goodput", DOWN), ("drop_rate", "left_to_right")}
    with pytest.raises(AnalysisError, match="no run has the metric speed; there are: .*throughput_mean"):
        judge(made, 0.05, ["speed"])
    with pytest.raises(AnalysisError, match="drop_rate has the scopes right_to_left, left_to_right"):
        judge(made, 0.05, ["drop_rate:up"])


def test_a_mean_of_zero_is_narrow_without_spread_only(tmp_path):
    found, = judge(experiment(tmp_path), 0.05, ["drop_rate:left_to_right"])
    assert (found.share, found.needed, found.enough()) == (None, precision.LEAST_SEEDS[precision.MEAN], True)


def test_only_rows_that_were_asked_for(tmp_path):
    made = experiment(tmp_path, ccas=["reno", "cubic"], seeds=[1, 2])
    ids = {run.path.name for run in made.runs if run.subject == "cubic"}
    assert {one.row.subject for one in judge(made, 0.05, ["goodput"], ids)} == {"cubic"}


def test_no_usable_run_is_an_error(tmp_path):
    with pytest.raises(AnalysisError, match="no usable run"):
        judge(experiment(tmp_path, seeds=[1], failed={"reno-seed1": "no route"}), 0.05)


def test_a_row_without_usable_runs_is_not_enough(tmp_path):
    made = experiment(tmp_path, ccas=["reno", "cubic"], seeds=range(1, 6),
                      shapes={"reno": fixture.Shape(test_s=4, noise=0.01)},
                      verdicts={f"cubic-seed{seed}": "invalid" for seed in range(1, 6)})
    enough = {one.row.subject: one.enough() for one in judge(made, 0.05, ["throughput_mean:right_to_left"])}
    assert enough == {"reno": True, "cubic": False}
    worst = judge(made, 0.05, ["throughput_mean:right_to_left"])[0]
    assert str(worst) == "throughput_mean of right to left, cubic: no interval with 0 seeds; no run of it is usable"
    assert next_count([worst], 5, 100) == 5             # more seeds would not help


def test_traffic_without_the_usual_metrics(tmp_path):
    made = experiment(tmp_path, seeds=[1], tmix=False, flows=[])
    vars(made.runs[0].components[0])["kind"] = "cbr"
    with pytest.raises(AnalysisError, match=r"none of the metrics whose precision is judged \(udp_received_rate\)"):
        judge(made, 0.05)


def reached(n, needed, share=0.1):
    return Reached(None, "m", "all", n, share, needed)


def test_how_many_next():
    assert next_count([reached(5, 8)], 5, 30) == 8
    assert next_count([reached(5, 100), reached(5, 5)], 5, 30) == 10        # at most twice as many
    assert next_count([reached(20, 100)], 20, 30) == 30
    assert next_count([reached(30, 100)], 30, 30) == 30
    assert next_count([reached(1, 5, None)], 1, 30) == 5
    assert next_count([reached(5, None)], 5, 30) == 5                       # no number is enough
    assert next_count([reached(3, 5)], 5, 30) == 7                          # two runs of this row cannot be used


def test_words(tmp_path):
    row = experiment(tmp_path, seeds=[1]).rows[0]
    assert str(Reached(row, "queueing_delay_mean", DOWN, 5, 0.1234, 29)) == \
        "queueing_delay_mean of right to left, reno: ± 12 % with 5 seeds; about 29 are needed"
    assert str(Reached(row, "goodput", "all", 1, None, 5)) == \
        "goodput, reno: no interval with 1 seed; about 5 are needed"
    assert str(Reached(row, "goodput", "all", 6, 0.01, 5)).endswith("; enough")
    assert "no number of seeds" in str(Reached(row, "goodput", "all", 6, float("inf"), None))


def test_medians_begin_with_ten_seeds(tmp_path):
    found, = judge(experiment(tmp_path), 0.5, ["goodput"], of=precision.MEDIAN)
    assert (found.n, found.needed, found.enough()) == (6, 10, False)        # six values: the smallest to the largest
    assert next_count([found], 6, 30) == 10


def test_medians_that_spread_need_more(tmp_path):
    found, = judge(experiment(tmp_path, seeds=range(1, 13)), 0.001, ["goodput"], of=precision.MEDIAN)
    assert found.n == 12 and found.needed > 12 and not found.enough()
    assert next_count([found], 12, 30) == 24
    assert next_count([found], 24, 30) == 30

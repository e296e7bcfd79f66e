# SPDX-License-Identifier: GPL-2.0-only
"""impact-on-standard, fairness and multi-bottleneck: quick versions are valid, and their metrics are plausible.

Minutes; not part of `make test`.
"""
import pytest

from analysis.flows import camps
from analysis.read.runs import Run
from testbed.checks import read_verdict

DOWN = ("r2_to_r1", "r3_to_r2", "r4_to_r3")
CCAS = ("sack", "cubic", "vegas", "bbr")


def test_camps_replay_the_same_connections_and_are_compared_with_the_baseline(quick_runs):
    made = {cca: quick_runs("impact-on-standard", cca, {"load": "100"})[0] for cca in CCAS}
    runs = {cca: Run(one.folder) for cca, one in made.items()}
    assert {camps.baseline_subject(one) for one in runs.values()} == {"sack"}
    assert {metric.value for metric in camps.against(runs["sack"], runs["sack"]) if metric.metric == camps.RATIO} == {1}
    for cca in CCAS[1:]:
        ratios = {metric.scope: metric.value for metric in camps.against(runs[cca], runs["sack"])
                  if metric.metric == camps.RATIO}
        assert len(ratios) == 10 and all(0.2 < ratio < 5 for ratio in ratios.values())
        assert ratios["camp_a"] != 1 != ratios["camp_b"]
    for found in (one.values for one in made.values()):
        assert found["offered_load_share", "right_to_left"] == pytest.approx(100, rel=0.05)
        by_size = [found["transfer_time_mean", f"camp_a/quarter_{quarter}"] for quarter in (1, 2, 3, 4)]
        assert by_size == sorted(by_size) and found["transfers_finished", "camp_b"] > 85
    # in the baseline, the camps differ by chance only
    found = made["sack"].values
    assert found["transfer_time_mean", "camp_a"] == pytest.approx(found["transfer_time_mean", "camp_b"], rel=0.1)


@pytest.mark.parametrize("cca", CCAS)
def test_two_flows_share_what_the_background_leaves(quick_runs, cca):
    found = {one.point["rtts"]: one.values for one in quick_runs("fairness", cca)}
    assert set(found) == {"40-40", "160-40"}
    for values in found.values():
        first, joined = (values["mean_throughput_l4", f"flow_{flow}"] for flow in (10, 11))
        assert values["throughput_ratio_joined_first", "flow_11_to_flow_10"] == pytest.approx(joined / first, rel=0.02)
        assert 20 < first + joined < 60 and values["offered_load_share", "right_to_left"] == pytest.approx(50, rel=0.05)
        # BBR keeps two bandwidth-delay products under way, which is more than the buffer has room for
        assert values["drop_rate", "right_to_left"] < (2 if cca != "bbr" else 25)
    assert ("throughput_ratio_short_long", "rtt_40_to_160_ms") in found["160-40"]


@pytest.mark.parametrize("cca", CCAS)
def test_every_bottleneck_has_its_load(quick_runs, cca):
    one, = quick_runs("multi-bottleneck", cca)
    for name in DOWN:
        assert one.values["offered_load_share", name] == pytest.approx(60, rel=0.05)
        assert one.values["carried_over_offered", name] == pytest.approx(100, abs=5)
        assert one.values["throughput_mean", name] == pytest.approx(60, rel=0.08)
    # the same traffic, but for more queues
    assert one.values["flow_completion_time_mean", "across_3_bottlenecks"] > one.values[
        "flow_completion_time_mean", "across_1_bottleneck"]
    messages = [said["message"] for said in read_verdict(one.folder)["checks"] if said["check"] == "load"]
    assert sum("by itself, target 60%" in message for message in messages) == len(DOWN)

# SPDX-License-Identifier: GPL-2.0-only
"""impact-on-standard, fairness and multi-bottleneck: quick versions are valid, and their metrics are plausible.

Minutes; not part of `make test`.
"""
import os

import pandas as pd
import pytest

from analysis import camps
from analysis.runs import Run
from testbed import campaign, ccas, engines, run, scenario
from testbed.fidelity import read_verdict
from testbed.store import Store

DOWN = ("r2_to_r1", "r3_to_r2", "r4_to_r3")


@pytest.fixture(scope="module")
def engine():
    loaded = engines.load("uml")
    loaded.prepare(print)
    return loaded


@pytest.fixture(scope="module")
def folders_of(tmp_path_factory, engine):
    """folders_of(scenario, cca, choices) -> [(point, folder of a valid run)] of its quick version."""
    store = Store(tmp_path_factory.mktemp("suite") / "results")
    store.create()

    def carry_out(name, cca, choices=None):
        subject = ccas.make_ready(ccas.parse(cca)[0], engine, print)
        found = []
        for plan in campaign.make_plans(scenario.expand(name, choices, True), [subject], [1], engine, print):
            with store.shared_folder() as shared:
                outcome = run.execute(run.Job(plan), engine, store, shared, min(os.sched_getaffinity(0)),
                                      lambda *_: None)
            assert outcome.error is None
            verdict = read_verdict(store.run_dir(plan.id))
            assert verdict["verdict"] == "valid", verdict["reasons"]
            found.append((plan.point, store.run_dir(plan.id)))
        return found
    return carry_out


def metrics_of(folder):
    table = pd.read_csv(folder / "metrics.csv")
    return {(one.metric, one.scope): one.value for one in table.itertuples()}


def test_camps_replay_the_same_connections_and_are_compared_with_the_baseline(folders_of):
    runs = {cca: Run(folders_of("impact-on-standard", cca, {"load": "100"})[0][1]) for cca in ("sack", "bbr")}
    values = {cca: metrics_of(one.path) for cca, one in runs.items()}
    assert {camps.baseline_subject(one) for one in runs.values()} == {"sack"}
    assert {metric.value for metric in camps.against(runs["sack"], runs["sack"]) if metric.metric == camps.RATIO} == {1}
    ratios = {metric.scope: metric.value for metric in camps.against(runs["bbr"], runs["sack"])
              if metric.metric == camps.RATIO}
    assert len(ratios) == 10 and all(0.2 < ratio < 5 for ratio in ratios.values())
    assert ratios["camp_a"] != 1 != ratios["camp_b"]
    for found in values.values():
        assert found["offered_load_share", "right_to_left"] == pytest.approx(100, rel=0.05)
        by_size = [found["transfer_time_mean", f"camp_a/quarter_{quarter}"] for quarter in (1, 2, 3, 4)]
        assert by_size == sorted(by_size) and found["transfers_finished", "camp_b"] > 85
    # in the baseline, the camps differ by chance only
    assert values["sack"]["transfer_time_mean", "camp_a"] == pytest.approx(
        values["sack"]["transfer_time_mean", "camp_b"], rel=0.1)


def test_two_flows_share_what_the_background_leaves(folders_of):
    found = {point["rtts"]: metrics_of(folder) for point, folder in folders_of("fairness", "reno")}
    assert set(found) == {"40-40", "160-40"}
    for values in found.values():
        first, joined = (values["mean_throughput_l4", f"flow_{flow}"] for flow in (10, 11))
        assert values["throughput_ratio_joined_first", "flow_11_to_flow_10"] == pytest.approx(joined / first, rel=0.02)
        assert 20 < first + joined < 60 and values["offered_load_share", "right_to_left"] == pytest.approx(50, rel=0.05)
        assert values["drop_rate", "right_to_left"] < 2
    assert ("throughput_ratio_short_long", "rtt_40_to_160_ms") in found["160-40"]


def test_every_bottleneck_has_its_load(folders_of):
    (_, folder), = folders_of("multi-bottleneck", "cubic")
    values = metrics_of(folder)
    for name in DOWN:
        assert values["offered_load_share", name] == pytest.approx(60, rel=0.05)
        assert values["carried_over_offered", name] == pytest.approx(100, abs=5)
        assert values["throughput_mean", name] == pytest.approx(60, rel=0.08)
    # the same traffic, but for more queues
    assert values["flow_completion_time_mean", "across_3_bottlenecks"] > values[
        "flow_completion_time_mean", "across_1_bottleneck"]
    messages = [one["message"] for one in read_verdict(folder)["checks"] if one["check"] == "load"]
    assert sum("by itself, target 60%" in message for message in messages) == len(DOWN)

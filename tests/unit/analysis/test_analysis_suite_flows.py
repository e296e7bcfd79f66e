# SPDX-License-Identifier: GPL-2.0-only
"""A flow that joins another one; connections by the number of bottlenecks that they cross."""

import functools

import numpy as np
import pandas as pd
import pytest

from analysis.figures import joining
from analysis.pages import columns
from analysis.read.experiment import Experiment
from analysis.read.tables import Results
from tests.unit.analysis import fixture

RATIO = "throughput_ratio_joined_first"


def two_flows(tmp_path, change, *starts_us, factor=0.5, components=("first", "second"), first=1):
    """A run of two flows, of which the one that is listed second gets `factor` of what the other one gets; that gets
    `first` of its own."""
    flows = [{**fixture.flow(number, port, "reno"), "component": component, "start_us": start_us}
             for number, port, component, start_us in zip((1, 2), (10_001, 10_004), components, starts_us)]
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=flows)
    change(path, "tcp_info", lambda table: times(table if first else table.assign(bytes_acked=0), factor))
    return path


def test_the_flow_that_joins_over_the_first(tmp_path, change, values):
    found = values(two_flows(tmp_path, change, 0, 1_000_000))
    assert found[RATIO, "flow_2_to_flow_1"] == pytest.approx(0.5, rel=1e-4)


def test_a_flow_that_is_starved_has_a_segment(tmp_path, change, values):
    path = two_flows(tmp_path, change, 0, 1_000_000, factor=0)
    samples = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
    got = samples[(samples["sport"] == 10_001) & (samples["node"] == "n4")]["bytes_acked"].max()
    assert 0 < values(path)[RATIO, "flow_2_to_flow_1"] < 100 * 1448 / got


def test_the_first_is_the_one_that_starts_first(tmp_path, change, values):
    found = values(two_flows(tmp_path, change, 1_000_000, 0))
    assert found[RATIO, "flow_1_to_flow_2"] == pytest.approx(2, rel=1e-4)


@pytest.mark.parametrize("options", [
    {"starts": (0, 0)}, {"starts": (0, 5_000_000)}, {"factor": 0, "first": 0}, {"components": ("long", "long")}],
    ids=["together", "within the interval", "nothing got through", "one component"])
def test_no_ratio_of_flows_that_do_not_join(tmp_path, change, values, options):
    starts = options.pop("starts", (0, 1_000_000))
    assert not [scope for name, scope in values(two_flows(tmp_path, change, *starts, **options)) if name == RATIO]


def times(table, factor):
    """The sender of the second flow got so many times more."""
    mine = (table["sport"] == 10_004) & (table["node"] == "n4")
    return table.assign(bytes_acked=(table["bytes_acked"] * np.where(mine, factor, 1)).astype(int))


def sweep_of_pairs(tmp_path, change, factors):
    """An experiment over pairs of round-trip times and buffers; factors: {(rtts, buffer): [of each seed]}."""
    flows = [{**fixture.flow(number, port, "reno"), "component": str(number), "start_us": number * 100_000}
             for number, port in ((1, 10_001), (2, 10_004))]
    path = fixture.write_experiment(
        tmp_path / "e", ccas=("reno",), seeds=(1, 2), points=[
            {"rtts": rtts, "buffer": buffer} for rtts, buffer in factors], tmix=False, flows=flows,
        shapes={"reno": fixture.Shape(test_s=4, interval_us=50_000, tcp_info_rows=200)})
    for run in Experiment(path).runs:
        factor = factors[run.point["rtts"], run.point["buffer"]][run.seed - 1]
        change(run.path, "tcp_info", functools.partial(times, factor=factor))
    return path


def test_the_ratio_is_drawn_against_the_pairs(tmp_path, change):
    """Pairs are on the axis, buffers have panels; the mean of 2 and 8 is 4."""
    pairs = ("10-10", "20-20", "160-10")
    factors = {(rtts, buffer): [2, 8] if rtts == "160-10" else [0.5, 0.5] for rtts in pairs for buffer in ("25", "100")}
    figure, = joining.draw(Experiment(sweep_of_pairs(tmp_path, change, factors)), tmp_path)
    data = pd.read_csv(tmp_path / "joining.csv")
    for buffer in ("25", "100"):
        assert data[f"{RATIO} flow_2_to_flow_1 {buffer} reno mean"].tolist() == pytest.approx([0.5, 0.5, 4], rel=1e-3)
    drawn = (tmp_path / "joining.svg").read_text()
    assert all(text in drawn for text in (*pairs, "buffer=25", "joined : first"))
    assert "One column of panels for each buffer." in figure.caption


def test_connections_by_the_bottlenecks_that_they_cross(tmp_path, change, values):
    """Sources 0 to 2 cross two and take half a second, the others one and a quarter of a second."""
    both = ["right_to_left", "left_to_right"]
    flows = [{**flow, "hops_back": both if flow["source"] < 3 else both[:1]}
             for flow in fixture._sources("reno", fixture.Shape())]
    name = fixture.run_id("reno", 1)
    path = fixture.write_run(tmp_path / "runs" / name, subject="reno", flows=flows)
    change(path, "adus", lambda adus: adus.assign(delivered_us=(
        (adus["conn"] * 9 + adus["source"]) * 50_000 + 250_000 * (1 + (adus["source"] < 3))).astype("Int64")))
    change(path, "connections", lambda table: table.assign(status="finished"))
    found = values(path)
    for scope, seconds in (("across_1_bottleneck", 0.25), ("across_2_bottlenecks", 0.5)):
        assert [found[f"flow_completion_time_{name}", scope] for name in ("mean", "p50", "p95")] == pytest.approx(
            [seconds] * 3)
    assert found["flows_completed", "across_2_bottlenecks"] + found["flows_completed", "across_1_bottleneck"] == \
        found["flows_completed", "all"]
    # who does not finish counts for as long as it lasted: more than half of them are not reached
    change(path, "adus", lambda adus: adus.assign(delivered_us=adus["delivered_us"].mask(
        (adus["source"] < 3) & (adus["conn"] % 3 > 0), pd.NA)))
    assert values(path)["flow_completion_time_p50", "across_2_bottlenecks"] == float("inf")
    assert values(path)["flow_completion_time_p50", "across_1_bottleneck"] == 0.25
    experiment = fixture.write_experiment(tmp_path / "one", ccas=("reno",), seeds=(1,))
    described = (experiment / "experiment.json").read_text()
    (experiment / "experiment.json").write_text(described.replace(fixture.run_id("one", "reno", {}, 1), name))
    titles = [table.title for table in columns.tables(Results(Experiment(experiment))).connections]
    assert "Connections across 1 bottleneck" in titles and "Connections across 2 bottlenecks" in titles


def test_sources_that_cross_as_many(run_dir, values):
    assert not [scope for _, scope in values(run_dir) if scope.startswith("across_")]

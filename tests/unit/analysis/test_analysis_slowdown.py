# SPDX-License-Identifier: GPL-2.0-only
"""Completion times over those of the same connections alone on the idle network."""

import json
import math
import shutil

import pandas as pd
import pytest

from analysis.flows import slowdown
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Run
from tests.unit.analysis import fixture

PAUSE_US = 20_000_000


def alone(change, path):
    """Leave every third connection of the interval, one after the other, each in half of its time; closed 2 s later."""
    table = pd.read_csv(path / "raw" / "connections.csv.gz")
    rows = table[(table["scheduled_us"] >= 2_000_000) & (table["status"] == "finished")][::3]
    took_us = (rows["end_us"] - rows["start_us"]) // 2
    start_us = pd.Series(range(len(rows)), index=rows.index) * PAUSE_US
    rows = rows.assign(scheduled_us=start_us, start_us=start_us, connected_us=start_us,
                       end_us=start_us + took_us + 2_000_000)
    last_us = (rows["end_us"] - 2_000_000).to_numpy()
    change(path, "connections", lambda _: rows)
    change(path, "adus", lambda table: pd.concat([
        rows[["source", "conn"]].assign(side=side, index=index, bytes=1, sent_us=last_us - 1000,
                                        delivered_us=last_us - 500 * (1 - index))
        for index, side in enumerate("ia")])[list(table)])


@pytest.fixture
def pair(tmp_path, change):
    """(run, companion): everything takes twice as long in the run."""
    run, idle = (fixture.write_run(tmp_path / name, subject="cubic") for name in ("cubic-seed1", "idle-cubic-seed1"))
    alone(change, idle)
    return run, idle


def computed(run, idle):
    return {(one.metric, one.scope): one.value for one in slowdown.compute(Run(run), Run(idle))}


def test_twice_as_long_is_a_slowdown_of_two(pair):
    found = computed(*pair)
    assert found["slowdown_p50", "all"] == pytest.approx(2, rel=1e-4)
    assert found["slowdown_p99", "all"] == pytest.approx(2, rel=1e-4)
    assert found["slowdown_p25", "bytes_31623_to_100000"] == pytest.approx(2, rel=1e-4)
    table = pd.read_csv(pair[1] / "raw/connections.csv.gz")
    assert found["slowdown_connections", "all"] == len(table) > 50


def test_unfinished_connections_count(pair, undelivered):
    """The largest of those that were drawn are still there at the end."""
    run, idle = pair
    undelivered(run, lambda table: table["acc_bytes_asked"] > 100_000)
    found = computed(run, idle)
    assert found["slowdown_p50", "all"] == pytest.approx(2, rel=1e-4) and found["slowdown_p95", "all"] == math.inf
    assert found["slowdown_p50", "bytes_316228_to_1000000"] == math.inf


def test_strata_by_hand():
    """Idle times 0.1 s (slowdown 2, all seen) and 10 s (seen for 1.5 of them at most, none done).

    Half of all are done at 2. One sample of both would say: of four known to last longer than 1.5 nothing more is
    known, so all of those left are done at 2.
    """
    factors = slowdown.Transfers(*map(pd.Series.to_numpy, (
        pd.Series([2.0] * 4 + [1.5] * 4), pd.Series([True] * 4 + [False] * 4), pd.Series([1.0] * 8))))
    found = {one.metric: one.value for one in slowdown._described(
        "all", factors, pd.Series([0.1] * 4 + [10.0] * 4).to_numpy(), (50, 51))}
    assert found["slowdown_p50"] == 2 and found["slowdown_p51"] == math.inf


def test_companions_without_data_units_are_of_no_use(pair):
    (pair[1] / "raw" / "adus.csv.gz").unlink()
    with pytest.raises(AnalysisError, match="adus.csv.gz: file is missing"):
        computed(*pair)


def test_connections_that_were_not_alone_are_left_out(pair, change):
    run, idle = pair
    count = computed(run, idle)["slowdown_connections", "all"]

    def overlap(table):
        table.loc[3, "end_us"] = table.loc[4, "start_us"] + 1
        return table
    change(idle, "connections", overlap)
    assert computed(run, idle)["slowdown_connections", "all"] == count - 2


@pytest.mark.parametrize("damage, says", [
    (lambda table: table.assign(end_us=table["start_us"] + 2 * PAUSE_US), "were not alone"),
    (lambda table: table.assign(status="unfinished"), "or did not finish"),
    (lambda table: table[:0], "were not alone"),
    (lambda table: table.assign(init_bytes_asked=7), "its connections are not those of"),
    (lambda table: table.assign(conn=table["conn"] + 10**6), "none of its connections begins in")])
def test_companions_of_no_use(pair, change, damage, says):
    change(pair[1], "connections", damage)
    if says.startswith("none of"):
        change(pair[1], "adus", damage)
    with pytest.raises(AnalysisError, match=says):
        computed(*pair)


def experiment(tmp_path, change, **options):
    """Reno and cubic with two seeds, and a companion for each seed."""
    path = fixture.write_experiment(tmp_path / "demo", seeds=[1, 2], **options)
    described = json.loads((path / "experiment.json").read_text())
    described["idle"] = []
    for seed in (1, 2):
        identity = fixture.run_id("idle", seed)
        folder = fixture.write_run(tmp_path / "runs" / identity, seed, subject="reno")
        alone(change, folder)
        described["idle"].append({"id": identity, "name": f"idle-reno-seed{seed}", "subject": "reno", "seed": seed,
                                  "point": {}})
    fixture.write_json(path / "experiment.json", described)
    return path


def test_the_report_has_table_and_figure(tmp_path, change, monkeypatch):
    fixture.sow(monkeypatch)
    path = experiment(tmp_path, change)
    html = build_report(path).path.read_text()
    assert "<caption>Slowdown</caption>" in html and "alone on the idle network under reno" in html
    assert "Slowdown, median, geometric mean" in html and "No slowdown" not in html
    table = pd.read_csv(path / "report/tables/summary.csv").set_index(["subject", "metric", "scope"])
    row = table.loc[("cubic", "slowdown_p50", "all")]
    assert row["mean"] == pytest.approx(2, rel=1e-3) and (row["scale"], row["n"]) == ("geometric", 14)
    assert (path / "report/figures/slowdown.svg").exists()
    compared = pd.read_csv(path / "report/tables/comparison.csv").set_index(["metric", "scope"])
    assert compared.loc[("slowdown_p50", "all"), "result"] == "equal within 5 %"
    assert ("slowdown_connections", "all") not in compared.index


def test_a_companion_that_failed_costs_the_slowdown_only(tmp_path, change):
    path = experiment(tmp_path, change)
    identity = json.loads((path / "experiment.json").read_text())["idle"][0]["id"]
    shutil.rmtree(tmp_path / "runs" / identity)
    html = build_report(path).path.read_text()
    assert "No slowdown: idle-reno-seed1 is missing" in html
    table = pd.read_csv(path / "report/tables/summary.csv").set_index(["subject", "metric", "scope"])
    assert table.loc[("cubic", "slowdown_p50", "all"), "n"] == 1
    assert table.loc[("cubic", "flow_completion_time_p50", "all"), "n"] == 2


def test_an_invalid_companion_is_not_used(tmp_path, change):
    path = experiment(tmp_path, change)
    identity = json.loads((path / "experiment.json").read_text())["idle"][1]["id"]
    fixture.seal(tmp_path / "runs" / identity, verdict="invalid")
    loaded = Experiment(path)
    assert "slowdown_p50" not in set(loaded.values(loaded.runs[1])["metric"])
    assert loaded.idle_problems["idle-reno-seed2"].startswith("idle-reno-seed2 is invalid: ")
    assert "slowdown_p50" in set(loaded.values(loaded.runs[0])["metric"])

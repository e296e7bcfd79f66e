# SPDX-License-Identifier: GPL-2.0-only
"""Camps that replay the same connections: transfer times, quarters by size, and L and G against the baseline."""

import json
import math

import pandas as pd
import pytest

from analysis.compare.rows import Comparisons
from analysis.flows import camps
from analysis.pages import columns
from analysis.pages.report import build_report
from analysis.pages.report_tables import shown
from analysis.read.experiment import Experiment
from analysis.read.tables import Results
from tests.unit.analysis import fixture

#: of the eight connections of a camp, in seconds; sizes are 1000, 2000, ... bytes
BASE = [1, 1, 2, 2, 3, 3, 4, 8]
TRAFFIC = [{"name": "a", "kind": "tmix", "cca": ["reno"]}, {"name": "b", "kind": "tmix", "draws": "a", "cca": []}]


def write_camps(path, seconds_a, seconds_b, subject="reno", seed=1, sizes=range(1000, 9000, 1000)):
    """A run of two camps with a source each, whose connections take these times (None: did not finish)."""
    flows = [fixture.flow(place + 1, None, variant, component=name, kind="tmix", sender=f"n{place + 1}",
                          receiver=f"n{place + 4}", source=place, both_ways=True, connections=8)
             for place, (name, variant) in enumerate((("a", "reno"), ("b", subject)))]
    fixture.write_run(path, seed, subject=subject, flows=flows)
    plan = json.loads((path / "plan.json").read_text())
    plan["scenario"]["traffic"] = TRAFFIC
    fixture.write_json(path / "plan.json", plan)
    connections, adus = [], []
    for source, times in enumerate((seconds_a, seconds_b)):
        for conn, (size, seconds) in enumerate(zip(sizes, times)):
            start = 2_100_000 + 1000 * conn
            end = None if seconds is None else start + round(seconds * 1e6)
            connections.append({
                "source": source, "conn": conn, "initiator": f"n{source + 1}", "acceptor": f"n{source + 4}",
                "iport": 20_000 + conn, "aport": 10_000 + source, "prefill": 0, "scheduled_us": start,
                "start_us": start, "connected_us": start + 8000, "end_us": end, "init_bytes_asked": 500,
                "init_bytes_delivered": 500, "acc_bytes_asked": size - 500,
                "acc_bytes_delivered": size - 500 if end else 0, "adus_asked": 2,
                "adus_delivered": 2 if end else 1, "status": "finished" if end else "unfinished"})
            adus += [{"source": source, "conn": conn, "side": side, "index": index, "bytes": 500, "sent_us": start,
                      "delivered_us": end if index else start + 1}
                     for index, side in enumerate("ia")]
    for name, rows in (("connections", connections), ("adus", adus)):
        table = pd.DataFrame(rows)
        for column in ("end_us", "delivered_us"):
            if column in table:
                table[column] = table[column].astype("Int64")
        fixture.save(path / "raw" / f"{name}.csv.gz", table)
    fixture.seal(path)
    return path


def write_experiment(folder, seeds=(1,), **mix):
    """Baselines with BASE in both camps, and runs with cubic: mix[a], mix[b]."""
    runs = []
    for subject, times in (("reno", (BASE, BASE)), ("cubic", (mix["a"], mix["b"]))):
        for seed in seeds:
            name = fixture.run_id(subject, seed)
            write_camps(folder / "runs" / name, *times, subject=subject, seed=seed)
            runs.append({"name": f"{subject}-seed{seed}", "id": name, "subject": subject, "seed": seed, "point": {}})
    fixture.write_experiment(folder / "other", ccas=("reno",), seeds=(1,))
    described = json.loads(next(folder.rglob("experiment.json")).read_text())
    (folder / "camps").mkdir()
    fixture.write_json(folder / "camps" / "experiment.json", {
        **described, "subjects": ["reno", "cubic"], "seeds": list(seeds), "runs": runs})
    return folder / "camps"


def ratios(experiment, subject):
    """{scope: geometric mean of the ratio} of a subject's runs."""
    results = Results(experiment)
    row, = (row for row in experiment.rows if row.subject == subject)
    return {scope: results.sample(row, camps.RATIO, scope) for scope in results.scopes(camps.RATIO)}


def test_transfer_times_of_camps(tmp_path, values):
    found = values(write_camps(tmp_path / "cubic-seed1", BASE, [2, None, 2, 2, 3, 3, 4, 9], "cubic"))
    times = {scope: value for (metric, scope), value in found.items() if metric == "transfer_time_mean"}
    assert times == pytest.approx({
        "camp_a": 3, "camp_a/quarter_1": 1, "camp_a/quarter_2": 2, "camp_a/quarter_3": 3, "camp_a/quarter_4": 6,
        "camp_b": 25 / 7, "camp_b/quarter_1": 2, "camp_b/quarter_2": 2, "camp_b/quarter_3": 3,
        "camp_b/quarter_4": 6.5})
    assert found["transfers_finished", "camp_a"] == 100 and found["transfers_finished", "camp_b"] == 87.5


def test_gain_and_loss_by_hand(tmp_path):
    """The third connection of camp b, 2 s in the baseline, does not finish in the mix: it is in neither mean."""
    experiment = Experiment(write_experiment(tmp_path, a=[2, 2, 2, 2, 3, 3, 4, 8], b=[0.5, 0.5, None, 2, 3, 3, 4, 5]))
    assert {scope: value for scope, (value,) in ratios(experiment, "cubic").items()} == pytest.approx({
        "camp_a": 26 / 24, "camp_a/quarter_1": 2, "camp_a/quarter_2": 1, "camp_a/quarter_3": 1, "camp_a/quarter_4": 1,
        "camp_b": 18 / 22, "camp_b/quarter_1": 0.5, "camp_b/quarter_2": 1, "camp_b/quarter_3": 1,
        "camp_b/quarter_4": 9 / 12})
    results = Results(experiment)
    assert results.sample(experiment.rows[1], camps.IN_ONE, "camp_b") == [12.5]
    # of the baseline against itself exactly 1
    assert set(map(tuple, ratios(experiment, "reno").values())) == {(1.0,)}


def test_means_over_seeds_are_geometric_and_judged_against_1(tmp_path):
    experiment = Experiment(write_experiment(tmp_path, seeds=(1, 2, 3), a=BASE, b=[2 * time for time in BASE]))
    for seed, factor in ((2, 4), (3, 8)):
        folder = experiment.path.parent / "runs" / fixture.run_id("cubic", seed)
        for file in sorted(folder.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        write_camps(folder, BASE, [factor * time for time in BASE], "cubic", seed)
    results = Results(experiment)
    tables = columns.tables(results).connections
    gain, = (table for table in tables if table.title.startswith("G, the gain of camp b (congestion control under"))
    loss, = (table for table in tables if table.title.startswith("L, the loss of camp a (reno)"))
    shown_gain, shown_loss = shown(results, Comparisons(results, tables), [gain, loss])
    assert [row.name for row in shown_gain.rows] == ["reno", "cubic"]
    assert float(shown_gain.rows[1].cells[0].mean) == pytest.approx(math.prod((2, 4, 8)) ** (1 / 3), rel=0.01)
    assert shown_loss.rows[1].cells[0].mean == "1.00" and shown_loss.rows[1].cells[0].mark == ""
    assert shown_gain.notes == [f"n = {1}: no verdict below 5 seeds", f"n = {3}: no verdict below 5 seeds"][:1]
    assert "geometric mean" in shown_gain.columns[0][0]
    page = build_report(experiment.path).path.read_text()
    assert "L, the loss of camp a (reno)" in page and "Mean transfer time, camp b" in page


def test_equal_sizes_are_in_the_same_quarter_of_both_camps(tmp_path, values):
    found = values(write_camps(tmp_path / "reno-seed1", BASE, BASE, sizes=[1000] * 8))
    assert [found["transfer_time_mean", f"camp_{camp}/quarter_{quarter}"] for camp in "ab"
            for quarter in (1, 2, 3, 4)] == [1, 2, 3, 6, 1, 2, 3, 6]


def test_camps_with_different_connections_are_an_error(tmp_path, errors, change):
    path = write_camps(tmp_path / "reno-seed1", BASE, BASE)
    change(path, "connections", lambda table: table.assign(
        acc_bytes_asked=table["acc_bytes_asked"] + (table["source"] == 1)))
    assert errors(path)["camps"] == "camp b did not replay the connections of camp a"


def test_a_baseline_with_other_connections_is_noted(tmp_path, change):
    path = write_experiment(tmp_path, a=BASE, b=BASE)
    change(tmp_path / "runs" / fixture.run_id("reno", 1), "connections",
           lambda table: table.assign(acc_bytes_asked=table["acc_bytes_asked"] + 1))
    experiment = Experiment(path)
    assert ratios(experiment, "cubic") == {scope: [] for scope in ratios(experiment, "reno")}
    assert "did not replay the connections of" in experiment.baseline_problems["cubic-seed1"]
    assert "No G and L of cubic-seed1" in build_report(path).path.read_text()


def test_without_a_baseline_there_is_no_gain(tmp_path):
    path = write_experiment(tmp_path, a=BASE, b=BASE)
    described = json.loads((path / "experiment.json").read_text())
    described["runs"] = described["runs"][1:]
    fixture.write_json(path / "experiment.json", described)
    assert ratios(Experiment(path), "cubic") == {}


def test_runs_without_camps(run_dir, values):
    assert not [scope for _, scope in values(run_dir) if scope.startswith("camp_")]

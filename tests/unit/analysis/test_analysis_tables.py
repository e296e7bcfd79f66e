# SPDX-License-Identifier: GPL-2.0-only
"""Tables over an experiment."""

import pandas as pd
import pytest

import fixture
from analysis import style
from analysis.experiment import Experiment
from analysis.tables import Results, column_name, flatten

DOWN = "right_to_left"
FASTER = fixture.Shape(packets=(55, 10))


@pytest.fixture
def experiment(tmp_path):
    return fixture.write_experiment(tmp_path / "e", ccas=["reno", "cubic"],
                                    shapes={"cubic": FASTER},
                                    failed={"cubic-seed3": "no route"},
                                    parameters={"load": {"percent": 60}, "subject": "clash"})


@pytest.fixture
def written(experiment):
    """The tables as pandas reads them, by name."""
    files = Results(Experiment(experiment)).write(experiment / "tables")
    return {file.stem: pd.read_csv(file) for file in files}


def test_summary_has_one_row_per_cca_metric_and_scope(written):
    table = written["summary"]
    row = table[(table["subject"] == "cubic") & (table["metric"] == "throughput_mean")
                & (table["scope"] == DOWN)]
    assert len(row) == 1
    assert row.iloc[0]["mean"] == pytest.approx(66) and row.iloc[0]["n"] == 2
    assert row.iloc[0]["unit"] == "Mbit/s"
    assert row.iloc[0]["ci95_low"] == pytest.approx(66)
    assert table.columns[:3].tolist() == ["scenario", "load.percent", "parameter.subject"]
    assert table["subject"].drop_duplicates().tolist() == ["reno", "cubic"]


def test_single_seed_has_empty_intervals(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1])
    table = Results(Experiment(path)).summary()
    assert (table["n"] == 1).all()
    assert table[["ci95_low", "ci95_high"]].isna().all(axis=None)


def test_runs_lists_failed_runs_with_their_error(written):
    table = written["runs"].set_index("run")
    assert table.loc["cubic-seed3", "status"] == "failed"
    assert table.loc["cubic-seed3", "error"] == "no route"
    assert not table.loc["cubic-seed3", "used_in_means"]
    assert table.loc["reno-seed1", "throughput_mean_right_to_left_mbit_per_s"] == 60
    assert table.loc["reno-seed1", "verdict"] == "valid"


def test_comparison_marks_what_cannot_be_told_apart(written):
    table = written["comparison"].set_index(["metric", "scope"])
    assert table.loc[("throughput_mean", DOWN), "result"] == "different"
    assert table.loc[("throughput_mean", DOWN), "difference"] == pytest.approx(6)
    assert table.loc[("throughput_mean", "left_to_right"), "result"] == "not distinguishable"


def test_comparison_of_single_runs_says_so(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", seeds=[1])
    results = Results(Experiment(path)).comparison()["result"]
    assert results.unique().tolist() == ["no interval (needs two seeds or more)"]


def test_invalid_runs_stay_out_of_means_but_in_runs(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1, 2],
                                    verdicts={"reno-seed2": "invalid"})
    results = Results(Experiment(path))
    assert results.sample(results.experiment.rows[0], "throughput_mean", DOWN) == [60]
    runs = results.runs()
    assert runs["used_in_means"].tolist() == [True, False]
    assert runs["throughput_mean_right_to_left_mbit_per_s"].tolist() == [60, 60]


def test_corrupt_run_becomes_a_problem(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1, 2])
    (path / "runs/reno-seed1/raw/queue.csv.gz").write_bytes(b"\x1f\x8b\x08")
    results = Results(Experiment(path))
    assert "queue.csv.gz" in results.problems["reno-seed1"]
    assert results.sample(results.experiment.rows[0], "throughput_mean", DOWN) == [60]


def test_column_names():
    assert column_name("utilisation", DOWN, "%") == "utilisation_right_to_left_percent"
    assert column_name("connections_failed", "all", "1") == "connections_failed"
    assert flatten({"a": {"b": [1, 2]}, "c": None}) == {"a.b": "1, 2", "c": None}


@pytest.mark.parametrize("mean, half, text", [
    (60.1234, 0.0, ("60.1", "0")), (60.1234, 2.345, ("60.1", "2.3")),
    (1200.4, 35, ("1200", "35")), (0.0529, 0.00435, ("0.0529", "0.0043")),
    (60.1234, 0.00001, ("60.12", "0.00")), (0, 0.5, ("0.00", "0.50"))])
def test_means_have_the_decimals_of_their_spread(mean, half, text):
    assert style.plus_minus(mean, half) == text


@pytest.mark.parametrize("value, text", [(0, "0"), (98.7654, "98.8"), (123456.7, "123457"),
                                         (0.01234, "0.0123")])
def test_numbers(value, text):
    assert style.number(value) == text

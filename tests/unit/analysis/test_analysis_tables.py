# SPDX-License-Identifier: GPL-2.0-only
"""Tables over an experiment."""

import math

import pandas as pd
import pytest

from analysis import metrics, stats
from analysis.compare import run_lists
from analysis.compare.rows import Comparisons
from analysis.drawing import style
from analysis.pages import columns
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.tables import Results, column_name, flatten
from tests.unit.analysis import fixture

DOWN = "right_to_left"
FASTER = fixture.Shape(packets=(55, 10))


@pytest.fixture
def experiment(tmp_path):
    return fixture.write_experiment(tmp_path / "e", ccas=["reno", "cubic"],
                                    shapes={"cubic": FASTER},
                                    failed={"cubic-seed3": "no route"},
                                    parameters={"load": {"percent": 60}, "subject": "clash"})


@pytest.fixture
def written(experiment, monkeypatch):
    """The tables as pandas reads them, by name."""
    fixture.sow(monkeypatch)
    folder = build_report(experiment).path.parent / "tables"
    return {file.stem: pd.read_csv(file) for file in folder.glob("*.csv")}


def compared(path, **options):
    """comparison.csv of an experiment, by metric and scope."""
    results = Results(Experiment(path))
    found = Comparisons(results, columns.tables(results).all(), **options)
    return found.frame().set_index(["metric", "scope"])


def test_summary_has_one_row_per_cca_metric_and_scope(written):
    table = written["summary"]
    row = table[(table["subject"] == "cubic") & (table["metric"] == "throughput_mean")
                & (table["scope"] == DOWN)]
    assert len(row) == 1
    assert row.iloc[0]["mean"] == pytest.approx(66, rel=1e-3) and row.iloc[0]["n"] == 14
    assert row.iloc[0]["unit"] == "Mbit/s"
    assert 0 < row.iloc[0]["mean"] - row.iloc[0]["ci95_low"] < 0.05
    assert table.columns[:5].tolist() == ["scenario", "engine", "kernel", "load.percent", "parameter.subject"]
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


def test_summary_says_how_and_from_what_means_were_taken(written):
    row = written["summary"].query("subject == 'cubic' and metric == 'throughput_mean'").iloc[0]
    assert (row["engine"], row["kernel"], row["seeds"], row["scale"]) == (
        "uml", "6.12.30", " ".join(map(str, range(1, 15))), "arithmetic")


def test_comparison_marks_what_cannot_be_told_apart(written):
    table = written["comparison"].set_index(["metric", "scope"])
    row = table.loc[("throughput_mean", DOWN)]
    assert (row["result"], row["family"]) == ("different", "Bottleneck, right to left")
    assert (row["difference"], row["reference_mean"], row["mean"]) == pytest.approx((6, 60, 66), rel=0.01)
    assert (row["method"], row["n"], row["n_reference"]) == ("paired", 14, 14) and row["p"] < row["p_holm"] < 1e-9
    assert table.loc[("throughput_mean", "left_to_right"), "result"] == "equal within 5 %"
    assert ("offered_load", DOWN) not in table.index


def test_the_user_says_what_is_equal(tmp_path, monkeypatch):
    """66 instead of 60: 10 % more, in every seed."""
    fixture.sow(monkeypatch)
    path = fixture.write_experiment(tmp_path / "e", shapes={"cubic": FASTER})
    assert compared(path).loc[("throughput_mean", DOWN), "result"] == "different"
    found = compared(path, margin=0.11).loc[("throughput_mean", DOWN)]
    assert (found["result"], found["margin_percent"]) == ("different, by less than 11 %", 11)


def test_comparisons_of_a_table_are_decided_together(tmp_path, monkeypatch):
    """Of each comparison the p-value is adjusted by the number of those in its table, and of no other."""
    fixture.sow(monkeypatch, share=0.1)
    noisy = fixture.Shape(noise=0.2, test_s=4)
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno", "cubic", "bbr"], shapes={
        "reno": noisy, "cubic": fixture.Shape(noise=0.2, test_s=4, packets=(55, 10)), "bbr": noisy})
    table = compared(path).reset_index()
    family = table[table["family"] == "Bottleneck, right to left"]
    assert len(family) == 2 * 7                         # two subjects, utilisation is throughput
    tested = family[family["p"].notna()]
    assert (tested["p_holm"] >= tested["p"]).all()
    assert tested["p_holm"].min() == pytest.approx(len(tested) * tested["p"].min())
    assert set(family[family["p"].isna()]["result"]) <= {"none in any run"}
    alone = table[table["family"] == "queue_length_mean"]
    assert len(alone) == 4 and set(alone["scope"]) == {DOWN, "left_to_right"}


def test_seeds_that_differ_are_not_paired(tmp_path):
    noisy = fixture.Shape(noise=0.1, test_s=4)
    path = fixture.write_experiment(tmp_path / "e", seeds=[1, 2, 3, 4], shapes={"reno": noisy, "cubic": noisy},
                                    failed=dict.fromkeys(["reno-seed1", "reno-seed2", "cubic-seed3"], "no route"))
    row = compared(path).loc[("throughput_mean", DOWN)]
    assert (row["method"], row["seeds"], row["n_reference"], row["n"]) == ("Welch", "1 2 4", 2, 3)


@pytest.mark.parametrize("seeds", [1, 4])
def test_comparisons_of_few_runs_say_so(tmp_path, monkeypatch, seeds):
    fixture.sow(monkeypatch, seeds)
    table = compared(fixture.write_experiment(tmp_path / "e", seeds=[1], shapes={"cubic": FASTER}))
    assert set(table["result"]) == {f"n = {seeds}: no verdict below 5 seeds", "none in any run"}
    assert table.loc[("throughput_mean", DOWN), "result"].startswith("n = ") and table["p_holm"].isna().all()
    assert table.loc[("throughput_mean", DOWN), ["ci95_low"]].isna().all() == (seeds == 1)


def test_seeds_that_are_one_run_count_as_one(tmp_path, change):
    """Five runs without anything random: no interval, no verdict, and a line that says why."""
    path = fixture.write_experiment(tmp_path / "e", seeds=range(1, 6), shapes={"cubic": FASTER})
    results = Results(Experiment(path))
    assert {row.subject: [len(names) for names in found] for row, found in results.repeats.items()} == {
        "reno": [5], "cubic": [5]}
    assert results.summary()[["ci95_low", "ci95_high"]].isna().all(axis=None) and set(results.summary()["n"]) == {1}
    assert results.runs().groupby("subject")["used_in_means"].sum().to_dict() == {"reno": 1, "cubic": 1}
    assert set(compared(path)["result"]) == {"n = 1: no verdict below 5 seeds", "none in any run"}
    html = build_report(path).path.read_text()
    assert "reno: seeds 1–5 are one run: all their metrics are the same. They count as one. To vary them, " in html
    assert "(start_within of greedy traffic)" in html and "hosts.jitter" in html
    # one run that is another one counts
    change(path / "runs/reno-seed4", "queue", lambda table: table.assign(sent_bytes=table["sent_bytes"] * 2))
    results = Results(Experiment(path))
    assert results.seeds(results.experiment.rows[0], "throughput_mean", DOWN) == [1, 4]


def test_a_run_whose_demand_cannot_be_read_is_a_problem(tmp_path, change):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1, 2])
    change(path / "runs/reno-seed1", "connections", lambda table: table.assign(init_bytes_asked="many"))
    results = Results(Experiment(path))
    assert "connections.csv.gz" in results.problems["reno-seed1"]
    assert results.seeds(results.experiment.rows[0], "throughput_mean", DOWN) == [2]


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


@pytest.mark.parametrize("value, low, high, texts", [
    (99.96, 99.92, 100.0, ("99.96", "99.92", "100.00")), (10, 10, 10, ("10.0", "10.0", "10.0")),
    (1.31, 1.16, 1.51, ("1.31", "1.16", "1.51")), (0.05, -0.0058, 0.23, ("0.05", "-0.01", "0.23")),
    (-0.0004, -0.016, 0.015, ("0.000", "-0.016", "0.015")),
    (123456.7, 123000, 124000, ("123457", "123000", "124000"))])
def test_a_value_and_its_interval_have_the_same_decimals(value, low, high, texts):
    assert style.with_ends(value, low, high) == texts


@pytest.mark.parametrize("value, text", [(0, "0"), (98.7654, "98.8"), (123456.7, "123457"),
                                         (0.01234, "0.0123")])
def test_numbers(value, text):
    assert style.number(value) == text


def test_metrics_with_margins_of_their_own():
    """Two flows at 1:1.5 have an index of 0.96: 5 % less than 1 would call that fair."""
    fair, less = [1.0, 0.999, 0.9995] * 5, [0.96, 0.961, 0.9595] * 5
    share, own = metrics.margin("jains_index", 0.05)
    found = stats.compare_paired(fair, less, False, share, own)
    assert stats.decide([found])[0].words == "different"
    assert stats.decide([stats.compare_paired(fair, less)])[0].words == "different, by less than 5 %"
    close = stats.compare_paired(fair, [value - 0.004 for value in fair[::-1]], False, share, own)
    assert stats.decide([close])[0].words.endswith(("equal within 0.01", "by less than 0.01"))
    assert close.margin_in_unit == 0.01
    assert metrics.margin("goodput", 0.1) == (0.1, 0.0)


def test_bounds_are_of_units_in_which_there_are_some():
    units = {name: unit for file in metrics.names() for name, unit in metrics.module(file).UNITS.items()}
    bounds = metrics.numbers("MOST")
    assert {name: {"%": 100, "1": 1}[units[name]] for name in bounds} == bounds
    # whatever has Jain's index in its name has its bound
    assert {name for name in units if "jain" in name} <= set(bounds)
    assert metrics.most("jains_index") == 1 and metrics.most("throughput_mean") == math.inf


def test_intervals_of_tables_end_at_the_bound(experiment):
    """Of the same values, one that may be 1 at most, and one without a bound."""
    results, values = Results(Experiment(experiment)), [0.9995, 0.98, 0.999, 0.9999, 0.998]
    assert results.summarise("jains_index", values).high == 1 < results.summarise("mean_srtt_l4", values).high
    found = run_lists.compare(dict(enumerate(values)), dict(enumerate([0.989] * 4 + [0.99])), most=1.0)
    without = run_lists.compare(dict(enumerate(values)), dict(enumerate([0.989] * 4 + [0.99])))
    assert found.low == without.low and found.high > without.high


def test_a_value_beyond_the_bound_is_the_bound(experiment):
    """Utilisation of a link that is full, but for one seed: a packet at the edge is beyond 100 %."""
    results, values = Results(Experiment(experiment)), [100.0012, 100.0012, 99.99, 98, 100.0008]
    found, within = (results.summarise("utilisation", sample) for sample in (values, [min(100, one) for one in values]))
    assert found.high == 100.0012 and within.high == 100
    assert found.low == pytest.approx(within.low, rel=1e-4)


@pytest.mark.parametrize("what", ["MARGINS", "MOST"])
@pytest.mark.parametrize("numbers, says", [
    (5, "a mapping such as"), ({"jains_index": "x"}, "'x' of jains_index; a number above 0 expected"),
    ({"jains_index": 0}, "a number above 0"), ({"jane": 0.01}, "jane is not among the UNITS of its file")])
def test_numbers_that_make_no_sense_are_the_files_error(run_dir, errors, monkeypatch, what, numbers, says):
    monkeypatch.setattr(metrics.module("flows"), what, numbers)
    assert says in errors(run_dir)["flows"]
    metrics.numbers.cache_clear()
    assert "jains_index" not in metrics.numbers(what)
    metrics.numbers.cache_clear()

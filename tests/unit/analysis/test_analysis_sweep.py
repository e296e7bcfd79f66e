# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: rows are subjects at points, compared at equal points, drawn against what varies."""

import json
import re

import pandas as pd
import pytest

from analysis.figures import draw_all, sweep
from analysis.pages import columns
from analysis.pages.report import build_report
from analysis.pages.report_tables import spans
from analysis.read import tcp
from analysis.read.experiment import Experiment
from analysis.read.tables import Results
from tests.unit.analysis import fixture
from traffic.workload.records import Flow

DOWN = "right_to_left"
LIMIT, KIND = "topology.central.queue.limit", "topology.central.queue.kind"
QUICK = fixture.Shape(test_s=4, interval_us=50_000, packets=(80, 50), tcp_info_rows=200)


def shape(mbps):
    """A link that carries this."""
    return fixture.Shape(test_s=4, packets=(mbps * 10 // 12, 10), tcp_info_rows=200)


@pytest.fixture
def experiment(tmp_path):
    """Two subjects at limits 85, 170 and 1000, two seeds; cubic is faster at 170 only."""
    shapes = {(subject, value): shape(60) for subject in ("reno", "cubic") for value in ("85", "170", "1000")}
    shapes["cubic", "170"] = shape(72)
    return fixture.write_experiment(tmp_path / "e", ["reno", "cubic"], [1, 2], shapes=shapes,
                                    points=[{LIMIT: value} for value in ("85", "170", "1000")])


def test_rows_are_points_and_subjects(experiment):
    loaded = Experiment(experiment)
    assert [row.label for row in loaded.rows] == [
        "reno limit=85", "cubic limit=85", "reno limit=170", "cubic limit=170", "reno limit=1000", "cubic limit=1000"]
    assert [loaded.reference(row).label for row in loaded.rows[2:4]] == ["reno limit=170", "reno limit=170"]
    axis, = loaded.axes
    assert (axis.short, axis.numbers, axis.unit) == ("limit", [85, 170, 1000], "packets")


def test_tables_have_a_column_for_each_axis(experiment, monkeypatch):
    fixture.sow(monkeypatch)
    folder = build_report(experiment).path.parent / "tables"
    tables = {file.stem: pd.read_csv(file) for file in folder.glob("*.csv")}
    for table in tables.values():
        assert table[LIMIT].drop_duplicates().tolist() == [85, 170, 1000]
    row = tables["summary"].set_index([LIMIT, "subject", "metric", "scope"]).loc[(170, "cubic", "throughput_mean",
                                                                                  DOWN)]
    assert row["mean"] == pytest.approx(72, rel=1e-3) and row["n"] == 14
    compared = tables["comparison"].set_index([LIMIT, "metric", "scope"])["result"]
    assert compared[85, "throughput_mean", DOWN] == "equal within 5 %"
    assert compared[170, "throughput_mean", DOWN] == "different"
    assert tables["runs"]["run"].iloc[0] == "reno-limit85-seed1" and len(tables["runs"]) == 12


def test_an_axis_takes_the_place_of_its_parameter(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], parameters={"load": "60", "buffer": "long"},
                                    shapes={"reno": QUICK},
                                    points=[{"load": "60"}, {"load": "85"}])
    table = Results(Experiment(path)).summary()
    assert table["load"].drop_duplicates().tolist() == ["60", "85"] and set(table["buffer"]) == {"long"}
    assert "parameter.load" not in table


def test_an_axis_that_is_called_like_a_column(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], points=[{"seed": "a"}, {"seed": "b"}],
                                    shapes={"reno": QUICK})
    results = Results(Experiment(path))
    assert results.runs()["seed"].tolist() == [1, 1] and results.runs()["axis.seed"].tolist() == ["a", "b"]
    assert results.summary()["axis.seed"].drop_duplicates().tolist() == ["a", "b"]


def test_figure_against_an_axis(experiment, tmp_path):
    figures = sweep.draw(Experiment(experiment), tmp_path)
    assert [figure.name for figure in figures] == ["sweep"] and LIMIT in figures[0].caption
    data = pd.read_csv(tmp_path / "sweep.csv")
    key = f"throughput_mean {DOWN} cubic"
    assert data[f"{key} x"].tolist() == [85, 170, 1000]
    assert data[f"{key} mean"].tolist() == pytest.approx([60, 72, 60])
    assert {"reno", "cubic", "limit (packets)",
            "drop rate (%)"} <= set(re.findall(r"(?<=>)[^<>]+(?=<)", (tmp_path / "sweep.svg").read_text()))


def test_two_axes_and_long_flows(tmp_path):
    """Rates with units on x, in the unit of the first; queues as panels."""
    points = [{KIND: kind, "rate": rate} for kind in ("pfifo", "codel")
              for rate in ("500 kbit/s", "1 Mbit/s", "2 Mbit/s")]
    path = fixture.write_experiment(tmp_path / "e", ["reno", "bbr"], [1], tmix=False, points=points,
                                    shapes={"reno": QUICK, "bbr": QUICK}, flows=[fixture.flow(1, 10_000, "reno")])
    figures = sweep.draw(Experiment(path), tmp_path)
    assert [figure.name for figure in figures] == ["sweep", "sweep_flows"]
    data = pd.read_csv(tmp_path / "sweep_flows.csv")
    assert data["mean_throughput_l4 flow_1 pfifo reno x"].tolist() == [500, 1000, 2000]
    assert "rate (kbit/s)" in (tmp_path / "sweep_flows.svg").read_text()
    assert "kind=codel" in (tmp_path / "sweep.svg").read_text()
    assert "for each kind" in figures[0].caption


@pytest.mark.parametrize("values, unit, numbers", [
    (["85", "1e3"], "", [85, 1000]), (["10 ms", "1 s"], "ms", [10, 1000]), (["60 %", "85 %"], "%", [60, 85]),
    (["short", "long"], "", None), (["10 ms", "1 MB"], "", None), (["10", "10 ms"], "", None), (["nan", "1"], "", None),
    (["inf", "1"], "", None), (["1" + "0" * 400 + " s", "1 s"], "", None)])
def test_axes_of_numbers(values, unit, numbers):
    from analysis.read.experiment import axis_of
    axis = axis_of("key", "key", values)
    assert (axis.numbers, axis.unit) == (pytest.approx(numbers) if numbers else None, unit)


def test_numbers_without_a_unit_have_that_of_the_choice(experiment, tmp_path):
    import json
    path = experiment / "experiment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"units": {LIMIT: "BDP"}}))
    loaded = Experiment(experiment)
    axis, = loaded.axes
    assert (axis.unit, axis.label, axis.head, axis.with_unit("85")) == ("BDP", "limit (BDP)", "limit (BDP)", "85 BDP")
    assert "limit (BDP)" in build_report(experiment).path.read_text()


def test_values_with_a_unit_have_no_other():
    from analysis.read.experiment import axis_of
    axis = axis_of("limit", "limit", ["10 kB", "1 MB"], unit="BDP")
    assert (axis.label, axis.head, axis.with_unit("1 MB")) == ("limit (kB)", "limit", "1 MB")


def test_values_that_are_names_stand_side_by_side_and_no_line_joins_them(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], points=[{KIND: "pfifo"}, {KIND: "codel"}],
                                    shapes={"reno": QUICK})
    assert [figure.name for figure in sweep.draw(Experiment(path), tmp_path)] == ["sweep"]
    assert pd.read_csv(tmp_path / "sweep.csv")[f"throughput_mean {DOWN} reno x"].tolist() == [0, 1]
    script = (tmp_path / "sweep.gp").read_text()
    assert "set xtics ('pfifo' 0, 'codel' 1)" in script and "linespoints" not in script
    assert {"pfifo", "codel"} <= set(re.findall(r"(?<=>)[^<>]+(?=<)", (tmp_path / "sweep.svg").read_text()))


@pytest.mark.parametrize("limits, logarithmic", [(("1", "10", "1000", "10000"), True), (("1", "4000", "8000"), False)])
def test_an_axis_is_logarithmic_where_its_values_are_spread_so(tmp_path, limits, logarithmic):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], points=[{LIMIT: limit} for limit in limits],
                                    shapes={"reno": QUICK})
    sweep.draw(Experiment(path), tmp_path)
    assert ("    set logscale x" in (tmp_path / "sweep.gp").read_text()) == logarithmic


def test_a_flow_has_the_round_trip_time_that_all_points_have(tmp_path, monkeypatch):
    """It is not named where it differs."""
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], points=[{LIMIT: "10"}, {LIMIT: "20"}],
                                    shapes={"reno": QUICK}, flows=[fixture.flow(1, 10_000, "reno")])
    assert columns._flow_labels(Experiment(path)) == {1: ", 8 ms"}
    monkeypatch.setattr(tcp, "listed_flows", lambda run: [
        Flow(fixture.flow(1, 10_000, "reno", base_rtt_us=8000 if "limit10" in run.name else 40_000))])
    assert columns._flow_labels(Experiment(path)) == {}


def test_figures_of_single_rows_show_the_first_points_and_say_so(tmp_path):
    points = [{LIMIT: str(limit)} for limit in range(10, 16)]
    path = fixture.write_experiment(tmp_path / "e", ["reno", "cubic"], [1], points=points,
                                    shapes={"reno": QUICK, "cubic": QUICK})
    loaded = Experiment(path)
    assert [row.point for row in loaded.drawn[::2]] == [("10",), ("11",), ("12",), ("13",)]
    figures, errors = draw_all(loaded, tmp_path / "figures")
    assert not errors and [figure.name for figure in figures[:2]] == ["delay_throughput", "sweep"]
    for figure in figures[2:]:
        assert "Of the 6 points of the sweep only the first 4: limit=10; limit=11; limit=12; limit=13." \
            in figure.caption
    assert "cubic limit=13" in (tmp_path / "figures" / "throughput.svg").read_text()
    looks = loaded.looks(loaded.drawn)
    assert looks["reno limit=10"].colour == looks["reno limit=13"].colour != looks["cubic limit=10"].colour
    assert len(set(looks.values())) == len(looks)


def test_report_shows_points_once_and_folds_long_tables(experiment):
    html = build_report(experiment).path.read_text()
    assert len(re.findall('<th class="name" rowspan="2"[^>]*>170</th>', html)) >= 2
    assert "3 points of a sweep over topology.central.queue.limit (85, 170, 1000)" in html
    assert "<details><summary>Bottleneck, right to left: 6 rows" not in html
    content = json.loads((experiment / "experiment.json").read_text())
    first, other = content["runs"][0], content["runs"][1:]
    missing = [{**first, "id": f"{number:016x}", "name": f"n{number}", "point": {LIMIT: str(number)}}
               for number in range(2000, 2100)]
    fixture.write_json(experiment / "experiment.json", {**content, "runs": [first, *other, *missing], "axes": {}})
    html = build_report(experiment).path.read_text()
    assert "<details><summary>Bottleneck, right to left: 6 rows" in html and "100 runs missing" in html
    assert "and 80 more" in html


def test_spans():
    points = [("a", "1"), ("a", "1"), ("a", "2"), ("b", "2")]
    assert spans(points) == [[("a", 3), ("1", 2)], [("a", 0), ("1", 0)], [("a", 0), ("2", 1)], [("b", 1), ("2", 1)]]

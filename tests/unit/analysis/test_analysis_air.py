# SPDX-License-Identifier: GPL-2.0-only
"""Metrics, tables and figures of networks with radios, which may have no wires at all."""
import re

import pandas as pd
import pytest

from analysis.figures import bands, one_at_a_time
from analysis.flows import quarters
from analysis.metrics import air, compute_metrics, connected as metric_connected, journey
from analysis.pages import report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Run
from tests.unit.analysis import air_runs, fixture


def metrics(of, path):
    return {(metric.metric, metric.scope): metric.value for metric in of.compute(Run(path))}


def test_radios(tmp_path):
    """From 2 to 6 s."""
    found = metrics(air, air_runs.write(tmp_path / "run"))
    assert found == {
        ("air_busy", "air"): pytest.approx(50), ("queue_drops_above_air", "all"): 14,
        **{(name, scope): pytest.approx(value) for scope in ("all", "n4", "n1") for name, value in (
            ("attempts_per_frame", 1.25), ("retry_share", 20), ("frame_loss", 4), ("frames_given_up", 5),
            ("frames_without_access", 0), ("garbled_share", 10))},
        **{(name, scope): pytest.approx(value) for name, values in (
            ("airtime", (60, 30, 30)), ("air_queue_mean", (8, 5, 3)), ("air_queue_max", (8, 5, 3)))
           for scope, value in zip(("all", "n4", "n1"), values)}}


@pytest.mark.parametrize("spoil, message", [
    (lambda table: table[table["t_us"] > 2_500_000], "do not cover"),
    (lambda table: table.assign(attempts=table["attempts"].where(table["t_us"] < 3_000_000, 0)),
     "attempts of the air")])
def test_counters_that_fall_or_begin_too_late_are_told(tmp_path, spoil, message):
    path = air_runs.write(tmp_path / "run")
    fixture.save(path / "raw/air.csv.gz", spoil(pd.read_csv(path / "raw/air.csv.gz")))
    with pytest.raises(AnalysisError, match=message):
        air.compute(Run(path))


def test_a_run_without_radios_has_none(tmp_path):
    assert air.compute(Run(fixture.write_run(tmp_path / "run"))) == []


@pytest.mark.parametrize("ccas, connected", [([{"reno": 1}, {}], 1), ([{"reno": 1}, {"reno": 1}], 2), ([{}, None], 0),
                                             ([{"reno": 1}], None)])
def test_flows_that_were_ever_connected(tmp_path, ccas, connected):
    """A sender that nobody knows of says nothing about the others."""
    path = air_runs.write(tmp_path / "run", [fixture.flow(number, 10_000, "reno", hops=[], hops_back=[])
                                             for number in (1, 2)])
    fixture.write_json(path / "raw/guest.json", {"accounts": [{"node": "n4", "ends": [
        {"flow": number, "end": "sender", **({} if one is None else {"ccas": one})}
        for number, one in enumerate(ccas, 1)]}, {"node": "n1"}]})
    fixture.seal(path)
    found = metrics(metric_connected, path)
    assert found == ({} if connected is None else {("flows_connected", "all"): connected,
                                                   ("flows_connected_share", "all"): 50 * connected})


def test_packets_that_were_followed(tmp_path):
    """Three in four arrive, 150 of 1040 bytes a second."""
    found = metrics(journey, air_runs.write(tmp_path / "run"))
    assert found == {("delivery_ratio", "all"): 75, ("drop_ratio", "all"): 25, ("end_to_end_delay_mean", "all"): 8,
                     ("arrived_rate_l3", "all"): pytest.approx(150 * 1040 * 8 / 1e6)}


def test_without_the_probe_links_do_not_tell_what_radios_lose(tmp_path):
    path = air_runs.write(tmp_path / "run")
    (path / "raw/journeys.csv.gz").unlink()
    assert metrics(journey, path) == {}


def test_when_nothing_arrives_there_is_no_delay(tmp_path):
    path = air_runs.write(tmp_path / "run")
    table = pd.read_csv(path / "raw/journeys.csv.gz").assign(arrived_packets=0, arrived_bytes=0, mean_us=None)
    fixture.save(path / "raw/journeys.csv.gz", table)
    assert metrics(journey, path) == {("delivery_ratio", "all"): 0, ("drop_ratio", "all"): 100,
                                      ("arrived_rate_l3", "all"): 0}


def test_no_metric_fails_where_there_are_no_links(tmp_path):
    found, errors = compute_metrics(Run(air_runs.write(tmp_path / "run")))
    assert errors == [] and {"goodput", "delivery_ratio", "airtime"} <= {metric.metric for metric in found}


def experiment(folder):
    points = [{"nodes": "20", "flows": "30"}, {"nodes": "40", "flows": "30"}, {"nodes": "20", "flows": "10"}]
    path = fixture.write_experiment(folder / "e", ["libra", "bic"], [1, 2], tmix=False, points=points,
                                    flows=[fixture.flow(1, 10_000, "reno", hops=[], hops_back=[])],
                                    shapes={"libra": air_runs.SHAPE, "bic": air_runs.SHAPE})
    for run in (folder / "runs").iterdir():
        air_runs.to_air(run)
    return path


def test_figures_of_axes_and_of_time(tmp_path):
    path = experiment(tmp_path)
    names = {figure.name for figure in one_at_a_time.draw(Experiment(path), tmp_path)}
    table = pd.read_csv(tmp_path / "sweep_nodes.csv")
    assert names == {"sweep_nodes", "sweep_flows"}
    assert table["arrived_rate_l3 bic mean"].tolist() == pytest.approx([1.248, 1.248])
    assert table["goodput libra mean"].notna().all()
    assert table["air_busy libra mean"].tolist() == pytest.approx([50, 50])
    figure, = bands.draw(Experiment(path), tmp_path)
    data = pd.read_csv(tmp_path / "air_bands.csv")
    assert figure.name == "air_bands" and "0.1 s" in figure.caption and len(data) == 60
    for quantity, value in (("channel busy (%)", 50), ("frames waiting all stations", 8)):
        column, = (name for name in data if name.startswith(f"{quantity} libra") and "nodes=20 flows=30" in name
                   and name.endswith("mean"))
        assert data[column].tolist() == pytest.approx([value] * 60)
    assert quarters.GROUP_BIN_US == 100_000


def test_of_one_run_there_is_a_line_in_each_panel(tmp_path):
    """Columns of the data are called as the plot commands call them."""
    path = fixture.write_experiment(tmp_path / "e", ["libra"], [1], tmix=False, shapes={"libra": air_runs.SHAPE},
                                    flows=[fixture.flow(1, 10_000, "reno", hops=[], hops_back=[])])
    air_runs.to_air(next((tmp_path / "runs").iterdir()))
    bands.draw(Experiment(path), tmp_path)
    wanted = re.findall(r"using 'time_s':'([^']+)'", (tmp_path / "air_bands.gp").read_text())
    assert len(wanted) == 3 and set(wanted) <= set(pd.read_csv(tmp_path / "air_bands.csv").columns)


def test_the_report_has_a_table_of_radios_and_one_of_packets(tmp_path):
    page = report.build_report(experiment(tmp_path)).path.read_text()
    assert "could not be drawn" not in page
    for words in ("From host to host", "Radios, all stations", "Radios, n4", "attempts per frame", "air busy"):
        assert words in page

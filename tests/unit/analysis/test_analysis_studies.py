# SPDX-License-Identifier: GPL-2.0-only
"""What studies print: short bins with bands, one axis at a time, FlowMonitor's numbers, shares of whole runs."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from analysis.figures import bands, one_at_a_time, sweep
from analysis.flows import quarters
from analysis.metrics import journey, loss_laws, quarters as short_bins, shares
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from tests.unit.analysis import fixture

DOWN = "right_to_left"
SHAPE = fixture.Shape(test_s=4, tcp_info_rows=2400)     # samples every 50 ms
UDP = {**fixture.flow(2, None, "", transport="udp", sender="n5"), "variant": None, "cca": None}
ALONE = [fixture.flow(1, 10_000, "reno"), UDP]


def metrics(of, path):
    return {(metric.metric, metric.scope): metric.value for metric in of.compute(Run(path))}


# -- bins of 0.25 s ----------------------------------------------------------------------------

def test_a_steady_flow_does_not_vary(tmp_path):
    """1 Mbit/s all the time; a drop in every tenth sample of 10 ms, 50 packets each: 2.5 in 1252.5 of 0.25 s."""
    found = metrics(short_bins, fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=ALONE))
    assert found["throughput_cov_250ms", "flow_1"] == pytest.approx(0, abs=1e-6)
    assert found["drop_rate_max_250ms", DOWN] == pytest.approx(100 * 3 / 1253, rel=0.01)


def test_where_nobody_cuts_packets_drops_are_no_share_of_segments(tmp_path):
    path = fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=ALONE)
    described = json.loads((path / "raw" / "network.json").read_text())
    for link in described["links"]:
        link["uncut"] = True
    fixture.write_json(path / "raw" / "network.json", described)
    assert set(metrics(short_bins, path)) == {("throughput_cov_250ms", "flow_1")}


def test_a_flow_that_stops_now_and_then_varies(tmp_path):
    """Nothing in every other quarter of a second, twice as much in those between."""
    path = fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=ALONE)
    samples = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
    half, rest = np.divmod(samples["t_us"], 500_000)
    samples["bytes_acked"] = np.where(samples["node"] == "n4", (half * 500_000 + np.minimum(2 * rest, 500_000)) // 8, 0)
    fixture.save(path / "raw" / "tcp_info.csv.gz", samples)
    assert metrics(short_bins, path)["throughput_cov_250ms", "flow_1"] == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("changes", [
    {"flows": [fixture.flow(1, 10_000, "reno")]}, {"shape": fixture.Shape(test_s=59, tcp_info_rows=2400)},
    {"shape": fixture.Shape(test_s=4, tcp_info_rows=200)},
    {"flows": [*(fixture.flow(number, 9_999 + number, "reno") for number in (1, 3, 4)), UDP]}])
def test_runs_of_another_kind_have_none(tmp_path, changes):
    """Without UDP, longer than a minute, sampled every 0.6 s, three flows."""
    assert metrics(short_bins, fixture.write_run(tmp_path / "run", **{"shape": SHAPE, "tmix": False, "flows": ALONE,
                                                                      **changes})) == {}


def test_bands_over_seeds(tmp_path):
    """A column for each subject, a line for each queue; warm-up is drawn, too."""
    path = fixture.write_experiment(tmp_path / "e", ["reno", "cubic"], [1, 2], tmix=False, flows=ALONE,
                                    shapes={"reno": SHAPE, "cubic": SHAPE},
                                    points=[{"queue": "droptail"}, {"queue": "red"}])
    figure, = bands.draw(Experiment(path), tmp_path / "figures")
    assert figure.name == "bands" and "2 seeds" in figure.caption
    data = pd.read_csv(tmp_path / "figures" / "bands.csv")
    assert data["time_s"].tolist() == pytest.approx([0.125 + 0.25 * number for number in range(24)])
    line = data["throughput (Mbit/s) cubic queue=red mean"].iloc[1:-1]
    assert line.tolist() == pytest.approx([1] * len(line), rel=1e-3)
    assert {"round-trip time (ms) reno queue=droptail low", "link drops (%) reno queue=red high"} <= set(
        data.columns)
    assert "queue=droptail" in (tmp_path / "figures" / "bands.svg").read_text()


def test_goodput_of_two_variants(tmp_path):
    flows = [fixture.flow(number, 9_999 + number, "libra" if number % 2 else "bic") for number in range(1, 5)]
    path = fixture.write_experiment(tmp_path / "e", ["libra+bic"], [1, 2], tmix=False, flows=flows,
                                    shapes={"libra+bic": SHAPE})
    figure, = bands.draw(Experiment(path), tmp_path / "figures")
    assert figure.name == "goodput_bands" and "0.1 s" in figure.caption
    data = pd.read_csv(tmp_path / "figures" / "goodput_bands.csv")
    assert len(data) == 60
    for variant in ("libra", "bic"):
        assert data[f"goodput all flows (Mbit/s) {variant} mean"].iloc[5:-5].tolist() == pytest.approx([2] * 50)


def test_the_interval_of_a_bin_is_student_s():
    """Of 1, 2 and 3 the mean is 2, and half of the interval 4.303 / sqrt(3)."""
    table = bands._band([np.array([1.0, np.nan]), np.array([2.0, np.nan]), np.array([3.0, 5.0])])
    assert table["mean"].tolist() == [2, 5] and table["high"].iloc[0] - 2 == pytest.approx(4.3027 / 3 ** 0.5, rel=1e-4)
    assert np.isnan(table["low"].iloc[1])


def test_samples_must_be_twice_as_dense_as_bins(tmp_path):
    run = Run(fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=ALONE))
    assert quarters.flows(run, quarters.edges(run, 99_000)) == {}
    assert list(quarters.flows(run, quarters.edges(run, 100_000))) == [1]


# -- one axis at a time ------------------------------------------------------------------------

def star(folder, points, **changes):
    return fixture.write_experiment(folder / "e", ["libra"], [1, 2], tmix=False, points=points,
                                    **{"shapes": {"libra": SHAPE}, **changes})


def test_each_axis_has_a_figure_of_its_own(tmp_path):
    """20 nodes and 30 flows are the centre; a point off two axes at once makes it a sweep like any other."""
    points = [{"nodes": "20", "flows": "30"}, {"nodes": "40", "flows": "30"}, {"nodes": "20", "flows": "10"}]
    experiment = Experiment(star(tmp_path, points))
    assert experiment.centre == ("20", "30") and sweep.draw(experiment, tmp_path) == []
    figures = one_at_a_time.draw(experiment, tmp_path)
    assert [figure.name for figure in figures] == ["sweep_nodes", "sweep_flows"] and "flows=30" in figures[0].caption
    assert pd.read_csv(tmp_path / "sweep_nodes.csv")["throughput_mean libra x"].tolist() == [20, 40]
    assert pd.read_csv(tmp_path / "sweep_flows.csv")["throughput_mean libra x"].tolist() == [10, 30]
    assert "Jain's index" in (tmp_path / "sweep_flows.svg").read_text().replace("&#39;", "'").replace("&apos;", "'")


def test_of_names_points_stand_side_by_side_with_bars(tmp_path):
    points = [{"nodes": "20", "last": "wire"}, {"nodes": "40", "last": "wire"}, {"nodes": "20", "last": "air"},
              {"nodes": "20", "last": "a-rather-long-name-of-a-link"}]
    path = fixture.write_experiment(tmp_path / "e", ["libra", "bic"], [1, 2], tmix=False, points=points,
                                    shapes={"libra": SHAPE, "bic": SHAPE})
    figures = one_at_a_time.draw(Experiment(path), tmp_path)
    assert [figure.name for figure in figures] == ["sweep_nodes", "sweep_last"]
    assert "bars their 95 %" in figures[1].caption and "nodes=20" in figures[1].caption
    assert pd.read_csv(tmp_path / "sweep_last.csv")["throughput_mean bic x"].tolist() == [0, 1, 2]
    script = (tmp_path / "sweep_last.gp").read_text()
    assert "'wire' 0, 'air' 1, " in script and "linespoints" not in script and "filledcurves" not in script
    assert "linespoints" in (tmp_path / "sweep_nodes.gp").read_text()
    assert {"wire", "air", "a-rather-long-name-of-a-link", "last"} <= set(re.findall(
        r"(?<=>)[^<>]+(?=<)", (tmp_path / "sweep_last.svg").read_text()))


@pytest.mark.parametrize("points", [
    [{"nodes": "20", "flows": "30"}, {"nodes": "40", "flows": "30"}],
    [{"nodes": nodes, "flows": flows} for nodes in ("20", "40") for flows in ("10", "30")]])
def test_a_line_and_a_grid_have_no_centre(tmp_path, points):
    experiment = Experiment(star(tmp_path, points))
    assert experiment.centre is None and one_at_a_time.draw(experiment, tmp_path) == []
    assert sweep.draw(experiment, tmp_path)


# -- FlowMonitor's numbers -----------------------------------------------------------------------

LINKS = [{"name": name, "delay_us": delay_us, "rate_bps": rate_bps, "bottleneck": name == DOWN, "from": "a", "to": "b",
          "direction": ""} for name, delay_us, rate_bps in (
              ("n4_to_r2", 0, 10**9), (DOWN, 2000, 10**8), ("r1_to_n1", 1000, 10**9), ("left_to_right", 0, 10**8))]
COUNTERS = {"n4_to_r2": (990, 10, 990), DOWN: (940, 50, 940), "r1_to_n1": (940, 0, 940), "left_to_right": (400, 0, 400)}


def network(folder, **changes):
    """Flows of one path: 1000 packets, of which 940 arrive; 20 ms in the queue."""
    flow = fixture.flow(1, 10_000, "reno", hops=["n4_to_r2", DOWN, "r1_to_n1"], hops_back=["left_to_right"])
    path = fixture.write_run(folder / "run", shape=SHAPE, tmix=False, flows=[{**flow, **changes}])
    described = json.loads((path / "raw" / "network.json").read_text())
    fixture.write_json(path / "raw" / "network.json", {**described, "links": LINKS})
    fixture.write_json(path / "raw" / "counters.json", {"drained": {
        name: {"sent_packets": sent, "dropped_packets": dropped, "wire_dropped_packets": 0,
               "wire_delivered_packets": delivered}
        for name, (sent, dropped, delivered) in COUNTERS.items()}})
    return path


def test_what_becomes_of_packets(tmp_path):
    found = metrics(journey, network(tmp_path))
    assert found["delivery_ratio", "all"] == pytest.approx(94) and found["drop_ratio", "all"] == pytest.approx(6)
    # 3 ms, 12.112 us twice at 1 Gbit/s, 121.12 us at 100 Mbit/s, 20 ms in the queue
    assert found["end_to_end_delay_mean", "all"] == pytest.approx(23 + 0.121_12 + 2 * 0.012_112)


def test_a_packet_takes_no_time_on_the_wire_behind_a_shaper(tmp_path):
    path = network(tmp_path)
    described = json.loads((path / "raw" / "network.json").read_text())
    next(link for link in described["links"] if link["name"] == DOWN)["shaper"] = True
    fixture.write_json(path / "raw" / "network.json", described)
    assert metrics(journey, path)["end_to_end_delay_mean", "all"] == pytest.approx(23 + 2 * 0.012_112)


@pytest.mark.parametrize("changes", [{"both_ways": True}, {"transport": "udp"}, {"hops_back": ["n4_to_r2"]},
                                     {"hops": ["elsewhere", DOWN]}])
def test_networks_of_which_it_is_not_known(tmp_path, changes):
    assert metrics(journey, network(tmp_path, **changes)) == {}


# -- shares ----------------------------------------------------------------------------------------

def test_jains_index_by_hand():
    assert shares.index([1, 1, 1, 1]) == 1 and shares.index([4, 0, 0, 0]) == 0.25
    assert shares.index([1, 3]) == pytest.approx(16 / 20)


def test_shares_of_each_variant(tmp_path):
    """Flow 3 gets nothing: two of three Libra flows share, BIC's two are alike."""
    flows = [fixture.flow(number, 9_999 + number, "libra" if number % 2 else "bic") for number in range(1, 6)]
    flows[2]["sport"] = 4
    found = metrics(shares, fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=flows))
    assert found == {("jains_index_whole", "all"): pytest.approx(4 / 5),
                     ("jains_index_whole", "cca_bic"): pytest.approx(1),
                     ("jains_index_whole", "cca_libra"): pytest.approx(2 / 3),
                     ("share_of_goodput", "cca_bic"): pytest.approx(50),
                     ("share_of_goodput", "cca_libra"): pytest.approx(50)}


@pytest.mark.parametrize("change", [{"start_us": 3_000_000}, {"stop_us": 3_000_000}])
def test_flows_that_come_or_go_have_no_shares_of_the_whole(tmp_path, change):
    flows = [fixture.flow(1, 10_000, "reno"), fixture.flow(2, 10_001, "reno", **change)]
    assert metrics(shares, fixture.write_run(tmp_path / "run", shape=SHAPE, tmix=False, flows=flows)) == {}


# -- laws of loss ----------------------------------------------------------------------------------

def test_the_laws_by_hand():
    """At 1.5 % and 100 ms Mathis has 100 segments a second; PFTK with a timeout of 1 s:
    1 / (0.01 + 0.225 x 0.015 x 1.0072) = 74.6."""
    assert loss_laws.mathis(0.015, 0.1) == pytest.approx(100)
    assert loss_laws.pftk(0.015, 0.1, 1.0) == pytest.approx(1 / (0.01 + 0.225 * 0.015 * 1.0072))
    assert loss_laws.pftk(0.9, 0.1, 1.0) == pytest.approx(1 / (0.1 * 0.6 ** 0.5 + 0.9 * (1 + 32 * 0.81)))


def test_a_flow_against_the_laws(tmp_path):
    """1 Mbit/s with 6 % lost, segments of 1448 bytes, 30 ms, timeouts of 204 ms. More is lost before that."""
    path = network(tmp_path)
    counters = json.loads((path / "raw" / "counters.json").read_text())["drained"]
    before = {name: {**link, "dropped_packets": 500 * bool(link["dropped_packets"])} for name, link in counters.items()}
    after = {name: {key: value + before[name][key] for key, value in link.items()} for name, link in counters.items()}
    fixture.write_json(path / "raw" / "counters.json", {"measure_from": before, "at_end": after, "drained": after})
    found = metrics(loss_laws, path)
    rate = 1e6 / 8 / 1448
    assert found["throughput_over_mathis", "flow_1"] == pytest.approx(rate / loss_laws.mathis(0.06, 0.03), rel=1e-3)
    assert found["throughput_over_pftk", "flow_1"] == pytest.approx(rate / loss_laws.pftk(0.06, 0.03, 0.204), rel=1e-3)


def test_without_losses_there_is_no_law(tmp_path):
    path = network(tmp_path)
    counters = json.loads((path / "raw" / "counters.json").read_text())["drained"]
    fixture.write_json(path / "raw" / "counters.json", {"drained": {
        name: {**link, "dropped_packets": 0} for name, link in counters.items()}})
    assert metrics(loss_laws, path) == {}

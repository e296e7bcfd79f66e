# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of flows by layers, of a run of constant rates; their table and figures."""
import json
import math

import pandas as pd
import pytest

from analysis.figures import draw_all
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from tests.unit.analysis import fixture

DOWN, BIN = "right_to_left", "bin_20_ms"
FAST = fixture.Shape(tcp_info_rows=12_000)          # a sample every 20 ms
AHEAD_BYTES = 15_000
# 2500 bytes of a sample are 1.727 segments: two of them, at 10 ms each, in 727 of 1000 samples, else one
IDT_MS = 0.727 * 10 + 0.273 * 20


def two_flows():
    return [{**fixture.flow(number, 9_999 + number, "reno"), "hops": [DOWN], "start_us": 0} for number in (1, 2)]


def with_buffers(path, in_flight=10):
    """10 segments in flight; the application reads 15,000 bytes behind what the other has written."""
    sockets = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
    fixture.save(path / "raw" / "socket_buffers.csv.gz", sockets.assign(
        in_flight=in_flight, bytes_written=sockets["bytes_sent"] + AHEAD_BYTES, bytes_read=sockets["bytes_received"],
        timeouts=2)[["t_us", "node", "src", "sport", "dst", "dport", "in_flight", "bytes_written", "bytes_read",
                     "timeouts"]])
    record = json.loads((path / "raw" / "guest.json").read_text())
    record["accounts"] = [{"node": "n4"}, {"node": "n1", "delivered_us": {"1": 12_000_000}}]
    (path / "raw" / "guest.json").write_text(json.dumps(record))
    fixture.seal(path)
    return path


@pytest.fixture
def found(tmp_path, values):
    """{(metric, scope): value} of two flows of 1 Mbit/s each over 100 Mbit/s with 8 ms, sRTT 30 ms."""
    return values(with_buffers(fixture.write_run(tmp_path / "reno-seed1", shape=FAST, tmix=False, flows=two_flows())))


@pytest.mark.parametrize("metric, value", [
    ("mean_throughput_l4", 1), ("mean_delivery_rate_l4", 1), ("cov_throughput_l4", 0), ("mean_throughput_l7", 1),
    ("mean_sending_rate_l7", 1), ("mean_network_power_l4", 1 / 0.03), ("mean_utility_pf_l4", math.log(1)),
    ("mean_utility_mpdf_l4", -1), ("mean_utilization_bw_l4", 0.01), ("mean_in_flight_l4", 10), ("cov_in_flight_l4", 0),
    ("mean_utilization_bdp_l4", 10 / (100e6 * 0.008 / 8 / 1500)), ("mean_est_qdelay_l4", 22),
    ("mean_one_way_delay_l7", 120), ("mean_idt_ewma_l4", IDT_MS), ("total_rtos_l4", 0),
    ("flow_completion_time_l4", 12)])
def test_metrics_of_a_flow(found, metric, value):
    loose = {"mean_idt_ewma_l4": 0.02, "mean_one_way_delay_l7": 0.01}.get(metric, 1e-3)
    assert found[metric, "flow_1"] == pytest.approx(value, rel=loose, abs=1e-3)


def test_a_link_that_changes_is_used_by_what_it_had_meanwhile(tmp_path, values):
    """Of 10 s measured, 5 s at 100 and 5 s at 300 Mbit/s: 200 on the mean."""
    path = with_buffers(fixture.write_run(tmp_path / "reno-seed1", shape=FAST, tmix=False, flows=two_flows()))
    network = json.loads((path / "raw" / "network.json").read_text())
    link = next(link for link in network["links"] if link["name"] == DOWN)
    link["schedule"] = [{"at_us": 7_000_000, "rate_bps": 300_000_000}]
    fixture.write_json(path / "raw" / "network.json", network)
    fixture.seal(path)
    found = values(path)
    assert found["utilisation_while_active", DOWN] == pytest.approx(30) == found["utilisation", DOWN]
    assert found["mean_utilization_bw_l4", "flow_1"] == pytest.approx(0.005, rel=1e-3)
    assert found["mean_utilization_bdp_l4", "flow_1"] == pytest.approx(10 / (200e6 * 0.008 / 8 / 1500), rel=1e-3)


def test_what_a_run_does_not_say_is_absent(found):
    assert ("flow_completion_time_l4", "flow_2") not in found and ("mean_recovery_time_l4", "flow_1") not in found


@pytest.mark.parametrize("metric, scope, value", [
    ("mean_agg_throughput_l7", "all", 2), ("mean_agg_in_flight_l4", "all", 20), ("mean_agg_utility_mpdf_l4", "all", -2),
    ("mean_jains_fairness_throughput_l4", BIN, 1), ("mean_entropy_fairness_throughput_l4", BIN, 1),
    ("mean_product_fairness_throughput_l4", BIN, 1), ("mean_qdisc_delay_l2", DOWN, 12),
    ("mean_qdisc_length_l2", DOWN, 100), ("mean_sending_rate_l1", DOWN, 60),
    ("total_qdisc_drops_l2", DOWN, 100), ("utilisation_while_active", DOWN, 60)])
def test_metrics_of_link_and_network(found, metric, scope, value):
    assert found[metric, scope] == pytest.approx(value, rel=2e-3, abs=1e-3)


def test_a_flow_whose_socket_is_gone_counts_as_long_as_it_was_there(tmp_path, values, change):
    """Until 7 s of 2 to 12 s: its means are those of 5 s, those of all flows of 10 s."""
    path = fixture.write_run(tmp_path / "reno-seed1", shape=FAST, tmix=False, flows=two_flows())
    change(path, "tcp_info", lambda table: table[(table["t_us"] <= 7_000_000) | ~(
        table["sport"].eq(10_000) | table["dport"].eq(10_000))])
    found = values(with_buffers(path))
    for layer in (4, 7):
        assert found[f"mean_throughput_l{layer}", "flow_1"] == pytest.approx(1, rel=1e-2)
        assert found[f"mean_agg_throughput_l{layer}", "all"] == pytest.approx(1.5, rel=1e-2)
    assert found["mean_in_flight_l4", "flow_1"] == pytest.approx(10, rel=1e-2)
    assert found["mean_agg_in_flight_l4", "all"] == pytest.approx(15, rel=1e-2)
    assert found["mean_srtt_l4", "flow_1"] == pytest.approx(30)
    assert found["cov_throughput_l4", "flow_1"] == pytest.approx(0, abs=1e-2)
    assert found["mean_utility_pf_l4", "flow_1"] == pytest.approx(0, abs=1e-2)
    assert found["mean_jains_fairness_throughput_l4", BIN] == pytest.approx(1)
    assert found["mean_entropy_fairness_throughput_l4", BIN] == pytest.approx(0.5, rel=1e-2)


def test_a_flow_that_ends_with_its_first_acknowledgement_has_no_smoothed_round_trip(tmp_path, values, change):
    """Its only sample that has one is the last, which holds for no time."""
    path = fixture.write_run(tmp_path / "reno-seed1", shape=FAST, tmix=False, flows=two_flows())
    change(path, "tcp_info", lambda table: table[table["t_us"] <= 7_000_000].assign(
        srtt_us=lambda rest: rest["srtt_us"].where(rest["t_us"] == 7_000_000, 0)))
    found = values(path)
    assert ("mean_throughput_l4", "flow_1") in found and ("mean_srtt_l4", "flow_1") not in found


@pytest.mark.parametrize("shape, count", [(fixture.Shape(), 2), (FAST, 21)], ids=["seldom", "many"])
def test_runs_that_have_none(tmp_path, values, shape, count):
    flows = [{**fixture.flow(number, 9_999 + number, "reno"), "hops": [DOWN]} for number in range(1, count + 1)]
    found = values(fixture.write_run(tmp_path / "reno-seed1", shape=shape, tmix=False, flows=flows))
    assert not [key for key in found if key[0] in ("mean_network_power_l4", "mean_qdisc_delay_l2", "cov_throughput_l4")]
    assert found["mean_throughput_l4", "flow_1"] == pytest.approx(1, rel=1e-3)


def test_table_and_figures(tmp_path):
    """Of two flows of 1 and 2 Mbit/s the second has the best throughput; figures show both."""
    fixture.write_experiment(tmp_path / "e", ["reno", "cubic"], [1, 2], tmix=False, flows=two_flows(),
                             shapes={"reno": FAST, "cubic": FAST})
    for place in (tmp_path / "runs").iterdir():
        table = pd.read_csv(place / "raw" / "tcp_info.csv.gz")
        table["bytes_acked"] *= 1 + (table["sport"] == 10_001)
        fixture.save(place / "raw" / "tcp_info.csv.gz", table)
        with_buffers(place)
    page = build_report(tmp_path / "e").path.read_text()
    throughput = page[page.index("<summary>Flows, reno</summary>"):].split("throughput, layer 4")[1].split("</tr>")[0]
    assert '<td>1.00' in throughput and '<td class="best">2.00' in throughput
    assert "<summary>Link and network</summary>" in page and "over bins of 20 ms" in page
    figures, errors = draw_all(Experiment(tmp_path / "e"), tmp_path / "figures")
    assert not errors, errors[0]["traceback"]
    names = {figure.name for figure in figures}
    assert {"flows_in_flight", "operating_point", "operating_plane", "flow_distributions"} <= names
    star = [line for line in (tmp_path / "figures" / "operating_point.gp").read_text().splitlines() if "★" in line][0]
    assert "at 66.6667,95.6" in star        # of 100 Mbit/s, 1448 of 1514 bytes a packet are payload
    drawn = pd.read_csv(tmp_path / "figures" / "operating_point.csv")
    assert drawn["reno in_flight"].dropna().unique().tolist() == [20]

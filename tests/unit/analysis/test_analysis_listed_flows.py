# SPDX-License-Identifier: GPL-2.0-only
"""Flows that workload.json lists: which sockets they are, their numbers, groups and figures."""

import json

import pandas as pd
import pytest

import fixture
from analysis.figures import draw_all
from analysis.runs import Experiment

DOWN, UP = "right_to_left", "left_to_right"


def listed(port, number, **changes):
    """The flow of fixture socket `port` (n4 sends to n1) as workload.json lists it."""
    return {"flow": number, "path": 0, "sender": "n4", "receiver": "n1", "src": "10.0.4.2", "sport": port,
            "dst": "10.0.1.2", "dport": 20_000, "start_us": 0, "base_rtt_us": 8000, **changes}


@pytest.fixture
def flow_run(tmp_path):
    """Function: flows -> run of ten sockets of 1 Mbit/s each (sports 10000 to 10009) that lists these."""
    def of(*flows):
        path = fixture.write_run(tmp_path / "reno-seed1", tmix=False)
        workload = path / "raw" / "workload.json"
        fixture.write_json(workload, {**json.loads(workload.read_text()), "flows": list(flows)})
        return path
    return of


def scopes(found, metric):
    return {scope for name, scope in found if name == metric}


def test_only_listed_flows_count_and_keep_their_numbers(flow_run, values):
    found = values(flow_run(listed(10_004, 2), listed(10_001, 7)))
    assert scopes(found, "mean_throughput_l4") == {"flow_2", "flow_7"}
    assert found["mean_agg_throughput_l4", "all"] == pytest.approx(2, rel=1e-4)
    # the receivers' ends count, too, but none of the other eight
    assert found["goodput", DOWN] == pytest.approx(2, rel=1e-4)
    assert found["retransmission_share", DOWN] == pytest.approx(2, rel=1e-4)
    assert ("cwnd_mean", UP) not in found and ("mean_throughput_l4", "cca_reno") not in found


def test_without_a_source_port_the_others_tell(flow_run, values, change):
    path = flow_run(listed(None, 1, dport=20_001), listed(None, 2, dport=20_002))

    def ports(table):
        """Sockets 10003 and 10005 to ports of their own."""
        for port, far in ((10_003, 20_001), (10_005, 20_002)):
            table.loc[table["sport"] == port, "dport"] = far
            table.loc[table["dport"] == port, "sport"] = far
        return table
    change(path, "tcp_info", ports)
    found = values(path)
    assert scopes(found, "mean_throughput_l4") == {"flow_1", "flow_2"}
    assert found["goodput", DOWN] == pytest.approx(2, rel=1e-4)


def test_a_listed_flow_that_never_came_has_no_metrics(flow_run, values):
    assert scopes(values(flow_run(listed(10_000, 1), listed(31_000, 2))), "mean_throughput_l4") == {"flow_1"}


def test_no_listed_flow_came(flow_run, values):
    found = values(flow_run(listed(31_000, 1)))
    assert not scopes(found, "mean_throughput_l4") and not scopes(found, "goodput")


def test_old_runs_have_but_a_number_of_flows(flow_run, values):
    path = flow_run()
    workload = json.loads((path / "raw" / "workload.json").read_text())
    fixture.write_json(path / "raw" / "workload.json", {**workload, "flows": 10})
    assert scopes(values(path), "mean_throughput_l4") == {f"flow_{number}" for number in range(1, 11)}


def test_flows_by_congestion_control(flow_run, values, change):
    path = flow_run(listed(10_000, 1), listed(10_001, 2), listed(10_002, 3))

    def two_camps(table):
        table["cca"] = table["cca"].where(table["sport"] != 10_001, "bic")
        table["bytes_acked"] *= table["sport"].map({10_000: 1, 10_001: 2, 10_002: 3}).fillna(1).astype(int)
        return table
    change(path, "tcp_info", two_camps)
    found = values(path)
    assert found["mean_throughput_l4", "cca_reno"] == pytest.approx(2, rel=1e-4)        # (1 + 3) / 2
    assert found["mean_agg_throughput_l4", "cca_reno"] == pytest.approx(4, rel=1e-4)
    assert found["mean_throughput_l4", "cca_bic"] == found["mean_agg_throughput_l4", "cca_bic"] == pytest.approx(2, rel=1e-4)
    assert found["mean_agg_throughput_l4", "all"] == pytest.approx(6, rel=1e-4)


def test_short_flows_against_long_ones(flow_run, values, change):
    """Mean of 1 and 3 Mbit/s at 20 ms against 1 Mbit/s at 200 ms; those at 50 ms do not count."""
    path = flow_run(listed(10_000, 1, base_rtt_us=20_000), listed(10_001, 2, base_rtt_us=200_000),
                    listed(10_002, 3, base_rtt_us=20_000), listed(10_003, 4, base_rtt_us=50_000))
    change(path, "tcp_info", lambda table: table.assign(
        bytes_acked=table["bytes_acked"] * table["sport"].map({10_002: 3, 10_003: 9}).fillna(1).astype(int)))
    assert values(path)["throughput_ratio_short_long", "rtt_20_to_200_ms"] == pytest.approx(2)


@pytest.mark.parametrize("long", [{"base_rtt_us": 20_000}, {"base_rtt_us": None}, {"base_rtt_us": 200_000, "sport": 31_000}],
                         ids=["equal RTTs", "unknown RTT", "nothing got through"])
def test_no_ratio(flow_run, values, long):
    found = values(flow_run(listed(10_000, 1, base_rtt_us=20_000), listed(10_001, 2, **long)))
    assert not scopes(found, "throughput_ratio_short_long")


def test_figures_show_the_listed_flows(flow_run, tmp_path):
    path = flow_run(listed(10_004, 2), listed(10_001, 7))
    (tmp_path / "e" / "runs").mkdir(parents=True)
    path.rename(tmp_path / "e" / "runs" / path.name)
    fixture.write_json(tmp_path / "e" / "experiment.json", {
        "scenario": "s", "parameters": {}, "ccas": ["reno"], "seeds": [1], "runs": [f"runs/{path.name}"]})
    names = {figure.name for figure in draw_all(Experiment(tmp_path / "e"), tmp_path / "figures")}
    assert {"flows_cwnd", "flows_srtt"} <= names
    drawn = pd.read_csv(tmp_path / "figures" / "flows_cwnd.csv")
    assert list(drawn) == ["reno 2 time_s", "reno 2 cwnd", "reno 7 time_s", "reno 7 cwnd"]

# SPDX-License-Identifier: GPL-2.0-only
"""Flows that workload.json lists: which sockets they are, their numbers, groups and figures."""

import types

import numpy as np
import pandas as pd
import pytest

from analysis.figures import draw_all
from analysis.metrics import flows
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from tests.unit.analysis import fixture

DOWN, UP = "right_to_left", "left_to_right"


def listed(port, number, **changes):
    """The flow of fixture socket `port` (n4 sends to n1)."""
    return {**fixture.flow(number, port, "reno"), **changes}


@pytest.fixture
def flow_run(tmp_path):
    """Function: flows -> run of ten sockets of 1 Mbit/s each (sports 10000 to 10009) that lists these."""
    def of(*flows):
        return fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=list(flows))
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


def test_flows_by_congestion_control(flow_run, values, change):
    path = flow_run(listed(10_000, 1), listed(10_001, 2, variant="bic"), listed(10_002, 3))

    def two_camps(table):
        table["bytes_acked"] *= table["sport"].map({10_000: 1, 10_001: 2, 10_002: 3}).fillna(1).astype(int)
        return table
    change(path, "tcp_info", two_camps)
    found = values(path)
    assert found["mean_throughput_l4", "cca_reno"] == pytest.approx(2, rel=1e-4)        # (1 + 3) / 2
    assert found["mean_agg_throughput_l4", "cca_reno"] == pytest.approx(4, rel=1e-4)
    assert found["mean_throughput_l4", "cca_bic"] == found["mean_agg_throughput_l4",
                                                           "cca_bic"] == pytest.approx(2, rel=1e-4)
    assert found["mean_agg_throughput_l4", "all"] == pytest.approx(6, rel=1e-4)


def test_short_flows_against_long_ones(flow_run, values, change):
    """Mean of 1 and 3 Mbit/s at 20 ms against 1 Mbit/s at 200 ms; those at 50 ms do not count."""
    path = flow_run(listed(10_000, 1, base_rtt_us=20_000), listed(10_001, 2, base_rtt_us=200_000),
                    listed(10_002, 3, base_rtt_us=20_000), listed(10_003, 4, base_rtt_us=50_000))
    change(path, "tcp_info", lambda table: table.assign(
        bytes_acked=table["bytes_acked"] * table["sport"].map({10_002: 3, 10_003: 9}).fillna(1).astype(int)))
    assert values(path)["throughput_ratio_short_long", "rtt_20_to_200_ms"] == pytest.approx(2)


@pytest.mark.parametrize("long",
                         [{"base_rtt_us": 20_000}, {"base_rtt_us": 0}, {"base_rtt_us": 200_000, "sport": 31_000}],
                         ids=["equal RTTs", "unknown RTT", "nothing got through"])
def test_no_ratio(flow_run, values, long):
    found = values(flow_run(listed(10_000, 1, base_rtt_us=20_000), listed(10_001, 2, **long)))
    assert not scopes(found, "throughput_ratio_short_long")


def test_the_report_names_seeds_without_a_ratio(tmp_path, change):
    """Seeds 2 and 3 of four let the flow with the long round trip starve."""
    path = fixture.write_experiment(
        tmp_path / "e", ["reno"], range(1, 5), tmix=False, shapes={"reno": fixture.Shape(test_s=4, noise=0.1)},
        flows=[listed(10_000, 1, base_rtt_us=20_000), listed(10_001, 2, base_rtt_us=200_000)])
    note = "reno, ratio 20 ms : 200 ms: no value in seeds 2, 3; the mean is that of the others"
    assert "no value in seed" not in build_report(path).path.read_text()
    for seed in (2, 3):
        change(path / f"runs/reno-seed{seed}", "tcp_info", lambda table: table.assign(
            bytes_acked=table["bytes_acked"] * (table["sport"] != 10_001)))
    assert note in build_report(path).path.read_text()


def test_figures_show_the_listed_flows(tmp_path):
    fixture.write_experiment(tmp_path / "e", ["reno"], [1], tmix=False, flows=[listed(10_004, 2), listed(10_001, 7)])
    figures, errors = draw_all(Experiment(tmp_path / "e"), tmp_path / "figures")
    names = {figure.name for figure in figures}
    assert not errors
    assert {"flows_cwnd", "flows_srtt"} <= names
    drawn = pd.read_csv(tmp_path / "figures" / "flows_cwnd.csv")
    assert list(drawn) == ["reno 2 time_s", "reno 2 cwnd", "reno 7 time_s", "reno 7 cwnd"]


def test_fairness_of_a_flow_that_begins_with_a_sample_at_an_edge():
    """Its first sample has bytes already: they are of no bin in which the flow is, and the index was infinite."""
    samples = pd.DataFrame({"t_us": [2_000_000, 3_000_000, 4_000_000]})
    steps = pd.DataFrame({"since_us": [2_000_000, 2_000_000, 3_000_000], "bytes_acked": [5000, 1000, 1000]})
    run = types.SimpleNamespace(interval=(0, 4_000_000), frame=lambda _name: None)
    found = flows._fairness(run, samples, steps, np.zeros(3, int), [0])
    assert [(one.metric, one.value) for one in found] == [("jains_index", 1), ("entropy_of_shares", 0)]

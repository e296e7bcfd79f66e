# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of connections, data units and sockets against what was put into the files."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.flows import sizes
from analysis.metrics import measure_run
from analysis.read import tcp
from tests.unit.analysis import fixture

DOWN, UP = "right_to_left", "left_to_right"


@pytest.mark.parametrize("size, low, high", [(1, 1, 4), (3, 1, 4), (4, 4, 10), (999, 317, 1000),
                                             (1000, 1000, 3163), (3162, 1000, 3163)])
def test_size_classes(size, low, high):
    index = int(sizes.classes(np.array([size]))[0])
    assert sizes.bounds(sizes.scope(index)) == ("", low, high)
    assert sizes.bounds(sizes.scope(index, DOWN)) == (DOWN, low, high)


def test_other_scopes_are_no_size_classes():
    assert sizes.bounds("all") is None


def test_flow_completion_by_size(run_dir, values):
    """A connection of size s takes 50 ms and s microseconds."""
    found = values(run_dir)
    size = 500 + round(10 ** 4.6)
    scope = "bytes_31623_to_100000"
    for statistic in ("mean", "p25", "p50", "p75"):
        assert found[f"flow_completion_time_{statistic}", scope] == pytest.approx(
            0.05 + size / 1e6)
    assert found["flows_completed", "all"] == 200 - 2 - 2  # failed, still alive at the end


@pytest.mark.parametrize("transfers, p99_s", [(99, None), (100, 99), (200, 198)])
def test_p99_by_size_needs_100_transfers(transfers, p99_s):
    """Transfers of 2 kB take 1, 2, 3 ... seconds."""
    times = np.arange(1, transfers + 1)
    everything = sizes.Transfers(times, np.ones(transfers, dtype=bool), np.full(transfers, 2_000))
    found = {(one.metric, one.scope): one.value
             for one in sizes.describe("time", "done", "s", "all", "", everything, 1_000)}
    assert found.get(("time_p99", "bytes_1000_to_3163")) == p99_s


def test_completion_ends_with_the_last_byte_and_lifetime_with_the_connection(run_dir, values, change):
    """Connections that are closed a second after their last byte, one of a hundred failed.

    Responses are of 10^2.6, 10^3.1, ... 10^5.6 bytes, as many of each: half of the connections are done with 10^4.1.
    """
    before = values(run_dir)
    change(run_dir, "connections", lambda table: table.assign(end_us=table["end_us"] + 1_000_000))
    found = values(run_dir)
    median_s = (50_500 + round(10 ** 4.1)) / 1e6
    assert all(found[key] == value for key, value in before.items() if key[0].startswith(("flow_c", "flows_c")))
    assert found["flow_completion_time_p50", "all"] == pytest.approx(median_s)
    assert before["connection_lifetime_p50", "all"] == pytest.approx(median_s)
    assert found["connection_lifetime_p50", "all"] == pytest.approx(1 + median_s)
    assert ("connection_lifetime_p95", "all") in found


def test_what_is_open_but_delivered_is_completed(run_dir, values, change):
    """None is closed; all but those that failed or still have bytes on the way are completed."""
    before = values(run_dir)
    change(run_dir, "connections", lambda table: table.assign(
        end_us=pd.NA, status=table["status"].where(table["status"].str.startswith("failed"), "unfinished")))
    found = values(run_dir)
    assert found["connections_finished_share", "all"] == 0 and found["connection_lifetime_p50", "all"] == math.inf
    assert found["flow_completion_time_p50", "all"] == before["flow_completion_time_p50", "all"]
    assert found["flows_completed", "all"] == before["flows_completed", "all"]


def test_completion_by_hand(run_dir, values, change):
    """Started at 3 s: the answer comes at 3.4 s, the last request at 3.9 s; closed at 5 s. The other lacks a unit."""
    change(run_dir, "connections", lambda table: table.head(2).assign(
        source=0, conn=[0, 1], scheduled_us=3_000_000, start_us=3_000_000, end_us=5_000_000, status="finished"))
    change(run_dir, "adus", lambda table: table.head(5).assign(
        source=0, conn=[0, 0, 0, 1, 1], side=["i", "a", "i", "i", "a"], sent_us=3_000_000,
        delivered_us=[3_100_000, 3_400_000, 3_900_000, 3_100_000, pd.NA]))
    found = values(run_dir)
    assert found["flow_completion_time_p50", "all"] == pytest.approx(0.9)
    assert found["flow_completion_time_p95", "all"] == math.inf and found["flows_completed", "all"] == 1
    assert found["connection_lifetime_p95", "all"] == 2


def test_runs_without_data_units_have_lifetimes_only(run_dir, values):
    (run_dir / "raw" / "adus.csv.gz").unlink()
    fixture.seal(run_dir)
    found = values(run_dir)
    assert found["connection_lifetime_p50", "all"] > 0
    assert not [key for key in found if key[0].startswith(("flow_completion", "flows_completed"))]


def test_only_connections_started_after_warm_up_count(run_dir, values, change):
    change(run_dir, "adus", lambda table: table.assign(
        delivered_us=table["delivered_us"].where(table["sent_us"] >= 2_000_000, 10**12)))
    assert values(run_dir)["flow_completion_time_mean", "all"] < 1


def test_shares_of_connections(run_dir, values):
    found = values(run_dir)
    assert found["connections_started", "all"] == 200
    assert found["connections_failed", "all"] == 2
    assert found["connections_finished_share", "all"] == 98


def test_no_finished_connection_reaches_no_percentile(run_dir, values, undelivered):
    """Twenty connections a second that start in ten seconds, none of which ends: each counts with all ten."""
    undelivered(run_dir, lambda table: table["conn"] >= 0)
    found = values(run_dir)
    assert found["connections_finished_share", "all"] == 0 and found["flows_completed", "all"] == 0
    assert found["flow_completion_time_p50", "all"] == math.inf
    assert found["flow_completion_time_mean", "all"] == pytest.approx(10)


def test_unfinished_connections_are_not_left_out(run_dir, values, change, undelivered):
    """Large responses do not end: a sixth of all, and the slowest of those that would have."""
    before = values(run_dir)
    undelivered(run_dir, lambda table: table["acc_bytes_asked"] > 300_000)
    change(run_dir, "connections", lambda table: table.assign(acc_bytes_delivered=table["acc_bytes_delivered"].mask(
        table["acc_bytes_asked"] > 300_000, 100_000)))
    found = values(run_dir)
    assert found["flow_completion_time_p50", "all"] == before["flow_completion_time_p50", "all"]
    assert found["flow_completion_time_mean", "all"] > 2 * before["flow_completion_time_mean", "all"]
    assert found["flow_completion_time_p99", "all"] == math.inf
    assert found["flow_completion_time_p50", "bytes_316228_to_1000000"] == math.inf
    table = pd.read_csv(run_dir / "raw/connections.csv.gz")
    rows = table[(table["scheduled_us"] >= 2_000_000) & (table["status"] == "unfinished")]
    missing = (rows["acc_bytes_asked"] - rows["acc_bytes_delivered"]).sum()
    assert found["connections_unfinished", "all"] == len(rows)
    assert found["unfinished_bytes", "all"] == pytest.approx(missing / 1e6)
    started = table[table["scheduled_us"] >= 2_000_000]
    asked = started["init_bytes_asked"].sum() + started["acc_bytes_asked"].sum()
    assert found["unfinished_bytes_share", "all"] == pytest.approx(100 * missing / asked)


def test_what_failed_is_never_finished(run_dir, values, change):
    """Two of three fail at once: no time at which half are done, however long one waits."""
    change(run_dir, "connections", lambda table: table.assign(
        status=table["status"].mask(table["conn"] % 3 > 0, "failed: ETIMEDOUT")))
    assert values(run_dir)["flow_completion_time_p50", "all"] == math.inf


def test_connections_that_could_not_start_wait_since_they_were_due(run_dir, values, change):
    change(run_dir, "connections", lambda table: table.assign(
        start_us=pd.NA, connected_us=pd.NA, end_us=pd.NA, status="unfinished"))
    change(run_dir, "adus", lambda table: table.assign(sent_us=pd.NA, delivered_us=pd.NA))
    assert values(run_dir)["flow_completion_time_mean", "all"] == pytest.approx(10)


def test_undelivered_units_count_until_the_end(run_dir, values, change):
    """Responses are sent from 25 ms after the connection; none arrives."""
    change(run_dir, "adus", lambda table: table.assign(delivered_us=table["delivered_us"].mask(table["side"] == "a")))
    found = values(run_dir)
    assert found["adus_delivered", DOWN] == 0 and found["adu_response_time_p50", DOWN] == math.inf
    assert found["adu_response_time_mean", UP] == pytest.approx(20.5)


def test_adu_response_per_direction(run_dir, values):
    """A unit of s bytes takes 20 ms and s microseconds; requests have 500 bytes."""
    found = values(run_dir)
    assert found["adu_response_time_mean", UP] == pytest.approx(20.5)
    assert found["adu_response_time_p50", f"{DOWN}/bytes_31623_to_100000"] == pytest.approx(
        20 + round(10 ** 4.6) / 1e3)


def test_goodput_counts_bytes_delivered_inside(run_dir, values):
    """20 requests of 500 bytes a second, from 2 s on; the edges cut evenly."""
    assert values(run_dir)["goodput", UP] == pytest.approx(20 * 500 * 8 / 1e6, rel=1e-3)


def test_goodput_shares_a_unit_that_straddles_the_start(run_dir, values, change):
    change(run_dir, "adus", lambda table: table.head(1).assign(
        side="a", bytes=4_000_000, sent_us=1_000_000, delivered_us=5_000_000))
    assert values(run_dir)["goodput", DOWN] == pytest.approx(3_000_000 * 8 / 1e7)


def test_tcp_goodput_counts_what_has_arrived_of_unfinished_units(run_dir, values, change):
    """One response of 4 MB, sent at 7 s, of which 1 MB has arrived at the end, at 12 s; and one of 1 MB before."""
    def adus(table):
        return pd.concat([table.head(1).assign(side="a", bytes=size, sent_us=sent_us, delivered_us=delivered_us)
                          for size, sent_us, delivered_us in ((1_000_000, 3_000_000, 4_000_000),
                                                              (4_000_000, 7_000_000, pd.NA))])
    change(run_dir, "adus", adus)
    change(run_dir, "connections", lambda table: table.assign(acc_bytes_delivered=table["acc_bytes_delivered"].where(
        table["conn"] + table["source"] > 0, 2_000_000)))
    found = values(run_dir)
    assert found["goodput", DOWN] == pytest.approx(1_000_000 * 8 / 1e7)
    assert found["tcp_goodput", DOWN] == pytest.approx(2_000_000 * 8 / 1e7)


def test_tcp_goodput_is_goodput_where_all_is_delivered(run_dir, values):
    found = values(run_dir)
    assert found["tcp_goodput", UP] == pytest.approx(found["goodput", UP], rel=1e-3)


def test_retransmitted_segments_over_goodput(run_dir, values, change):
    """One segment again for every 3000 bytes that are acknowledged, counted as 1500 bytes: 50 %."""
    change(run_dir, "tcp_info", lambda table: table.assign(total_retrans=table["bytes_acked"] // 3000))
    found = values(run_dir)
    assert found["sent_again_over_goodput", "all"] == pytest.approx(50, rel=2e-3)
    # as iperf3 counts them
    assert found["retransmitted_segments", "all"] == pytest.approx(4166.67, rel=1e-5)


def test_sockets_of_senders(run_dir, values):
    found = values(run_dir)
    assert found["retransmission_share", DOWN] == pytest.approx(2, rel=1e-4)
    assert found["rwnd_limited_share", DOWN] == pytest.approx(1)
    assert found["cwnd_mean", DOWN] == 40
    assert found["srtt_mean", DOWN] == 30
    assert ("cwnd_mean", UP) not in found


def test_growth_of_a_reused_port_counts_from_zero():
    samples = pd.DataFrame({"t_us": [1, 2, 3, 4], "node": "n1", "src": "a", "sport": 1,
                            "dst": "b", "dport": 2, "bytes_sent": [10, 30, 5, 9]})
    for name in tcp.COUNTERS[1:]:
        samples[name] = 0
    steps = tcp.growth(samples)
    assert steps["bytes_sent"].tolist() == [10, 20, 5, 4]
    assert steps["since_us"].tolist() == [1, 1, 3, 3]


def test_long_flows(tmp_path, values):
    """Ten flows of 1 Mbit/s each; sampled every 120 ms, so 2 s is between two samples."""
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False)
    found = values(path)
    assert found["mean_throughput_l4", "flow_3"] == pytest.approx(1, rel=1e-4)
    assert found["mean_agg_throughput_l4", "all"] == pytest.approx(10, rel=1e-4)
    assert found["jains_index", "bin_1000_ms"] == pytest.approx(1)
    assert found["entropy_of_shares", "bin_1000_ms"] == pytest.approx(
        np.log2(10))
    assert found["mean_est_qdelay_l4", "flow_1"] == pytest.approx(30 - 8)
    assert found["goodput", DOWN] == pytest.approx(10, rel=1e-4)


def test_fairness_of_unequal_flows(tmp_path, values, change):
    """Two flows with shares 1/4 and 3/4: Jain's index (1/16 + 9/16)^-1 / 2 = 0.8."""
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False)

    def unequal(table):
        table = table[table["sport"].isin([10_000, 10_001])]
        heavy = (table["sport"] == 10_001).map({True: 3, False: 1})
        return table.assign(bytes_acked=table["bytes_acked"] // 3 * heavy)
    change(path, "tcp_info", unequal)
    found = values(path)
    assert found["jains_index", "bin_1000_ms"] == pytest.approx(0.8)
    assert found["entropy_of_shares", "bin_1000_ms"] == pytest.approx(
        0.25 * 2 + 0.75 * np.log2(4 / 3))


@pytest.mark.parametrize("lights, jain, entropy", [
    # one unit a second beside 121, acknowledged all at once in the middle of it: 122^2 / (2 (121^2 + 1))
    (lambda t: np.floor(t + 0.5), 0.50826, 0.06859),
    # nothing at all, for as long as it is there
    (lambda t: 0 * t, 0.5, 0),
    # as much as the other until 7 s, and then it is gone: it is counted for five bins of ten, with half of all
    (lambda t: np.where(t <= 7, 121 * t, np.nan), 1, 0.5)], ids=["bursts", "starved", "gone"])
def test_fairness_counts_all_flows_under_way(tmp_path, values, change, lights, jain, entropy):
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False)

    def two(table):
        table = table[table["sport"].isin([10_000, 10_001])]
        seconds = table["t_us"] / 1e6
        acked = (1e4 * np.where(table["sport"] == 10_001, 121 * seconds, lights(seconds))).round()
        return table.assign(bytes_acked=acked)[~np.isnan(acked)].astype({"bytes_acked": "int64"})
    change(path, "tcp_info", two)
    found = values(path)
    assert found["jains_index", "bin_1000_ms"] == pytest.approx(jain, abs=1e-4)
    assert found["entropy_of_shares", "bin_1000_ms"] == pytest.approx(entropy, abs=1e-4)


def test_many_flows_have_no_flow_metrics(tmp_path, values):
    flows = [fixture.flow(1 + index, 10_000 + index, "reno") for index in range(101)]
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=flows)
    found = values(path)
    assert not [key for key in found if key[0] == "mean_throughput_l4"]
    assert found["goodput", DOWN] == pytest.approx(10, rel=1e-4)


def test_connections_of_a_workload_have_no_flow_metrics(run_dir, values):
    assert not [key for key in values(run_dir) if key[0] == "mean_throughput_l4"]


def test_nodes_without_a_side(run_dir, values):
    import json
    path = run_dir / "raw" / "network.json"
    network = json.loads(path.read_text())
    for node in network["nodes"]:
        node["side"] = ""
    for link in network["links"]:
        link["direction"] = ""
    path.write_text(json.dumps(network))
    found = values(run_dir)
    assert ("goodput", "acceptor_to_initiator") in found
    assert ("retransmission_share", "all") in found


def test_metrics_csv_has_the_documented_columns(run_dir):
    measure_run(run_dir)
    table = pd.read_csv(run_dir / "metrics.csv")
    assert list(table) == ["metric", "scope", "unit", "value"]
    assert not table.duplicated(["metric", "scope"]).any()
    assert table["value"].notna().all()

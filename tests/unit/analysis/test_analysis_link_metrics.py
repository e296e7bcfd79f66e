# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of links against what was put into the files."""

import numpy as np
import pandas as pd
import pytest

import fixture
from analysis import series
from analysis.metrics.queueing_delay import histogram_percentiles
from analysis.runs import Run

DOWN, UP = "right_to_left", "left_to_right"


def test_throughput_of_constant_rates_is_exact(run_dir, values):
    found = values(run_dir)
    assert found["throughput_mean", DOWN] == 60
    assert found["throughput_mean", UP] == 12
    assert found["utilisation", DOWN] == 60
    assert found["throughput_sd", DOWN] == pytest.approx(0, abs=1e-9)


def test_throughput_excludes_warm_up(run_dir, values, change):
    def burst(table):
        early = (table["t_us"] > 500_000) & (table["link"] == DOWN)
        return table.assign(sent_bytes=table["sent_bytes"] + 10**6 * early)
    change(run_dir, "queue", burst)
    assert values(run_dir)["throughput_mean", DOWN] == 60


def test_throughput_sd_over_seconds(run_dir, values, change):
    """Alternate seconds of 48 and 72 Mbit/s: sd of ten values 60 +- 12 is 12 sqrt(10/9)."""
    def alternate(table):
        down = table["link"] == DOWN
        second, rest = np.divmod(table.loc[down, "t_us"], 1_000_000)
        table.loc[down, "sent_bytes"] = (
            (second * 60 - second % 2 * 12) + rest * (48 + second % 2 * 24) // 1_000_000
        ).astype("int64") * 125_000
        return table
    change(run_dir, "queue", alternate)
    found = values(run_dir)
    assert found["throughput_mean", DOWN] == 60
    assert found["throughput_sd", DOWN] == pytest.approx(12 * np.sqrt(10 / 9), rel=1e-3)


def test_drop_rate_counts_packets_offered(run_dir, values):
    """50 packets per sample and a drop every tenth: 1 of 501 packets offered."""
    found = values(run_dir)
    assert found["drops", DOWN] == 100
    assert found["drop_rate", DOWN] == pytest.approx(100 / 501)
    assert found["drop_rate", UP] == 0


def test_offered_packets_include_growth_of_the_backlog(run_dir, values, change):
    def grow(table):
        late = (table["t_us"] >= 11_000_000) & (table["link"] == DOWN)
        return table.assign(backlog_packets=table["backlog_packets"] + 399 * late)
    change(run_dir, "queue", grow)
    assert values(run_dir)["drop_rate", DOWN] == pytest.approx(100 * 100 / (50_000 + 100 + 399))


def test_queueing_delay_is_per_packet_when_sojourn_is_there(run_dir, values):
    found = values(run_dir)
    assert found["queueing_delay_mean", DOWN] == pytest.approx(20)
    assert found["queueing_delay_backlog_mean", DOWN] == pytest.approx(100 * 1500 * 8 / 1e5)
    assert found["queueing_delay_sd", DOWN] == pytest.approx(0, abs=1e-9)


def test_queueing_delay_weighs_intervals_by_packets(run_dir, values, change):
    """Every other interval has 1 packet of 100 ms beside 49 packets of 0 ms."""
    def uneven(table):
        odd = table["t_us"] // 10_000 % 2 == 1
        return table.assign(packets=np.where(odd, 1, 49), mean_us=np.where(odd, 100_000.0, 0.0))
    change(run_dir, "sojourn", uneven)
    assert values(run_dir)["queueing_delay_mean", DOWN] == pytest.approx(2)


def test_queueing_delay_from_backlog_without_sojourn(tmp_path, values):
    path = fixture.write_run(tmp_path / "bbr-seed1", sojourn=False)
    found = values(path)
    assert found["queueing_delay_mean", DOWN] == pytest.approx(12)
    assert ("queueing_delay_p99", DOWN) not in found


def test_percentiles_of_the_run_lie_in_the_right_bin(run_dir, values):
    for percent in (50, 95, 99):
        assert values(run_dir)[f"queueing_delay_p{percent}", DOWN] == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize("percent, expected", [(50, 150), (10, 30), (100, 200), (75, 175)])
def test_histogram_percentile_interpolates(percent, expected):
    """40 packets in [0, 120), 30 in [120, 180), 30 in [180, 200)."""
    histogram = pd.DataFrame({"low_us": [120, 0, 180], "high_us": [180, 120, 200],
                              "packets": [30, 40, 30]})
    if percent == 50:
        expected = 120 + 10 / 30 * 60
    if percent == 75:
        expected = 180 + 5 / 30 * 20
    assert histogram_percentiles(histogram, [percent]) == pytest.approx([expected])


def test_open_last_bin_counts_as_its_lower_edge():
    histogram = pd.DataFrame({"low_us": [0, 100], "high_us": [100, np.inf], "packets": [1, 9]})
    assert histogram_percentiles(histogram, [50, 99])[1] == 100


def test_queue_length(run_dir, values):
    found = values(run_dir)
    assert found["queue_length_mean", DOWN] == 100
    assert found["queue_length_max", DOWN] == 100
    assert found["queue_length_sd", DOWN] == 0


def test_load_offered_and_carried(run_dir, values):
    found = values(run_dir)
    assert found["offered_load", DOWN] == 64
    assert found["offered_load_share", DOWN] == 64
    assert found["carried_over_offered", DOWN] == pytest.approx(100 * 60 / 64)
    assert found["offered_load_thirds_difference", DOWN] == pytest.approx(100 * 2 / 62)


def test_falling_counter_is_an_error(run_dir, errors, change):
    change(run_dir, "queue", lambda table: table.assign(
        drops=table["drops"].where(table["t_us"] != 5_000_000, 0)))
    found = errors(run_dir)
    assert "counter drops of right_to_left falls at t_us=5000000" in found["drops"]
    assert "connections" not in found


def test_samples_must_cover_the_interval(run_dir, errors, change):
    change(run_dir, "queue", lambda table: table[table["t_us"] < 9_000_000])
    assert "cover [0, 8.99] s" in errors(run_dir)["throughput"]


def test_last_sample_may_be_missing(run_dir, values, change):
    change(run_dir, "queue", lambda table: table[table["t_us"] < 12_000_000])
    assert values(run_dir)["throughput_mean", DOWN] == pytest.approx(60)


def test_slow_sampling_widens_the_bins(tmp_path):
    path = fixture.write_run(tmp_path / "reno-seed1",
                             shape=fixture.Shape(interval_us=2_000_000, packets=(10_000, 10)))
    run = Run(path)
    edges = series.metric_edges(run, series.queue_samples(run, DOWN))
    assert set(np.diff(edges)) == {2_000_000}


@pytest.mark.parametrize("end_us, width", [(12_000_000, 50_000), (600_000_000, 5_000_000),
                                           (240_000_000, 1_000_000), (1_000_000, 10_000)])
def test_plot_bins_are_round(end_us, width):
    assert np.diff(series.plot_edges(end_us))[0] == width


def test_unidirectional_network(run_dir, values):
    import json
    path = run_dir / "raw" / "network.json"
    network = json.loads(path.read_text())
    network["links"][0]["bottleneck"] = False
    path.write_text(json.dumps(network))
    assert ("throughput_mean", UP) not in values(run_dir)

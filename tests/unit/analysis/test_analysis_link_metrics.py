# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of links against what was put into the files."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.queueing_delay import histogram_percentiles
from analysis.read import series
from analysis.read.runs import Run
from tests.unit.analysis import fixture

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


def traced(path, times, period_us=None):
    """Give the link a trace."""
    file = path / "raw" / "network.json"
    network = json.loads(file.read_text())
    link, = (link for link in network["links"] if link["name"] == DOWN)
    link["opportunities"] = {"times": times, "period_us": period_us}
    fixture.write_json(file, network)
    fixture.seal(path)


def test_a_trace_has_its_rate_at_each_time(tmp_path, values):
    """100 packets of 1500 bytes are queued, which at one frame a ms have left before the 101st opportunity, whatever
    comes after the run, or before the measured part."""
    path = fixture.write_run(tmp_path / "bbr-seed1", sojourn=False)
    end_ms = Run(path).interval.end_us // 1000
    one_a_ms = [[ms * 1000, 1] for ms in range(1, end_ms + 1)]
    for times, period_us in ((one_a_ms, None), ([[1000, 1]], 1000), ([[1000, 1], [2000, 1]], 2000),
                             ([[ms * 1000, 1 if ms > 500 else 50] for ms in range(1, end_ms + 1)], None)):
        traced(path, times, period_us)
        found = values(path)
        assert found["queueing_delay_backlog_mean", DOWN] == pytest.approx(100)
        assert found["utilisation", DOWN] == pytest.approx(100 * 60 / 12.112)


def test_packets_wait_for_a_burst_of_a_trace(tmp_path):
    """500 opportunities at once each half a second: 100 packets leave at the next one, 600 at the one after it."""
    path = fixture.write_run(tmp_path / "bbr-seed1", sojourn=False)
    traced(path, [[500_000, 500]], 500_000)
    samples = pd.DataFrame({"t_us": [1_000_000, 1_000_001, 1_200_000, 1_200_000, 1_200_000],
                            "backlog_bytes": [100 * 1514, 100 * 1514, 100 * 1514, 600 * 1514, 0]})
    assert series.backlog_ms(Run(path), DOWN, samples) == pytest.approx([0, 499.999, 300, 800, 0])


def test_a_trace_waits_out_its_silence(tmp_path):
    """Nothing from 2 to 3 s: what is queued waits for that, then it is sent at one frame a ms. Of what comes after the
    end nothing is known: the last time in which as much was offered counts."""
    path = fixture.write_run(tmp_path / "bbr-seed1", sojourn=False)
    end_ms = Run(path).interval.end_us // 1000
    traced(path, [[ms * 1000, 1] for ms in range(1, end_ms - 500) if not 2000 < ms < 3000])
    run = Run(path)
    samples = pd.DataFrame({"t_us": [1_000_000, 1_990_000, 3_000_000, run.interval.end_us - 100_000, 0],
                            "backlog_bytes": [1514, 100 * 1514, 100 * 1514, 100 * 1514, 10**9]})
    found = series.backlog_ms(run, DOWN, samples)
    assert found[:4] == pytest.approx([1, 10 + 1000 + 89, 100, 501 + 100])
    assert found[4] == pytest.approx(10**9 * end_ms / 1514 / (end_ms - 501 - 999))


def test_a_trace_that_offers_nothing(tmp_path, values):
    """There is no rate to compare with, and no time in which what is queued would leave."""
    path = fixture.write_run(tmp_path / "bbr-seed1", sojourn=False)
    traced(path, [])
    assert np.isnan(series.backlog_ms(Run(path), DOWN, series.queue_samples(Run(path), DOWN))).all()
    found = values(path)
    assert ("utilisation", DOWN) not in found and ("queueing_delay_mean", DOWN) not in found


def test_no_packet_left_in_the_measured_time(run_dir, values, errors, change):
    """An outage: there is no time of packets, which is an error only where packets did leave."""
    change(run_dir, "sojourn", lambda table: table[(table["link"] != DOWN) | (table["t_us"] < 500_000)])
    assert "no packet of right_to_left" in errors(run_dir)["queueing_delay"]
    change(run_dir, "queue", lambda table: table.assign(sent_packets=table["sent_packets"].where(
        (table["link"] != DOWN) | (table["t_us"] < 500_000), 2500)))
    assert ("queueing_delay_mean", DOWN) not in values(run_dir)


def test_what_a_queue_held_between_samples_counts(run_dir, values):
    """Samples see 100 packets; 30 were held for 1 s of 10 and none for the rest, 40 at most; at 100 Mbit/s."""
    t_us = np.arange(0, 12_000_001, 500_000)
    packet_us = 30 * np.clip(t_us - 4_000_000, 0, 1_000_000)
    fixture.save(run_dir / "raw" / "backlog.csv.gz", pd.DataFrame({
        "t_us": t_us, "link": DOWN, "packet_us": packet_us, "byte_us": packet_us * 1500,
        "most_packets": np.where(t_us == 4_500_000, 40, 0), "most_bytes": 0}))
    fixture.seal(run_dir)
    found = values(run_dir)
    assert found["queue_length_mean", DOWN] == pytest.approx(3) and found["queue_length_max", DOWN] == 40
    assert found["queue_length_sd", DOWN] == pytest.approx(np.std([30] + 9 * [0], ddof=1))
    assert found["queueing_delay_backlog_mean", DOWN] == pytest.approx(3 * 1500 * 8 / 1e5)
    assert found["queue_length_mean", UP] == 4
    assert found["buffer_occupancy", DOWN] == pytest.approx(100 * 3 * 1500 / (850 * 1514))

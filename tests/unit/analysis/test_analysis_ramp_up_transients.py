# SPDX-License-Identifier: GPL-2.0-only
"""Ramp-up times and transients, from raw tables whose results were worked out by hand."""
import json
import math

import numpy as np
import pandas as pd
import pytest

from analysis.figures import draw_all
from analysis.flows import transients
from analysis.metrics import compute_metrics, ramp_up, resolutions
from analysis.pages.report import build_report
from analysis.read import tcp
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from tests.unit.analysis import fixture

DOWN = "right_to_left"
#: of the fixture's link of 100 Mbit/s and a flow of 100 ms: (100 - cross) Mbit/s x 100 ms / (8 x 1514 B)
BDP_OF_ALL, BDP_OF_A_QUARTER = 825.63, 206.41


def found(path):
    metrics, errors = compute_metrics(Run(path))
    assert not errors, errors[0]["traceback"]
    return {(one.metric, one.scope): one.value for one in metrics}


def samples(received=(), cwnd=(), srtt_us=100_000, every_us=100_000, offset_us=0):
    """tcp_info of fixture socket 10000 and its receiver, sampled every 100 ms: bytes received, windows."""
    count = max(len(received), len(cwnd))
    received, cwnd = list(received) or [0] * count, list(cwnd) or [10] * count
    t_us = offset_us + every_us * np.arange(count)
    rest = dict(state="ESTAB", cca="reno", ca_state=0, ssthresh=100, rto_us=204_000, rttvar_us=1000, min_rtt_us=8000,
                mss=1448, unacked=10, lost=0, retrans=0, total_retrans=0, delivered=0, delivery_rate_bps=0,
                pacing_rate_bps=0, app_limited=0, srtt_us=srtt_us, bytes_retrans=0, busy_us=t_us, rwnd_limited_us=0,
                sndbuf_limited_us=0, t_us=t_us)
    sender = pd.DataFrame({**rest, "node": "n4", "src": "10.0.4.2", "sport": 10_000, "dst": "10.0.1.2", "dport": 20_000,
                           "cwnd": cwnd, "bytes_acked": received, "bytes_sent": received, "bytes_received": 0})
    receiver = pd.DataFrame({**rest, "node": "n1", "src": "10.0.1.2", "sport": 20_000, "dst": "10.0.4.2",
                             "dport": 10_000, "cwnd": 10, "bytes_acked": 0, "bytes_sent": 0,
                             "bytes_received": received})
    return pd.concat([sender, receiver]).sort_values("t_us", kind="stable")


@pytest.fixture
def run_of(tmp_path):
    """run_of(flows, tcp_info, counts of UDP flows) -> folder of a run measured from 2 s to 12 s."""
    def make(flows, table, counts=(), name="reno-seed1", **options):
        path = fixture.write_run(tmp_path / name, tmix=False, flows=flows, **options)
        fixture.save(path / "raw" / "tcp_info.csv.gz", table)
        fixture.write_json(path / "raw" / "guest.json", {
            "traffic": {"cross": {"flows": list(counts)}}, "probes": {}, "sampler_lateness_us": {}})
        fixture.seal(path)
        return path
    return make


@pytest.mark.parametrize("probes, seconds", [
    ({"tcp_info": {"interval_us": 100_000}}, 0.1), ({}, 0),
    ({"tcp_info": {"interval_us": 10**6}, "tcp_info_often": {"hosts": ["n1", "n4"], "interval_us": 20_000}}, 0.02),
    ({"tcp_info": {"interval_us": 10**6}, "tcp_info_often": {"hosts": ["n1"], "interval_us": 20_000}}, 1)])
def test_times_are_known_to_within_a_sampling_interval(run_of, probes, seconds):
    run = Run(run_of([{**fixture.flow(1, 10_000, "reno"), "start_us": 2_500_000}], samples([0, 1500])))
    vars(run.scenario)["probes"] = probes
    assert resolutions(run).items() >= {name: seconds for name in (
        "ramp_up_time", "time_to_bdp_window_60", "time_to_bdp_window_80", "time_to_bdp_window_90", "time_to_room_left",
    )}.items()


@pytest.mark.parametrize("said, message", [
    (lambda run: 1 / 0, "ZeroDivisionError: division by zero"),
    (lambda run: {"ramp_up_tim": 1.0}, "resolution: ramp_up_tim is not among the UNITS of its file"),
    (lambda run: {"ramp_up_time": math.nan}, "resolution: nan of ramp_up_time; a number of 0 or more expected")])
def test_a_file_that_cannot_say_how_exact_it_is_keeps_its_metrics_and_is_an_error(run_of, monkeypatch, said, message):
    monkeypatch.setattr(ramp_up, "resolution", said)
    run = Run(run_of([{**fixture.flow(1, 10_000, "reno"), "start_us": 2_500_000}], samples([0, 1500] * 50)))
    assert not {"ramp_up_time", "ramp_up_tim"} & resolutions(run).keys()
    metrics, errors = compute_metrics(run)
    assert "ramp_up_time" in {one.metric for one in metrics}
    assert [(error["where"], error["message"]) for error in errors] == [("metric ramp_up", message)]


def test_a_ratio_has_no_resolution(run_of, monkeypatch):
    monkeypatch.setattr(ramp_up, "RATIOS", {"ramp_up_time"}, raising=False)
    _, errors = compute_metrics(Run(run_of([fixture.flow(1, 10_000, "reno")], samples([0, 1500]))))
    assert "resolution: ramp_up_time is a ratio" in [error["message"] for error in errors]


# -- ramp-up ----------------------------------------------------------------------------------

def test_times_to_so_many_bytes(run_of):
    """The flow starts at 2.05 s, samples lie 50 ms, 150 ms ... behind; its link carries 124 MB until the end."""
    received = [0] * 21 + [1000, 1500, 14_999, 15_001] + [200_000] * 10 + [1_600_000] * 84
    values = found(run_of([fixture.flow(1, 10_000, "reno", start_us=2_050_000)], samples(received)))
    times = {scope: value for (name, scope), value in values.items() if name == "ramp_up_time"}
    # 1500 at 2.2 s, 15000 at 2.4 s, 150000 at 2.5 s, 1.5 MB at 3.5 s, and never 15 MB
    assert times == {"flow_1/bytes_1500": pytest.approx(0.15), "flow_1/bytes_15000": pytest.approx(0.35),
                     "flow_1/bytes_150000": pytest.approx(0.45), "flow_1/bytes_1500000": pytest.approx(1.45),
                     "flow_1/bytes_15000000": math.inf}


@pytest.mark.parametrize("flows", [
    [fixture.flow(1, 10_000, "reno", start_us=1_999_999)],                                      # begins before
    [fixture.flow(1, 10_001, "reno", start_us=3_000_000)],                                      # was never seen
    [fixture.flow(1, 10_000, "reno", start_us=11_999_900)],                                     # no time for 1500 B
    [fixture.flow(number, 10_000 + number, "reno", start_us=3_000_000) for number in range(1, 6)]])     # too many
def test_no_ramp_up(run_of, flows):
    assert not [name for name, _ in found(run_of(flows, samples([10**7] * 120))) if name == "ramp_up_time"]


def test_a_flow_of_so_many_bytes_ends_with_them(run_of):
    values = found(run_of([fixture.flow(1, 10_000, "reno", start_us=2_000_000, bytes=20_000)],
                          samples([0] * 30 + [20_000] * 90)))
    assert [scope for name, scope in values if name == "ramp_up_time"] == ["flow_1/bytes_1500", "flow_1/bytes_15000"]


def test_hosts_that_are_sampled_more_often(run_of):
    """The receiver each 50 ms, all others each second: times are those of the receiver's samples."""
    received = np.interp(np.arange(0, 12, 0.05), [3, 5], [0, 2_000_000])
    often = samples(received, every_us=50_000)
    path = run_of([fixture.flow(1, 10_000, "reno", start_us=3_000_000)], samples(received[::20], every_us=1_000_000))
    fixture.save(path / "raw" / "tcp_info_often.csv.gz", often[often["node"] == "n1"])
    fixture.seal(path)
    values = found(path)
    # 1500, 15000, 150000 B after 1.5, 15, 150 ms; 1.5 MB after 1.5 s
    assert [values["ramp_up_time", f"flow_1/bytes_{size}"] for size in (1500, 15_000, 150_000, 1_500_000)] == [
        0.05, 0.05, 0.15, 1.5]
    table = tcp.flow_samples(Run(path))
    assert table.groupby("node", observed=True)["t_us"].agg(["size", "nunique"]).to_numpy().tolist() == [
        [240, 240], [12, 12]]
    # without such a table it is tcp_info itself
    (path / "raw" / "tcp_info_often.csv.gz").unlink()
    assert len(tcp.flow_samples(Run(path))) == 24


# -- transients -------------------------------------------------------------------------------

def cross(start_us, stop_us, number=2, rate_bps=75_000_000):
    return {**fixture.flow(number, None, "", transport="udp", start_us=start_us, stop_us=stop_us, rate_bps=rate_bps,
                           component="cross", kind="cbr"), "variant": None, "cca": None}


def long_flow(**changes):
    return fixture.flow(1, 10_000, "reno", base_rtt_us=100_000, **changes)


def test_cross_traffic_goes(run_of):
    """At 5 s; from then on the window grows by 100 each second, once by 30 within a round trip."""
    windows = [200] * 50 + [200 + 10 * step for step in range(30)] + [520 + 10 * step for step in range(40)]
    values = found(run_of([long_flow(), cross(0, 5_000_000)], samples(cwnd=windows)))
    # 60 % are 495.4 segments: 520 at 8 s; 80 % 660.5: 670 at 9.5 s; 90 % 743.1: 750 at 10.3 s
    assert [values[f"time_to_bdp_window_{percent}", "flow_1"] for percent in (60, 80, 90)] == pytest.approx(
        [3, 4.5, 5.3])
    assert values["largest_window_change", "flow_1"] == 30
    assert not {"time_to_room_left", "transient_drops"} & {name for name, _ in values}


def test_what_is_never_reached_is_infinite_and_changes_count_until_the_end(run_of):
    windows = [200] * 50 + [500] * 40 + [600] * 30
    values = found(run_of([long_flow(), cross(0, 5_000_000)], samples(cwnd=windows)))
    assert [values[f"time_to_bdp_window_{percent}", "flow_1"] for percent in (60, 80, 90)] == [0, math.inf, math.inf]
    # the step from 200 to 500 lies at the instant of the change
    assert values["largest_window_change", "flow_1"] == 300


@pytest.mark.parametrize("stop_us, stops", [(12_000_000, "with the run"), (10_000_000, "before")])
def test_cross_traffic_comes(run_of, stop_us, stops):
    """Two flows, at 5 s and 6 s. What is left and the buffer hold 206 + 850 packets."""
    windows = [1800] * 60 + [1700] * 10 + [1050] * 10 + [600] * 40
    flows = [long_flow(), cross(5_000_000, stop_us, 2, 50_000_000), cross(6_000_000, stop_us, 3, 25_000_000)]
    counts = [{"flow": 2, "lost_packets": 40, "socket_dropped_packets": 1}, {"flow": 3, "lost_packets": 5}]
    values = found(run_of(flows, samples(cwnd=windows), counts))
    assert values["time_to_room_left", "flow_1"] == pytest.approx(2)
    assert values["largest_window_change", "flow_1"] == 650
    assert values["transient_drops", DOWN] == 44
    assert not [name for name, _ in values if name.startswith("time_to_bdp")]


def test_of_a_program_the_drops_of_others_are_known_and_not_its_window(run_of):
    program = {**long_flow(), "transport": "program", "kind": "quic"}
    counts = [{"flow": 2, "lost_packets": 40, "socket_dropped_packets": 0}]
    values = found(run_of([program, cross(5_000_000, 12_000_000, 2, 50_000_000)], samples(cwnd=[0]).iloc[:0], counts))
    assert {name: value for name, value in values.items() if "window" in name[0] or "transient" in name[0]} == {
        ("transient_drops", DOWN): 40}


def test_drops_that_cannot_be_told_from_others_are_not_given(run_of):
    """A flow that was there before the step, or one that nobody counted."""
    steady = cross(0, 12_000_000, 2, 25_000_000)
    come = cross(5_000_000, 12_000_000, 3, 50_000_000)
    windows = samples(cwnd=[1800] * 60 + [600] * 60)
    counts = [{"flow": 2, "lost_packets": 4}, {"flow": 3, "lost_packets": 5}]
    there_before = found(run_of([long_flow(), steady, come], windows, counts))
    assert ("time_to_room_left", "flow_1") in there_before and ("transient_drops", DOWN) not in there_before
    uncounted = found(run_of([long_flow(), come], windows, [], name="cubic-seed1"))
    assert ("time_to_room_left", "flow_1") in uncounted and ("transient_drops", DOWN) not in uncounted


def test_the_step(run_of):
    step = transients.step_of(Run(run_of([long_flow(), cross(0, 5_000_000), cross(7_000_000, 12_000_000, 3)],
                                         samples(cwnd=[10] * 120))))
    assert (step.start_us, step.end_us, step.until_us) == (5_000_000, 5_000_000, 7_000_000)
    assert (step.before_bps, step.after_bps, step.rises) == (75_000_000, 0, False)
    assert step.bdp_window == pytest.approx(BDP_OF_ALL, abs=0.01)
    up = transients.step_of(Run(run_of([long_flow(), cross(5_000_000, 9_000_000)], samples(cwnd=[10] * 120),
                                       name="cubic-seed1")))
    assert up.rises and up.until_us == 9_000_000 and up.bdp_window == pytest.approx(BDP_OF_A_QUARTER, abs=0.01)


@pytest.mark.parametrize("flows", [
    [long_flow()], [long_flow(), cross(0, 12_000_000)], [long_flow(), cross(1_000_000, 12_000_000)],
    [long_flow(start_us=3_000_000), cross(0, 5_000_000)],
    [long_flow(), fixture.flow(3, 10_001, "reno"), cross(0, 5_000_000)],
    [long_flow(), cross(5_000_000, 12_000_000, rate_bps=100_000_000)],
    [long_flow(), {**cross(0, 5_000_000), "hops": ["left_to_right"]}]])
def test_no_transient(run_of, flows):
    assert transients.step_of(Run(run_of(flows, samples(cwnd=[10] * 120)))) is None


def test_tables_and_figure_of_an_experiment(tmp_path):
    """One seed reaches what the other does not; the figure shows the first."""
    path = fixture.write_experiment(tmp_path / "exp", seeds=(1, 2), tmix=False, points=[{"cross": "down"}],
                                    flows=[long_flow(), cross(0, 5_000_000)])
    for place, run in enumerate(Experiment(path).runs):
        fixture.save(run.path / "raw" / "tcp_info.csv.gz", samples(
            received=[50_000 * step for step in range(120)], cwnd=[200] * 50 + [500 + 200 * (place % 2)] * 70))
        fixture.seal(run.path)
    experiment = Experiment(path)
    figures, errors = draw_all(experiment, tmp_path / "figures")
    assert not errors, errors[0]["traceback"]
    assert "transients" in [figure.name for figure in figures]
    drawn = pd.read_csv(tmp_path / "figures" / "transients.csv")
    assert drawn["0 cwnd reno"].max() == 500 and drawn["0 cross"].dropna().tolist() == [75, 0, 0]
    build_report(path)
    page = (path / "report" / "index.html").read_text()
    assert "Around the step of the cross traffic" in page and "not reached in 1 of 2" in page


def test_what_is_no_number_and_may_not_be(run_of, monkeypatch):
    """Only what a metric file names may be infinite."""
    from analysis.metrics import transients as metric
    path = run_of([long_flow(), cross(0, 5_000_000)], samples(cwnd=[10] * 120))
    assert not compute_metrics(Run(path))[1]
    monkeypatch.setattr(metric, "CENSORED", set())
    (error,) = compute_metrics(Run(path))[1]
    assert error["message"] == "time_to_bdp_window_60 of flow_1 is inf"
    assert json.loads((path / "plan.json").read_text())["subject"] == "reno"

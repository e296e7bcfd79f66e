# SPDX-License-Identifier: GPL-2.0-only
"""The scenario tcp-on-off: flows that come and go; what is counted twice agrees to the last packet."""
import pytest

from analysis.metrics import compute_metrics
from analysis.read.runs import Run
from testbed import PROJECT_DIR

K, DOWN, SECONDS = 6, "right_to_left", 11
SCENARIO = (PROJECT_DIR / "scenarios" / "tcp-on-off.yaml").read_text().replace("test: 15 s", f"test: {SECONDS} s")


@pytest.fixture(scope="module")
def run(run_scenario):
    return run_scenario(SCENARIO, "reno")


@pytest.fixture(scope="module")
def found(run):
    """{(metric, scope): value}"""
    metrics, errors = compute_metrics(Run(run.folder))
    assert not errors, errors[0]["traceback"]
    return {(metric.metric, metric.scope): metric.value for metric in metrics}


def of_flows(found, metric):
    return [found[metric, f"flow_{flow}"] for flow in range(1, K + 1)]


def test_flows_start_stop_and_drain_when_they_should(run, found):
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    flows = run.json("raw/workload.json")["flows"]
    accounts = run.json("raw/guest.json")["accounts"]
    delivered_us = {flow: at_us for account in accounts for flow, at_us in account["delivered_us"].items()}
    received = {flow: size for account in accounts for flow, size in account["received_bytes"].items()}
    assert len(flows) == len(delivered_us) == K
    for flow, completion_s in zip(flows, of_flows(found, "flow_completion_time_l4")):
        assert 0 <= flow["start_us"] < 5_000_000 <= flow["stop_us"] < 10_000_000
        drained_us = delivered_us[str(flow["flow"])]
        assert flow["stop_us"] < drained_us < flow["stop_us"] + 1_000_000
        assert completion_s == pytest.approx((drained_us - flow["start_us"]) / 1e6)
        # what was written is what was read; the socket's last sample is at most 5 ms before its end
        window_s = (drained_us - flow["start_us"]) / 1e6
        read = found["mean_throughput_l7", f"flow_{flow['flow']}"] * window_s * 1e6 / 8
        assert received[str(flow["flow"])] - 60_000 <= read <= received[str(flow["flow"])] + 2


def test_every_drop_is_sent_again(run, found):
    """Nothing is lost but in this queue, and Reno with SACK sends nothing again without need: not here."""
    stack = run.json("raw/snmp.json")
    sent_again = stack["nodes"]["n2"]["TcpRetransSegs"][stack["readings"].index("drained")]
    drops = found["total_qdisc_drops_l2", DOWN]
    assert drops == sent_again > 0
    assert drops - 50 <= sum(of_flows(found, "total_retransmissions_l4")) <= drops      # sampled


def test_throughput_and_idle_time_make_up_the_capacity(run, found):
    """Bytes sent + time idle x rate = rate x time, the idle time being that in which the queue was empty."""
    queue = run.table("queue").query("link == @DOWN")
    sent_mbps = queue["sent_bytes"].iloc[-1] * 8 / SECONDS / 1e6
    assert found["mean_sending_rate_l1", DOWN] == pytest.approx(sent_mbps, rel=1e-3)
    steps = queue["sent_bytes"].diff().dropna() * 8 / 1e6 / 0.01
    busy = (queue["backlog_packets"].iloc[:-1].to_numpy() > 8) & (queue["backlog_packets"].iloc[1:].to_numpy() > 8)
    # 96 Mbit/s in every interval of 10 ms in which packets wait; never more than a packet beyond that
    assert busy.sum() > 300 and (steps[busy] - 96).abs().max() <= 2 * 1.2112 and steps.max() <= 96 + 2 * 1.2112
    idle_mbps = 96 - steps.mean()
    assert sent_mbps + idle_mbps == pytest.approx(96, abs=1e-9) and 0 < idle_mbps < 96
    assert found["utilisation", DOWN] == pytest.approx(sent_mbps / 0.96, rel=1e-3)
    assert found["utilisation_while_active", DOWN] > found["utilisation", DOWN]


def test_indices_are_within_their_limits(found):
    assert 1 / K <= found["mean_jains_fairness_throughput_l4", "bin_20_ms"] <= 1
    assert 0 <= found["mean_entropy_fairness_throughput_l4", "bin_20_ms"] <= 2.585
    # a flow's mean is over its life, that of all over the whole time
    acked = [rate * life_s for rate, life_s in zip(of_flows(found, "mean_throughput_l4"),
                                                   of_flows(found, "flow_completion_time_l4"))]
    assert found["mean_agg_throughput_l4", "all"] == pytest.approx(sum(acked) / SECONDS, rel=1e-3)
    assert found["mean_agg_utilization_bdp_l4", "all"] == pytest.approx(found["mean_agg_in_flight_l4", "all"] / 120)
    for flow, rate in enumerate(of_flows(found, "mean_throughput_l4"), start=1):
        # of samples, the last of which may be 10 ms before the end of a flow
        assert found["mean_utilization_bw_l4", f"flow_{flow}"] == pytest.approx(rate / 96, rel=5e-3)
        assert found["mean_sending_rate_l7", f"flow_{flow}"] >= found["mean_throughput_l7", f"flow_{flow}"] * (1 - 1e-6)
        assert found["mean_one_way_delay_l7", f"flow_{flow}"] > 7.5       # of the path


def test_the_same_seed_gives_the_same_bytes(run, run_scenario):
    again = run_scenario(SCENARIO, "reno").json("run.json")
    assert again["raw_files_sha256"] == run.json("run.json")["raw_files_sha256"]

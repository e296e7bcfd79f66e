# SPDX-License-Identifier: GPL-2.0-only
"""Paced flows over pairs of hosts: the example of docs/howto/paced.md."""
import pytest

from analysis.metrics import compute_metrics
from analysis.read.runs import Run
from tests.kernel import documented
from tests.kernel.small_runs import small_scenario


@pytest.fixture(scope="module")
def run(run_scenario):
    return run_scenario(documented.scenario("howto/paced.md"))


@pytest.fixture(scope="module")
def found(run):
    metrics, errors = compute_metrics(Run(run.folder))
    assert not errors, errors[0]["traceback"]
    return {(metric.metric, metric.scope): metric.value for metric in metrics}


def test_every_flow_has_the_rate_of_its_application(run, found):
    """100 packets of 1000 bytes a second, 5 Mbit/s for three of them: nothing waits long, nothing is lost."""
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    flows = run.json("raw/workload.json")["flows"]
    assert [(flow["sender"], flow["receiver"], flow["rate_bps"]) for flow in flows] == [
        ("n1", "n3", 800_000), ("n2", "n4", 800_000), ("n1", "n3", 800_000)]
    for flow in (1, 2, 3):
        assert found["mean_throughput_l4", f"flow_{flow}"] == pytest.approx(0.8, rel=1 / 300)
    assert found["delivery_ratio", "all"] == 100 and found["drop_ratio", "all"] == 0
    assert found["jains_index_whole", "all"] == pytest.approx(1, abs=1e-5)


def test_each_packet_leaves_when_it_is_due(run, found):
    """A packet of 1066 bytes in each frame; the last of a flow is due 10 ms at most before the end."""
    sent = {flow: size for account in run.json("raw/guest.json")["accounts"]
            for flow, size in account["sent_bytes"].items()}
    starts_us = {flow["flow"]: flow["start_us"] for flow in run.json("raw/workload.json")["flows"]}
    # the connection is there one round trip and a bit after the start: two packets are late, none is left out
    assert {int(flow): size for flow, size in sent.items()} == {
        flow: 1000 * -(-(4_000_000 - start_us) // 10_000) - left_out(start_us) for flow, start_us in starts_us.items()}
    bare_ms = 10 + 1514 * 8 / 5e3 + 2 * 1514 * 8 / 1e6
    assert -1e-6 < found["end_to_end_delay_mean", "all"] - bare_ms < 4


def left_out(_start_us):
    """Packets 1 and 2 are due while the handshake of 20 ms lasts."""
    return 2000


@pytest.mark.parametrize("packet_bytes", [1448, 500])
def test_a_receiver_of_little_reads_at_once(run_scenario, packet_bytes):
    """It acknowledges what it has read. One that waits for more does so up to 40 ms later."""
    finished = run_scenario(small_scenario(**{
        "topology.central": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"kind": "pfifo", "limit": 50}},
        "topology.left_delays": ["0 ms"], "topology.right_delays": ["0 ms"], "timing.test": "5 s",
        "traffic": {"kind": "paced", "paths": ["n2->n1"], "packets": 10, "packet": f"{packet_bytes} B"}}))
    samples = finished.table("tcp_info").query("node == 'n2' and state == 'ESTAB' and t_us > 1000000")
    frame, ack = packet_bytes + 66, 66
    bare_us = 20_000 + 8 * (frame + ack) / 10 + 2 * 8 * (frame + ack) / 1000
    # it comes from below: the segments of the handshake were shorter
    assert samples["srtt_us"].max() == samples["srtt_us"].iloc[-1] == pytest.approx(bare_us, abs=3)
    assert samples["srtt_us"].min() > 20_000 and len(samples) >= 49

# SPDX-License-Identifier: GPL-2.0-only
"""Packet sizes and receive windows of connection vectors on real sockets, in virtual time."""
import pytest

from small_runs import small_scenario

REQUEST, RESPONSE = 48_400, 1_448_000


def transfer(run_scenario, folder, *lines, **options):
    """One connection over a round-trip time of 32 ms, whose vector has these lines: the run."""
    header = "\n".join(["SEQ {} 1 1 1", *lines, f"> {REQUEST}", "t 100000", f"< {RESPONSE}", "t 100000", ""])
    (folder / "one.cvec").write_text(header.format(10_000) + header.format(5_500_000))  # behind the end
    return run_scenario(small_scenario(**{"probes.tcp_info": {"interval": "1 ms"}, "traffic": {
        "kind": "tmix", "target": "right_to_left", "paths": "n2->n4", "load": "1 %", "scale": 1, "traces": str(folder),
        **options}}))


def senders(run):
    """Samples of the initiator's and the acceptor's socket after the first data."""
    samples = run.table("tcp_info")
    samples = samples[(samples["state"] == "ESTAB") & (samples["bytes_sent"] > 0)]
    samples = samples.assign(outstanding_bytes=samples["bytes_sent"] - samples["bytes_acked"])
    return samples[samples["node"] == "n2"], samples[samples["node"] == "n4"]


@pytest.mark.parametrize("line, initiator, acceptor", [
    ("m 496 1460", 484, 1448), ("m 1460 496", 1448, 484), ("m 496 496", 484, 484), ("m 536 1012", 524, 1000),
    ("m 1012 536", 1000, 524), ("m 9000 9000", 1448, 1448)])
def test_each_side_sends_packets_of_its_own_size(run_scenario, tmp_path, line, initiator, acceptor):
    run = transfer(run_scenario, tmp_path, line)
    for samples, size, payload in zip(senders(run), (initiator, acceptor), (REQUEST, RESPONSE)):
        assert set(samples["mss"]) == {size}
        assert samples["bytes_sent"].max() == payload       # nothing was sent twice
    assert list(run.table("connections")["status"]) == ["finished"]


@pytest.mark.parametrize("window", [8_000, 30_000, 200_000])
def test_a_window_of_the_vector_is_what_the_peer_may_send(run_scenario, tmp_path, window):
    lines = f"w {window} {window}", "r 32000"
    free = transfer(run_scenario, tmp_path, *lines)
    limited = transfer(run_scenario, tmp_path, *lines, windows="vector")
    assert limited.json("raw/workload.json")["components"][0]["windows"] == "vector"
    (_, unbounded), (_, bounded) = senders(free), senders(limited)
    most = bounded["outstanding_bytes"].max()
    assert window - 2 * 1448 <= most <= window < unbounded["outstanding_bytes"].max()
    # a window for each round trip; the response alone at the link's rate is 0.12 s
    took_us = limited.table("adus").query("side == 'a'").eval("delivered_us - sent_us").iloc[0]
    assert took_us == pytest.approx(32_000 * RESPONSE / most, rel=0.15)
    assert list(limited.table("connections")["status"]) == ["finished"]


def test_an_acceptors_window_holds_after_what_its_syn_ack_announced(run_scenario, tmp_path):
    limited = transfer(run_scenario, tmp_path, "w 1000000 8000", windows="vector")
    initiator, acceptor = senders(limited)
    assert initiator["outstanding_bytes"].max() <= 65535
    assert acceptor["outstanding_bytes"].max() > 65535

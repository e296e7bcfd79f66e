# SPDX-License-Identifier: GPL-2.0-only
"""Packet sizes and receive windows of connection vectors on real sockets, in virtual time."""
import pytest

from tests.kernel.small_runs import small_scenario

RTT_US = 32_000


def transfer(run_scenario, folder, line, request, response, **options):
    """A connection with a line of its vector, from n2 to n4: samples of the initiator's socket and of the acceptor's
    when they have sent data, and times that request and response took, us."""
    vector = f"SEQ {{}} 1 1 1\n{line}\n> {request}\nt 100000\n< {response}\nt 100000\n"
    (folder / "one.cvec").write_text(vector.format(10_000) + vector.format(5_500_000))  # the second is behind the end
    run = run_scenario(small_scenario(**{"probes.tcp_info": {"interval": "5 ms"}, "traffic": {
        "kind": "tmix", "target": "right_to_left", "paths": "n2->n4", "load": "1 %", "scale": 1, "traces": str(folder),
        **options}}))
    assert list(run.table("connections")["status"]) == ["finished"]
    samples = run.table("tcp_info")
    samples = samples[(samples["state"] == "ESTAB") & (samples["bytes_sent"] > 0)]
    samples = samples.assign(outstanding_bytes=samples["bytes_sent"] - samples["bytes_acked"])
    adus = run.table("adus").set_index("side")
    return [samples[samples["node"] == node] for node in ("n2", "n4")], adus["delivered_us"] - adus["sent_us"]


@pytest.mark.parametrize("line, initiator, acceptor", [
    ("m 496 1460", 484, 1448), ("m 1460 496", 1448, 484), ("m 496 496", 484, 484), ("m 1012 536", 1000, 524),
    ("m 536 9000", 524, 1448)])
def test_each_side_sends_packets_of_its_own_size(run_scenario, tmp_path, line, initiator, acceptor):
    sizes = 48_400, 144_800
    senders, _ = transfer(run_scenario, tmp_path, line, *sizes)
    for samples, mss, size in zip(senders, (initiator, acceptor), sizes):
        assert set(samples["mss"]) == {mss}
        assert samples["bytes_sent"].max() == size          # nothing was sent twice


@pytest.mark.parametrize("of_initiator, of_acceptor", [(8_000, 65_535), (200_000, 8_000), (30_000, 30_000)])
def test_a_window_of_the_vector_is_what_the_peer_may_send(run_scenario, tmp_path, of_initiator, of_acceptor):
    response = 40 * of_initiator
    (initiator, acceptor), took_us = transfer(
        run_scenario, tmp_path, f"w {of_initiator} {of_acceptor}", 400_000, response, windows="vector")
    # a window is used but for a segment or two, and takes a round trip or, by delayed acknowledgements, some more
    most = acceptor["outstanding_bytes"].max()
    assert of_initiator - 2 * 1448 <= most <= of_initiator
    assert 0.9 < took_us["a"] / (RTT_US * response / most) < 1.3
    # the acceptor's holds when what its SYN-ACK announced has been used
    assert initiator["outstanding_bytes"].max() <= 65_535
    assert initiator["outstanding_bytes"][initiator["bytes_acked"] > 2 * 65_535].max() <= of_acceptor


def test_windows_are_the_hosts_by_default(run_scenario, tmp_path):
    (_, acceptor), took_us = transfer(run_scenario, tmp_path, "w 8000 8000", 1000, 320_000)
    assert acceptor["outstanding_bytes"].max() > 80_000 and took_us["a"] < 10 * RTT_US

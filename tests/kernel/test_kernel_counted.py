# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel counts itself: every packet of a fast link, and what a queue holds between samples."""
import pytest

from tests.kernel.small_runs import small_scenario


def dumbbell(rate, delay, limits, edge):
    """Two hosts; limits: of the queues to the left and to the right."""
    left, right = ({"rate": rate, "delay": delay, "queue": {"kind": "pfifo", "limit": limit}} for limit in limits)
    return {"kind": "dumbbell", "central": {"right_to_left": left, "left_to_right": right},
            "edge": {"rate": edge, "queue": {"kind": "pfifo", "limit": 10000}}, "left_delays": ["0 ms"],
            "right_delays": [delay]}


def test_every_packet_of_10_gbit_is_timed(run_scenario):
    run = run_scenario(small_scenario(**{
        "topology": dumbbell("10 Gbit/s", "10 us", (100, 1000), "20 Gbit/s"),
        "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]},
        "timing": {"warmup": "50 ms", "test": "100 ms"}, "probes.tcp_info.interval": "1 ms"}))
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    timed = run.table("sojourn").groupby("link")["packets"].sum()
    sent = run.table("queue").groupby("link")["sent_packets"].max()
    assert (abs(timed - sent) <= 1).all() and timed["right_to_left"] > 120_000
    assert run.json("raw/guest.json")["probes"]["sojourn"] == {"lost_events": 0}


def test_bursts_between_samples_are_counted(run_scenario):
    """20 Mbit/s for 0.2 s of each second into 10 Mbit/s: the queue rises for 0.2 s, falls for as long, and is empty
    whenever it is sampled. At most it holds 247 packets, and half of that on the mean of 0.4 s."""
    run = run_scenario(small_scenario(**{
        "topology": dumbbell("10 Mbit/s", "10 ms", (500, 500), "1 Gbit/s"),
        "traffic": {"kind": "on-off", "rate": "20 Mbit/s", "paths": ["n2->n1"], "on": "200 ms", "off": "800 ms",
                    "start": "300 ms"},
        "timing": {"warmup": "1 s", "test": "4 s"}, "probes.queue": {"interval": "1 s"}}))
    assert run.table("queue")["backlog_packets"].max() == 0
    held = run.table("backlog").query("link == 'right_to_left' and t_us >= 1_000_000")
    mean = held["packet_us"].diff().iloc[1:] / held["t_us"].diff().iloc[1:]
    most = held["most_packets"].iloc[1:]
    assert (most == most.iloc[0]).all() and most.iloc[0] == pytest.approx(247, abs=2)
    assert mean.tolist() == pytest.approx([247 * 0.4 / 2] * 4, rel=0.02)
    assert any("samples do not show what its queue held: 0.00 packets" in one["message"]
               for one in run.json("verdict.json")["checks"] if one["check"] == "sampling")

# SPDX-License-Identifier: GPL-2.0-only
"""Segments followed over wires: those that are missing are those that the queue dropped, and none was too fast."""
import pytest

from analysis.metrics import compute_metrics
from analysis.read.runs import Run
from tests.kernel.small_runs import small_scenario

FRAME_BYTES = 1514


@pytest.fixture(scope="module")
def run(run_scenario):
    tree = small_scenario(**{
        "traffic.tool": "sockets", "timing": {"warmup": "0 s", "test": "2 s"},
        "probes.journeys": {"interval": "100 ms"}})
    tree["topology"]["central"] |= {"rate": "10 Mbit/s", "queue": {"kind": "pfifo", "limit": 20}}
    return run_scenario(tree)


def test_what_did_not_arrive_was_dropped(run):
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    table, links = run.table("journeys"), run.json("raw/counters.json")["drained"]
    assert set(table["flow"]) == {1} and set(table["backward"]) == {0}
    missing = (table["sent_packets"] - table["arrived_packets"]).sum()
    assert missing == links["right_to_left"]["dropped_packets"] > 0
    # beside data there are the handshake and the end, and what left after the end of the run
    sent = table["sent_packets"].sum()
    assert sent <= links["n4_to_r2"]["sent_packets"] <= sent + 20
    assert (table["sent_bytes"] <= table["sent_packets"] * (FRAME_BYTES - 14)).all()


def test_times_are_those_of_links_and_queue(run):
    """From behind the queue of the host: delays of 2 + 2 ms, three transmissions, 20 packets of the queue at most."""
    table = run.table("journeys").dropna()
    bare_us = 4000 + FRAME_BYTES * 8 * (1 / 10 + 2 / 1000)
    # the first segment follows the handshake's acknowledgement, on its heels
    handshake_us = 66 * 8 / 10
    full_us = bare_us + 21 * FRAME_BYTES * 8 / 10
    assert bare_us - FRAME_BYTES * 8 / 1000 - 1 <= table["min_us"].min() <= bare_us + handshake_us + 1
    assert full_us - 2 * FRAME_BYTES * 8 / 10 <= table["max_us"].max() <= full_us + 1
    metrics, errors = compute_metrics(Run(run.folder))
    assert not errors, errors[0]["traceback"]
    found = {(metric.metric, metric.scope): metric.value for metric in metrics}
    assert found["delivery_ratio", "all"] == pytest.approx(
        100 * run.table("journeys")["arrived_packets"].sum() / run.table("journeys")["sent_packets"].sum())

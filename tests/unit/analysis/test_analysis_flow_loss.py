# SPDX-License-Identifier: GPL-2.0-only
"""What the network lost of a TCP flow: the drops that are not those of UDP flows."""

import json

import pytest

import fixture
from analysis.metrics import flow_loss
from analysis.runs import Run

TCP = fixture.flow(1, 10_000, "reno", hops=["n4_to_r2", "right_to_left"])
UDP = {**fixture.flow(2, None, "", transport="udp", sender="n5", hops=["n5_to_r2", "right_to_left"]),
       "variant": None, "cca": None}
LINKS = {"n4_to_r2": {"sent_packets": 190, "dropped_packets": 10, "wire_dropped_packets": 0},
         "n5_to_r2": {"sent_packets": 500, "dropped_packets": 0, "wire_dropped_packets": 0},
         "right_to_left": {"sent_packets": 640, "dropped_packets": 45, "wire_dropped_packets": 5}}


def found(folder, flows=(TCP, UDP), lost=40, links=LINKS):
    """The metric of a run with such links, of whose UDP flow so many packets were lost."""
    fixture.write_run(folder, flows=list(flows), tmix=False)
    fixture.write_json(folder / "raw" / "counters.json", {"at_end": {}, "drained": links})
    counts = {"flow": 2, "sent_packets": 500, "received_packets": 500 - (lost or 0), "received_bytes": 1}
    fixture.write_json(folder / "raw" / "guest.json", {"traffic": {"cross": {"flows": [
        counts if lost is None else {**counts, "lost_packets": lost}]}}})
    return [tuple(metric) for metric in flow_loss.compute(Run(folder))]


def test_drops_that_are_not_of_udp_are_of_the_tcp_flow(tmp_path):
    """60 packets were dropped, 40 of them of UDP; 200 were sent."""
    assert found(tmp_path / "both") == [("flow_loss", "flow_1", "%", pytest.approx(10))]
    links = {name: {**link, "dropped_packets": 0, "wire_dropped_packets": 0} for name, link in LINKS.items()}
    assert found(tmp_path / "none", lost=0, links=links) == [("flow_loss", "flow_1", "%", 0)]
    assert found(tmp_path / "alone", flows=[TCP]) == [("flow_loss", "flow_1", "%", pytest.approx(30))]


@pytest.mark.parametrize("changes", [
    {"flows": [TCP, UDP, fixture.flow(3, 10_001, "reno")]}, {"flows": [UDP]}, {"lost": None}, {"lost": 61},
    {"flows": [TCP, {**UDP, "sender": "n4"}]}, {"links": {"right_to_left": LINKS["right_to_left"]}}])
def test_it_is_not_told_where_it_is_not_known(tmp_path, changes):
    assert found(tmp_path / "run", **changes) == []


def test_a_run_without_counters(tmp_path):
    fixture.write_run(tmp_path / "run", flows=[TCP], tmix=False)
    (tmp_path / "run" / "raw" / "counters.json").unlink(missing_ok=True)
    assert flow_loss.compute(Run(tmp_path / "run")) == []


def test_damaged_counters_are_told(tmp_path):
    fixture.write_run(tmp_path / "run", flows=[TCP], tmix=False)
    (tmp_path / "run" / "raw" / "counters.json").write_text(json.dumps({"drained": {"x": 3}}))
    with pytest.raises(Exception, match="counters.json"):
        flow_loss.compute(Run(tmp_path / "run"))

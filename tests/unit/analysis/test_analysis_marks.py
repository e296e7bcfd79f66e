# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of congestion marks: of links, of flows, of variants."""
import json

import pandas as pd
import pytest

from analysis.metrics import marks
from analysis.read.runs import Run
from tests.unit.analysis import fixture

#: (t_us, link, flow, backward, packets); the measured part is from 2 to 12 s
ROWS = [(1_900_000, "right_to_left", 1, 0, 7), (2_000_000, "right_to_left", 1, 0, 100),
        (11_900_000, "right_to_left", 1, 0, 20), (5_000_000, "right_to_left", 2, 0, 30),
        (5_000_000, "left_to_right", 1, 1, 4), (12_000_000, "right_to_left", 1, 0, 5)]
FLOWS = [fixture.flow(1, 10_000, "dctcp"), fixture.flow(2, 10_001, "cubic")]


def found(folder, flows, rows=ROWS, marking=("right_to_left",), interval_us=100_000, uncut=False):
    fixture.write_run(folder, flows=flows, tmix=False)
    plan = json.loads((folder / "plan.json").read_text())
    plan["scenario"].setdefault("probes", {})["ce_marks"] = {"interval_us": interval_us}
    fixture.write_json(folder / "plan.json", plan)
    path = folder / "raw/network.json"
    network = json.loads(path.read_text())
    for link in network["links"]:
        link["queue_options"] = {"limit": 850, "ecn": True} if link["name"] in marking else {"limit": 850}
        link["uncut"] = uncut
    path.write_text(json.dumps(network))
    samples = pd.read_csv(folder / "raw/tcp_info.csv.gz")
    fixture.save(folder / "raw/tcp_info.csv.gz", samples.assign(delivered=samples["t_us"] // 1000))
    if rows is not None:
        table = pd.DataFrame(rows, columns=["t_us", "link", "flow", "backward", "packets"])
        fixture.save(folder / "raw/ce_marks.csv.gz", table.assign(bytes=0))
    return {(metric.metric, metric.scope): (metric.value, metric.unit) for metric in marks.compute(Run(folder))}


def test_marks_of_the_measured_part_are_counted_by_link_flow_and_variant(tmp_path):
    """The link sends 5000 packets each second; each flow has a packet delivered each millisecond."""
    assert found(tmp_path / "run", FLOWS) == {
        ("ce_marked", "right_to_left"): (150, "packets"), ("ce_mark_rate", "right_to_left"): (pytest.approx(0.3), "%"),
        ("ce_marked", "flow_1"): (120, "packets"), ("ce_mark_rate", "flow_1"): (pytest.approx(1.2), "%"),
        ("ce_marked", "flow_2"): (30, "packets"), ("ce_mark_rate", "flow_2"): (pytest.approx(0.3), "%"),
        ("ce_marked", "cca_dctcp"): (120, "packets"), ("ce_marked", "cca_cubic"): (30, "packets")}


def test_marks_and_packets_are_of_the_same_time(tmp_path):
    """A thousand marks in each 1.5 s: the whole intervals in 2 to 12 s are six; 45,000 packets left in them."""
    rows = [(t_us, "right_to_left", 1, 0, 1000) for t_us in range(0, 12_000_000, 1_500_000)]
    metrics = found(tmp_path / "run", FLOWS[:1], rows, interval_us=1_500_000)
    assert metrics["ce_marked", "right_to_left"][0] == 6000
    assert metrics["ce_mark_rate", "right_to_left"][0] == pytest.approx(100 * 6000 / 45_000)
    assert metrics["ce_mark_rate", "flow_1"][0] == pytest.approx(100 * 6000 / 9000)


def test_a_packet_that_two_queues_mark_counts_once_for_its_flow(tmp_path):
    """What leaves the last queue on the way: the way back counts where there are data on it."""
    flows = [{**FLOWS[0], "hops": ["left_to_right", "right_to_left"], "hops_back": ["left_to_right"]}]
    both = ("left_to_right", "right_to_left")
    rows = [*ROWS, (3_000_000, "left_to_right", 1, 0, 50)]
    metrics = found(tmp_path / "one", flows, rows, both)
    assert metrics["ce_marked", "flow_1"][0] == 120 and metrics["ce_marked", "left_to_right"][0] == 54
    flows[0]["both_ways"] = True
    assert found(tmp_path / "two", flows, rows, both)["ce_marked", "flow_1"][0] == 124


def test_no_marks_are_zero_and_no_record_of_them_is_nothing(tmp_path):
    assert found(tmp_path / "zero", FLOWS[:1], []) == {
        ("ce_marked", "right_to_left"): (0, "packets"), ("ce_mark_rate", "right_to_left"): (0, "%"),
        ("ce_marked", "flow_1"): (0, "packets"), ("ce_mark_rate", "flow_1"): (0, "%")}
    assert found(tmp_path / "none", FLOWS, None) == {}


def test_where_nobody_cuts_packets_marks_are_no_share_of_segments(tmp_path):
    cut, uncut = found(tmp_path / "cut", FLOWS), found(tmp_path / "uncut", FLOWS, uncut=True)
    assert cut.keys() - uncut.keys() == {
        ("ce_mark_rate", "right_to_left"), ("ce_mark_rate", "flow_1"), ("ce_mark_rate", "flow_2")}

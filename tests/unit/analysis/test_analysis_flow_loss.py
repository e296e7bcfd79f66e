# SPDX-License-Identifier: GPL-2.0-only
"""What the network lost of a TCP flow: the drops that are not those of UDP flows."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.metrics import flow_loss
from analysis.read.runs import Run
from tests.unit.analysis import fixture

TCP = fixture.flow(1, 10_000, "reno", hops=["n4_to_r2", "right_to_left"])
UDP = {**fixture.flow(2, None, "", transport="udp", sender="n5", hops=["n5_to_r2", "right_to_left"]),
       "variant": None, "cca": None}
LINKS = {"n4_to_r2": {"sent_packets": 190, "dropped_packets": 10, "wire_dropped_packets": 0},
         "n5_to_r2": {"sent_packets": 500, "dropped_packets": 0, "wire_dropped_packets": 0},
         "right_to_left": {"sent_packets": 640, "dropped_packets": 45, "wire_dropped_packets": 5}}


def found(folder, flows=(TCP, UDP), lost=40, links=LINKS, shape=fixture.Shape(prefill_s=0, warmup_s=0), **readings):
    """The metric of a run with such links, of whose UDP flow so many packets were lost."""
    fixture.write_run(folder, flows=list(flows), tmix=False, shape=shape)
    fixture.write_json(folder / "raw" / "counters.json", {"at_end": {}, "drained": links, **readings})
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


def pair(**changes):
    """Two flows of two pairs of hosts over one link: 200 and 300 packets enter, 190 and 300 come out."""
    flows = [fixture.flow(number, 9_999 + number, "reno", sender=f"n{sender}",
                          hops=[f"n{sender}_to_r2", "right_to_left", f"r1_to_n{number}"], hops_back=["left_to_right"])
             for number, sender in ((1, 4), (2, 5))]
    links = {"n4_to_r2": (195, 5, 195), "n5_to_r2": (300, 0, 300), "right_to_left": (490, 5, 490),
             "r1_to_n1": (190, 0, 190), "r1_to_n2": (300, 0, 300)}
    return {"flows": flows, "links": {name: {"sent_packets": sent, "dropped_packets": dropped,
                                             "wire_dropped_packets": 0, "wire_delivered_packets": delivered}
                                      for name, (sent, dropped, delivered) in links.items()}, **changes}


def test_what_does_not_come_out_of_a_link_of_its_own_is_lost(tmp_path):
    assert found(tmp_path / "two", **pair()) == [("flow_loss", "flow_1", "%", pytest.approx(5)),
                                                 ("flow_loss", "flow_2", "%", 0)]


def test_of_programs_the_only_flow_and_those_with_links_of_their_own_have_it(tmp_path):
    program = {**TCP, "transport": "program", "kind": "quic"}
    assert found(tmp_path / "alone", flows=[program]) == [("flow_loss", "flow_1", "%", pytest.approx(30))]
    two = pair()["flows"]
    assert found(tmp_path / "beside", **pair(flows=[{**two[0], "transport": "program"}, two[1]])) == [
        ("flow_loss", "flow_2", "%", 0), ("flow_loss", "flow_1", "%", pytest.approx(5))]


def test_of_two_flows_to_one_host_nothing_is_known(tmp_path):
    both = pair()["flows"]
    both[1]["hops"][-1] = both[0]["hops"][-1]
    assert found(tmp_path / "one host", **pair(flows=both)) == []
    back = pair()["flows"]
    back[1]["hops_back"] = ["n4_to_r2"]
    assert [name for _, name, *_ in found(tmp_path / "back", **pair(flows=back))] == ["flow_2"]


def test_losses_before_the_measurement_interval_do_not_count(tmp_path):
    """Of the only flow of a run: until measuring began 190 packets with 50 lost, then 10 with one lost."""
    before = {name: {**link, **({"sent_packets": 180} if name == "n4_to_r2" else {"dropped_packets": 44})}
              for name, link in LINKS.items()}
    assert found(tmp_path / "run", flows=[TCP], shape=fixture.Shape(), links=LINKS, measure_from=before,
                 at_end=LINKS) == [("flow_loss", "flow_1", "%", pytest.approx(10))]


def retransmitted(folder, before, inside):
    """Let tcp_info say that a flow sent so many segments again until measuring began, and after that."""
    path = folder / "raw" / "tcp_info.csv.gz"
    table = pd.read_csv(path)
    table["total_retrans"] = np.interp(table["t_us"], [0, 2_000_000, 12_000_000], [0, before, before + inside])
    fixture.save(path, table)
    return [tuple(metric) for metric in flow_loss.compute(Run(folder))]


def test_where_counters_do_not_tell_the_interval_retransmissions_do(tmp_path):
    """Of 12 s the last ten are measured, a flow sends at a constant rate: in these it sent again a tenth of all."""
    found(tmp_path / "run", shape=fixture.Shape(tcp_info_rows=24_000))
    (_, flow, _, percent), = retransmitted(tmp_path / "run", 90, 10)
    assert flow == "flow_1" and percent == pytest.approx(10 * 0.1 / (10 / 12), rel=0.02)
    assert retransmitted(tmp_path / "run", 0, 0) == []
    # of two flows that sent nothing again the one that lost nothing is known
    assert found(tmp_path / "none", shape=fixture.Shape(), **pair()) == [("flow_loss", "flow_2", "%", 0)]


def test_a_run_without_counters(tmp_path):
    fixture.write_run(tmp_path / "run", flows=[TCP], tmix=False)
    (tmp_path / "run" / "raw" / "counters.json").unlink(missing_ok=True)
    assert flow_loss.compute(Run(tmp_path / "run")) == []


def test_damaged_counters_are_told(tmp_path):
    fixture.write_run(tmp_path / "run", flows=[TCP], tmix=False)
    (tmp_path / "run" / "raw" / "counters.json").write_text(json.dumps({"drained": {"x": 3}}))
    with pytest.raises(Exception, match="counters.json"):
        flow_loss.compute(Run(tmp_path / "run"))

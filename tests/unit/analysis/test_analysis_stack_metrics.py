# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of what the hosts' stacks counted, against what was put into raw/snmp.json."""
import json

import pytest

from analysis.read.runs import Run
from testbed.core.files import write_json
from tests.unit.analysis import fixture

DOWN, UP = "right_to_left", "left_to_right"


def count(path, **nodes):
    """Write raw/snmp.json; nodes: {counter: [at the begin, at the end, drained]} of each."""
    write_json(path / "raw" / "snmp.json", {"measure_from_us": 2_000_000, "nodes": nodes,
                                            "readings": ["measure_from", "at_end", "drained"]})
    fixture.seal(path)


def hosts(run_dir):
    """(a host that initiates, one that accepts)"""
    flow = Run(run_dir).flows[0]
    return flow["sender"], flow["receiver"]


def test_of_all_segments_of_the_interval(run_dir, values):
    """1,000 - 200 = 800 segments of new data, and 23 - 7 = 16 again, 6 - 2 = 4 of them SYN-ACKs: 12 of 812."""
    initiator, acceptor = hosts(run_dir)
    count(run_dir, **{acceptor: {"TcpExtTCPOrigDataSent": [200, 1000, 1100], "TcpRetransSegs": [7, 23, 40],
                                 "TcpExtTCPSynRetrans": [2, 6, 9], "TcpExtTCPTimeouts": [1, 4, 4]},
                      initiator: {"TcpExtTCPOrigDataSent": [10, 30, 30], "TcpRetransSegs": [0, 5, 5],
                                  "TcpExtTCPSynRetrans": [0, 5, 5]}})
    found = values(run_dir)
    assert found["retransmission_rate", DOWN] == pytest.approx(100 * 12 / 812)
    assert found["retransmission_rate", UP] == 0
    assert (found["handshake_retransmissions", DOWN], found["handshake_retransmissions", UP]) == (4, 5)
    assert (found["timeouts", DOWN], found["spurious_timeouts", DOWN]) == (3, 0)


def test_hosts_without_data_and_runs_without_counters_have_none(run_dir, values):
    count(run_dir, **{hosts(run_dir)[1]: {"IpInReceives": [1, 2, 3]}})
    assert not [key for key in values(run_dir) if key[0] == "retransmission_rate"]
    (run_dir / "raw" / "snmp.json").unlink()
    fixture.seal(run_dir)
    assert not [key for key in values(run_dir) if key[0] == "retransmission_rate"]


@pytest.mark.parametrize("content, message", [
    ("{", "snmp.json"), (json.dumps({"readings": [], "nodes": {}}), "not in list"),
    (json.dumps({"readings": ["measure_from", "at_end"], "nodes": {"n1": {"TcpRetransSegs": ["many"]}}}), "snmp.json")])
def test_a_damaged_file_costs_only_these_metrics(run_dir, errors, content, message):
    (run_dir / "raw" / "snmp.json").write_text(content)
    fixture.seal(run_dir)
    found = errors(run_dir)
    assert found.keys() == {"stack"} and message in found["stack"]

# SPDX-License-Identifier: GPL-2.0-only
"""The check of the air where all is well (bad_air.py has the rest), and what a module's file of accounts says."""
import pandas as pd

import evidence_files
import topologies
from bad_air import COUNTS, MESH, counted, in_vain
from testbed.fidelity import _sockets
from testbed.guest import air
from topologies import air_accounts


def findings(tmp_path, **how):
    files = evidence_files.good_files()
    counted(**how)(files)
    return evidence_files.findings(tmp_path, "air", files)


def test_frames_that_are_accounted_for(tmp_path):
    assert findings(tmp_path) == [("ok", "every frame accounted for on the air (20 of 2 stations: 18 delivered, 2 lost "
                                         "after 26 attempts)")]


def test_wires_have_no_air(tmp_path):
    assert not evidence_files.findings(tmp_path, "air", evidence_files.good_files())


def test_a_low_rate_device_sends_what_its_radio_does(tmp_path):
    low = topologies.resolve({"kind": "low-rate", "nodes": 2})
    (level, _), = findings(tmp_path, network=low, change=lambda counts: [one.update(
        device_tx_packets=10) for one in counts.values()])
    assert level == "ok"


def asked(state, **flow):
    """Samples of a sender of a flow from n1 to n2 of a mesh of two, and what was seen of it while it asked."""
    flow = {"flow": 1, "transport": "tcp", "sender": "n1", "receiver": "n2", "sport": None, "dport": 5000,
            "src": "10.0.1.1", "dst": "10.0.1.2", **flow}
    samples = pd.DataFrame([{"t_us": 1, "node": "n1", "sport": 1024, "dst": "10.0.1.2", "dport": 5000, "state": state}])
    return _sockets.trying(samples, [flow], MESH)


def test_a_flow_over_the_air_may_ask_for_long():
    assert list(asked("SYN-SENT")["flow"]) == [1]
    assert asked("ESTAB") is None and asked("SYN-SENT", sender="r1") is None


def test_a_flow_that_the_air_starves_is_counted(tmp_path):
    files = evidence_files.good_files()
    in_vain()(files)
    for check, words in (("connected", "1 of 1 flows over the air were never connected: they asked 16 times again, and "
                                       "68 packets were lost or dropped by radios and queues on their ways"),
                         ("sockets", "1 flows from their beginning to their end")):
        (level, message), = evidence_files.findings(tmp_path, check, files)
        assert level == "ok" and words in message
    assert [level for level, message in evidence_files.findings(tmp_path, "ccas", files)
            if "no connection of" in message] == []


def test_wires_connect_everybody(tmp_path):
    assert not evidence_files.findings(tmp_path, "connected", evidence_files.good_files())


def test_accounts_are_read_by_the_names_of_their_columns():
    rows, busy_ns = air_accounts.parse("station frames queued\n0 5 1\n1 6 0\nbusy_ns 77\n")
    assert rows == [{"station": 0, "frames": 5, "queued": 1}, {"station": 1, "frames": 6, "queued": 0}]
    assert busy_ns == 77


def test_what_is_queued_is_no_difference():
    before, after = ({"n1": dict(COUNTS)}, 100), ({"n1": {**COUNTS, "frames": 30, "queued": 5}}, 400)
    found = air.differences(before, after, after)
    assert found["air_busy_ns"] == {"at_end": 300, "drained": 300}
    assert (found["air_drained"]["n1"]["frames"], found["air_drained"]["n1"]["queued"]) == (20, 5)

# SPDX-License-Identifier: GPL-2.0-only
"""Raw files that lack a column or a key: the verdict says which file, and which column or key."""
import copy

import pandas as pd
import pytest

from testbed import checks
from tests.unit.testbed import evidence_files


def messages(tmp_path, files):
    return [check["message"] for check in checks.judge(evidence_files.write(tmp_path, files))["checks"]]


def test_every_column_of_every_table(tmp_path):
    good = evidence_files.good_files()
    tables = {name: table for name, table in good.items() if isinstance(table, pd.DataFrame)}
    assert len(tables) > 5
    for name, table in tables.items():
        for column in table:
            said = messages(tmp_path, {**copy.deepcopy(good), name: table.drop(columns=column)})
            assert not [text for text in said if "itself failed" in text], (name, column)
            assert all(f"raw/{name}.csv.gz: column {column} is missing" in text for text in said
                       if "is missing" in text)


@pytest.mark.parametrize("name, place, key, message", [
    ("counters.json", ["drained"], "right_to_left", "raw/counters.json: key 'right_to_left' is missing"),
    ("snmp.json", [], "nodes", "raw/snmp.json: key 'nodes' is missing"),
    ("checks.json", ["paths", 0], "measured_rtt_us", "raw/checks.json: key 'measured_rtt_us' is missing"),
    # the check `devices` looks at a copy
    ("network.json", ["links", 0], "jitter_us", "raw/network.json: key 'jitter_us' is missing")])
def test_a_key_of_a_json_file(tmp_path, name, place, key, message):
    files = evidence_files.good_files()
    value = files[name]
    for step in place:
        value = value[step]
    del value[key]
    said = messages(tmp_path, files)
    assert message in said and not [text for text in said if "itself failed" in text]


@pytest.mark.parametrize("name, place, value, message", [
    ("network.json", ["links", 0, "rate_bps"], "fast", "raw/network.json: links.0.rate_bps: a whole number from 1 to "
                                                       "1e+15 expected, not 'fast'"),
    ("network.json", ["nodes"], {}, "raw/network.json: nodes: a list of 0 or more expected, not {}"),
    ("network.json", ["paths", 0, "hops", 0], None, "raw/network.json: paths.0.hops.0: text expected, not None"),
    ("workload.json", ["flows", 0, "bytes"], -1, "raw/workload.json: flows.0.bytes: a whole number from 0 expected, "
                                                 "not -1"),
    ("workload.json", ["components", 0, "thirds_bps", "right_to_left"], [1.0], "raw/workload.json: components.0."
     "thirds_bps.right_to_left: a list of 3 expected, not [1.0]"),
    ("workload.json", ["flows", 0, "hops", 1], "moon", "raw/workload.json: there is no 'moon'"),
    ("counters.json", ["drained", "left_to_right", "sent_packets"], 0.5, "raw/counters.json: drained.left_to_right."
     "sent_packets: a whole number from 0 expected, not 0.5"),
    ("checks.json", ["paths", 0, "measured_rtt_us"], True, "raw/checks.json: paths.0.measured_rtt_us: a number from "
     "0 expected, not True"),
    ("guest.json", ["accounts", 0, "ends"], 7, "raw/guest.json: accounts.0.ends: a list of 0 or more expected, not 7"),
    ("snmp.json", ["nodes", "n1", "TcpOutSegs"], [], "raw/snmp.json: nodes.n1.TcpOutSegs: a list of 3 expected, not "
     "[]"),
    ("late.json", ["tainted"], "yes", "raw/late.json: tainted: a whole number from 0 expected, not 'yes'")])
def test_a_value_of_another_type(tmp_path, name, place, value, message):
    files = evidence_files.good_files()
    *before, last = place
    at = files[name]
    for step in before:
        at = at[step]
    at[last] = value
    said = messages(tmp_path, files)
    assert message in said
    assert "moon" in message or not [text for text in said if "itself failed" in text]


def test_what_a_check_does_wrong_itself(tmp_path, monkeypatch):
    def wrong(evidence):
        yield {}["nobody has that"]
    monkeypatch.setattr("testbed.checks.minimum.check", wrong)
    assert "the check itself failed: KeyError: 'nobody has that'" in messages(tmp_path, evidence_files.good_files())

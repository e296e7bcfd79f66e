# SPDX-License-Identifier: GPL-2.0-only
"""Raw files that an engine left damaged, or that somebody sealed so: one line each in the verdict, and never valid."""
import json

import pandas as pd
import pytest

from testbed import checks
from tests.unit.testbed import evidence_files

_JSON = {"empty object": {}, "list": [], "null": None, "number": 7, "text": "x"}
CASES = [
    *[(name, f"{name}: {what}", value) for name in ("snmp.json", "guest.json", "counters.json", "checks.json",
                                                    "workload.json", "network.json") for what, value in _JSON.items()],
    ("snmp.json", "counters are text", {"readings": [], "nodes": {"n1": {"TcpRetransSegs": "x"}}}),
    ("snmp.json", "no values", {"nodes": {name: {"TcpExtTCPOrigDataSent": []} for name in ("n1", "n2", "r1", "r2")}}),
    ("snmp.json", "nodes are a list", {"nodes": ["n1", "n2", "r1", "r2"]}),
]


@pytest.mark.parametrize("name, value", [pytest.param(name, value, id=what) for name, what, value in CASES])
def test_json_of_another_shape(tmp_path, name, value):
    files = evidence_files.good_files()
    files[name] = value
    _judged(tmp_path, files)


@pytest.mark.parametrize("key, value, said", [
    ("target_load", 0, "a number from 1e-09 expected, not 0"), ("measured_us", [], "a list of 2 expected, not ")])
def test_a_load_that_cannot_be(tmp_path, key, value, said):
    files = evidence_files.good_files()
    files["workload.json"]["components"][0][key] = value
    reasons = [one["message"] for one in checks.judge(evidence_files.write(tmp_path, files))["reasons"]
               if one["check"] == "load"]
    assert len(reasons) == 1 and reasons[0].startswith(f"raw/workload.json: components.0.{key}: {said}")


@pytest.mark.parametrize("accounts", [
    5, "x", [None], [{"ends": 7}], [{"ends": [{}]}], [{"ends": [{"flow": 1, "end": "receiver"}]}],
    [{"ends": [{**evidence_files.end(1, "receiver", 5), "wrong_pieces": 1}]}],
    [{"ends": [{**evidence_files.end(1, "receiver", 5), "checked_bytes": "many"}]}],
    [{"ends": [{**evidence_files.end(1, "sender", 5), "ccas": ["cubic"]}]}]])
def test_accounts_of_another_shape(tmp_path, accounts):
    files = evidence_files.good_files()
    files["guest.json"]["accounts"] = accounts
    _judged(tmp_path, files)


@pytest.mark.parametrize("table", ["edge_queue", "sojourn", "queue", "tcp_info", "connections", "adus"])
@pytest.mark.parametrize("damage", ["no columns", "text", "no numbers", "not gzip", "folder"])
def test_tables_of_another_shape(tmp_path, table, damage):
    files = evidence_files.good_files()
    good = files[table]
    if damage == "no columns":
        files[table] = pd.DataFrame({"other": [1, 2]})
    elif damage == "text":
        files[table] = good.assign(**dict.fromkeys(good.columns, "x"))
    elif damage == "no numbers":
        files[table] = good.assign(**dict.fromkeys(good.select_dtypes("number").columns, None))
    evidence = evidence_files.write(tmp_path, files)
    path = tmp_path / "raw" / f"{table}.csv.gz"
    if damage == "not gzip":
        path.write_bytes(b"t_us,link\n\xff\xfe")
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    _lines(checks.judge(evidence))


def _judged(folder, files):
    _lines(checks.judge(evidence_files.write(folder, files)))


def _lines(verdict):
    assert verdict["verdict"] in ("suspect", "invalid")
    assert verdict["reasons"]
    for check in verdict["checks"]:
        assert "\n" not in check["message"] and "Traceback" not in check["message"], check
    json.dumps(verdict)

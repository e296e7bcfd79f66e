# SPDX-License-Identifier: GPL-2.0-only
"""Tables that are kept for all checks are what pandas reads."""
import json

import pandas as pd
import pytest

from testbed import checks
from testbed.checks import _tables
from tests.unit.testbed import evidence_files

TABLES = {
    "integers of all sizes": "a,b,c,d\n1,-1,4294967296,-5000000000\n255,127,0,9223372036854775807\n-3,0,1,2\n",
    "missing in some pieces only": "a,b\n1,\n2,\n3,4\n,5\n6,7\n",
    "missing from the first on": "a,b,c\n1,,\n2,,\n3,4,\n",
    "fractions in some pieces only": "a,b\n1,2\n3,4\n0.5,-0.0\n7,\n,\n-2,1e300\n",
    "the number that stands for a missing one": "a,b,c\n-2147483648,-2147483648,0.5\n1,\n2,3,-2147483648\n,4\n",
    "texts": "a,b\nn1,yes\nn2,\nn1,no\n,no\nn10,yes\n",
    "nothing": "a,b\n",
    "one row": "a,b\n1,x\n",
}


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch):
    monkeypatch.setattr(_tables, "_AT_ONCE", 2)
    monkeypatch.setattr(_tables, "_SHORT", 0)


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("short", [False, True])
def test_it_is_what_pandas_reads(tmp_path, monkeypatch, text, short):
    if short:
        monkeypatch.setattr(_tables, "_AT_ONCE", 100)
        monkeypatch.setattr(_tables, "_SHORT", 100)
    path = tmp_path / "table.csv"
    path.write_text(text)
    kept, whole = _tables.keep(path), pd.read_csv(path, low_memory=False)
    assert kept.names() == list(whole)
    pd.testing.assert_frame_equal(kept.table(kept.names()), whole, check_index_type=False, check_exact=True)
    pd.testing.assert_frame_equal(kept.table(["b", "nonsense"]), whole[["b"]], check_index_type=False)


@pytest.mark.parametrize("text", [
    "a\n1\n2\nn1\nn2\n",                # numbers, then texts: pandas would take all for texts
    "a\nn1\nn2\n007\n8\n",
    "a\n1\n2\nTrue\nFalse\n",
    "a\n\"\"\n\"\"\nx\ny\n",
    "a\n18446744073709551615\n1\n",
])
def test_what_depends_on_all_pieces_is_left_to_pandas(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    assert _tables.keep(path) is None


def test_a_table_that_is_too_long_is_left_to_pandas(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n2\n3\n")
    monkeypatch.setattr(_tables, "_MOST_ROWS", 3)
    assert _tables.keep(path)
    monkeypatch.setattr(_tables, "_MOST_ROWS", 2)
    assert _tables.keep(path) is None


def test_numbers_take_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_tables, "_AT_ONCE", 1 << 17)
    path = tmp_path / "table.csv"
    path.write_text("a,b,c\n" + "".join(f"{number % 200},{'' if number % 7 else number},n{number % 3}\n"
                                        for number in range(10_000)))
    kept = _tables.keep(path)
    sizes = {name: sum(piece.nbytes for piece, _ in kept._columns[name]._pieces) for name in kept.names()}
    assert sizes == {"a": 10_000, "b": 40_000, "c": 10_000}


@pytest.mark.parametrize("short", [0, 100])
def test_who_gets_a_table_may_change_it(tmp_path, monkeypatch, short):
    monkeypatch.setattr(_tables, "_AT_ONCE", 100)
    monkeypatch.setattr(_tables, "_SHORT", short)
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    kept = _tables.keep(path)
    for names in (["a", "b"], ["a"]):
        table = kept.table(names)
        table["a"] = 7
        table.loc[0, "a"] = 8
        assert kept.table(names)["a"].tolist() == [1, 2]


def test_a_table_of_as_many_rows_as_are_read_at_once_may_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(_tables, "_SHORT", 100)
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n2\n3\n")
    assert _tables.keep(path).table(["a"])["a"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kept", [False, True])
def test_whether_a_table_is_there_and_has_rows(tmp_path, files, kept):
    evidence = evidence_files.write(tmp_path, {**files, "edge_queue": files["edge_queue"].iloc[:0]})
    for name in ("queue", "edge_queue", "opportunities") if kept else ():
        evidence.table(name)
    assert [evidence.has_rows(name) for name in ("queue", "edge_queue", "opportunities")] == [True, False, False]
    with pytest.raises(ValueError, match="no table 'nonsense'"):
        evidence.has_rows("nonsense")


@pytest.mark.parametrize("most_bytes", [10, 1000])
def test_a_small_json_file_is_read_once(tmp_path, files, monkeypatch, most_bytes):
    evidence = evidence_files.write(tmp_path, files)
    monkeypatch.setattr(checks, "_KEPT_JSON", most_bytes)
    path = tmp_path / "raw" / "snmp.json"
    path.write_text(json.dumps({"measure_from_us": 1, "more": "x" * 20}))
    assert evidence.snmp.measure_from_us == 1
    path.write_text(json.dumps({"measure_from_us": 2, "more": "x" * 20}))
    assert evidence.snmp.measure_from_us == (1 if most_bytes > 20 else 2)

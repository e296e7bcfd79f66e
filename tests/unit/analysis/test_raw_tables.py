# SPDX-License-Identifier: GPL-2.0-only
"""The schema of the raw tables, and that nothing else can be written."""
import gzip
import io
import re

import numpy as np
import pandas as pd
import pytest

from testbed import PROJECT_DIR
from testbed.core import raw_files, raw_tables
from testbed.core.raw_files import write_table


def table(name):
    return pd.DataFrame([dict.fromkeys(raw_tables.TABLES[name].names(), 0)])


@pytest.mark.parametrize("name", raw_tables.TABLES)
def test_written_are_the_columns_of_the_schema_in_its_order(tmp_path, name):
    backwards = table(name)[raw_tables.TABLES[name].names()[::-1]]
    write_table([backwards, backwards], tmp_path, name)
    with gzip.open(tmp_path / f"{name}.csv.gz", "rt") as file:
        header, *rows = file.read().splitlines()
    assert header.split(",") == raw_tables.TABLES[name].names() and len(rows) == 2


@pytest.mark.parametrize("values", [
    [0, -1, 2**63 - 1], np.array([0, 2**64 - 1, 3], np.uint64), np.array([1, 2, 3], np.int8),
    [0.1, -0.0, 1e-7], [1e300, 123456789.0, 5e-324], [float("nan"), float("inf"), 2.0],
    np.array([0.1, 1, 2], np.float32),
    pd.array([1, None, 2**53 + 1], "Int64"), pd.array([None, 2**64 - 1, 0], "UInt64"), [True, False, True],
    ["a", "b c", ""], ["a,b", 'say "no"', "two\nlines"], ["a", None, float("nan")], ["a", 1, 2.5],
    ["\u00e4", "\r", "%s %d"],
    pd.Categorical(["a", "b", "a"])], ids=repr)
def test_rows_are_written_as_pandas_writes_them(values, monkeypatch):
    monkeypatch.setattr(raw_files, "_ROWS_AT_ONCE", 2)
    for one in (pd.DataFrame({"a": [1, 2, 3], "b": values}), pd.DataFrame({"a": values})):
        written = io.BytesIO()
        raw_files._write_rows(one, written)
        assert written.getvalue() == one.to_csv(index=False, header=False).encode()


@pytest.mark.parametrize("change", [lambda t: t.drop(columns="drops"), lambda t: t.assign(marks=1)])
def test_other_columns_are_refused_and_leave_no_file(tmp_path, change):
    with pytest.raises(ValueError, match="queue: columns (drops|marks) are not as in testbed/core/raw_tables.py"):
        write_table(change(table("queue")), tmp_path, "queue")
    assert not (tmp_path / "queue.csv.gz").exists()


def test_the_page_has_all_columns_and_no_others():
    page = (PROJECT_DIR / "docs/reference/run-folder.md").read_text().partition("| table | a row is | columns |")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*?) \|$", page.partition("\n\n")[0], re.MULTILINE))
    told = {name: rows[words.split("`")[1]] if words.startswith("as of") else words for name, words in rows.items()}
    assert {name: words.strip("`").split(", ") for name, words in told.items()} == {
        name: one.names() for name, one in raw_tables.TABLES.items()}


def test_kinds_and_units():
    kinds = {raw_tables.INTEGER, raw_tables.NUMBER, raw_tables.TEXT}
    for entry in raw_tables.TABLES.values():
        assert set(entry.columns.values()) <= kinds
        assert all(entry.columns[column] != raw_tables.TEXT for column in entry.columns if column.endswith("_us"))
    with pytest.raises(ValueError, match="no place in the order for b"):
        raw_tables._columns("a b", order="a")

# SPDX-License-Identifier: GPL-2.0-only
"""Rows that belong together are those that pandas' groupby puts together."""
import numpy as np
import pandas as pd
import pytest

from testbed.core import grouping

TABLES = {
    "texts and numbers": {"a": ["x", "y", "x", "x"], "b": [2, 1, 2, 1]},
    "missing ones": {"a": [None, "y", None, "y"], "b": [1.0, np.nan, 1.0, np.nan]},
    "negative": {"a": [-1, 0, -1, 1], "b": [-1, -1, 0, 1]},
    "the same pairs the other way round": {"a": ["x", "y"], "b": ["y", "x"]},
    "one row": {"a": ["x"], "b": [7]},
    "no row": {"a": [], "b": []},
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("kind", [None, "category"])
def test_numbers_are_those_of_pandas(table, kind):
    frame = pd.DataFrame(table)
    wanted = frame.groupby(["a", "b"], sort=False, dropna=False).ngroup().to_numpy()
    numbers = grouping.numbered(frame[name].astype(kind or frame[name].dtype) for name in frame)
    assert numbers.tolist() == wanted.tolist()
    assert grouping.first_rows(numbers).tolist() == np.unique(wanted, return_index=True)[1].tolist()


def test_what_is_missing_is_no_category_of_its_own_name():
    assert grouping.numbered([pd.Series(["a", None, "b", None], dtype="category")]).tolist() == [0, 1, 2, 1]


def test_pairs_of_many_values_do_not_run_over():
    rows = np.arange(70_000)
    columns = [pd.Series(rows * factor) for factor in (1, 3, 5, 7)] + [pd.Series(rows % 2)]
    assert (grouping.numbered(columns) == rows).all()
    assert grouping.numbered([*columns[:4], columns[0] * 0]).max() == 69_999


def test_numbers_that_would_run_over_are_told_apart(monkeypatch):
    frame = pd.DataFrame({name: np.random.default_rng(1).integers(0, 9, 500) for name in "abcde"})
    wanted = frame.groupby(list(frame), sort=False).ngroup().tolist()
    monkeypatch.setattr(grouping, "_MOST", 50)
    assert grouping.numbered(frame[name] for name in frame).tolist() == wanted


@pytest.mark.parametrize("values", [["b", "a", "b", None, "a"], [3, 1, 3, 3], [2.0, np.nan, 2.0], [], range(40_000)])
@pytest.mark.parametrize("kind", [None, "category"])
def test_rows_of_each_value(values, kind):
    column = pd.Series(values, dtype=kind or (None if len(values) else object))
    found = grouping.rows_of(column)
    wanted = {value: np.flatnonzero(column == value).tolist() for value in column.dropna().unique()[:100]}
    assert {value: rows.tolist() for value, rows in list(found.items())[:100]} == wanted
    assert len(found) == column.nunique()

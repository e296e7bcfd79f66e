# SPDX-License-Identifier: GPL-2.0-only
"""Files of metrics and figures say themselves where the report shows them."""
import pytest

from analysis import figures, metrics
from analysis.metrics import Shown
from testbed import PROJECT_DIR
from testbed.core import metric_names

LAID_OUT = "".join((PROJECT_DIR / "analysis/pages" / name).read_text()
                   for name in ("columns.py", "report_flow_table.py"))


@pytest.mark.parametrize("table", metrics.TABLES)
def test_each_table_is_laid_out_and_has_columns(table):
    assert f'"{table}"' in LAID_OUT
    assert metrics.shown(table) or table == "run"


def test_what_is_shown_is_a_metric_of_its_own_file():
    for file in metrics.files():
        shown = getattr(file, "SHOWN", [])
        assert {one.metric for one in shown} <= set(file.UNITS), file
        assert {one.table for one in shown} <= set(metrics.TABLES), file
        assert {one.counted_by for one in shown if one.table == "sizes"} <= set(metric_names.units())


def test_columns_stand_in_their_order():
    assert [one.metric for one in metrics.shown("load")] == [
        "offered_load", "offered_load_share", "carried_over_offered", "offered_load_thirds_difference"]
    assert {"utilisation", "slowdown_connections", "transfers_in_one_run_only"} < metrics.not_compared()


@pytest.mark.parametrize("shown, message", [
    (Shown("linkz", "drop_rate", "drops", 1), "SHOWN: no table 'linkz'; there are: links, "),
    (Shown("links", "drop_rat", "drops", 1), "SHOWN: drop_rat is not among the UNITS of its file")])
def test_a_column_that_cannot_be_is_the_error_of_its_file(monkeypatch, run_dir, errors, shown, message):
    monkeypatch.setattr(metrics.module("drops"), "SHOWN", [shown])
    assert errors(run_dir)["drops"].startswith(message)


def test_the_overview_shows_what_says_most():
    assert figures.for_overview() == ["ellipse", "sweep", "throughput", "recovery"]


def test_a_metric_of_two_files_has_one_unit():
    units = {}
    for file in metrics.files():
        for name, unit in file.UNITS.items():
            assert units.setdefault(name, unit) == unit, f"{file.__name__}: {name}"

# SPDX-License-Identifier: GPL-2.0-only
"""What several metrics ask for is looked for once, and is what it would be if it were looked for each time."""
import pandas as pd
import pytest

from analysis.read import series, tcp
from analysis.read.runs import Run
from tests.unit.analysis import fixture

DOWN = "right_to_left"


@pytest.mark.parametrize("find, table", [(series.queue_samples, "queue"), (series.sojourn_samples, "sojourn")])
def test_rows_of_a_link_are_kept_if_the_table_is_short(run_dir, monkeypatch, find, table):
    run = Run(run_dir)
    rows = find(run, DOWN)
    assert find(run, DOWN) is rows and set(rows["link"]) == {DOWN} != set(find(run, "left_to_right")["link"])
    monkeypatch.setattr(series, "_KEPT_ROWS", len(run.frame(table)) - 1)
    run = Run(run_dir)
    again = find(run, DOWN)
    assert find(run, DOWN) is not again
    pd.testing.assert_frame_equal(rows, again)


def test_rows_of_two_tables_are_told_apart(run_dir):
    run = Run(run_dir)
    assert series.queue_samples(run, DOWN) is not series.sojourn_samples(run, DOWN)
    assert "backlog_bytes" in series.queue_samples(run, DOWN) and "mean_us" in series.sojourn_samples(run, DOWN)


def test_samples_come_in_order_of_time(run_dir, change):
    before = series.queue_samples(Run(run_dir), DOWN)
    change(run_dir, "queue", lambda table: table.iloc[::-1])
    after = series.queue_samples(Run(run_dir), DOWN)
    pd.testing.assert_frame_equal(before.reset_index(drop=True), after.reset_index(drop=True))


def test_who_adds_to_what_was_received_changes_nobody_elses_numbers(tmp_path):
    run = Run(fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=[fixture.flow(1, 10_001, "reno")]))
    received = tcp.received_bytes(run, single=True)
    wanted = dict(received)
    assert wanted[DOWN] > 0
    received[DOWN] += 1
    assert tcp.received_bytes(run, single=True) == wanted and tcp.received_bytes(run, single=False) == {}


@pytest.mark.parametrize("changes", [{}, {"connections": 2}], ids=["a listed one", "one that is not listed"])
def test_samples_of_all_flows_are_those_of_listed_flows_if_there_are_no_others(tmp_path, changes):
    run = Run(fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=[
        fixture.flow(1, 10_001, "reno"), {**fixture.flow(2, 10_002, "reno"), **changes}]))
    listed, all_flows = tcp.measured(run, single=True), tcp.measured(run)
    assert (all_flows is listed) == (not changes)
    assert len(all_flows[0]) == len(listed[0]) * (2 if changes else 1)


def test_samples_of_all_flows_are_not_those_of_hosts_that_were_sampled_more_often(tmp_path):
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=[fixture.flow(1, 10_001, "reno")])
    table = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
    fixture.save(path / "raw" / "tcp_info_often.csv.gz", pd.concat([table, table.assign(t_us=table["t_us"] + 1)]))
    fixture.seal(path)
    run = Run(path)
    assert len(tcp.measured(run)[0]) < len(tcp.measured(run, single=True)[0])

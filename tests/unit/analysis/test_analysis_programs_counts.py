# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of greedy flows wrote and read."""
import json

import pytest

from analysis.metrics import programs_counts
from analysis.read.runs import Run
from tests.unit.analysis import fixture

FIRST, SECOND = ({**fixture.flow(number, 9_999 + number, "reno"), "component": "greedy", "bytes": None,
                  "start_us": 1_000_000 * number, "stop_us": 5_000_000} for number in (1, 2))
#: a program for each end: iperf3 counts its time, sockets do not
IPERF3 = {"sent_bytes": {"1": 1_000_000}, "counted_us": {"1": 2_000_000}, "received_bytes": {}}
SOCKETS = {"sent_bytes": {"2": 3_000_000}, "received_bytes": {"1": 7}}
SERVER = {"sent_bytes": {}, "counted_us": {"1": 2_500_000}, "received_bytes": {"1": 900_000}}


def found(folder, flows=(FIRST, SECOND), accounts=(IPERF3, SOCKETS), kind="greedy"):
    fixture.write_run(folder, flows=list(flows), tmix=False)
    workload = json.loads((folder / "raw" / "workload.json").read_text())
    workload["components"] = [{"name": "greedy", "kind": kind, "stop_us": 5_000_000}]
    fixture.write_json(folder / "raw" / "workload.json", workload)
    fixture.write_json(folder / "raw" / "guest.json", {"traffic": {}, "accounts": list(accounts)})
    return [tuple(metric) for metric in programs_counts.compute(Run(folder))]


def test_bytes_written_over_the_time_in_which_they_were(tmp_path):
    """4 Mbit/s by iperf3's own clock, and 8 in the three seconds of the other flow."""
    assert found(tmp_path / "both") == [("written_rate", "all", "Mbit/s", pytest.approx(12))]
    assert found(tmp_path / "one", flows=[FIRST]) == [("written_rate", "all", "Mbit/s", pytest.approx(4))]


def test_bytes_read_over_the_time_in_which_they_were(tmp_path):
    """2.88 Mbit/s in the 2.5 s until iperf3's receiver heard of the end; nobody counts how long sockets read."""
    assert found(tmp_path / "one", flows=[FIRST], accounts=(IPERF3, SERVER)) == [
        ("written_rate", "all", "Mbit/s", pytest.approx(4)), ("read_rate", "all", "Mbit/s", pytest.approx(2.88))]
    both = {**SERVER, "counted_us": {"1": 2_500_000, "2": 1_000_000}, "received_bytes": {"1": 900_000, "2": 125_000}}
    assert found(tmp_path / "both", accounts=(IPERF3, SOCKETS, both))[1:] == []
    assert found(tmp_path / "servers", accounts=(IPERF3, {"sent_bytes": {"2": 3_000_000}}, both))[1:] == [
        ("read_rate", "all", "Mbit/s", pytest.approx(3.88))]


@pytest.mark.parametrize("changes", [
    {"accounts": (IPERF3,)}, {"accounts": ()}, {"kind": "on-off"}, {"flows": []},
    {"flows": [FIRST, {**SECOND, "bytes": 3_000_000}]}, {"flows": [FIRST, {**SECOND, "component": "other"}]},
    {"accounts": ({**IPERF3, "counted_us": {"1": 0}}, SOCKETS)}])
def test_it_is_not_told_where_it_is_not_known(tmp_path, changes):
    assert found(tmp_path / "run", **changes) == []

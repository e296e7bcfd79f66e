# SPDX-License-Identifier: GPL-2.0-only
"""The example of docs/howto/quic.md, and what the check `qlog` finds in records that were changed afterwards."""
import shutil

import pytest

from testbed import checks
from tests.kernel import documented
from traffic.quic import programs


def made_here():
    """Stacks whose program is there, or takes no time to make."""
    return [name for name in programs.names()
            if programs.is_built(name) or programs.read(name).build != "cargo" and not programs.missing(name)]


def scenario(stack):
    return documented.scenario("howto/quic.md").replace("quinn:cubic", f"{stack}:{programs.read(stack).ccas[-1]}")


@pytest.fixture(scope="module", params=programs.names())
def run(request, run_scenario):
    if request.param not in made_here():
        pytest.skip(f"the program of {request.param} is not made: make quic")
    return run_scenario(scenario(request.param))


def test_it_carries_data_and_its_qlog_is_what_the_wire_shows(run):
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    said, = [one for one in verdict["checks"] if one["check"] == "qlog"]
    assert said["level"] == "ok"
    ends, = run.json("raw/guest.json")["traffic"]["quic"]["quic"]
    assert ends["received_bytes"] > 1_000_000


def change(run, folder, **columns):
    """What the check says of the run with other columns of quic_info."""
    shutil.copytree(run.folder, folder)
    table = run.table("quic_info")
    for name, factor in columns.items():
        table[name] = table[name] * factor
    table.to_csv(folder / "raw/quic_info.csv.gz", index=False)
    _, verdict = checks.judge_edited(folder)
    return [one["message"] for one in verdict["checks"] if one["check"] == "qlog" and one["level"] != "ok"]


@pytest.mark.parametrize("columns, says", [
    ({"cwnd_bytes": 0.5}, "more leaves the host"), ({"in_flight_bytes": 2}, "in flight on average"),
    ({"srtt_us": 0.001, "min_rtt_us": 0.001}, "on a path that takes"), ({"srtt_us": 10}, "path and full queues"),
    ({"sent_packets": 1.1}, "packets sent")])
def test_a_qlog_that_is_wrong_is_found(run, tmp_path, columns, says):
    found = change(run, tmp_path / "changed", **columns)
    assert any(says in message for message in found), found


def test_a_sender_that_writes_half_its_window_is_found(run_scenario, monkeypatch, tmp_path):
    """A fault planted in our program, not in what it left."""
    if programs.missing("quic-go"):
        pytest.skip(programs.missing("quic-go"))
    shutil.copytree(programs.FOLDER / "quic-go", tmp_path / "quic-go")
    source = tmp_path / "quic-go/main.go"
    text = source.read_text()
    noted = "one.inFlight.Store(int64(metrics.BytesInFlight))\n"
    assert noted in text
    source.write_text(text.replace(noted, noted + "\t\tmetrics.CongestionWindow /= 2\n\t\tevent = metrics\n"))
    programs.read.cache_clear()
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    monkeypatch.setattr(programs, "_digest", programs._digest.__wrapped__)
    verdict = run_scenario(scenario("quic-go")).json("verdict.json")
    assert verdict["verdict"] == "suspect"
    assert ["more leaves the host" in one["message"] for one in verdict["reasons"]] == [True]

# SPDX-License-Identifier: GPL-2.0-only
"""The same traffic in several engines: connections one by one, windows, costs, the page."""

import json
import re

import pandas as pd
import pytest

from analysis.compare import sweeps
from analysis.compare.experiments import Group
from analysis.drawing import style
from analysis.flows import per_connection, windows
from analysis.pages.comparison_report import find, lines, where
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Run
from testbed import cli
from tests.unit.analysis import fixture

SHORT = fixture.Shape(test_s=8)
#: everything takes twice as long
SLOW = fixture.Shape(test_s=8, latency_us=100_000, rate_bytes_per_us=0.5)
CONNECTIONS, EXCHANGES = per_connection.KINDS


def write(folder, name, engine, shape=SHORT, ccas=("reno", "cubic"), seeds=(1, 2), **options):
    return fixture.write_experiment(folder / name, ccas, seeds, shapes=dict.fromkeys(ccas, shape), engine=engine,
                                    **options)


@pytest.fixture
def three(tmp_path, monkeypatch):
    """The same in uml, in ns3 at half the speed, and reno alone in ns2."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    return [write(tmp_path, "small", "uml"), write(tmp_path, "small-ns3", "ns3", SLOW),
            write(tmp_path, "small-ns2", "ns2", ccas=["reno"])]


def group_of(folders):
    return Group(list(map(Experiment, folders)))


def test_every_connection_is_compared_with_itself(three):
    found = find(group_of(three)).paired
    assert [(one.row, one.label) for one in found["connections"]] == [
        ("reno", "ns3"), ("reno", "ns2"), ("cubic", "ns3")]
    slow, same, _ = found["connections"]
    whole = slow.sizes["all"]
    assert (whole.pairs, whole.low, whole.median, whole.high) == pytest.approx((2, 2, 2, 2), rel=1e-4)
    assert whole.interval is None                   # both pairs are the same: there is no spread
    assert list(slow.sizes) == ["all", "to 10 kB", "to 100 kB", "to 1 MB"]      # too few are larger
    assert {one.median for one in same.sizes.values()} == {1} and same.sizes["all"].only_one == 0
    # 160 start in the eight seconds; one of a hundred fails, and the slower ones are not over at the end
    assert same.sizes["all"].n > whole.n > 100 and whole.only_one > 0


def test_exchanges_are_compared_by_their_own_sizes(three):
    found = find(group_of(three)).paired["exchanges"]
    # 20 ms and 500 or more bytes at 1 or 0.5 bytes/us
    requests = found[0].sizes["to 10 kB"]
    assert requests.low == pytest.approx(21_000 / 20_500, rel=1e-3) and 1 < requests.high < 4


def test_size_classes_are_those_of_their_names():
    assert per_connection.SIZES == ("all", "to 10 kB", "to 100 kB", "to 1 MB", "above 1 MB")
    both = pd.DataFrame({"bytes": [10_000] * 10 + [10_001] * 10, "time_us": 1.0,
                         "time_us_other": [2.0] * 10 + [3.0] * 10})
    assert {size: (n, quantiles) for size, (n, _, quantiles) in per_connection._quantiles(both)} == {
        "all": (20, [2, 2.5, 3]), "to 10 kB": (10, [2, 2, 2]), "to 100 kB": (10, [3, 3, 3])}


def test_runs_without_connections_have_no_ratios(tmp_path):
    runs = [Run(fixture.write_run(tmp_path / name, shape=SHORT, subject="reno", tmix=False)) for name in "ab"]
    assert per_connection.joined(CONNECTIONS, *runs) is None and per_connection.joined(EXCHANGES, *runs) is None
    assert per_connection.ratios(CONNECTIONS, [(runs[0], runs[1])]) == []


# -- windows ---------------------------------------------------------------------------------------

def flows_of(path, change):
    """A run of ten long flows whose samples of tcp_info are changed."""
    fixture.write_run(path, shape=SHORT, subject="reno", tmix=False)
    table = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
    change(table)
    fixture.save(path / "raw" / "tcp_info.csv.gz", table)
    fixture.seal(path)
    return Run(path)


def of_first(table):
    return (table["node"] == "n4") & (table["sport"] == 10_000)


def test_windows_that_stay_together(tmp_path):
    def one_more(table):
        table.loc[of_first(table), "cwnd"] += 1
    first, *_ = found = windows.partings(flows_of(tmp_path / "a", lambda table: None),
                                         flows_of(tmp_path / "b", one_more))
    assert len(found) == 10 and first.flow == 1
    assert (first.by, first.until, first.reference, first.state) == ("time", 10, None, "")
    assert where(first) == "not within 10 s"


@pytest.mark.parametrize("sides, state", [
    ({}, "in slow start, before any loss"),
    ({"a": {"ssthresh": 30}}, "the reference left slow start without a loss"),
    ({"b": {"ssthresh": 30}}, "this one left slow start without a loss"),
    ({"a": {"ssthresh": 30}, "b": {"ssthresh": 30}}, "in congestion avoidance, before any loss"),
    ({"a": {"total_retrans": 1}}, "after a loss in the reference only"),
    ({"b": {"total_retrans": 1}}, "after a loss in this one only"),
    ({"a": {"total_retrans": 1}, "b": {"total_retrans": 2}}, "after losses in both")])
def test_what_senders_did_when_their_windows_parted(tmp_path, sides, state):
    def change(name):
        def one(table):
            late = of_first(table) & (table["t_us"] >= 5_000_000)
            for column, value in sides.get(name, {}).items():
                table.loc[late, column] = value
            if name == "b":
                table.loc[late, "cwnd"] = 42
        return one
    first, second, *_ = windows.partings(*(flows_of(tmp_path / name, change(name)) for name in "ab"))
    assert (first.until, first.reference.time_s, first.reference.cwnd, first.other.cwnd) == (4.9, 5.0, 40, 42)
    assert first.state == state and second.state == ""
    assert where(first) == "the same until 4.9 s; then 40 and 42 at 5.000 and 5.000 s"


def probed(path, rows, retransmitted_us=()):
    """The first flow's segments: (t_us, snd_una, cwnd)"""
    run = flows_of(path, lambda table: None)
    ends = {"src": "10.0.4.2:10000", "dst": "10.0.1.2:20000"}
    columns = {"mark": 0, "data_len": 0, "snd_nxt": 0, "ssthresh": 100, "snd_wnd": 1, "srtt_us": 1, "rcv_wnd": 1,
               "sock_cookie": 1}
    fixture.save(path / "raw" / "tcp_probe.csv.gz", pd.DataFrame(
        [{"t_us": t_us, **ends, **columns, "snd_una": una, "snd_cwnd": cwnd} for t_us, una, cwnd in rows]))
    fixture.save(path / "raw" / "retransmissions.csv.gz", pd.DataFrame(
        [{"t_us": t_us, **ends} for t_us in retransmitted_us], columns=["t_us", "src", "dst"]))
    fixture.seal(path)
    return run


def test_windows_are_compared_after_the_same_bytes(tmp_path):
    """One is acknowledged segment by segment, across the end of the sequence numbers, the other two by two."""
    last = 2**32
    one = probed(tmp_path / "a", [(1000 * n, (last - 3000 + 1000 * n) % last or last, 10 + n) for n in range(8)],
                 [6500])
    two = probed(tmp_path / "b", [(2500 * n, 1 + 2000 * n, 10 + 2 * n if n < 3 else 20) for n in range(4)])
    first, *_ = windows.partings(one, two)
    assert (first.by, first.until, first.state) == ("bytes acknowledged", 4000, "in slow start, before any loss")
    assert (first.reference.time_s, first.other.time_s) == (0.006, 0.0075)
    assert (first.reference.cwnd, first.other.cwnd) == (16, 20)


# -- the group and its page ------------------------------------------------------------------------

def test_engines_name_experiments_where_they_tell_them_apart(three, tmp_path):
    group = group_of(three)
    assert list(group.labels.values()) == ["uml", "ns3", "ns2"] and group.left_out == []
    assert [row.label for row in group.rows] == ["reno", "cubic"]
    assert {label: len(runs) for label, runs in group.runs(group.rows[0]).items()} == {"uml": 2, "ns3": 2, "ns2": 2}
    assert list(group.runs(group.rows[1])) == ["uml", "ns3"]
    other = group_of([three[0], write(tmp_path, "small-kernel6.1", "uml")])
    assert list(other.labels.values()) == ["small", "small-kernel6.1"]


def test_an_experiment_with_nothing_in_common_is_left_out(three, tmp_path):
    strange = write(tmp_path, "strange", "host", ccas=["vegas"])
    group = group_of([*three[:2], strange])
    assert len(group.versus) == 1 and "strange have no congestion control" in group.left_out[0]
    assert any(line.startswith("left out: ") for line in lines(group, find(group)))
    with pytest.raises(AnalysisError, match="no congestion control"):
        group_of([three[0], strange])


def test_one_page_for_all(three, tmp_path, capsys):
    for run in sorted((tmp_path / "runs").iterdir()):
        fixture.seal(run, largest_process_bytes=64_000_000)
    assert cli.main(["compare", *(folder.name for folder in three)]) == 0
    shown = capsys.readouterr().out
    assert "Connections one by one" in shown and "2.0000" in shown
    page = tmp_path / "compare-small-small-ns3-small-ns2" / "index.html"
    html = page.read_text()
    for words in ("ns3, ns2 against uml", "Throughput and queueing delay", "Connection by connection",
                  "Laid over each other", "Cost", "bin/testbed compare small small-ns3 small-ns2 --margin 5%"):
        assert words in html, words
    assert "Where congestion windows part" not in html      # no long flows
    assert {path.stem for path in (page.parent / "figures").glob("*.svg")} == {
        "ellipse_0", "ellipse_1", "queues", "connections"}
    costs = pd.read_csv(page.parent / "tables" / "costs.csv")
    assert len(costs) == 5 and set(costs["wall_s"]) == {4} and set(costs["largest_process_bytes"]) == {64e6}
    compared = pd.read_csv(page.parent / "tables" / "comparison.csv")
    assert set(compared["other"]) == {"small-ns3", "small-ns2"} and set(compared["reference"]) == {"small"}


def test_windows_of_long_flows_are_laid_over_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    folders = [write(tmp_path, f"flows-{engine}", engine, ccas=["reno"], tmix=False) for engine in ("uml", "ns3")]
    assert cli.main(["compare", *map(str, folders)]) == 0
    page = tmp_path / "compare-flows-uml-flows-ns3"
    drawn = (page / "figures" / "windows.svg").read_text()
    assert "reno, flow 1" in drawn and "reno, flow 2" in drawn      # of ten
    # a polyline for each engine in each panel, with many points
    assert sum(len(path.split("L")) > 50 for path in re.findall(r"<path[^>]* d='([^']*)'", drawn)) == 4
    table = pd.read_csv(page / "tables" / "partings.csv")
    assert len(table) == 10 and set(table["by"]) == {"time"}
    assert "not apart by then" in (page / "index.html").read_text()


def test_a_sweep_is_drawn_with_all_engines_in_one_figure(tmp_path, monkeypatch):
    """One long flow at three rates: throughput and round-trip time, a column for each congestion control."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    points = [{"traffic.cross.rate": f"{rate} Mbit/s"} for rate in (1, 5, 9)]
    folders = [write(tmp_path, f"swept-{engine}", engine, tmix=False, flows=[fixture.flow(1, 10_000, "reno")],
                     points=points) for engine in ("ns2", "uml")]
    group = group_of(folders)
    figures = list(sweeps.draw(group, tmp_path / "figures", style.looks(list(group.labels.values()))))
    assert [figure.title for figure in figures] == ["Long flows, against rate"]
    table = pd.read_csv(tmp_path / "figures" / "sweep.csv")
    assert table["mean_throughput_l4flow_1 cubic uml x"].tolist() == [1, 5, 9]
    assert {column.split()[0] for column in table} == {"mean_throughput_l4flow_1", "mean_srtt_l4flow_1"}
    drawn = (tmp_path / "figures" / "sweep.svg").read_text()
    assert all(f">{words}<" in drawn.replace("\t", "") for words in ("reno", "cubic", "ns2", "uml"))
    script = (tmp_path / "figures" / "sweep.gp").read_text()
    assert "set xlabel 'rate (Mbit/s)'" in script and "set ylabel 'round-trip time (ms)'" in script


def test_the_report_of_a_simulator_says_so(tmp_path):
    folder = write(tmp_path, "small-ns3", "ns3", ccas=["reno"], seeds=[1])
    run, = (tmp_path / "runs").iterdir()
    environment = json.loads((run / "environment.json").read_text())
    fixture.write_json(run / "environment.json", {**environment, "simulator": "ns-3.37"})
    assert "Scenario access-link in ns-3.37 with reno and 1 seed" in build_report(folder).path.read_text()


def test_an_experiment_is_not_named_twice(three, capsys):
    assert cli.main(["compare", "small", "small-ns3", "small-ns3"]) == 2
    assert "small-ns3: the same experiment as small-ns3" in capsys.readouterr().err


def test_damaged_runs_cost_only_themselves(three, tmp_path, capsys):
    record = json.loads((three[1] / "experiment.json").read_text())
    (tmp_path / "runs" / record["runs"][0]["id"] / "raw" / "connections.csv.gz").write_bytes(b"no gzip")
    assert cli.main(["compare", *(folder.name for folder in three)]) == 0
    assert "n=1 x" in capsys.readouterr().out

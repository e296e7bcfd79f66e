# SPDX-License-Identifier: GPL-2.0-only
"""Series that can be zoomed: what is kept of them, what they are of, how much room they take."""

import base64
import functools
import json
import re
import zlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.drawing import gnuplot
from analysis.pages import explore, zoomable
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import Run
from tests.unit.analysis import fixture

END_US = 60_000_000


def unpacked(packed, end_us):
    """(times in us, values) as the page has them."""
    numbers = np.frombuffer(base64.b64decode(packed["d"]), dtype="<u2").astype(float)
    half = len(numbers) // 2
    return numbers[:half] / 65535 * end_us, numbers[half:] / 65535 * packed["max"]


def curve(count=50_000, seed=1):
    rng = np.random.default_rng(seed)
    t_us = np.sort(rng.choice(END_US, count, replace=False)).astype(float)
    return zoomable.Series("delay", "link", 0, t_us, rng.random(count) * 10)


@pytest.mark.parametrize("spans", [100, 333])
def test_thinning_keeps_every_peak(spans):
    one = curve()
    one.values[31_234], one.values[7] = 99.5, 0     # a peak and a valley of one sample each
    packed = zoomable.pack(one, END_US, spans)
    t_us, values = unpacked(packed, END_US)
    assert len(t_us) <= 4 * spans and (np.diff(t_us) > 0).all()
    assert values.max() == pytest.approx(99.5, rel=1e-4) and values.min() == 0
    assert t_us[values.argmax()] == pytest.approx(one.t_us[31_234], abs=2 * END_US / 65535 * len(t_us) / 100)
    # of each span the extremes, nothing else: what is drawn was measured
    edges = np.linspace(one.t_us[0], one.t_us[-1], spans + 1)
    for low, high in list(zip(edges, edges[1:]))[::17]:
        inside = one.values[(one.t_us >= low) & (one.t_us < high)]
        assert np.abs(values - inside.max()).min() < 0.01 and np.abs(values - inside.min()).min() < 0.01
    measured = np.sort(one.values)
    after = np.searchsorted(measured, values).clip(1, len(measured) - 1)
    assert np.minimum(np.abs(values - measured[after - 1]), np.abs(values - measured[after])).max() < 99.5 / 65535


def test_few_points_are_all_kept():
    one = zoomable.Series("cwnd", "flow", 0, np.array([0.0, 20e6, 60e6]), np.array([10.0, 0.0, 40.0]))
    t_us, values = unpacked(zoomable.pack(one, END_US, 100), END_US)
    assert t_us.tolist() == pytest.approx([0, 20e6, 60e6], rel=1e-4)
    assert values.tolist() == pytest.approx([10, 0, 40], rel=1e-4)


def test_times_that_fall_together_stay_apart():
    t_us = np.concatenate([np.full(5, 30e6), np.full(5, END_US - 1.0)])
    found, _ = unpacked(zoomable.pack(zoomable.Series("rtt", "flow", 0, t_us, np.arange(10.0)), END_US, 100), END_US)
    assert (np.diff(found) > 0).all() and found[-1] <= END_US


@pytest.mark.parametrize("runs,lengths,room", [(30, [60_000] * 22, 2_500_000), (880, [3000] * 12, 2_500_000),
                                               (3, [50] * 22, 2_500_000), (5, [60_000] * 4, 1000), (1, [], 1e6)])
def test_the_plan_fits(runs, lengths, room):
    spans, count = zoomable.plan(room, lengths, runs)
    assert zoomable.LEAST_SPANS <= spans <= zoomable.MOST_SPANS and 0 <= count <= runs
    assert count * sum(min(n, 4 * spans) * 16 / 3 + 100 for n in lengths) <= room
    if runs < 100 and room > 1000:
        assert count == runs


def test_six_by_five_dense_runs_fit(monkeypatch):
    """Twenty-two series of 20 000 points in each of thirty runs: all runs are there, in less than their budget."""
    runs = [SimpleNamespace(name=f"cca{cca}-seed{seed}", seed=seed, subject=f"cca{cca}", bottlenecks={"a_to_b": {}},
                            interval=SimpleNamespace(start_us=0, end_us=END_US), frame=lambda name: 1)
            for cca in range(6) for seed in range(1, 6)]
    rows = [Row(f"cca{cca}", (), f"cca{cca}") for cca in range(6)]
    experiment = SimpleNamespace(runs=runs, rows=rows, row_of=lambda run: Row(run.subject, (), run.subject),
                                 usable=lambda row: [run for run in runs if run.subject == row.subject])
    dense = [curve(20_000, seed)._replace(place=seed) for seed in range(22)]
    monkeypatch.setattr(explore, "of_run", lambda run: dense)
    monkeypatch.setattr(explore, "_flows", lambda run: [])
    # the curves of all runs are the same here: each is thinned once
    pack = functools.lru_cache(lambda place, end_us, spans: whole_pack(dense[place], end_us, spans))
    whole_pack = zoomable.pack
    monkeypatch.setattr(zoomable, "pack", lambda one, end_us, spans: pack(one.place, end_us, spans))
    found = explore.context(experiment, 4_000_000)
    size = len(json.dumps(found["runs"])) + len(found["script"]) + len(found["style"])
    assert len(found["runs"]) == 30 and found["left_out"] == 0 and 1_500_000 < size < 2_700_000
    # with less room there are first fewer spans, then fewer runs: the first seeds of all
    less = explore.context(experiment, 1_000_000)
    assert len(json.dumps(less["runs"])) + len(less["script"]) < 1_000_000
    assert zoomable.LEAST_SPANS <= less["spans"] < found["spans"] and 0 < len(less["runs"]) < 30
    assert {run["row"] for run in less["runs"] if run["seed"] == 1} == {row.label for row in rows}
    assert less["left_out"] == 30 - len(less["runs"])


def test_without_any_room_the_page_says_so(tmp_path):
    experiment = Experiment(fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1]))
    assert "no room" in explore.context(experiment, 0)["problem"]


def values(run):
    return {(one.chart, one.of, one.place): one for one in explore.of_run(run)}


def test_series_of_a_run_with_tmix(run_dir):
    """The fixture: 60 Mbit/s of 1500 bytes, a delay of 20 ms, sockets of 1 Mbit/s with cwnd 40 and 30 ms."""
    run = Run(run_dir)
    found = values(run)
    throughput, delay = found["throughput", "link", 0], found["delay", "link", 0]
    assert throughput.values == pytest.approx(60) and np.diff(throughput.t_us) == pytest.approx(100_000)
    assert delay.values == pytest.approx(20) and len(delay.t_us) == 1200
    assert found["throughput", "flow", 5].values == pytest.approx(1, rel=1e-3)
    assert (found["cwnd", "flow", 0].values == 40).all() and (found["rtt", "flow", 0].values == 30).all()
    assert len({place for chart, of, place in found if of == "flow"}) == explore.MOST_FLOWS
    assert all("n4:10000\u2192n1:2000" in one.label for one in explore._flows(run))


def test_listed_flows_come_first(tmp_path):
    run = Run(fixture.write_run(tmp_path / "reno-seed1", tmix=False, sojourn=False))
    found = values(run)
    assert [one.label for one in explore._flows(run)][:2] == ["1: n4\u2192n1 reno", "2: n4\u2192n1 reno"]
    # without sojourn times: 100 packets of 1500 bytes at 100 Mbit/s
    assert found["delay", "link", 0].values == pytest.approx(12)


def test_what_a_run_lacks_is_left_out(tmp_path):
    path = fixture.write_run(tmp_path / "reno-seed1")
    (path / "raw" / "tcp_info.csv.gz").unlink()
    fixture.seal(path)
    assert {of for _, of, _ in values(Run(path))} == {"link"}


def test_a_damaged_table_costs_its_run_only(tmp_path, change):
    path = fixture.write_experiment(tmp_path / "demo", seeds=[1])
    change((path / "runs/cubic-seed1").resolve(), "queue", lambda table: table.assign(drops=-table["drops"]))
    experiment = Experiment(path)
    experiment.__dict__["usable_runs"] = experiment.runs
    found = explore.context(experiment, 3e6)
    assert [run["name"] for run in found["runs"]] == ["reno-seed1"]
    assert "counter drops" in found["problems"]["cubic-seed1"]


def test_without_the_library_the_page_says_so(tmp_path, monkeypatch):
    """And series are offered what the rest of the page leaves of its size."""
    rooms, context = [], explore.context
    monkeypatch.setattr(explore, "context", lambda experiment, room: rooms.append(room) or context(experiment, room))
    monkeypatch.setattr(zoomable, "LIBRARY", tmp_path)
    html = build_report(fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])).path.read_text()
    assert len(html.encode()) + rooms[0] == pytest.approx(zoomable.MOST_PAGE_BYTES, abs=500)
    assert "Debian package libjs-dygraphs" in html and "new Dygraph(" not in html and "Figures</h2>" in html


def test_the_library_can_be_put_into_a_page():
    script, sheet = zoomable.library()
    assert "</script" not in script and "</style" not in sheet and "sourceMappingURL" not in script + sheet
    assert "Dygraph" in script and "http" not in sheet


def test_a_figure_is_drawn_for_screen_and_print(tmp_path):
    """The same data gives the same files: none says when it was made."""
    data = pd.DataFrame({"x": [1, 2], "y": [1, 4]})
    gnuplot.draw(tmp_path, "line", data, ["plot 'line.csv' using 'x':'y' with lines"])
    pdf = (tmp_path / "line.pdf").read_bytes()
    packed = re.findall(rb"stream\n(.*?)\nendstream", pdf, re.DOTALL)
    texts = [pdf, *(zlib.decompress(one) for one in packed if one.startswith(b"x"))]
    assert pdf.startswith(b"%PDF")
    assert {date for text in texts for date in re.findall(rb"Date \(D:(\d+)", text)} == {b"20000101000000"}
    assert all((tmp_path / f"line.{ending}").stat().st_size > 500 for ending in gnuplot.FORMATS)

# SPDX-License-Identifier: GPL-2.0-only
"""Several kernels in one experiment: another axis, compared pair by pair, and what did not change."""
import json
import re

import pandas as pd
import pytest

import testbed
from analysis import figures
from analysis.compare import changes, unchanged
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from testbed.core.files import write_json
from tests.unit.analysis import fixture


def shape(mbps):
    return fixture.Shape(test_s=4, packets=(mbps * 10 // 12, 10), tcp_info_rows=200)


def with_kernels(folder, names, **options):
    """An experiment whose runs of reno are the same with every kernel, and those of cubic faster with the last."""
    shapes = {("reno", name): shape(60) for name in names} | {("cubic", name): shape(60) for name in names}
    shapes["cubic", names[-1]] = shape(72)
    path = fixture.write_experiment(folder / "e", ["reno", "cubic"], options.pop("seeds", [1, 2, 3]), shapes=shapes,
                                    points=[{"kernel": name} for name in names], **options)
    described = json.loads((path / "experiment.json").read_text())
    write_json(path / "experiment.json", {**described, "kernels": list(names)})
    return path


@pytest.fixture(autouse=True, scope="module")
def without_figures():
    """They take most of the time, and have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw_all", lambda *_: ([], []))
        yield


def rows_of(folder):
    table = pd.read_csv(folder / "report/tables/kernels.csv", dtype={"reference": str, "kernel": str})
    return {(row.reference, row.kernel, row.subject): row for row in table.itertuples()}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = with_kernels(tmp_path_factory.mktemp("kernels"), ["6.9", "6.12", "newer"])
    with pytest.MonkeyPatch.context() as patch:
        fixture.sow(patch, 6)
        return path, build_report(path)


def test_kernels_are_names_in_the_order_asked_for(experiment):
    loaded = Experiment(experiment[0])
    axis, = loaded.axes
    assert axis.values == ["6.9", "6.12", "newer"] and axis.numbers is None and loaded.kernel_place == 0
    assert [row.label for row in loaded.rows][:2] == ["reno kernel=6.9", "cubic kernel=6.9"]


def test_versions_alone_are_no_numbers_either(tmp_path):
    axis, = Experiment(with_kernels(tmp_path, ["6.9", "6.12"], seeds=[1])).axes
    assert axis.values == ["6.9", "6.12"] and axis.numbers is None


def test_an_axis_that_only_has_the_name_is_no_kernel(tmp_path):
    path = with_kernels(tmp_path, ["1", "2"], seeds=[1])
    described = json.loads((path / "experiment.json").read_text())
    del described["kernels"]
    write_json(path / "experiment.json", described)
    loaded = Experiment(path)
    assert loaded.kernel_place is None and loaded.axes[0].numbers == [1, 2]
    assert not build_report(path).kernels and not (path / "report/tables/kernels.csv").exists()


def test_each_pair_of_kernels_is_compared_seed_by_seed(experiment):
    rows = rows_of(experiment[0])
    assert set(rows) == {(reference, other, subject) for reference, other in [
        ("6.9", "6.12"), ("6.9", "newer"), ("6.12", "newer")] for subject in ("reno", "cubic")}
    for (_, other, subject), row in rows.items():
        assert row.pairs_of_runs == 3
        if subject == "cubic" and other == "newer":
            assert row.pairs_with_the_same_raw_data == 0 and row.comparisons_different > 0
            assert row.result.startswith(f"{row.comparisons_different} of {row.comparisons} comparisons different")
        else:
            assert row.result == "no change in this scenario (3 runs, raw data the same to the byte)"
            assert row.comparisons == 0


def test_what_changed_is_told_metric_by_metric(experiment):
    table = pd.read_csv(experiment[0] / "report/tables/kernels_comparison.csv", dtype={"reference": str})
    rate = table[(table["metric"] == "throughput_mean") & (table["scope"] == "right_to_left")]
    assert set(zip(rate["reference"], rate["kernel"], rate["subject"], rate["result"])) == {
        ("6.9", "newer", "cubic", "different"), ("6.12", "newer", "cubic", "different")}
    assert set(rate["method"]) == {"paired"} and rate["difference"].tolist() == pytest.approx([12, 12], rel=0.02)


def test_the_page_and_the_terminal_say_it(experiment):
    page = (experiment[0] / "report/index.html").read_text()
    section = re.search(r'<section id="kernels">.*?</section>', page, re.S)[0]
    assert len(re.findall("<h3>", section)) == 3 and section.count("no change in this scenario") == 4
    assert page.count('href="#kernels"') == 1
    assert "kernel newer against 6.12:" in experiment[1].kernels
    assert "  reno: no change in this scenario, the same to the byte (3 seeds)" in experiment[1].kernels
    assert page.index('class="changes"') < page.index('id="findings"')
    rate = "    throughput (bottleneck, right to left) "
    changed = [line.removeprefix(rate) for line in experiment[1].kernels if line.startswith(rate)]
    assert len(changed) == 2 and all(re.fullmatch(
        r"from 60\.\d+ to 7\d\.\d+ Mbit/s, \+1[12]\S* \(.* to .*\): better", line) for line in changed), changed


def test_one_run_with_each_says_only_that_data_differ(tmp_path):
    path = with_kernels(tmp_path, ["6.9", "6.12"], seeds=[4])
    build_report(path)
    assert rows_of(path)["6.9", "6.12", "cubic"].result == \
        "other data; no comparison has a verdict (1 run with each)"


def test_a_run_that_failed_leaves_nothing_to_compare(tmp_path):
    path = with_kernels(tmp_path, ["6.9", "6.12"], seeds=[4], failed={"reno-kernel6.12-seed4": "no"})
    assert build_report(path).unused == "1 of 4 runs are not in it: 1 failed"
    assert rows_of(path)["6.9", "6.12", "reno"].result == "no seed with usable runs of both kernels"


@pytest.fixture
def twins(tmp_path):
    """Two runs with the same raw data."""
    for name in ("one", "two"):
        fixture.write_run(tmp_path / name, 1, shape(60), subject="reno")
    return tmp_path / "one", tmp_path / "two"


def change(folder, name, **changes):
    path = folder / "raw" / name
    known = json.loads(path.read_text()) if path.exists() else {}
    write_json(path, {**known, **changes})
    fixture.seal(folder)


def test_what_a_kernel_says_of_itself_is_no_change(twins):
    for number, folder in enumerate(twins):
        change(folder, "guest.json", kernel=f"6.{number}")
        change(folder, "checks.json", machine_sysctls={"net.ipv4.tcp_mem": f"{number}"})
    assert unchanged.same(*map(Run, twins))


@pytest.mark.parametrize("name, changes", [("guest.json", {"traffic": {"greedy": {"x": 1}}}),
                                           ("checks.json", {"machine_sysctls": {"net.core.rmem_max": "1"}}),
                                           ("counters.json", {"links": [1]}), ("another.json", {})])
def test_anything_else_is(twins, name, changes):
    assert unchanged.same(*map(Run, twins))
    change(twins[1], name, **changes)
    assert not unchanged.same(*map(Run, twins))


def test_what_cannot_be_read_is_not_called_the_same(twins):
    for number, folder in enumerate(twins):
        change(folder, "guest.json", kernel=f"6.{number}")
    (twins[1] / "raw/guest.json").write_text("{")
    assert not unchanged.same(*map(Run, twins))


def test_from_python_it_is_a_table(experiment, monkeypatch):
    fixture.sow(monkeypatch, 6)
    opened = testbed.open(experiment[0])
    assert opened.kernels()["kernel"].tolist() == ["6.9", "6.12", "newer"]
    found = opened.changes()
    rate = found[(found["metric"] == "throughput_mean") & (found["scope"] == "right_to_left")]
    assert set(zip(rate["kernel"], rate["reference"], rate["cca"], rate["good"])) == {
        ("newer", "6.9", "cubic", "better"), ("newer", "6.12", "cubic", "better")}
    assert rate["difference"].tolist() == pytest.approx([12, 12], rel=0.02)
    same = found[found["state"] == "same"]
    assert len(same) == 4 and set(same["words"]) == {
        f"{cca}: no change in this scenario, the same to the byte (3 seeds)" for cca in ("reno", "cubic")}


def test_counters_of_the_stack_that_changed(tmp_path):
    """One that changes nothing, one by the same in each seed, one by about as much in each, and one by chance."""
    pairs = []
    for seed in range(1, 6):
        runs = [fixture.write_run(tmp_path / f"{kernel}{seed}", seed, shape(60), subject="reno", tmix=False)
                for kernel in ("old", "new")]
        for number, run in enumerate(runs):
            counts = {"TcpExtTCPTimeouts": 3 * seed, "TcpRetransSegs": 10 * seed + 7 * number,
                      "IpInReceives": 100 * seed + number * (20 + seed), "UdpInDatagrams": 5 + (seed + number) % 2}
            write_json(run / "raw/snmp.json", {
                "measure_from_us": 1, "readings": ["measure_from", "at_end", "drained"],
                "nodes": {"n1": {name: [0, count, count] for name, count in counts.items()}}})
            fixture.seal(run)
        pairs.append((Run(runs[0]), Run(runs[1])))
    assert changes.counters_of(pairs) == ["TcpRetransSegs from 30.0 to 37.0, +7.00 in each of 5 seeds",
                                          "IpInReceives from 300 to 323, +23.0 (+21.0 to +25.0)"]
    assert changes.counters_of(pairs[:4]) == []

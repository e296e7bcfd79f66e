# SPDX-License-Identifier: GPL-2.0-only
"""Two experiments against each other, as library, command and page."""

import json

import pandas as pd
import pytest

from analysis import one_run
from analysis.compare.experiments import Fact, Group, Versus
from analysis.pages.comparison_report import find, lines, sentence
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from testbed import cli
from tests.unit.analysis import fixture

SHORT = fixture.Shape(test_s=4)
FASTER = fixture.Shape(test_s=4, packets=(55, 10))
DOWN = "right_to_left"


def write(folder, name, shape=SHORT, ccas=("reno", "cubic"), seeds=(1, 2, 3), **options):
    return fixture.write_experiment(folder / name, ccas, seeds, shapes=dict.fromkeys(ccas, shape), **options)


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Experiments old and new; new sends 10 % more."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    return write(tmp_path, "old"), write(tmp_path, "new", FASTER)


def versus(*folders, **options):
    return Versus(*map(Experiment, folders), **options)


def edit(experiment, name, change):
    """Change a JSON file of all runs of an experiment."""
    for run in sorted((experiment / "runs").iterdir()):
        content = json.loads((run / name).read_text())
        change(content)
        fixture.write_json(run / name, content)
        fixture.seal(run)


def throughputs(found):
    return {one.row.label: one for one in found.comparisons.family("Bottleneck, right to left")
            if one.metric == "throughput_mean"}


def test_rows_are_compared_with_their_own(both, monkeypatch):
    fixture.sow(monkeypatch, 6)
    found = throughputs(versus(*both))
    assert list(found) == ["reno", "cubic"]
    one = found["cubic"]
    assert (one.reference, one.seeds, one.comparison.method) == ("old", [1, 2, 3, 4, 5, 6], "paired")
    assert one.comparison.difference == pytest.approx(6, rel=0.05) and one.decision.words == "different"


def test_nothing_differs_but_the_results(both):
    assert versus(*both).facts() == []
    group = Group(list(map(Experiment, both)))
    assert "  nothing differs in scenario, engine, kernel and code" in lines(group, find(group))


def test_what_differs_is_said(both):
    _, new = both
    edit(new, "environment.json", lambda facts: facts.update(kernel_release="6.1.0", kernel_options=["ipv6", "stock"]))

    def change(plan):
        plan["scenario"]["hosts"]["ecn"] = 1
        plan["guest_code"] = "cd" * 32
        plan["variants"][0]["sysctls"] = {"net.ipv4.tcp_sack": 0}
        plan["inputs"] = {"/traces/a.txt": "12" * 32}
    edit(new, "plan.json", change)
    facts = versus(*both).facts()
    assert facts[:4] == [Fact("kernel", "release", "6.12.30", "6.1.0"), Fact("kernel", "options", "–", "ipv6, stock"),
                         Fact("code", "inside the guest", "ab" * 6, "cd" * 6), Fact("scenario", "hosts.ecn", "0", "1")]
    assert set(facts[4:]) == {Fact("congestion control", "reno: sysctls.net.ipv4.tcp_sack", "–", "0"),
                              Fact("congestion control", "cubic: sysctls.net.ipv4.tcp_sack", "–", "0"),
                              Fact("traces", "/traces/a.txt", "–", "12" * 6)}


def test_other_seeds_are_not_paired(tmp_path, monkeypatch):
    monkeypatch.setattr(one_run, "groups", lambda values: [[name] for name in values["run"].unique()])
    found = versus(write(tmp_path, "old"), write(tmp_path, "new", seeds=(4, 5)))
    one = throughputs(found)["reno"]
    assert (one.comparison.method, one.seeds, one.comparison.n_reference, one.comparison.n) == ("Welch", [4, 5], 3, 2)
    assert "only their means are compared" in sentence(found)


def test_one_seed_says_nothing(tmp_path):
    found = versus(write(tmp_path, "old", seeds=[1]), write(tmp_path, "new", seeds=[1]))
    assert "nothing can be said" in sentence(found)


def test_points_are_found_whatever_the_order_of_the_axes(tmp_path):
    points = [{"rate": "1 Mbit/s", "delay": "2 ms"}, {"rate": "2 Mbit/s", "delay": "2 ms"}]
    old = write(tmp_path, "old", ccas=["reno"], seeds=[1, 2], points=points)
    new = write(tmp_path, "new", FASTER, ccas=["reno"], seeds=[1, 2],
                points=[{"delay": "2 ms", "rate": "2 Mbit/s"}, {"delay": "9 ms", "rate": "2 Mbit/s"}])
    found = versus(old, new)
    assert list(throughputs(found)) == ["reno delay=2 ms rate=2 Mbit/s"]
    assert found.alone() == [("old", ["reno rate=1 Mbit/s delay=2 ms"]), ("new", ["reno delay=9 ms rate=2 Mbit/s"])]


def test_unusable_runs_are_left_out(tmp_path):
    failed = dict.fromkeys(["reno-seed1", "reno-seed2", "reno-seed3"], "no route")
    found = versus(write(tmp_path, "old"), write(tmp_path, "new", failed=failed))
    assert list(throughputs(found)) == ["cubic"]
    assert found.alone() == [("old", ["reno"]), ("new", ["reno"])]


def test_nothing_in_common_is_an_error(tmp_path):
    with pytest.raises(AnalysisError, match=r"old and new have no congestion control .* in common .*\(reno; cubic\)"):
        versus(write(tmp_path, "old", ccas=["reno"], seeds=[1]), write(tmp_path, "new", ccas=["cubic"], seeds=[1]))


def test_seeds_that_are_one_run_are_told(both):
    group = Group(list(map(Experiment, both)))
    assert [line.partition(" are one run")[0] for line in lines(group, find(group)) if " are one run" in line] == [
        "old, reno: seeds 1–3", "old, cubic: seeds 1–3", "new, reno: seeds 1–3", "new, cubic: seeds 1–3"]


def test_the_command_writes_page_and_tables(both, tmp_path, capsys, monkeypatch):
    fixture.sow(monkeypatch)
    assert cli.main(["compare", "old", "new", "--margin", "20%"]) == 0
    shown = capsys.readouterr().out
    page = tmp_path / "compare-old-new" / "index.html"
    assert shown.splitlines()[-1] == str(page)
    assert "throughput" in shown and "different, by less than 20 %" in shown and "Flow completion" not in shown
    html = page.read_text()
    assert "new against old" in html and "What differs" in html and "mean of old" in html
    assert "bin/testbed compare old new --margin 20%" in html
    table = pd.read_csv(page.parent / "tables" / "comparison.csv").set_index(["metric", "scope", "subject"])
    row = table.loc[("throughput_mean", DOWN, "cubic")]
    assert (row["reference"], row["margin_percent"]) == ("old", 20)
    assert (row["reference_mean"], row["mean"]) == pytest.approx((60, 66), rel=1e-3)
    assert cli.main(["compare", "old", "new"]) == 0             # in place of the first
    assert "different, by less" not in capsys.readouterr().out


def test_what_else_is_there_is_left_alone(both, tmp_path, capsys):
    assert cli.main(["compare", "old", "new", "--output", str(both[0])]) == 1
    assert "is there already and is no comparison of experiments" in capsys.readouterr().err
    assert (both[0] / "experiment.json").exists()
    (tmp_path / "file").touch()
    assert cli.main(["compare", "old", "new", "--output", str(tmp_path / "file")]) == 1
    assert cli.main(["compare", "old", "new", "--output", str(tmp_path / "file" / "x")]) == 1
    assert "testbed: " in capsys.readouterr().err


def test_an_experiment_is_not_compared_with_itself(both, capsys):
    assert cli.main(["compare", "old", "old"]) == 2
    assert "old: the same experiment as old" in capsys.readouterr().err

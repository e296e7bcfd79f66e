# SPDX-License-Identifier: GPL-2.0-only
"""The HTML report: complete, escaped, and whatever runs it is given."""

import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.pages.report import build_report
from analysis.pages.report_tables import run_links
from analysis.read.experiment import Row
from analysis.read.runs import AnalysisError
from tests.unit.analysis import fixture

NOISY = fixture.Shape(noise=0.2)


def build(path, **options):
    """(HTML text, report folder) of an experiment made with these options."""
    index = build_report(fixture.write_experiment(path / "demo", **options)).path
    return index.read_text(), index.parent


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two CCAs, two seeds, a suspect and a failed run."""
    return build(tmp_path_factory.mktemp("report"), ccas=["reno", "cubic"], seeds=[1, 2],
                 shapes={"reno": NOISY, "cubic": NOISY},
                 failed={"cubic-seed2": "Oops: <tcp_cubic> at +0x10\nstack line"},
                 verdicts={"reno-seed2": "suspect"})


def test_every_cca_and_run_is_there(report):
    html, _ = report
    for name in ("reno", "cubic", "reno-seed1", "reno-seed2", "cubic-seed1", "cubic-seed2"):
        assert name in html
    assert "1 run suspect, 1 run failed" in html
    assert "57.1 % of the link" in html


def test_errors_and_scenario_strings_are_escaped(report):
    html, _ = report
    assert "Oops: &lt;tcp_cubic&gt;" in html and "<tcp_cubic>" not in html
    assert "three &lt;hosts&gt; a side &amp; Tmix" in html


def test_reproduction_commands(report):
    html, _ = report
    assert "bin/testbed run access-link --cca reno,cubic --seeds 2" in html
    assert "bin/testbed verify results/demo/runs/reno-seed1" in html


def test_commands_whose_runs_the_last_one_does_not_ask_for_are_there_too(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno", "cubic"])
    content = json.loads((path / "experiment.json").read_text())
    fixture.write_json(path / "experiment.json", {**content, "earlier_commands": [["bin/testbed", "run", "a b"]]})
    assert "bin/testbed run &#39;a b&#39;\nbin/testbed run access-link" in build_report(path).path.read_text()


def test_tables_and_figures_are_linked_and_exist(report):
    html, folder = report
    links = [link for link in re.findall(r'href="([^"#]+)"', html) if link != "data:,"]
    assert {"tables/summary.csv", "tables/runs.csv", "tables/comparison.csv"} <= set(links)
    for link in links:
        assert (folder / link).stat().st_size, link


def test_rows_lead_to_runs_and_runs_to_their_files(report):
    html, folder = report
    names = set(re.findall(r' id="([^"]+)"', html))
    assert {"reno-seed1", "reno-seed2", "cubic-seed1", "cubic-seed2"} <= names
    for target in re.findall(r'href="#([^"]+)"', html):
        assert target in names, target
    row = re.search(r'<th class="name">reno <span.*?</tr>', html, re.DOTALL)[0]
    assert 'href="#reno-seed1"' in row and 'href="#reno-seed2"' in row
    files = {(folder / link).resolve() for link in re.findall(r'href="(\.\./[^"]+)"', html)}
    for name in ("reno-seed1", "cubic-seed1"):
        run = (folder.parent / "runs" / name).resolve()
        assert {run / file for file in ("plan.json", "run.json", "verdict.json", "raw", "raw/queue.csv.gz")} <= files
    # the run that failed left no more
    run = (folder.parent / "runs" / "cubic-seed2").resolve()
    assert {file for file in files if file.is_relative_to(run)} == {run / "plan.json", run / "run.json"}


def test_of_many_seeds_the_ends_are_linked():
    row = Row("reno", (), "reno")
    experiment = SimpleNamespace(names={row: {seed: f"reno-seed{seed}" for seed in range(1, 31)}})
    assert run_links(experiment, row, [3, 1, 2]) == [(str(seed), f"reno-seed{seed}") for seed in (1, 2, 3)]
    assert run_links(experiment, row, range(1, 31)) == [("1", "reno-seed1"), ("… 30", "reno-seed30")]
    assert run_links(experiment, Row("cubic", (), "cubic"), [1]) == []


def test_page_needs_nothing_from_outside(report):
    html, _ = report
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)
    assert "<style>" in html and not re.search(r"<(?:script|link|iframe)[^>]*(?:src|href)=\"(?!data:)", html)


def test_rebuilding_replaces_the_report(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])
    build_report(path)
    (path / "report" / "tables" / "stale").touch()
    build_report(path)
    assert not (path / "report" / "tables" / "stale").exists()
    assert sorted(file.name for file in path.iterdir()) == ["experiment.json", "report", "runs"]


def test_a_file_of_ones_own_in_the_report_is_kept(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])
    build_report(path)
    (path / "report" / "notes.txt").touch()
    with pytest.raises(AnalysisError, match=r"demo/report: is there already and is no report \(it has notes.txt\)"):
        build_report(path)
    assert (path / "report" / "notes.txt").exists()


def test_failure_leaves_the_old_report(tmp_path, monkeypatch):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])
    build_report(path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AnalysisError):
        build_report(path)
    assert (path / "report" / "index.html").exists()
    assert sorted(file.name for file in path.iterdir()) == ["experiment.json", "report", "runs"]


def test_one_run_says_that_there_is_no_interval(tmp_path):
    html, _ = build(tmp_path, ccas=["reno"], seeds=[1])
    assert "there is no confidence interval" in html
    assert "±" not in html and "&plusmn;" not in html and 'class="mark' not in html and "one by one" not in html


def test_ccas_are_marked_against_the_first(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    html, _ = build(tmp_path, seeds=[1, 2], shapes={"cubic": fixture.Shape(packets=(55, 10))})
    assert 'title="equal within 5 % (against reno)"' in html and 'title="different (against reno)"' in html
    assert "reno <span class=\"unit\">reference</span>" in html
    assert re.search(r"<td>\+(5.9|6.0)\d+</td><td>\+5.9\d+ to \+6.0\d+</td><td class=\"text\">paired</td>", html)


def test_the_margin_is_said(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    path = fixture.write_experiment(tmp_path / "demo", seeds=[1, 2])
    html = build_report(path, margin=0.1).path.read_text()
    assert "equal within 10&nbsp;%" in html and 'title="equal within 10 % (against reno)"' in html


def test_seeds_added_for_precision_are_disclosed(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1, 2])
    assert "somewhat less often" not in build_report(path).path.read_text()
    content = json.loads((path / "experiment.json").read_text())
    fixture.write_json(path / "experiment.json", {**content, "command": [*content["command"], "--precision", "5%"]})
    assert "somewhat less often than 95&nbsp;%" in build_report(path).path.read_text()


def test_long_flows_alone(tmp_path):
    html, _ = build(tmp_path, ccas=["reno"], seeds=[1, 2], tmix=False)
    assert "Jain" in html and "Transfer times by size" not in html


def test_no_run_finished(tmp_path):
    html, _ = build(tmp_path, ccas=["reno"], seeds=[1], failed={"reno-seed1": "boom"})
    assert "No run gave metrics" in html and "boom" in html


def test_only_invalid_runs(tmp_path):
    html, _ = build(tmp_path, ccas=["reno"], seeds=[1], verdicts={"reno-seed1": "invalid"})
    assert "1 run invalid" in html and "No run can enter means" in html


def test_corrupt_run_is_listed(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno", "cubic"], seeds=[1])
    (path / "runs/reno-seed1/raw/adus.csv.gz").write_bytes(b"\x1f\x8b\x08\x00")
    report = build_report(path)
    html = report.path.read_text()
    assert "adus.csv.gz" in html and "1 run damaged" in html
    assert list(report.problems) == ["reno-seed1"]
    assert "adus.csv.gz: not what the run left" in report.problems["reno-seed1"]


def test_many_ccas(tmp_path):
    ccas = [f"cca{index}" for index in range(9)]
    html, _ = build(tmp_path, ccas=ccas, seeds=[1], shapes=dict.fromkeys(ccas, NOISY))
    assert all(html.count(cca) > 2 for cca in ccas)


def test_optional_descriptions_may_be_missing(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])
    listed = json.loads((path / "experiment.json").read_text())["runs"]
    fixture.write_json(path / "experiment.json", {"schema": 2, "runs": listed})
    html = build_report(path).path.read_text()
    assert "Access link" in html and "bin/testbed" not in html


def test_missing_experiment_is_a_clear_error(tmp_path):
    with pytest.raises(AnalysisError, match="experiment.json: file is missing"):
        build_report(tmp_path)


def test_percentiles_that_were_not_reached_are_called_so(tmp_path, undelivered):
    path = fixture.write_experiment(tmp_path / "demo", seeds=[1, 2, 3],
                                    shapes={name: fixture.Shape(noise=0.1) for name in ("reno", "cubic")})
    for seed in (1, 2, 3):
        for subject in ("reno", "cubic"):
            if subject == "cubic" or seed == 1:
                undelivered(path / f"runs/{subject}-seed{seed}", lambda table: table["conn"] % 2 > 0)
    html = build_report(path).path.read_text()
    assert ">not reached</td>" in html and ">not reached in 1 of 3</td>" in html
    table = pd.read_csv(path / "report" / "tables" / "summary.csv").set_index(["subject", "metric", "scope"])
    assert table.loc[("cubic", "flow_completion_time_p95", "all"), "mean"] == float("inf")
    compared = pd.read_csv(path / "report" / "tables" / "comparison.csv")
    assert "flow_completion_time_p95" not in set(compared["metric"])


def test_connections_that_do_not_finish_stay_in_the_figure(tmp_path, undelivered):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1], shapes={"reno": NOISY})
    undelivered(path / "runs/reno-seed1", lambda table: table["conn"] % 2 > 0)
    build_report(path)
    table = pd.read_csv(path / "report" / "figures" / "flow_survival.csv")
    assert table["reno share"].iloc[-1] > 0.3
    assert (table["reno ci95_low"] < table["reno share"])[5:].all()

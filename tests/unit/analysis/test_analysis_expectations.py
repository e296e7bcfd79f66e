# SPDX-License-Identifier: GPL-2.0-only
"""Expectations are judged on means of usable runs; JUnit XML has all of them, and the runs."""
import json
import sys
from xml.etree import ElementTree

import pytest

from analysis import metrics
from analysis.pages.report import build_report
from analysis.read import expectations
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.cli import _expectations
from testbed.core import units
from testbed.core.errors import ExpectationFailed, TestbedError, UsageError
from testbed.core.expectations import parse
from tests.unit.analysis import fixture
from tests.unit.arguments import parsed

#: of fixture.Shape, whose links carry 60 and 12 Mbit/s
EXPECTED = ["throughput_mean:right_to_left == 60", "throughput_mean > 61", "utilisation:nowhere > 0.5",
            "udp_loss < 1 %", "throughput_mean:left_to_right > 10"]


def expecting(path, *texts, ccas=()):
    """Put expectations into an experiment; the last one is of some subjects only."""
    description = json.loads((path / "experiment.json").read_text())
    records = [parse(text).record() for text in texts]
    records[-1]["ccas"] = list(ccas)
    (path / "experiment.json").write_text(json.dumps({**description, "expect": records}))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """reno: two runs, one of them invalid; of cubic both failed."""
    path = fixture.write_experiment(tmp_path_factory.mktemp("expected") / "demo", seeds=[1, 2], verdicts={
        "reno-seed2": "invalid"}, failed={"cubic-seed1": "crash \x00 <x>", "cubic-seed2": "crash"})
    return expecting(path, *EXPECTED, ccas=["reno", "vegas"])


def test_each_is_judged_for_each_row(path):
    found = [(one.row.label, one.result, one.found) for one in expectations.judge(Results(Experiment(path)))]
    assert [one for one in found if one[0] == "reno"] == [
        ("reno", "met", "60 Mbit/s (n = 1)"), ("reno", "not met", "60 Mbit/s (right_to_left, n = 1)"),
        ("reno", "cannot be judged", "utilisation has no scope nowhere; there are: right_to_left, left_to_right"),
        ("reno", "cannot be judged", "no run has udp_loss"), ("reno", "met", "12 Mbit/s (n = 1)")]
    assert [one for one in found if one[0] == "cubic"] == [("cubic", "cannot be judged", "no usable run")] * 4
    assert found[-1] == ("vegas", "does not apply", "no run has vegas")


def test_a_window_is_judged_by_itself(tmp_path, monkeypatch):
    """Nothing is sent in the second half."""
    path = expecting(fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1]), "throughput_mean < 1")
    description = json.loads((path / "experiment.json").read_text())
    first, = Experiment(path).runs[:1]
    start_us, end_us = first.interval
    middle_us = (start_us + end_us) // 2
    windows = [None, {"from_us": middle_us, "to_us": None, "after": ""},
               {"from_us": start_us - 1, "to_us": None, "after": ""}]
    description["expect"] = [{**description["expect"][0], "window": window} for window in windows]
    (path / "experiment.json").write_text(json.dumps(description))
    for run in Experiment(path).runs:
        samples = run.frame("queue").copy()
        late = samples["t_us"] > middle_us
        for name in ("sent_bytes", "sent_packets"):
            samples.loc[late, name] = (
                samples[~late].groupby("link", observed=True)[name].max()[samples.loc[late, "link"]].to_numpy())
        samples.to_csv(run.path / "raw/queue.csv.gz", index=False)
    monkeypatch.setattr("testbed.core.derived.check_raw", lambda *_: None)
    whole, part, outside = expectations.judge(Results(Experiment(path)))
    assert (whole.result, part.result, part.n) == ("not met", "met", 1) and part.mean < 0.5 < 25 < whole.mean < 35
    assert part.expectation.text == f"throughput_mean < 1 Mbit/s from {units.show('us', middle_us)}"
    assert outside.result == "cannot be judged" and "what is measured begins at" in outside.found


def test_a_percentile_that_was_not_reached_is_long(path):
    assert not parse("flow_completion_time_p99 < 10").met_by(float("inf"))
    one = expectations.Outcome(parse("flow_completion_time_p99 < 10"), None, "not met", "all", 1, 2, float("inf"), "")
    assert one.found == "not reached (n = 1 of 2 usable runs)"


def test_the_command_tells_and_fails(path, tmp_path, capsys):
    junit = tmp_path / "cases.xml"
    judged = _expectations.judge(parsed("run", "demo", "--junit", junit), [path])
    assert judged.unwritten == "" and judged.wrong == "of 10 expectations, 1 not met, 6 cannot be judged"
    assert "expected of reno: throughput_mean > 61 Mbit/s: not met: 60 Mbit/s" in capsys.readouterr().out
    with pytest.raises(ExpectationFailed) as caught:
        _expectations.fail(judged)
    assert caught.value.exit_code == 6
    suite, = ElementTree.parse(junit).getroot()
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "demo", "tests": "14", "failures": "2", "errors": "8", "skipped": "1"}
    kinds = {case.get("name"): [child.tag for child in case] for case in suite}
    assert kinds["reno-seed1"] == [] and kinds["reno-seed2"] == ["failure"] and kinds["cubic-seed1"] == ["error"]
    assert kinds["reno: throughput_mean > 61 Mbit/s"] == ["failure"]
    assert kinds["reno: throughput_mean:right_to_left == 60 Mbit/s"] == ["system-out"]


def test_without_expectations_nothing_is_wrong(tmp_path, capsys):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])
    assert _expectations.judge(parsed("run", "demo"), [path]) == _expectations.Judged("", "") \
        and capsys.readouterr().out == ""
    _expectations.fail(_expectations.Judged("", ""))
    path = expecting(path, "throughput_mean > 50 Mbit/s")
    assert _expectations.judge(parsed("run", "demo"), [path]).wrong == ""


def test_without_expectations_nothing_is_loaded_to_judge_them(tmp_path, monkeypatch):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "analysis.read.expectations", None)       # to import it would fail
        assert _expectations.judge(parsed("run", "demo"), [path]) == _expectations.Judged("", "")
    (path / "experiment.json").write_text("[")
    with pytest.raises(TestbedError, match="experiment.json"):
        _expectations.judge(parsed("run", "demo"), [path])


def test_files_that_cannot_be_written_are_told_before_anything_runs(tmp_path):
    _expectations.check(parsed("run", "demo", "--junit", tmp_path / "new.xml"))
    for junit, said in ((tmp_path, "a file expected"), (tmp_path / "none/x.xml", "no such folder")):
        with pytest.raises(UsageError, match=said):
            _expectations.check(parsed("run", "demo", "--junit", junit))


def test_a_file_that_cannot_be_written_in_the_end_hides_nothing(path, tmp_path, capsys):
    junit = tmp_path / "cases.xml"
    junit.mkdir()                               # since it was looked at
    judged = _expectations.judge(parsed("run", "demo", "--junit", junit), [path])
    said = f"--junit {junit}: cannot be written: Is a directory"
    assert judged.unwritten == said and said in capsys.readouterr().err
    with pytest.raises(ExpectationFailed, match="1 not met"):
        _expectations.fail(judged)
    with pytest.raises(TestbedError, match="all is as expected, but that is not written down") as caught:
        _expectations.fail(_expectations.Judged("", said))
    assert caught.value.exit_code == 3


def test_the_report_has_a_table(path):
    html = build_report(path).path.read_text()
    assert '<section id="expectations">' in html and "throughput_mean:right_to_left == 60 Mbit/s" in html
    assert '<td class="verdict invalid">not met</td>' in html


@pytest.mark.parametrize("field, value", [("comparison", "~"), ("limit", "much"), ("ccas", None)])
def test_records_that_were_edited(tmp_path, field, value):
    path = expecting(fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1]), "drops < 1")
    description = json.loads((path / "experiment.json").read_text())
    description["expect"][0][field] = value
    (path / "experiment.json").write_text(json.dumps(description))
    with pytest.raises(AnalysisError, match="experiment.json: expect"):
        expectations.judge(Results(Experiment(path)))


def test_a_metric_that_its_file_does_not_name_is_an_error(run_dir, monkeypatch, errors):
    monkeypatch.setattr(metrics.module("drops"), "UNITS", {"drops": "packets", "drop_rate": "1"})
    assert errors(run_dir)["drops"] == "drop_rate in % is not among the UNITS of its file"

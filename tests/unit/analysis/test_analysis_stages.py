# SPDX-License-Identifier: GPL-2.0-only
"""Verdict and metrics are stages of their own: made again when they are stale, harmed by no exception."""

import json
import sys
import textwrap

import pytest

from analysis import figures, metrics
from analysis.metrics import load_metrics, measure_run
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Run
from testbed import checks
from testbed.core import derived
from testbed.core.errors import DamagedRun, EnvironmentProblem
from testbed.core.files import hash_raw
from tests.unit.analysis import fixture

#: names of the files that tests add
ADDED = {"of_a_test", "broken", "breaks", "passes", "needy"}


@pytest.fixture
def one_file(tmp_path, monkeypatch):
    """Function that adds a file to a package for the time of the test, and returns its path."""
    def add(package, name, code):
        folder = tmp_path / "added" / package.__name__
        folder.mkdir(parents=True, exist_ok=True)
        if str(folder) not in package.__path__:
            monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        path = folder / f"{name}.py"
        path.write_text(textwrap.dedent(code))
        monkeypatch.delitem(sys.modules, f"{package.__name__}.{name}", raising=False)
        return path
    yield add
    for name in [name for name in sys.modules if name.rpartition(".")[2] in ADDED]:
        del sys.modules[name]


def note(path):
    return json.loads((path / "derived.json").read_text())


def test_metrics_and_what_they_were_made_from_are_noted(run_dir):
    measure_run(run_dir)
    found = note(run_dir)["metrics.csv"]
    record = json.loads((run_dir / "run.json").read_text())
    assert found["raw_sha256"] == record["raw_sha256"] and found["errors"] == []
    assert {len(found[key]) for key in ("sha256", "code_sha256", "raw_sha256")} == {64}


def test_numbers_edited_by_hand_are_not_believed(run_dir):
    measure_run(run_dir)
    original = (run_dir / "metrics.csv").read_text()
    (run_dir / "metrics.csv").write_text(original.replace("60\n", "99\n", 1))
    assert 99 not in load_metrics(Run(run_dir))["value"].tolist()
    assert (run_dir / "metrics.csv").read_text() == original


@pytest.mark.parametrize("spoil", [
    lambda path: (path / "metrics.csv").unlink(), lambda path: (path / "derived.json").unlink(),
    lambda path: (path / "derived.json").write_text("[]"),
    lambda path: (path / "derived.json").write_text('{"metrics.csv": 7}'),
    lambda path: (path / "metrics.csv").write_bytes(b"")])
def test_what_is_missing_or_damaged_is_made_again(run_dir, spoil):
    measure_run(run_dir)
    spoil(run_dir)
    values = load_metrics(Run(run_dir))
    assert values[values["metric"] == "throughput_mean"]["value"].tolist() == [60, 12]
    assert derived.fresh(run_dir, "metrics.csv", metrics._code(), note(run_dir)["metrics.csv"]["raw_sha256"])


def test_a_verdict_edited_by_hand_is_not_believed(run_dir):
    """The fixture's evidence is too thin for real checks: judged again, it is not valid."""
    assert checks.read_verdict(run_dir)["verdict"] == "valid"
    (run_dir / "verdict.json").write_text((run_dir / "verdict.json").read_text() + " ")
    verdict = checks.read_verdict(run_dir)
    assert verdict["verdict"] != "valid" and json.loads((run_dir / "verdict.json").read_text())["verdict"] != "valid"


def test_new_code_makes_metrics_again_and_old_code_too(run_dir, one_file):
    measure_run(run_dir)
    before = note(run_dir)["metrics.csv"]
    added = one_file(metrics, "of_a_test", """\
        from analysis.metrics import Metric
        def compute(run):
            return [Metric("of_a_test", "all", "1", 7.0)]
        """)
    values = load_metrics(Run(run_dir))
    assert values[values["metric"] == "of_a_test"]["value"].tolist() == [7]
    assert note(run_dir)["metrics.csv"]["code_sha256"] != before["code_sha256"]
    added.unlink()
    assert "of_a_test" not in load_metrics(Run(run_dir))["metric"].tolist()
    assert note(run_dir)["metrics.csv"] == before


def test_a_metric_that_raises_keeps_the_run_and_the_rest(tmp_path, one_file):
    one_file(metrics, "broken", """\
        from analysis.metrics import Metric
        def compute(run):
            yield Metric("before_it_broke", "all", "1", 1.0)
            return [][3]
        """)
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1])
    run = Experiment(path).runs[0]
    before = hash_raw(run.path)
    found = measure_run(run.path)
    assert {"before_it_broke", "throughput_mean"} <= set(found.values["metric"])
    error, = note(run.path)["metrics.csv"]["errors"]
    assert error["where"] == "metric broken" and error["message"] == "IndexError: list index out of range"
    assert "return [][3]" in error["traceback"]
    verdict = checks.read_verdict(run.path)
    assert verdict["verdict"] == "suspect" and verdict["errors"] == [error]
    html = build_report(path).path.read_text()
    assert "metric broken: IndexError: list index out of range" in html and "return [][3]" in html
    assert "1 run suspect" in html and "Bottleneck, right to left" in html
    assert hash_raw(run.path) == before


@pytest.mark.parametrize("code", ["def compute(run:", "import nothing_of_this_name", "", """\
from analysis.metrics import Metric
def compute(run):
    return [Metric("odd", "all", "1", float("nan"))]
"""], ids=["syntax", "import", "empty", "not a number"])
def test_broken_files_cost_nothing_else(run_dir, one_file, code):
    one_file(metrics, "broken", code)
    found = measure_run(run_dir)
    assert [error["where"] for error in found.errors] == ["metric broken"]
    assert "throughput_mean" in set(found.values["metric"])


def test_a_check_is_one_file(run_dir, one_file, monkeypatch):
    listed = checks.names
    monkeypatch.setattr(checks, "names", lambda: [name for name in listed() if name in ADDED])
    added = one_file(checks, "of_a_test", """\
        from testbed.checks import Finding
        def check(evidence):
            links = evidence.network["links"]
            yield Finding("ok", f"{len(evidence.flows)} flows on {len(links)} links of {evidence.clock}")
            yield Finding("invalid", "made up")
        """)
    verdict = checks.judge_run(run_dir)
    assert [(c["level"], c["message"]) for c in verdict["checks"] if c["check"] == "of_a_test"] == [
        ("ok", "9 flows on 2 links of virtual"), ("invalid", "made up")]
    assert verdict["verdict"] == "invalid" and checks.read_verdict(run_dir) == verdict
    added.unlink()
    assert checks.read_verdict(run_dir)["verdict"] == "suspect"


def only(monkeypatch, *names):
    monkeypatch.setattr(checks, "names", lambda: list(names))


def test_a_check_that_raises_is_suspect_and_the_others_count(run_dir, one_file, monkeypatch):
    one_file(checks, "breaks", "def check(evidence):\n    return open('/nothing.json')\n")
    one_file(checks, "passes",
             "from testbed.checks import Finding\ndef check(evidence):\n    yield Finding('ok', 'fine')\n")
    only(monkeypatch, "breaks", "passes")
    verdict = checks.judge_run(run_dir)
    assert verdict["verdict"] == "suspect"
    error, = verdict["errors"]
    assert error["where"] == "check breaks" and "FileNotFoundError" in error["traceback"]
    assert {c["check"]: c["level"] for c in verdict["checks"]} == {"breaks": "suspect", "passes": "ok"}
    only(monkeypatch, "passes")
    assert checks.judge_run(run_dir)["verdict"] == "valid"


@pytest.mark.parametrize("kernel, level, verdict", [(True, "invalid", "invalid"), (False, "not applicable", "suspect")])
def test_checks_need_what_an_engine_has(run_dir, one_file, monkeypatch, kernel, level, verdict):
    one_file(checks, "needy", """\
        from testbed.checks import Finding
        NEEDS = ("kernel",)
        def check(evidence):
            yield Finding("invalid", "wrong")
        """)
    only(monkeypatch, "needy")
    environment = run_dir / "environment.json"
    fixture.write_json(environment, {**json.loads(environment.read_text()), "capabilities": {"kernel": kernel}})
    found = checks.judge_run(run_dir)
    assert found["checks"][0]["level"] == level and found["verdict"] == verdict
    assert bool(found["reasons"]) == kernel


def test_a_figure_is_one_file_and_one_that_raises_costs_nothing_else(tmp_path, one_file):
    one_file(figures, "of_a_test", """\
        import pandas as pd
        from analysis.drawing import gnuplot
        from analysis.figures import Figure
        ORDER = 1
        def draw(experiment, folder):
            gnuplot.draw(folder, "of_a_test", pd.DataFrame({"x": [1, 2]}), ["plot 'of_a_test.csv' using 1:1"])
            return [Figure("of_a_test", "Made up", "A line.")]
        """)
    one_file(figures, "broken", "ORDER = 2\ndef draw(experiment, folder):\n    raise KeyError('of the test')\n")
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1])
    html = build_report(path).path.read_text()
    assert html.index('id="of_a_test"') < html.index('id="throughput"')
    assert "1 figure could not be drawn" in html and "figure broken: KeyError" in html and "of the test" in html


def test_damaged_runs_are_neither_judged_nor_measured(run_dir):
    (run_dir / "raw" / "queue.csv.gz").write_bytes(b"")
    for stage in (measure_run, checks.judge_run):
        with pytest.raises((AnalysisError, DamagedRun), match="queue.csv.gz: not what the run left"):
            stage(run_dir)


def test_a_read_only_folder_is_reported_all_the_same(tmp_path, monkeypatch):
    """Root may write anywhere, so writing is made to fail."""
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1])
    only(monkeypatch)

    def refuse(*_arguments, **_more):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(derived, "write_text", refuse)
    run = Experiment(path).runs[0]
    (run.path / "verdict.json").write_text("{}")
    html = build_report(path).path.read_text()
    assert "Bottleneck, right to left" in html and not (run.path / "metrics.csv").exists()


def test_a_report_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1])
    import analysis.pages.report

    def refuse(*_arguments, **_more):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(analysis.pages.tempfile, "mkdtemp", refuse)
    with pytest.raises(EnvironmentProblem, match="e/report: cannot be written: Permission denied"):
        build_report(path)


def test_code_hash_covers_what_is_imported(tmp_path):
    (tmp_path / "one.py").write_text("import json\n")
    alone = derived.code_sha256([tmp_path])
    (tmp_path / "one.py").write_text("import json  # other\n")
    assert derived.code_sha256([tmp_path]) != alone
    names = {str(path) for path in derived._code(derived.PROJECT_DIR / "analysis/metrics/goodput.py", 0, 0)[1]}
    assert str(derived.PROJECT_DIR / "analysis/read/tcp.py") in names
    assert str(derived.PROJECT_DIR / "analysis/metrics/__init__.py") in names


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout with one file that imports another; nothing of it is imported yet."""
    monkeypatch.setattr(derived, "PROJECT_DIR", tmp_path)
    monkeypatch.setattr(derived, "_imported", {})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_a_test_one.py").write_text("import of_a_test_two\n")
    (tmp_path / "of_a_test_two.py").write_text("VALUE = 1\n")
    yield tmp_path
    for name in ("of_a_test_one", "of_a_test_two"):
        sys.modules.pop(name, None)


def test_code_that_was_imported_for_all_runs_counts_as_what_it_was(project):
    """The workers of a campaign go on with it, whatever becomes of the files."""
    one, two = project / "of_a_test_one.py", project / "of_a_test_two.py"
    before = derived.code_sha256([one])
    derived.import_all([one])
    assert {"of_a_test_one", "of_a_test_two"} <= sys.modules.keys() and derived.code_sha256([one]) == before
    two.write_text("VALUE = 'edited'\n")
    assert derived.code_sha256([one]) == before
    (project / "of_a_test_three.py").write_text("import of_a_test_two\n")
    assert derived.code_sha256([one, project / "of_a_test_three.py"]) != before


def test_code_that_cannot_be_imported_counts_as_what_it_is(project):
    one, two = project / "of_a_test_one.py", project / "of_a_test_two.py"
    two.write_text("VALUE = 1 / 0\n")
    before = derived.code_sha256([one])
    derived.import_all([one])
    two.write_text("VALUE = 'mended'\n")
    assert derived.code_sha256([one]) != before


def test_code_that_changes_while_it_is_imported_counts_as_what_it_is(project):
    one = project / "of_a_test_one.py"
    one.write_text("import pathlib\npathlib.Path(__file__).write_text('CHANGED = True')\n")
    before = derived.code_sha256([one])
    derived.import_all([one])
    assert derived.code_sha256([one]) != before


def test_the_example_of_the_docs(run_dir, one_file):
    text = (derived.PROJECT_DIR / "docs" / "reference/metrics.md").read_text()
    code = text[text.index('    """Largest backlog'):text.index("`UNITS` names all")]
    one_file(metrics, "of_a_test", code)
    values = measure_run(run_dir).values
    assert values[values["metric"] == "backlog_max"]["value"].tolist() == [150_000, 6_000]

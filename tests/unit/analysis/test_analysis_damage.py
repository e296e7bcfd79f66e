# SPDX-License-Identifier: GPL-2.0-only
"""Damaged folders: whatever became of a file, the run is named and the others are reported."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from analysis.compare.suite import SuiteRecord
from analysis.drawing import gnuplot
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from analysis.read.tables import Results
from testbed import checks
from testbed.core import shapes
from testbed.core.errors import TestbedError
from testbed.core.guest_files import Checks, Counters, Guest, Late, Snmp
from testbed.core.run_files import Environment, ExperimentRecord, Plan, RunRecord
from tests.unit.analysis import fixture
from topologies.links.records import Network
from traffic.workload.records import Workload

SHAPE = fixture.Shape(test_s=3, tcp_info_rows=100, connections_per_s=10, interval_us=50_000, packets=(80, 10))
#: made again from the others
DERIVED = {"verdict.json", "metrics.csv", "derived.json"}
DAMAGES = {
    "truncated": lambda content: content[:len(content) // 2], "emptied": lambda content: b"",
    "list": lambda content: b"[]",
    "null": lambda content: b"null", "garbage": lambda content: b"\x00\xff{]garbage\n\n",
    "object": lambda content: b"{}",
    "number": lambda content: b"1" + b"0" * 5000, "deep": lambda content: b"[" * 100_000, "missing": None,
    "folder": None}
KINDS = (Plan, RunRecord, Environment, Network, Workload, Guest, Counters, Checks, Snmp, Late, ExperimentRecord,
         SuiteRecord)
HOSTILE = ["text", None, -1, 10**30, -10**30, 1e308, True, [], {}, "9" * 5000, 0.5]
FILES = ["plan.json", "run.json", "environment.json", *sorted(DERIVED), *(f"raw/{name}" for name in (
    "network.json", "workload.json", "guest.json", "queue.csv.gz", "sojourn.csv.gz", "sojourn_hist.csv.gz",
    "tcp_info.csv.gz",
    "connections.csv.gz", "adus.csv.gz"))]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """An experiment of as many runs as there are damages and hostile values, and one more; with derived files."""
    path = tmp_path_factory.mktemp("original") / "results"
    experiment = fixture.write_experiment(path / "e", ["reno"], range(max(len(DAMAGES), len(HOSTILE)) + 1),
                                          shapes={"reno": SHAPE})
    Results(Experiment(experiment))
    return path


@pytest.fixture
def experiment(original, tmp_path):
    shutil.copytree(original, tmp_path / "results", symlinks=True)
    return tmp_path / "results" / "e"


@pytest.fixture
def no_gnuplot(monkeypatch):
    """Figures are prepared but not drawn."""
    def pretend(folder, script):
        for ending in gnuplot.FORMATS:
            (folder / script).with_suffix(f".{ending}").write_text("<svg/>")
        return 0, ""
    monkeypatch.setattr(gnuplot, "_run", pretend)
    # the evidence is too thin for real checks
    monkeypatch.setattr(checks, "names", list)


def spoil(path, damage):
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(DAMAGES[damage](content))


@pytest.mark.parametrize("name", FILES)
def test_every_file_in_every_way(experiment, no_gnuplot, name):
    """One run for each kind of damage; the last run is whole."""
    runs = dict(zip(DAMAGES, Experiment(experiment).runs))
    for damage, run in runs.items():
        spoil(run.path / name, damage)
    report = build_report(experiment)
    html = report.path.read_text()
    assert "Traceback" not in html and "could not be drawn" not in html
    if name in DERIVED:
        assert report.problems == {}
    else:
        assert set(report.problems) == {run.name for run in runs.values()}
        for message in report.problems.values():
            assert Path(name).name in message and "\n" not in message
        assert f"{len(runs)} runs damaged" in html
    assert html.count('<td class="verdict valid">valid') >= len(Experiment(experiment).runs) - len(runs)


@pytest.mark.parametrize("name, keys", [
    ("plan.json", ("seed",)), ("plan.json", ("scenario", "timing", "duration_us")),
    ("plan.json", ("scenario", "timing", "warmup_us")),
    ("plan.json", ("variants",)), ("plan.json", ("labels",)), ("run.json", ("virtual_s",)), ("run.json", ("status",)),
    ("run.json", ("raw_files_sha256",)), ("environment.json", ("clock",)), ("environment.json", ("kernel_release",)),
    ("raw/network.json", ("links", 0, "rate_bps")), ("raw/network.json", ("links", 0, "bottleneck")),
    ("raw/network.json", ("paths", 0, "base_rtt_us")), ("raw/network.json", ("links", 1, "capacity_bytes")),
    ("raw/workload.json", ("flows", 0, "start_us")), ("raw/workload.json", ("flows", 0, "connections")),
    ("raw/workload.json", ("components", 0, "offered_bps")),
    ("raw/workload.json", ("components", 0, "thirds_bps", "right_to_left"))])
def test_hostile_values_behind_true_hashes(experiment, no_gnuplot, name, keys):
    """As an engine with a defect would leave them; one run for each value, the last run is whole."""
    runs = Experiment(experiment).runs
    for value, run in zip(HOSTILE, runs):
        content = json.loads((run.path / name).read_text())
        *sections, last = keys
        tree = content
        for key in sections:
            tree = tree[key]
        tree[last] = value
        fixture.write_json(run.path / name, content)
        if name.startswith("raw/"):
            fixture.seal(run.path, verdict="valid")
    report = build_report(experiment)
    html = report.path.read_text()
    assert "Bottleneck, right to left" in html and "could not be drawn" not in html
    assert runs[-1].name not in report.problems
    for message in report.problems.values():
        assert "\n" not in message


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                                                max_size=3), max_leaves=6)


def places(tree, path=()):
    """Paths to all values of a JSON tree."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """(folder of a run, {file: content})"""
    path = fixture.write_run(tmp_path_factory.mktemp("fuzz") / "0123456789abcdef", shape=SHAPE)
    names = ("plan.json", "run.json", "environment.json", "raw/network.json", "raw/workload.json")
    return path, {name: json.loads((path / name).read_text()) for name in names}


@settings(max_examples=1000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_any_json_file_is_read_or_named(fuzzed, data):
    """One or two values replaced by any other; what is read afterwards has the types it claims."""
    path, contents = fuzzed
    name = data.draw(st.sampled_from(sorted(contents)))
    changed = json.loads(json.dumps(contents[name]))
    for _ in range(data.draw(st.integers(1, 2))):
        *sections, last = data.draw(st.sampled_from([place for place in places(changed) if place] or [()])) or [None]
        tree = changed
        for key in sections:
            tree = tree[key]
        if isinstance(tree, dict) and data.draw(st.booleans()):
            tree.pop(last, None)
        elif last is not None:
            tree[last] = data.draw(JSON)
    try:
        (path / name).write_text(json.dumps(changed))
        run = Run(path)
        with contextlib.suppress(TestbedError):
            assert isinstance(run.seed, int) and isinstance(run.subject, str) and isinstance(run.point, dict)
            assert run.interval.end_us > run.interval.start_us >= 0
            assert all(link["rate_bps"] > 0 for link in run.bottlenecks.values())
            assert all(isinstance(flow["sender"], str) for flow in run.flows)
            assert isinstance(run.directions(), dict) and isinstance(run.owners, dict) and isinstance(run.kernel, str)
            assert {type(v["name"]) for v in run.variants} <= {str}
        state = Run(path).state
        assert state.kind in ("finished", "failed", "damaged") and "Traceback" not in state.message
    except UnicodeEncodeError:          # no file can hold this
        pass
    finally:
        (path / name).write_text(json.dumps(contents[name]))


@settings(max_examples=300, deadline=None, database=None)
@given(value=JSON)
def test_mismatch_says_what_is_expected(value):
    for shape in (*map(shapes.of, KINDS), shapes.Each(shapes.Number(1, 1e15)), shapes.Values(shapes.Plain((str,))),
                  shapes.Maybe(shapes.Number(whole=True)), shapes.Plain((int, str))):
        found = shapes.mismatch(value, shape)
        assert found is None or "\n" not in found

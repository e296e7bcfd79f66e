# SPDX-License-Identifier: GPL-2.0-only
"""`import testbed` in programs and notebooks: what asks for runs, and an experiment's tables, series and pictures."""
import dataclasses
import inspect
import re
import shutil
import signal
import subprocess
import sys
import threading
import types

import numpy as np
import pandas as pd
import pytest

import testbed
from testbed.api import experiment, progress, running
from testbed.cli import _process, _series
from testbed.core import progress as core_progress
from testbed.core.errors import EnvironmentProblem, RunFailed, ScenarioError, TestbedError, UsageError
from tests.unit.analysis import fixture

LIMIT = "topology.central.queue.limit"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    fixture.write_experiment(folder / "plain", seeds=(1, 2, 3, 4, 5, 6), tmix=False, parameters={},
                             verdicts={"cubic-seed2": "invalid"},
                             shapes={"cubic": fixture.Shape(test_s=4, packets=(60, 10), noise=0.05),
                                     "reno": fixture.Shape(test_s=4, noise=0.05)})
    fixture.write_experiment(folder / "swept", ccas=("reno",), seeds=(1,), tmix=False, parameters={}, points=[
        {LIMIT: "170"}, {LIMIT: "85"}], shapes={"reno": fixture.Shape(test_s=2)},
        failed={"reno-limit85-seed1": "the guest kernel crashed"})
    return folder


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, results):
    monkeypatch.setenv("TESTBED_RESULTS", str(results))


@pytest.fixture
def plain(results):
    with pytest.warns(UserWarning, match="1 run of 12 left out"):
        found = testbed.open("plain")
        found.metrics()
    return found


def test_importing_testbed_loads_nothing_but_pathlib():
    """Every guest does it."""
    lines = ("import pathlib, sys; before = {*sys.modules}; import testbed; print(sorted({*sys.modules} - before)); "
             "testbed.UsageError; print('pandas' in sys.modules, 'run' in dir(testbed))")
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, cwd=testbed.PROJECT_DIR)
    assert done.stdout.splitlines() == ["['testbed']", "True True"], done.stderr
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        testbed.rnu


def test_what_is_offered_is_what_editors_are_told():
    stub = (testbed.PROJECT_DIR / "testbed/__init__.pyi").read_text()
    for name in testbed._OF_API:
        assert getattr(testbed, name) is getattr(sys.modules["testbed.api"], name) and f"{name} as {name}" in stub
    assert {*testbed._OF_API} == {*sys.modules["testbed.api"].__all__}


def test_the_page_names_all_there_is_and_nothing_else():
    page = re.sub("```.*?```", "", (testbed.PROJECT_DIR / "docs/reference/python.md").read_text(), flags=re.DOTALL)
    code = {word for text in re.findall(r"`([^`]+)`", page) for word in re.findall(r"[a-z_]\w*", text, re.IGNORECASE)}
    of_run = {*inspect.signature(testbed.run).parameters} - {"options"}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*)(?: \.\.\.)? \|.*?\|.*?\|$", page.partition("## `run`")[2].partition(
        "\n## ")[0], re.MULTILINE)
    assert {*re.findall(r"\w+", " ".join(rows))} == of_run | {"kernel", "hz"}
    members = {name for name in dir(testbed.Experiment) if not name.startswith("_")}
    listed = re.findall(r"^\| ((?:`\w+[^|]*)+) \|", page.partition("## An experiment")[2].partition("\n## ")[0],
                        re.MULTILINE)
    assert {name for row in listed for name in re.findall(r"`(\w+)", row)} == members
    series = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|[^|]+\| ([^|]+) \|$", page.partition("## Series")[2].partition(
        "\n## ")[0], re.MULTILINE)
    told = {name: unit for names, unit in series for name in re.findall(r"\w+", names)}
    assert {name: f"({unit})" for name, unit in told.items()} == {
        name: what[what.rindex("("):] for name, what in testbed.series_names().items()}
    assert {*testbed._OF_API} - {"Experiment", "Picture", "Run"} <= code
    assert {*dataclasses.asdict(testbed.Picture("", "", "", "", b"", None)), "save"} <= code


# -- what is asked for ---------------------------------------------------------------------------

@pytest.fixture
def parsed(monkeypatch):
    """parsed(arguments of run()) -> those of the command line"""
    class Enough(Exception):
        pass

    def call(**asked):
        def begin(arguments):
            found.append(vars(arguments))
            raise Enough
        found = []
        monkeypatch.setattr(running.command, "begin", begin)
        with pytest.raises(Enough):
            testbed.run(**asked)
        return found[0]
    return call


@pytest.mark.parametrize("asked, words", [
    (dict(scenario="long-flows"), []),
    (dict(scenario="x", ccas=["reno", "cubic"], seeds=5, quick=True),
     ["--cca", "reno,cubic", "--seeds", "5", "--quick"]),
    (dict(scenario="x", ccas="reno,cubic", quick="smoke", again=True), ["--cca", "reno,cubic", "--smoke", "--again"]),
    (dict(scenario="x", seeds=[4]), ["--seed", "4"]), (dict(scenario="x", seeds=range(4, 7)), ["--seeds", "4,5,6,"]),
    (dict(scenario="x", set={LIMIT: 50, "topology.central.queue.kind": "codel", "hosts.ecn": True, "a": None,
                             "b": [1, "x"], "c": np.int64(3)}),
     ["--set", f"{LIMIT}=50", "--set", "topology.central.queue.kind=codel", "--set", "hosts.ecn=true",
      "--set", "a=null", "--set", 'b=[1, "x"]', "--set", "c=3"]),
    (dict(scenario="x", set="a=-5 ms", probes="tcp_probe"), ["--set", "a=-5 ms", "--probe", "tcp_probe"]),
    (dict(scenario="x", load=85, choose={"buffer": "long"}, sweep={LIMIT: [50, 100], "delay": "1..5/1"}),
     ["--load", "85", "--choose", "buffer=long", "--sweep", f"{LIMIT}=50,100", "--sweep", "delay=1..5/1"]),
    (dict(scenario="x", engine="ns3", jobs=2, slowdown=True, precision="5%", kernel="6.12", hz=1000,
          kernel_options=["ipv6", "mptcp"]),
     ["--engine", "ns3", "--jobs", "2", "--slowdown", "--precision", "5%", "--kernel", "6.12", "--hz", "1000",
      "--kernel-option", "ipv6", "--kernel-option", "mptcp"]),
])
def test_it_asks_for_what_the_command_line_does(parsed, asked, words):
    assert parsed(**asked) == vars(_series.parsed(["run", asked["scenario"], *words]))


@pytest.mark.parametrize("asked, kind, message", [
    (dict(scenario="long-flow"), UsageError, "did you mean long-flows"),
    (dict(scenario="long-flows", ccas=[]), UsageError, "at least one congestion control"),
    (dict(scenario="long-flows", sedes=3), UsageError, "no argument 'sedes'; did you mean seeds"),
    (dict(scenario="long-flows", seeds=0), UsageError, "--seeds 0"),
    (dict(scenario="long-flows", quick="quikc"), UsageError, "quick='quikc'"),
    (dict(scenario="long-flows", set={"topology.central.queue.limt": 5}), ScenarioError, "did you mean limit"),
    (dict(scenario="long-flows", set={LIMIT: object()}), UsageError, "text, a number"),
    (dict(scenario="long-flows", set=["nothing"]), UsageError, "key=value expected"),
    (dict(scenario="long-flows", probes="tcp_prob"), UsageError, "did you mean tcp_probe"),
    (dict(scenario="long-flows", jobs=-1), UsageError, "--jobs"),
    (dict(scenario="long-flows", engine="um"), UsageError, "did you mean uml"),
    (dict(scenario="long-flows", engine="uml,ns3"), UsageError, "one engine a call"),
    (dict(scenario="long-flows", choose={"flow": 2}), UsageError, "did you mean flows"),
])
def test_what_makes_no_sense_is_one_line(asked, kind, message):
    with pytest.raises(TestbedError, match=message) as raised:
        testbed.run(**asked, progress=False)
    assert type(raised.value) is kind and "\n" not in str(raised.value)
    assert raised.value._render_traceback_() == [f"{kind.__name__}: {raised.value}"]


def test_errors_of_other_packages_become_the_testbeds():
    from kernel.source import KernelError, NoSuchKernel
    for problem, kind in ((NoSuchKernel("no 9.9"), UsageError), (KernelError("no gcc"), EnvironmentProblem),
                          (OSError(28, "No space left on device", "/x"), EnvironmentProblem),
                          (OSError(5, "Input/output error", "/x"), TestbedError)):
        with pytest.raises(TestbedError) as raised, running._clear_errors():
            raise problem
        assert type(raised.value) is kind
    with pytest.raises(IndexError), running._clear_errors():
        raise IndexError("a bug")


def test_what_failed_is_said_and_where_the_others_are(tmp_path):
    done = running.Done(tmp_path / "plain", ["reno"], {"reno-seed2": "it crashed\nlong ago"}, {}, ["1", "2"])
    with pytest.raises(RunFailed, match=r"^1 of 2 runs failed, reno-seed2: it crashed; .*testbed.open\('plain'\)$"):
        running._require_all(done)
    with pytest.raises(RunFailed, match="not run: mine: does not compile"):
        running._require_all(running.Done(tmp_path, ["reno"], {}, {"mine": "does not compile"}, ["1"]))


# -- an experiment -------------------------------------------------------------------------------

def test_metrics_are_tidy(plain):
    found = plain.metrics("throughput", "queueing_delay_p95:left_to_right")
    assert list(found) == ["cca", "seed", "point", "metric", "scope", "value", "unit"]
    assert len(found) == 2 * 11 and set(found["scope"][found["metric"] == "throughput_mean"]) == {"right_to_left"}
    assert not ((found["cca"] == "cubic") & (found["seed"] == 2)).any(), "an invalid run is left out"
    every = plain.metrics("throughput_mean:*")
    assert set(every["scope"]) == {"left_to_right", "right_to_left"} and len(plain.metrics()) > len(every) == 22
    with pytest.raises(UsageError, match="throughput_mean"):
        plain.metrics("throughput_maen")


def test_summary_is_that_of_the_report(plain):
    found = plain.summary("throughput")
    assert list(found) == ["cca", "metric", "scope", "unit", "n", "mean", "ci95_low", "ci95_high"]
    assert found[["cca", "n"]].values.tolist() == [["reno", 6], ["cubic", 5]]
    mine = plain.metrics("throughput").groupby("cca")["value"].mean()
    for row in found.itertuples():
        assert row.mean == pytest.approx(mine[row.cca]) and row.ci95_low < row.mean < row.ci95_high
    table = plain.report().with_name("tables") / "summary.csv"
    reported = pd.read_csv(table).query("metric == 'throughput_mean' and scope == 'right_to_left'")
    assert reported["mean"].tolist() == pytest.approx(found["mean"].tolist())


def test_compare_says_what_may_be_said(plain):
    row, = plain.compare("throughput").to_dict("records")
    assert (row["cca"], row["reference"], row["n"]) == ("cubic", "reno", 5)
    assert row["difference"] == pytest.approx(row["mean"] - row["reference_mean"]) and "different" in row["result"]
    with pytest.raises(UsageError, match="utilisation is not compared"):
        plain.compare("utilisation")


def test_verdicts_have_all_runs(plain):
    found = plain.verdicts().set_index("run")
    assert len(found) == 12 and found.loc["cubic-seed2", "verdict"] == "invalid"
    assert "offered load" in found.loc["cubic-seed2", "reasons"] and found.loc["reno-seed1", "reasons"] == ""
    assert plain.expectations().empty and repr(plain) == "<plain: 12 runs of reno, cubic; 6 seeds>"


def test_a_sweep_has_columns_of_its_axes(results):
    with pytest.warns(UserWarning, match="1 run of 2 left out"):
        found = testbed.open(results / "swept")
        row, = found.summary("throughput").to_dict("records")
    assert row["limit"] == 170 and row["n"] == 1
    assert list(found.metrics("throughput"))[:4] == ["cca", "seed", "point", "limit"]
    assert found.metrics("throughput")["point"].tolist() == ["limit=170"]
    verdicts = found.verdicts().set_index("run")
    assert verdicts.loc["reno-limit85-seed1", ["status", "reasons"]].tolist() == ["failed", "the guest kernel crashed"]
    assert [run.point for run in found.runs] == [{LIMIT: "170"}, {LIMIT: "85"}]
    with pytest.raises(RunFailed, match="guest kernel crashed"):
        found.series("reno-limit85-seed1", "cwnd")


def test_only_the_runs_that_were_asked_for(results, plain):
    ids = [run.id for run in plain.runs if run.seed in (1, 3)]
    found = experiment.Experiment(results / "plain", ids, ["cubic", "reno"])
    assert found.ccas == ["cubic", "reno"] and {run.seed for run in found.runs} == {1, 3}
    assert found.compare("throughput")["cca"].tolist() == ["reno"]


def test_series_by_name(plain):
    run = plain.runs[0]
    cwnd = plain.series(run, "cwnd")
    assert cwnd.equals(plain.series(run.name, "tcp_cwnd")) and cwnd.shape[1] == 10
    assert (cwnd.attrs["unit"], cwnd.index.name, cwnd.columns[0]) == ("segments", "time_s", "1: n4->n1 reno")
    for name in testbed.series_names():
        found = plain.series(run, name)
        assert len(found) > 5 and found.index.is_monotonic_increasing and found.attrs["name"] == name
    throughput = plain.series(run, "link_throughput")["right_to_left"]
    assert throughput[throughput.index > 1].mean() == pytest.approx(60, rel=0.05)
    for name, wrong in (("reno-seed1", "cwn"), ("reno-sed1", "cwnd")):
        with pytest.raises(UsageError, match="did you mean"):
            plain.series(name, wrong)


def test_a_raw_table_has_all_columns(plain):
    assert {"cwnd", "ssthresh", "rto_us"} <= {*plain.table("reno-seed1", "tcp_info")}
    with pytest.raises(UsageError, match="did you mean tcp_info"):
        plain.table("reno-seed1", "tcp_inf")


def test_a_figure_shows_itself(plain, tmp_path):
    picture = plain.figure("queueing_delay")
    png, size = picture._repr_png_()
    assert png.startswith(b"\x89PNG") and size["width"] == 1000 and 200 < size["height"] < 2000
    assert picture.svg.startswith("<?xml") and len(picture.data) > 10 and "Queueing delay" in repr(picture)
    assert picture.save(tmp_path / "a.svg").read_text() == picture.svg
    assert picture.save(str(tmp_path / "a.png")).read_bytes() == png
    with pytest.raises(UsageError, match=".svg or .png"):
        picture.save(tmp_path / "a.jpg")
    with pytest.raises(UsageError, match="No such file"):
        picture.save(tmp_path / "nowhere/a.png")
    assert "queueing_delay" in plain.figures() and plain.figure("throughput").title == "Throughput over time"
    with pytest.raises(UsageError, match="did you mean queueing_delay"):
        plain.figure("queueing_dela")


def test_an_experiment_that_is_not_there(tmp_path, results):
    with pytest.raises(UsageError, match="did you mean plain"):
        testbed.open("plian")
    fixture.write_experiment(tmp_path / "gone", ccas=("reno",), seeds=(1,), tmix=False)
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(RunFailed, match="none of its 1 runs is there"):
        testbed.open(tmp_path / "gone")


# -- what is told --------------------------------------------------------------------------------

class Screen:
    """A standard error that keeps what is written."""

    def __init__(self, is_terminal):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def tell():
    core_progress.title("Long flows: reno -> /results/long-flows")
    core_progress.say("a word")
    core_progress.print_error("wrong: \x07")
    core_progress.reporter()("building")
    with core_progress.open_display(2, 10) as display:
        display.note("1 run is already there")
        for name, text in (("reno-seed1", "finished, valid"), ("reno-seed2", "failed: it crashed")):
            display.start(name)
            display.update(name, "traffic", 5_000_000)
            display.end(name, text)


def test_a_terminal_has_one_line(monkeypatch):
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with progress.told(True):
        tell()
    lines = screen.text.split("\n")
    assert [line.rpartition("\033[K")[2] for line in lines[:-2]] == [
        "a word", "wrong: '\\x07'".replace("'", ""), "reno-seed2: failed: it crashed"]
    assert lines[-2].rpartition("\033[K")[2].startswith(
        "Long flows: reno: 2 of 2 runs: 1 valid, 1 failed, 1 run is already there, ") and lines[-1] == ""


def test_elsewhere_it_is_as_on_the_command_line(monkeypatch):
    screen = Screen(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with progress.told(True):
        tell()
    assert screen.text.splitlines()[:4] == ["Long flows: reno -> /results/long-flows", "a word",
                                            "testbed: wrong: \\x07", "building"]
    before = screen.text
    with progress.told(False):
        tell()
    assert screen.text == before, "silence"


def test_a_notebook_has_one_output_that_changes(monkeypatch, capsys):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown[-1] = data["text/plain"]

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Handle()
    shell = types.SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    with progress.told(True):
        tell()
    assert len(shown) == 1 and shown[0].startswith("Long flows: reno: 2 of 2 runs: 1 valid, 1 failed")
    assert capsys.readouterr().out == "a word\nwrong: \\x07\nreno-seed2: failed: it crashed\n"


def test_an_interruption_is_one_line_and_leaves_signals_as_they_were():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as raised, running._interruptible():
        signal.raise_signal(signal.SIGINT)
    assert raised.value._render_traceback_() == [
        "interrupted; finished runs are kept, the same command goes on from here"]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_ends_the_process_still_does():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(True))
    try:
        with pytest.raises(_process.Signalled), running._interruptible():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [True]


def test_a_thread_may_run_things():
    found = []

    def work():
        with running._interruptible():
            found.append(signal.getsignal(signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]

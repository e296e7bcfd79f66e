# SPDX-License-Identifier: GPL-2.0-only
"""Runs and metrics looked up: from the command line, from Python, and from the page's example."""
import io
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pandas as pd
import pytest

import testbed
from testbed import cli
from testbed.core.errors import UsageError
from testbed.core.files import write_json
from testbed.runs import queries
from tests.unit.analysis import fixture

PROJECT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two CCAs and two seeds in one experiment, a sweep of two points, and one run that failed."""
    folder = tmp_path_factory.mktemp("query")
    fixture.write_experiment(folder / "plain", seeds=(1, 2), tmix=False, verdicts={"cubic-seed2": "invalid"},
                             shapes={"cubic": fixture.Shape(test_s=2, packets=(60, 10)),
                                     "reno": fixture.Shape(test_s=2)})
    fixture.write_experiment(folder / "swept", ccas=("reno",), seeds=(1,), tmix=False, points=[
        {"topology.central.queue.limit": "85"}, {"topology.central.queue.limit": "170"}],
        shapes={"reno": fixture.Shape(test_s=2)}, failed={"reno-limit170-seed1": "the guest kernel crashed"})
    return folder


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, results):
    monkeypatch.setenv("TESTBED_RESULTS", str(results))
    monkeypatch.setenv("COLUMNS", "100")


def test_three_lines_of_python(results):
    runs = testbed.query("scenario=access-link experiment=plain kernel>=6.12", "throughput", "p95_delay")
    assert list(runs["cca"]) == ["cubic", "cubic", "reno", "reno"] and list(runs["seed"]) == [1, 2, 1, 2]
    assert runs.groupby("cca")["throughput_mean"].mean().to_dict() == {"cubic": 72.0, "reno": 60.0}
    assert set(runs["queueing_delay_p95_scope"]) == {"right_to_left"}
    assert runs.attrs["units"] == {"throughput_mean": "Mbit/s", "queueing_delay_p95": "ms"}
    elsewhere = testbed.query("", results=results / "nowhere")
    assert len(elsewhere) == 0 and list(elsewhere) == list(queries.COLUMNS)


def test_scopes():
    runs = testbed.query("experiment=plain cca=reno seed=1", "throughput_mean", "throughput_mean:left_to_right")
    row, = runs.to_dict("records")
    assert (row["throughput_mean"], row["throughput_mean:left_to_right"]) == (60.0, 12.0)


def test_points_and_runs_that_failed():
    runs = testbed.query("limit>=85", "throughput")
    assert list(runs["topology.central.queue.limit"]) == ["170", "85"] and \
        list(runs["status"]) == ["failed", "finished"]
    assert runs["throughput_mean"].isna().tolist() == [True, False]


def test_csv_json_and_table_say_the_same(capsys):
    command = ["runs", "query", "cca=cubic", "verdict=valid", "--metric", "throughput,p95_delay", "--metric",
               "utilisation"]
    assert cli.main([*command, "--csv"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert cli.main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["units"] == {"throughput_mean": "Mbit/s", "queueing_delay_p95": "ms", "utilisation": "%"}
    record, = answer["runs"]
    assert {key: record[key] for key in ("throughput_mean", "utilisation", "experiment", "verdict")} == {
        "throughput_mean": 72.0, "utilisation": 72.0, "experiment": "plain", "verdict": "valid"}
    assert table["throughput_mean"].tolist() == [72.0] and table["id"].tolist() == [record["id"]]
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 run: scenario access-link, cca cubic") and re.search(
        r"throughput_mean +queueing_delay_p95 +utilisation", shown)
    assert re.search(rf"{record['id']} +72 +\d", shown) and max(map(len, shown.splitlines()[1:])) <= 100


@pytest.mark.parametrize("words, said", [
    (["nosuch=1"], "no run has a field nosuch; there are: scenario, cca, "),
    (["cubic"], "'cubic': a condition expected"),
    (["--metric", "thrputt_mean"], "metric thrputt_mean: these runs have none of that name; close to it are "),
    (["--metric", "throughput:up"], "metric throughput:up: throughput_mean has no scope up; there are: left_to"),
    (["--metric", "throughput,,delay"], "--metric throughput,,delay: names separated by commas expected")])
def test_bad_questions_get_one_line(capsys, words, said):
    assert cli.main(["runs", "query", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"testbed: {said}") and error.count("\n") == 1


def test_short_names_of_metrics():
    names = ["queueing_delay_mean", "queueing_delay_backlog_mean", "queueing_delay_p50", "queueing_delay_p95", "drops"]
    assert [queries._metric(name, names) for name in ("queueing", "delay", "delay_backlog", "p95", "drops")] == [
        "queueing_delay_mean", "queueing_delay_mean", "queueing_delay_backlog_mean", "queueing_delay_p95", "drops"]
    with pytest.raises(UsageError, match="metric queueing: which of queueing_delay_p50, queueing_delay_p95"):
        queries._metric("queueing", names[2:])


def test_numbers_that_were_edited_are_never_told(results):
    run_id = testbed.query("experiment=plain cca=reno seed=2", "throughput")["id"].iloc[0]
    metrics = results / "runs" / run_id / "metrics.csv"
    metrics.write_text(metrics.read_text().replace(",60", ",99"))
    assert testbed.query(f"id={run_id}", "throughput")["throughput_mean"].tolist() == [60.0]


def test_a_damaged_run_costs_only_its_own_numbers(capsys, results):
    fixture.write_experiment(results / "torn", seeds=(1, 2), ccas=("bbr",), tmix=False,
                             shapes={"bbr": fixture.Shape(test_s=2)})
    torn = testbed.query("cca=bbr seed=1")["id"].iloc[0]
    (results / "runs" / torn / "raw/queue.csv.gz").unlink()
    assert cli.main(["runs", "query", "cca=bbr", "--metric", "throughput", "--json"]) == 1
    shown = capsys.readouterr()
    assert [run["throughput_mean"] for run in json.loads(shown.out)["runs"]] == [None, 60.0]
    assert shown.err.startswith("testbed: ") and "queue.csv.gz: file is missing" in shown.err
    assert shown.err.count("\n") == 1
    assert cli.main(["runs", "rm", "experiment=torn", "--listed"]) == 0 and cli.main(["runs", "rm", "torn"]) == 0


def test_companion_runs_are_not_among_the_others(results, tmp_path):
    folder = fixture.write_run(tmp_path / "runs/0123456789abcdef", subject="reno", tmix=False)
    plan = json.loads((folder / "plan.json").read_text())
    plan["labels"]["parameters"] = {"idle": True}
    write_json(folder / "plan.json", plan)
    assert len(testbed.query("", results=tmp_path)) == 0 and len(testbed.query("idle=yes", results=tmp_path)) == 1


def test_the_example_of_the_page(results):
    example = PROJECT / "docs/examples/query_runs.py"
    done = subprocess.run(["/usr/bin/python3", example, "experiment=plain"], cwd=PROJECT,
                          env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.search(r"access-link uml +6\.12\.30 cubic +72\.0 +NaN +1", done.stdout)
    assert re.search(r"access-link uml +6\.12\.30 1 +0\.0 +-12\.0", done.stdout)


RUNS = """cca,seed,rate:down,rate:down_scope,ratio,ratio_scope
old,1,10,down,1,all
old,2,12,down,2,all
old,3,14,down,4,all
new,1,20.0,down,2,all
new,2,22.1,down,4.1,all
new,3,23.9,down,8,all
"""


def of_a_page(tmp_path, content, what, *more):
    (tmp_path / "runs.csv").write_text(content)
    return subprocess.run(["/usr/bin/python3", PROJECT / f"docs/examples/page_{what}.py", "runs.csv", *more],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)


def page_tables(tmp_path, content, *more):
    return of_a_page(tmp_path, content, "tables", *more)


def test_tables_of_a_page_from_a_query(tmp_path):
    """Pairs by hand: 10, 10.1, 9.9 have the mean 10 and, with t(2) = 4.303 and s = 0.1, half a width of 0.2484."""
    done = page_tables(tmp_path, RUNS, "--ratio", "ratio")
    assert done.returncode == 0 and not done.stderr, done.stderr
    means, differences = done.stdout.split("Against old, a family of 2:")
    assert "| old | 3 | 12 ± 5 | 2 (0.3575 to 11.19) |" in means       # exp(log 2 ± t log 2 / sqrt 3)
    few = "n = 3: no verdict below 5 seeds"
    assert f"| new | 3 | +10 (9.75 to 10.2), {few} | 2.02 (1.95 to 2.09), {few} |" in differences
    reversed_ = page_tables(tmp_path, RUNS, "--reference", "new", "--metric", "rate:down").stdout
    assert f"| old | 3 | -10 (-10.2 to -9.75), {few} |" in reversed_ and "ratio" not in reversed_


def test_any_name_of_a_congestion_control_will_do(tmp_path):
    done = page_tables(tmp_path, RUNS.replace("old", "1").replace("new", "a|b"), "--reference", "1")
    assert done.returncode == 0 and "| a\\|b | 3 | +10" in done.stdout, done.stderr


def test_what_was_not_reached_is_compared_with_nothing(tmp_path):
    done = page_tables(tmp_path, RUNS.replace("new,2,22.1", "new,2,inf"))
    assert "| new | 3 | not reached in every run | 4.7" in done.stdout
    assert "a family of 1:" in done.stdout and "| new | 3 | not compared | +" in done.stdout


@pytest.mark.parametrize("content, more, words", [
    (RUNS.partition("\n")[0], [], "runs.csv: no runs"),
    (RUNS, ["--reference", "other"], "runs.csv: no run of 'other', but of old, new"),
    (RUNS, ["--metric", "delay"], "runs.csv: no column 'delay'"),
    (RUNS + "new,3,23.9,down,8,all\n", [], "runs.csv: two runs of new with seed 3: choose by conditions of the query"),
    (RUNS, ["--ratio", "rat"], "runs.csv: --ratio rat: there are rate:down, ratio"),
    (RUNS, ["--metric", "cca"], "runs.csv: cca is no metric; there are: rate:down, ratio"),
    (RUNS, ["--reference", ""], "runs.csv: no run of '', but of old, new"),
    (RUNS, ["--margin", "-5"], "--margin -5: a percentage above 0 and below 100 expected"),
    (RUNS.replace("ratio,", "rate:down,"), [], "runs.csv: two columns 'rate:down'"),
    (RUNS.replace("old,2", "old,2.5"), [], "runs.csv: row 2, seed: 2.5 is no whole number"),
    (RUNS.replace("old,2,12", 'old,2,"12,5"'), [], "runs.csv: row 2, rate:down: '12,5' is no number"),
    (RUNS.replace("new,1,", "new,,"), [], "runs.csv: row 4, seed: is empty"),
    (RUNS.replace("new,1,", ",1,"), [], "runs.csv: row 4, cca: is empty"),
    (RUNS.replace("20.0,down", "20.0,up"), [],
     "runs.csv: rate:down: of several scopes (down, up); name one in the query"),
    ("cca,seed,a\nx,1,2\n", [], "runs.csv: no column has a scope beside it; name one"),
    ("a,b\n1,2\n", ["--metric", "b"], "runs.csv: no column 'cca'")])
def test_tables_of_a_page_that_cannot_be(tmp_path, content, more, words):
    done = page_tables(tmp_path, content, *more)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", words + "\n")


def test_figure_of_a_page(tmp_path):
    done = of_a_page(tmp_path, RUNS.replace("new,2,22.1,down,4.1", "new,2,22.1,down,inf"), "figure", "drawn/rates.png",
                     "--panel", "rate:down=rate, kbit/s=1000", "--panel", "ratio=ratio of 'b' to a")
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stderr
    data = pd.read_csv(tmp_path / "drawn/rates.csv")
    assert data["value0"].dropna().tolist() == [10_000, 12_000, 14_000, 20_000, 22_100, 23_900]
    means = data.dropna(subset="mean0")     # t(2) = 4.303: 12 ± 4.303 * 2 / sqrt 3, 22 ± 4.303 * 1.952 / sqrt 3
    assert means["mean0"].tolist() == [12_000, 22_000]
    assert means["high0"].tolist() == pytest.approx([16_968, 26_849], rel=1e-3)
    assert means["mean1"].notna().tolist() == [True, False], "one of the values is infinite"
    assert (tmp_path / "drawn/rates.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("span", [0, 1, 1.7, 2, 3, 4, 5, 5.1, 6, 7, 8, 9, 9.9, 70, 0.007])
def test_axis_of_any_span(tmp_path, monkeypatch, span):
    monkeypatch.syspath_prepend(PROJECT / "docs/examples")
    import page_figure
    commands = page_figure._axis(pd.DataFrame({"value": [3.0, 3 + span, np.nan, np.inf]}))
    low, high, step = map(float, re.fullmatch(r"set xrange \[(.*):(.*)\]\nset xtics nomirror (.*)", commands).groups())
    assert low < 3 and 3 + span < high and 2 <= (high - low) / step < 6


@pytest.mark.parametrize("content, more, words", [
    ("cca,seed,a\nx,1,inf\nx,2,\n", ["f.png", "--panel", "a=y"],
     "runs.csv: no congestion control has finite values only of a"),
    (RUNS + "new,3,23.9,down,8,all\n", ["f.png", "--panel", "ratio=y"],
     "runs.csv: two runs of new with seed 3: choose by conditions of the query"),
    (RUNS, ["runs.png", "--panel", "ratio=y"],
     "runs.csv is there, where the figure's data would go: choose another name"),
    (RUNS, ["it's.png", "--panel", "ratio=y"], "and has at most 6 panels"),
    (RUNS, ["f.png", "--panel", "ratio=y=nan"], "'ratio=y=nan': 'nan' is no factor"),
    (RUNS.partition("\n")[0], ["f.png", "--panel", "ratio=y"], "runs.csv: no runs"),
    (RUNS, ["f.png", "--panel", "delay=y"], "runs.csv: no column 'delay'"),
    (RUNS, ["f.png", "--panel", "ratio"], "'ratio': COLUMN=LABEL or COLUMN=LABEL=FACTOR expected"),
    (RUNS, ["f.png", "--panel", "ratio=y=z"], "'ratio=y=z': 'z' is no factor"),
    (RUNS, ["f.pdf", "--panel", "ratio=y"], "and has at most 6 panels"),
    (RUNS, ["f.png", "--panel", "ratio_scope=y"], "runs.csv: row 1, ratio_scope: 'all' is no number"),
    (RUNS, ["runs.csv/f.png", "--panel", "ratio=y"], "runs.csv: File exists")])
def test_figures_of_a_page_that_cannot_be(tmp_path, content, more, words):
    done = of_a_page(tmp_path, content, "figure", *more)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.endswith(words + "\n"), done.stderr


def test_runs_and_pins(capsys):
    assert cli.main(["runs", "pin", "experiment=plain", "cca=reno", "--why", "figure 3"]) == 0
    assert "2 runs in " in (shown := capsys.readouterr().out) and shown.count("figure 3") == 2
    assert cli.main(["runs", "list", "pinned=yes", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["cca"], row["seed"], row["pinned"]) for row in rows} == {
        ("reno", 1, "figure 3"), ("reno", 2, "figure 3")}
    assert all(row["bytes"] >= 4096 and row["experiments"] == ["plain"] for row in rows)
    assert cli.main(["runs", "rm", rows[0]["id"]]) == 2
    assert capsys.readouterr().err == f"testbed: {rows[0]['id']}: pinned (figure 3); --pinned removes it all the same\n"
    assert cli.main(["runs", "unpin", "pinned=yes"]) == 0
    assert cli.main(["runs", "list", "cca=nosuch"]) == 2 and "no run with cca=nosuch" in capsys.readouterr().err
    assert cli.main(["runs", "list", "--rebuild"]) == 0 and "index.sqlite: 6 runs" in capsys.readouterr().out


def test_what_is_removed_and_what_stays(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    shape = {"reno": fixture.Shape(test_s=2)}
    for name in ("one", "two"):
        fixture.write_experiment(tmp_path / name, ccas=("reno",), seeds=(1, 2), tmix=False, shapes=shape)
    outside = fixture.write_run(tmp_path / "outside/runs/0123456789abcdef", subject="reno", tmix=False)

    def ids():
        return sorted(path.name for path in (tmp_path / "runs").glob("[!.]*"))
    before = ids()
    first = os.path.basename(os.readlink(tmp_path / "one/runs/reno-seed1"))
    assert cli.main(["runs", "rm", f"runs/{first}"]) == 2
    assert capsys.readouterr().err == f"testbed: {first}: listed by one; --listed removes it all the same\n"
    for what, said in ((str(outside), "neither a run nor an experiment in"), ("runs", "neither a run nor"),
                       ("..", "neither a run nor"), ("nosuch", "neither a run nor")):
        assert cli.main(["runs", "rm", what, "--listed", "--pinned"]) == 2 and said in capsys.readouterr().err
    assert cli.main(["runs", "rm", "cca=reno"]) == 0
    assert capsys.readouterr().out == "0 runs, 0.0 MB removed; 4 stay that are listed or pinned\n"
    assert cli.main(["runs", "rm", "one", "listed=no", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("\n") == 4 and ids() == before
    assert cli.main(["runs", "pin", f"id={first}", "--why", "x"]) == 0
    assert cli.main(["runs", "rm", "one", "listed=no"]) == 0
    assert not (tmp_path / "one").exists() and len(ids()) == 3 and first in ids() and outside.exists()
    capsys.readouterr()
    assert cli.main(["runs", "rm", first, "--pinned"]) == 0 and len(ids()) == 2
    assert cli.main(["runs", "rm", "cca=reno", "--listed"]) == 0 and ids() == [] and (tmp_path / "two").is_dir()


@pytest.fixture
def patched(tmp_path, monkeypatch):
    """cubic, and a module that was edited, with two kernels of one release: one of a package, one of a tree."""
    for name, mbps, facts in (("stock", 60, {"kernel_source": "Debian linux-source-6.12 6.12.30-1"}),
                              ("mine", 72, {"kernel_source": "/home/me/linux", "kernel_spec": "linux"})):
        folder = fixture.write_experiment(tmp_path / name, ("cubic", "new"), (1, 2), tmix=False, shapes=dict.fromkeys(
            ("cubic", "new"), fixture.Shape(test_s=2, packets=(mbps * 10 // 12, 10))))
        for listed in json.loads((folder / "experiment.json").read_text())["runs"]:
            run = tmp_path / "runs" / listed["id"]
            environment, plan = (json.loads((run / f"{one}.json").read_text()) for one in ("environment", "plan"))
            write_json(run / "environment.json", {**environment, **facts})
            sources = None if listed["subject"] == "cubic" else f"{name:0<64}"
            write_json(run / "plan.json", {**plan, "kernel_key": f"6.12-{name}5f0c3d", "variants": [
                {**one, "module_sha256": sources} for one in plan["variants"]]})
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))


def test_a_kernel_or_a_module_has_a_name_of_its_own(patched):
    runs = testbed.query("", "throughput")
    means = runs.groupby(["kernel", "cca"])["throughput_mean"].agg(["mean", "count"])
    assert means["mean"].to_dict() == {
        ("6.12.30 Debian linux-source-6.12 6.12.30-1", "cubic"): 60, ("6.12.30 linux", "cubic"): 72,
        ("6.12.30 Debian linux-source-6.12 6.12.30-1", "new (stock000)"): 60, ("6.12.30 linux", "new (mine0000)"): 72}
    assert set(means["count"]) == {2} and runs.attrs["setup"][:3] == ["scenario", "engine", "kernel"]
    assert set(zip(runs["kernel_tree"], runs["kernel_hash"])) == {
        ("linux", "mine5f0c3d"), ("Debian linux-source-6.12 6.12.30-1", "stock5f0c3d")}
    assert list(testbed.query("kernel=linux cca=new seed=1", "throughput")["cca"]) == ["new"]


def test_the_example_of_the_page_with_two_kernels(patched):
    done = subprocess.run(["/usr/bin/python3", PROJECT / "docs/examples/query_runs.py"], cwd=PROJECT,
                          env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.search(r"access-link uml +cubic +1 +0\.0 +12\.0", done.stdout)


def test_the_example_of_the_page_with_runs_that_nothing_tells_apart(results, monkeypatch, tmp_path):
    for name in ("one", "two"):
        fixture.write_experiment(tmp_path / name, ("cubic", "reno"), (1,), tmix=False, shapes=dict.fromkeys(
            ("cubic", "reno"), fixture.Shape(test_s=2)))
    done = subprocess.run(["/usr/bin/python3", PROJECT / "docs/examples/query_runs.py"], cwd=PROJECT, env={
        **os.environ, "PYTHONPATH": str(PROJECT), "TESTBED_RESULTS": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0 and "2 runs are like others but for their code or inputs" in done.stdout, done.stderr


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A run with cubic and one with reno, and what the stacks of two nodes counted."""
    folder = fixture.write_experiment(tmp_path / "counted", ("cubic", "reno"), (1,), tmix=False, shapes=dict.fromkeys(
        ("cubic", "reno"), fixture.Shape(test_s=2)))
    for listed in json.loads((folder / "experiment.json").read_text())["runs"]:
        run = tmp_path / "runs" / listed["id"]
        mine = {"TcpExtTCPMine": [0, 4, 5]} if listed["subject"] == "cubic" else {}
        write_json(run / "raw/snmp.json", {
            "measure_from_us": 1, "readings": ["measure_from", "at_end", "drained"], "nodes": {
                "n1": {"TcpRetransSegs": [3, 10, 12], **mine}, "n4": {"TcpRetransSegs": [1, 2, 2]}}})
        fixture.seal(run)
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    return folder


def test_counters_of_the_stack_are_metrics_by_their_names(counted):
    runs = testbed.query("", "RetransSegs", "TcpRetransSegs:n1", "TCPMine:whole_run", "TcpRetransSegs:whole_run",
                         "TCPHystartTrainDetect")
    assert runs["TcpRetransSegs"].tolist() == [8, 8] and runs["TcpRetransSegs:n1"].tolist() == [7, 7]
    assert runs["TcpRetransSegs:whole_run"].tolist() == [14, 14]
    # what this kernel alone has, and what nobody counted
    assert runs["TcpExtTCPMine:whole_run"].tolist() == [5, 0] and runs["TcpExtTCPHystartTrainDetect"].tolist() == [0, 0]
    assert runs.attrs["units"]["TcpRetransSegs"] == "1"
    experiment = testbed.open(counted)
    assert experiment.metrics("RetransSegs:n4")["value"].tolist() == [1, 1]
    assert experiment.summary("TCPMine")["mean"].tolist() == [4, 0]


@pytest.mark.parametrize("name, words", [
    ("TCPHystarTrain", "no such counter of the TCP/IP stack; close to it are TCPHystartTrain"),
    ("TcpExtTCPMin", "no such counter of the TCP/IP stack; close to it are TcpExtTCPM"),
    ("RetransSegs:n9", "TcpRetransSegs has no scope n9; there are: all, n1, n4, whole_run")])
def test_what_is_no_counter(counted, name, words):
    with pytest.raises(UsageError, match=f"metric {name}: .*{words}"):
        testbed.query("", name)


def test_a_tree_may_have_counters_of_its_own():
    queries.check_metric("TcpExtTCPMine")
    queries.check_metric("TCPTimeouts:n1")
    with pytest.raises(UsageError, match="metric TCPMine: no such counter"):
        queries.check_metric("TCPMine")

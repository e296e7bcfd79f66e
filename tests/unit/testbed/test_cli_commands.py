# SPDX-License-Identifier: GPL-2.0-only
"""The commands that look: list, doctor, tmix."""
import json
import os
import pathlib
import stat
import tempfile

import pandas as pd
import pytest

import kernel
from testbed import cli, engines
from testbed.cli import _shared, _tables, runs
from testbed.core import progress
from testbed.core.errors import UsageError
from testbed.runs.engine import Problem

_VECTORS = pathlib.Path(__file__).resolve().parents[2] / "data/tmix/original.txt"
_KINDS = ("scenarios", "ccas", "engines", "topologies", "traffic", "probes", "knobs", "suites", "runs")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(kernel, "find", lambda *_: None)


def test_list_fits_a_hundred_columns(capsys):
    assert cli.main(["list", *_KINDS]) == 0
    lines = capsys.readouterr().out.splitlines()
    for words in ("access-link ", "cubic ", "uml ", "dumbbell ", "greedy ", "sojourn ", "initcwnd ", "not built",
                  "results: none"):
        assert any(words in line for line in lines), words
    assert [line for line in lines if len(line) > 100] == []
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_wide_terminal_shows_more(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["list", "ccas"]) == 0
    assert "net.ipv4" not in (shown := capsys.readouterr().out) and "tcp_sack=0" in shown


def test_list_for_programs(capsys):
    assert cli.main(["list", "scenarios", "runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["runs"] == []
    assert {row["name"] for row in listed["scenarios"]} >= {"access-link", "rtt-fairness"}


def test_list_of_something_else(capsys):
    assert cli.main(["list", "ccas", "nosuch"]) == 2
    assert capsys.readouterr().err.startswith("testbed: list nosuch: one of scenarios, ccas, ")


class _Fake(engines.load("uml").__class__):
    trouble = []

    def problems(self):
        return self.trouble


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(engines, "load", lambda name, options=None: _Fake({}))
    monkeypatch.setattr(_Fake, "trouble", [])
    return _Fake


def test_doctor_on_a_good_machine(engine, capsys, tmp_path):
    assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "PROBLEM" not in shown and f"ok       results folder: {tmp_path}/results, " in shown
    assert not (tmp_path / "results").exists()


def test_doctor_says_what_is_missing(engine, capsys):
    engine.trouble = [Problem("gcc is missing", "apt-get install gcc")]
    assert cli.main(["doctor"]) == 3
    assert "  PROBLEM  engine uml: gcc is missing\n           fix: apt-get install gcc\n" in capsys.readouterr().out


def test_doctor_tells_what_only_other_engines_need(engine, capsys, monkeypatch):
    def problems(self):
        return [] if self.name == "uml" else [Problem("tcl is missing", "apt-get install tcl")]
    monkeypatch.setattr(engines, "load", lambda name, options=None: type("One", (_Fake,), {"name": name})({}))
    monkeypatch.setattr(_Fake, "problems", problems)
    assert cli.main(["doctor"]) == 0
    assert "  optional engine ns2: tcl is missing\n" in capsys.readouterr().out
    assert cli.main(["doctor", "--engine", "ns2"]) == 3
    assert "  PROBLEM  engine ns2: tcl is missing\n" in capsys.readouterr().out


def test_doctor_of_an_engine_that_raises(engine, capsys, monkeypatch):
    def damaged(self):
        raise PermissionError(13, "Permission denied", "/secret/kernel.json")
    monkeypatch.setattr(engine, "problems", damaged)
    assert cli.main(["doctor"]) == 3
    assert "PROBLEM  engine uml: cannot be looked at: Permission denied: /secret/kernel.json" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["file", "file/results", "dangling"])
def test_doctor_where_results_cannot_be(engine, capsys, monkeypatch, tmp_path, path):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / path))
    assert cli.main(["doctor"]) == 3
    assert f"PROBLEM  results folder: {tmp_path / path.split('/')[0]} is not a folder" in capsys.readouterr().out


def test_doctor_without_permission(engine, capsys, monkeypatch, tmp_path):
    def refuse(**_where):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert cli.main(["doctor"]) == 3
    shown = capsys.readouterr().out
    assert f"PROBLEM  results folder: {tmp_path}/results: cannot write in {tmp_path}: Permission denied" in shown


@pytest.mark.parametrize("missing, code, words", [
    ("bison", 3, "PROBLEM  Debian packages: missing: bison\n           fix: make setup"),
    ("flake8", 0, "ok       Debian packages: all there; `make test` will install flake8"),
    ("tcptrace", 0, "ok       Debian packages: all there that every run needs; without tcptrace, which some"),
])
def test_doctor_and_packages(engine, capsys, monkeypatch, tmp_path, missing, code, words):
    (tmp_path / "dpkg-query").write_text(f"""#!/bin/sh
shift 3
for package; do [ $package = {missing} ] || echo "$package installed"; done
""")
    (tmp_path / "dpkg-query").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cli.main(["doctor"]) == code
    assert words in capsys.readouterr().out


def test_doctor_elsewhere(engine, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cli.main(["doctor"]) == 3
    assert "this is not a Debian system" in capsys.readouterr().out
    assert cli.main(["doctor", "--engine", "moon"]) == 2


@pytest.mark.parametrize("words, message", [
    (["info", "nosuch.cvec"], "nosuch.cvec: no such file"),
    (["info", "FOLDER"], "FOLDER: a folder; a regular file expected"),
    (["info", "FIFO"], "FIFO: a pipe or device; a regular file expected"),
    (["info", "x" * 300], "x: File name too long"),
    (["convert", "VECTORS", "FOLDER"], "FOLDER: a folder; the name of a file expected"),
    (["synth", "OUT", "--duration", "0"], "--duration 0: a number of seconds from 0.000001 to 1000000 expected"),
    (["synth", "OUT", "--duration", "1e300"], "--duration 1e+300: a number"),
    (["synth", "OUT", "--duration", "nan"], "--duration nan: a number"),
    (["synth", "OUT", "--duration", "inf"], "--duration inf: a number"),
    (["synth", "OUT", "--duration", "1", "--seed", "-1"], "--seed -1: a number from 0 to 2^63 - 1 expected"),
    (["synth", "OUT", "--duration", "1", "--set", "preset=heavy"], "--set preset: one of web, unc-like expected"),
    (["synth", "OUT", "--duration", "1", "--set", "preset"], "--set preset: key=value expected"),
    (["synth", "OUT", "--duration", "1", "--set", "mean_acceptor=18"], "--set mean_acceptor: a value with a unit"),
    (["synth", "OUT", "--duration", "1", "--set", "mean_acceptor=18 pB"], "--set mean_acceptor: unknown unit 'pB'"),
    (["synth", "OUT", "--duration", "1", "--set", "mean_acceptor=1 B"], "--set mean_acceptor: a mean ADU of"),
    (["synth", "OUT", "--duration", "1", "--set", "colour=red"], "--set colour: unknown field"),
    (["plot", "nosuch", "-o", "OUT"], "nosuch: no such file or folder, and no preset; presets are: web, unc-like"),
    (["plot", "FIFO", "-o", "OUT"], "FIFO: a pipe or device; a regular file expected"),
    (["plot", "FOLDER", "-o", "OUT"], "FOLDER: no vector files"),
    (["plot", "VECTORS", "VECTORS", "-o", "OUT"], "the same source is named twice"),
    (["plot", "web", "-o", "OUT", "--rate", "fast"], "--rate fast: a rate such as '40 Mbit/s' expected"),
    (["plot", "web", "-o", "OUT", "--rate", "5 ms"], "--rate 5 ms: a rate such as"),
    (["plot", "web", "-o", "OUT", "--rate", "0 bit/s"], "--rate 0 bit/s: a rate such as"),
    (["plot", "web", "-o", "OUT", "--rate", "5 Tbit/s"], "--rate: unknown unit 'Tbit/s'"),
    (["plot", "web", "-o", "OUT", "--duration", "nan"], "--duration nan: a number"),
    (["plot", "web", "-o", "OUT", "--duration", "1e6"], "--duration: about 166666667 connections; at most 5000000"),
    (["shuffle", "VECTORS", "OUT", "--bin", "nan"], "--bin nan: a number"),
    (["shuffle", "VECTORS", "OUT", "--bin", "1e-9"], "--bin 1e-09: a number"),
    (["shuffle", "VECTORS", "OUT", "--bin", "1", "--seed", str(2**64)], f"--seed {2**64}: a number"),
])
def test_tmix_errors(words, message, capsys, tmp_path):
    os.mkfifo(tmp_path / "FIFO", stat.S_IRUSR | stat.S_IWUSR)
    (tmp_path / "FOLDER").mkdir()
    places = {name: str(tmp_path / name) for name in ("FIFO", "FOLDER", "OUT")} | {"VECTORS": str(_VECTORS)}
    assert cli.main(["tmix", *(places.get(word, word) for word in words)]) == 2
    error = capsys.readouterr().err
    assert message in error.replace(f"{tmp_path}/", "") and error.count("\n") == 1
    assert not (tmp_path / "OUT").exists()


def test_tmix(capsys, tmp_path):
    assert cli.main(["tmix", "convert", str(_VECTORS), str(tmp_path / "a")]) == 0
    assert cli.main(["tmix", "info", str(tmp_path / "a"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["connections"] > 0
    assert cli.main(["tmix", "synth", str(tmp_path / "b.gz"), "--duration", "2"]) == 0
    assert cli.main(["tmix", "shuffle", str(tmp_path / "b.gz"), str(tmp_path / "c"), "--bin", "0.5"]) == 0
    assert cli.main(["tmix", "info", str(tmp_path / "c")]) == 0
    assert "connections_per_second" in capsys.readouterr().out


def test_tmix_synth_takes_parameters(capsys, tmp_path):
    for name, words in (("plain", []), ("web", ["--set", "preset=web"]),
                        ("unc", ["--set", "preset=unc-like", "--set", "mean_acceptor=18 kB"])):
        assert cli.main(["tmix", "synth", str(tmp_path / name), "--duration", "3", *words]) == 0
    plain, web, unc = ((tmp_path / name).read_bytes() for name in ("plain", "web", "unc"))
    assert plain == web != unc


def test_tmix_plot(capsys, tmp_path):
    (tmp_path / "traces").mkdir()
    for name in ("r4s1", "r4s2"):
        assert cli.main(["tmix", "synth", str(tmp_path / "traces" / name), "--duration", "20"]) == 0
    page = tmp_path / "page"
    words = ["tmix", "plot", "unc-like", str(tmp_path / "traces"), str(_VECTORS), "-o", str(page), "--duration", "60"]
    for _ in range(2):                              # a page of ours is replaced
        assert cli.main(words) == 0
        assert capsys.readouterr().out == f"{page}/index.html\n"
    found = pd.read_csv(page / "marginals.csv").set_index("name")
    assert list(found.index) == ["unc-like", "traces", _VECTORS.name]
    # two of the same seed
    assert found.loc["traces", "connections"] == 2 * sum(
        line.startswith(("SEQ", "CONC")) for line in (tmp_path / "traces" / "r4s1").read_text().splitlines())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    assert cli.main(["tmix", "plot", "web", "-o", str(tmp_path / "mine"), "--duration", "10"]) == 1
    assert "is no page of connection vectors (it has thesis.txt); move it away, or name" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_plain_reports_are_repeated_every_ten_seconds(capsys, monkeypatch):
    now_s = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    report = _shared.reporter()
    for now_s, text in ((0, "downloading"), (1, "building: 2 %"), (10, "building: 4 %"), (11, "building: 30 %"),
                        (20, "building: 31 %"), (20, "booting it once")):
        report(text)
    assert capsys.readouterr().err.splitlines() == ["downloading", "building: 2 %", "building: 30 %", "booting it once"]


@pytest.mark.parametrize("words, now", [
    ("all --smoke", "testbed suite run all"), ("studies --list", "testbed suite run studies"),
    ("site", "testbed report"), ("query cca=reno", "testbed runs query"),
    ("rm listed=no", "testbed runs rm"), ("judge x", "testbed runs judge"),
    ("runs cca=reno --pin x", "testbed runs list")])
def test_a_command_of_the_version_before_names_the_new_one(capsys, words, now):
    assert cli.main(words.split()) == 2
    line, = capsys.readouterr().err.splitlines()
    assert f"`{now}`" in line


_VERBS = {"runs": ("list", "query", "pin", "unpin", "rm", "drop", "judge"), "suite": ("list", "run"),
          "tmix": ("info", "convert", "synth", "shuffle", "plot", "from-pcap")}


@pytest.mark.parametrize("width", ["40", "80"])
def test_tables_fit_a_narrow_terminal(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)
    assert cli.main(["list", *_KINDS]) == 0 and cli.main(["suite", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = [line for line in lines if not line.startswith(("Congestion controls (", "Runs in ", "(more columns"))]
    assert [line for line in tables if len(line) > int(width)] == []
    assert width == "40" or "impact-on-standard" in "\n".join(tables)


def test_a_reason_is_printable():
    assert runs._reason(" figure 3\nof the\tpaper ") == "figure 3 of the paper"
    with pytest.raises(UsageError, match=r"--why 'a\\x1b\[31m': printable text expected"):
        runs._reason("a\x1b[31m")


def test_words_of_a_table_are_whole():
    columns = [["id", "0123456789abcdef"], ["cca", "westwood"], ["experiments", "access-link-load60-quick, mine"]]
    assert _tables.widths(columns, 100) == [16, 8, 30]
    assert _tables.widths(columns, 50) == [16, 8, 26]
    assert _tables.widths(columns, 49) == _tables.widths(columns, 2) == [16, 8, 25], "there is no less"


def test_an_experiment_is_shown_whole_where_there_is_room(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    _tables.show("", ["id", "title", "experiments"], [["0" * 16, "a title of words " * 4, "one-of-24-letters-or-so1"]])
    found = capsys.readouterr().out
    assert "0" * 16 in found and "one-of-24-letters-or-so1" in found and max(map(len, found.splitlines())) <= 80


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_every_name_can_be_copied_at_any_width(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    row = ["access-link-load60-quick", "cubic_floor-seed1", "0" * 16, "traffic_of_this_seed failed-early"]
    _tables.show("", ["experiment", "name", "id", "status"], [row])
    assert {word for cell in row for word in cell.split()} <= {*capsys.readouterr().out.split()}


def test_rows_are_blocks_where_names_have_no_room(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    experiment = "an-experiment-that-is-longer-than-a-line-has-room-for"
    _tables.show("Runs", ["experiment", "name", "id", "status", "verdict"],
                 [[experiment, "cubic-seed1", "0" * 16, "finished", None],
                  ["mine", "cubic-seed2", "1" * 16, "a status of many words, each on a line", "valid"]])
    assert capsys.readouterr().out.splitlines() == [
        "Runs", "experiment:", f"  {experiment}", "name: cubic-seed1", f"id: {'0' * 16}", "status: finished", "",
        "experiment: mine", "name: cubic-seed2", f"id: {'1' * 16}", "status: a status of many words, each on",
        "  a line", "verdict: valid", ""]


@pytest.mark.parametrize("words", [[name, *verb] for name in cli.command_names()
                                   for verb in ([], *([verb] for verb in _VERBS.get(name, ())))], ids=" ".join)
def test_help_of_every_command_fits_80_columns(monkeypatch, capsys, words):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0 and lines[0].startswith(f"usage: testbed {' '.join(words)}")
    assert [line for line in lines if len(line) > 80] == []


def test_the_list_of_commands_fits_a_screen(monkeypatch, capsys):
    """All commands are among the last lines, which a terminal of 30 lines shows."""
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines[-29:]} >= {*cli.command_names()}

# SPDX-License-Identifier: GPL-2.0-only
"""The commands that look: list, doctor, tmix."""
import json
import os
import pathlib
import stat

import pytest

import kernel
from testbed import cli, engines
from testbed.cli import _shared
from testbed.engines.base import Problem

_VECTORS = pathlib.Path(__file__).resolve().parents[2] / "data/tmix/original.txt"
_KINDS = ("scenarios", "ccas", "engines", "topologies", "traffic", "probes", "runs")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(kernel, "find", lambda spec=None, hz=1000: None)


def test_list_fits_a_hundred_columns(capsys):
    assert cli.main(["list", *_KINDS]) == 0
    lines = capsys.readouterr().out.splitlines()
    for words in ("access-link ", "cubic ", "uml ", "dumbbell ", "greedy ", "sojourn ", "not built", "results: none"):
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
    assert "PROBLEM" not in shown and f"ok      results folder: {tmp_path}/results, " in shown
    assert not (tmp_path / "results").exists()


def test_doctor_says_what_is_missing(engine, capsys):
    engine.trouble = [Problem("gcc is missing", "apt-get install gcc")]
    assert cli.main(["doctor"]) == 3
    assert "  PROBLEM engine uml: gcc is missing\n          fix: apt-get install gcc\n" in capsys.readouterr().out


def test_doctor_of_an_engine_that_raises(engine, capsys, monkeypatch):
    def damaged(self):
        raise PermissionError(13, "Permission denied", "/secret/kernel.json")
    monkeypatch.setattr(engine, "problems", damaged)
    assert cli.main(["doctor"]) == 3
    assert "PROBLEM engine uml: cannot be looked at: Permission denied: /secret/kernel.json" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["file", "file/results", "dangling"])
def test_doctor_where_results_cannot_be(engine, capsys, monkeypatch, tmp_path, path):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / path))
    assert cli.main(["doctor"]) == 3
    assert f"PROBLEM results folder: {tmp_path / path.split('/')[0]} is not a folder" in capsys.readouterr().out


def test_doctor_without_permission(engine, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cli.main(["doctor"]) == 3
    shown = capsys.readouterr().out
    assert f"PROBLEM results folder: {tmp_path}/results: no permission to write in {tmp_path}" in shown


@pytest.mark.parametrize("missing, code, words", [
    ("bison", 3, "PROBLEM Debian packages: missing: bison\n          fix: make setup"),
    ("flake8", 0, "ok      Debian packages: all there but for `make test`, which installs flake8"),
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


def test_plain_reports_are_not_repeated(capsys):
    report = _shared.reporter()
    for text in ("downloading", "building: 2 %", "building: 4 %", "booting it once"):
        report(text)
    assert capsys.readouterr().err.splitlines() == ["downloading", "building: 2 %", "booting it once"]

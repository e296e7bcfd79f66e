# SPDX-License-Identifier: GPL-2.0-only
"""`testbed export`: what is written of which runs, and what is said of others. Real captures: tests/kernel."""
import gzip
import json
import os
import re
import signal
import subprocess

import pytest

from analysis import exports
from testbed import PROJECT_DIR, cli
from testbed.cli import export as command
from tests.unit.analysis import fixture
from tests.unit.arguments import parsed

PAGE = (PROJECT_DIR / "docs/howto/exports.md").read_text()


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(results, *words):
    return cli.main(["export", *words, "--output", str(results / "out")])


def document(path):
    with gzip.open(path) as file:
        return json.load(file)


def test_flent_of_ten_flows(results, capsys):
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1, 2], tmix=False, failed={"reno-seed2": "crash"})
    assert export(results, "demo", "--format", "flent") == 1
    said = capsys.readouterr()
    assert said.out == f"{results}/out/demo-reno-seed1.flent.gz\n" and "reno-seed2: crash" in said.err
    path = results / "out/demo-reno-seed1.flent.gz"
    found = document(path)
    assert {name for name in found["results"] if name.startswith("TCP download::")} == {
        f"TCP download::{number}" for number in range(1, 11)}
    assert all(len(values) == len(found["x_values"]) for values in found["results"].values())
    summary = subprocess.run(["flent", path, "-f", "summary"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"TCP download::10 +: +[\d.]+ ", summary) and "Title: 'demo-reno-seed1'" in summary
    before = path.read_bytes()
    export(results, "demo", "--format", "flent")
    assert path.read_bytes() == before


def test_flent_of_tmix(results):
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    assert export(results, "demo", "--format", "flent,flent") == 0
    found = document(results / "out/demo-reno-seed1.flent.gz")
    assert set(found["results"]["TCP download::1"][5:-1]) == {60.0}
    assert found["metadata"]["SERIES_META"]["TCP download::1"]["LINK"] == "right_to_left"
    queue = found["raw_values"]["qdisc_stats_right_to_left"]
    assert queue[0] == {"t": 0.0, "backlog_bytes": 150_000.0, "backlog_pkts": 100.0, "delay": 12.0, "dropped": 0.0}
    assert sum(one["dropped"] for one in queue) == pytest.approx(120, abs=1)


def test_a_run_by_its_folder(results, capsys):
    path = fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    assert export(results, str(path / "runs/reno-seed1"), "--format", "flent") == 0
    assert os.listdir(results / "out") == ["reno-seed1.flent.gz"]


@pytest.mark.parametrize("words, code, said", [
    (["demo", "--format", "pcapng"], 1, "no captures in raw/; they come with --probe pcap"),
    (["demo", "--format", "xplot"], 1, "no captures in raw/"),
    (["demo", "--format", "parquet"], 2, "pandas needs pyarrow or fastparquet"),
    (["demo", "--format", "flent,"], 2, "formats separated by commas expected, of: flent, pcapng, trace, xplot"),
    (["demo", "--format", "../flent"], 2, "no such format"),
    (["other", "--format", "flent"], 2, "no experiment 'other'")])
def test_what_is_refused_in_one_line(results, capsys, words, code, said):
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    assert export(results, *words) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and said in lines[0]


def test_a_capture_that_was_cut_off(results, capsys):
    path = fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    run = (path / "runs/reno-seed1").resolve()
    for name, content in (("capture-n1-eth0.pcap.gz", gzip.compress(b"\xa1\xb2" * 30)),
                          ("capture-n1-eth0.pcapng.gz", gzip.compress(b"\x0a\x0d\x0d\x0a\xff\x00\x00\x00" * 3))):
        (run / "raw" / name).write_bytes(content)
        fixture.seal(run)
        assert export(results, "demo", "--format", "pcapng") == 1
        assert f"{name}: no capture that can be read" in capsys.readouterr().err
        (run / "raw" / name).unlink()


def test_an_output_that_is_no_folder(results, capsys):
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    (results / "out").touch()
    assert export(results, "demo", "--format", "flent") == 2
    assert "--output" in capsys.readouterr().err


def test_an_output_that_cannot_be_written(results, capsys):
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    assert cli.main(["export", "demo", "--format", "flent", "--output", "/proc/1"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("testbed: --output /proc/1: cannot write in /proc/1: ") and said.count("\n") == 1


def test_an_interruption_leaves_no_half_written_file(results, capsys, monkeypatch):
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])

    def interrupted(run, folder, stem):
        (folder / f"{stem}.flent.gz").write_text("half")
        signal.raise_signal(signal.SIGTERM)
    monkeypatch.setattr(exports.module("flent"), "export", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    assert export(results, "demo", "--format", "flent") == 143
    assert signal.getsignal(signal.SIGTERM) == before and os.listdir(results / "out") == []
    assert capsys.readouterr().err == "testbed: ended by SIGTERM\n"


def test_who_reads_the_names_may_have_enough_of_them(results, monkeypatch):
    """`| head -1` is no error of the files."""
    def closed(*_):
        raise BrokenPipeError(32, "Broken pipe")
    fixture.write_experiment(results / "demo", ccas=["reno"], seeds=[1])
    monkeypatch.setattr("builtins.print", closed)
    words = parsed("export", "demo", "--format", "flent", "--output", results / "out")
    with pytest.raises(BrokenPipeError):
        command.main(words)
    assert os.listdir(results / "out") == ["demo-reno-seed1.flent.gz"]


def test_the_page_names_each_format():
    assert set(re.findall(r"^\| `(\w+)` \| `captured", PAGE, re.MULTILINE)) == set(exports.names())
    assert all(exports.module(name).WHAT for name in exports.names())

# SPDX-License-Identifier: GPL-2.0-only
"""The IETF's BBR in a guest: one flow in exact numbers, some of the draft's test cases, twice the same bytes."""
import pathlib

import pytest

from analysis.cases.evidence import see
from testbed import cli
from tests.kernel.small_runs import small_scenario

PATH = {"topology.central": {"rate": "10 Mbit/s", "delay": "20 ms", "queue": {"kind": "pfifo", "limit": 132}},
        "topology.left_delays": ["0 ms"], "topology.right_delays": ["0 ms"], "timing.test": "4 s",
        "traffic": {"kind": "phases", "paths": ["n2->n1"], "phases": [{"at": "0 s"}]}}


def _suite(capsys, *words):
    assert cli.main(["suite", "run", "bbr-ietf", "--quick", *words]) == 0
    return pathlib.Path(capsys.readouterr().out.split("suite: ")[1].splitlines()[0])


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def test_states_of_a_lone_flow(run_scenario):
    run = run_scenario(small_scenario(**PATH, **{"probes": {
        "queue": {"interval": "10 ms"}, "sojourn": {"interval": "10 ms"}, "tcp_info": {"interval": "10 ms"},
        "trace": {"events": ["bbr:bbr_model"]}}}), cca="bbr-ietf")
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    found = see(run.folder, "valid")
    spells = found.spells()
    assert [one.state for one in spells][:5] == [
        "Startup", "Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL"]
    assert spells[0].left_why == "full_bw"
    # 10 Mbit/s of frames carry 1,195,509 bytes of payload per second
    assert found.told["max_bw"].max() == pytest.approx(1_195_509, rel=1e-3)
    assert found.told["min_rtt_us"].min() >= 40_000
    assert found.told["lost"].max() == 0


def test_cases_of_both(results, capsys):
    page = _suite(capsys, "--only", "1,2", "--cca", "bbr-ietf,bbr")
    text = (page.parent / "cases.md").read_text(encoding="utf-8")
    assert "| 1 Exiting STARTUP on Bandwidth Plateau | passed (2 of 2) | passed (2 of 2) |" in text
    assert "| 2 Exiting STARTUP on Loss When Application-Limited | passed (1 of 1) | failed (1 of 1) |" in text


def test_gains_tell_the_state_of_version_1(results, capsys):
    page = _suite(capsys, "--only", "3,20", "--cca", "bbr", "--jobs", "2")
    text = (page.parent / "cases.md").read_text(encoding="utf-8")
    assert "failed: the pacing gain is 0.34; passed: ProbeBW" in text
    assert "| 20 Entering and Exiting PROBE\\_RTT During STARTUP | passed (1 of 1) |" in text


def test_twice_the_same_bytes(results, tmp_path, monkeypatch, capsys):
    first = _suite(capsys, "--only", "21", "--cca", "bbr-ietf", "--jobs", "2").parent
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "again"))
    second = _suite(capsys, "--only", "21", "--cca", "bbr-ietf", "--jobs", "1").parent
    for name in ("index.html", "cases.md", "cases.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name

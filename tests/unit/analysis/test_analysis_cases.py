# SPDX-License-Identifier: GPL-2.0-only
"""Test cases of a draft: their list, what a run shows, and verdicts (analysis/cases)."""
import gzip
from pathlib import Path

import pandas as pd
import pytest

from analysis import cases
from analysis.cases import FAILED, NOTE, OPEN, PASSED, Finding, evidence, network
from analysis.cases.bbr import c03_drain_inflight as drain
from analysis.cases.evidence import Point, Seen, see
from analysis.pages import cases_report
from analysis.read.shapes import AnalysisError
from testbed.scenario import suites

SLOW = Point(10_000_000, 100_000)
GRID = [Point(*path) for path in suites.load("bbr-ietf").grid.paths()]


def model(*rows):
    """Rows of (t_us, state, why, and what differs from the usual)."""
    usual = {"round": 1, "pacing_gain": 50, "pacing_rate": 495.0, "bw": 1000.0, "inflight": 83, "bdp": 83,
             "dport": 6000}
    return pd.DataFrame([{**usual, "t_us": t_us, "state": state, "why": why, **more}
                         for t_us, state, why, more in rows])


def event(**given):
    """The text of an event."""
    values = {**dict.fromkeys(evidence._NUMBERS, 0), "state": "Startup", "why": "init", "undo_state": "None", **given}
    return " ".join(f"{name}={value}" for name, value in values.items())


def seen(*rows):
    return Seen(model(*rows), pd.DataFrame(), Path("."), "valid")


def test_the_draft_has_22_cases():
    found = cases.of_folder("bbr")
    assert [one.NUMBER for one in found] == list(range(1, 23))
    assert len({one.TITLE for one in found}) == 22


@pytest.mark.parametrize("case", cases.of_folder("bbr"), ids=lambda case: f"case{case.NUMBER}")
def test_each_case_makes_sense_somewhere_and_says_why_not_elsewhere(case):
    where = [point for point in GRID if not case.sensible(point)]
    assert where
    for point in where:
        settings = dict(case.first(point))
        assert settings["topology.central.right_to_left.rate"] == f"{point.rate_bps} bit/s"
    assert all(isinstance(case.sensible(point), str) for point in GRID)


def test_the_grid_leaves_out_large_bdps():
    assert Point(1_000_000_000, 10_000) in GRID
    assert Point(1_000_000_000, 100_000) not in GRID
    assert len(GRID) == 14


def test_a_path_in_numbers():
    assert SLOW.bdp == pytest.approx(10e6 * 0.1 / 8 / 1514)
    assert SLOW.payload == pytest.approx(10e6 / 8 * 1448 / 1514)
    assert str(SLOW) == "10 Mbit/s, 100 ms"
    assert dict(network.path(SLOW, 3.2, buffer_bdp=1))["topology.central.right_to_left.queue.limit"] == "83"
    assert dict(network.path(SLOW, 3.2))["timing.test"] == "4 s"


@pytest.mark.parametrize("words, verdict", [
    ([PASSED], PASSED), ([PASSED, FAILED], FAILED), ([PASSED, OPEN], OPEN), ([FAILED, OPEN], FAILED), ([], OPEN),
    ([PASSED, NOTE], PASSED), ([NOTE], OPEN)])
def test_the_worst_part_decides(words, verdict):
    assert cases.verdict([Finding(word, "") for word in words]) == verdict


def test_times_in_states():
    found = seen((0, "Startup", "init", {}), (5, "Startup", "round", {}), (10, "ProbeRTT", "min_rtt_expired", {}),
                 (20, "Startup", "rtt_probed", {}), (30, "Drain", "full_bw", {}))
    assert [(one.state, one.begin_us, one.end_us, one.left_why) for one in found.spells()] == [
        ("Startup", 0, 10, "min_rtt_expired"), ("ProbeRTT", 10, 20, "rtt_probed"), ("Startup", 20, 30, "full_bw"),
        ("Drain", 30, None, None)]
    assert found.startup().begin_us == 20
    assert found.entry("Startup", after_us=0) == 20
    assert found.spells("Startup")[0].rounds == 1


@pytest.mark.parametrize("spoilt, verdict", [
    ({}, PASSED), ({"pacing_gain": 90}, FAILED), ({"pacing_rate": 900.0}, FAILED), ({"inflight": 84}, FAILED)])
def test_the_case_of_drain(spoilt, verdict):
    rows = seen((0, "Startup", "init", {}), (10, "Drain", "full_bw", {**spoilt}), (11, "Drain", "bound", {**spoilt}),
                (20, "ProbeBW_DOWN", "drained", {**spoilt}))
    assert cases.verdict(drain.judge(SLOW, rows)) == verdict


def test_no_drain_is_a_failure():
    assert cases.verdict(drain.judge(SLOW, seen((0, "Startup", "init", {})))) == FAILED


def test_events_are_those_of_the_sender(tmp_path):
    (tmp_path / "raw").mkdir()
    pd.DataFrame({"t_us": [0, 0], "dport": [6000, 50_000], "state": ["ESTAB", "ESTAB"]}).to_csv(
        tmp_path / "raw/tcp_info.csv.gz", index=False)
    assert see(tmp_path, "valid").model is None
    with gzip.open(tmp_path / "raw/trace.csv.gz", "wt") as file:
        file.write(f"t_us,event,text\n7,bbr_model,{event(state='Drain', dport=6000, bw=5)}\n"
                   f"8,bbr_model,{event(dport=1)}\n9,tcp_probe,bw=9\n")
    found = see(tmp_path, "valid")
    assert found.told[["t_us", "state", "bw"]].to_numpy().tolist() == [[7, "Drain", 5]]
    assert len(found.wire) == 1


@pytest.mark.parametrize("text, message", [
    ("state=Drain dport=6000", "event bbr_model without app_limited, bdp,"),
    ("state=Dance", "state: one of Startup, .* expected, not 'Dance'"), ("bw=fast", "bw: a number expected in each")])
def test_events_of_others_are_read_with_care(tmp_path, text, message):
    (tmp_path / "raw").mkdir()
    samples = pd.DataFrame({"t_us": [0], "dport": [6000], "state": ["ESTAB"]})
    samples.to_csv(tmp_path / "raw/tcp_info.csv.gz", index=False)
    words = dict(word.split("=") for word in text.split())
    with gzip.open(tmp_path / "raw/trace.csv.gz", "wt") as file:
        file.write(f"t_us,event,text\n7,bbr_model,{text if len(words) > 1 else event(**words)}\n")
    with pytest.raises(AnalysisError, match=message):
        see(tmp_path, "valid")


def test_a_flow_that_was_never_in_startup():
    with pytest.raises(AnalysisError, match="never in Startup"):
        seen((0, "Drain", "init", {})).startup()


def test_a_congestion_control_fails_a_case_on_one_of_its_paths():
    def judged(subject, word):
        return cases_report.Judged(3, subject, SLOW, word, [Finding(word, "because")], ["bin/testbed run"], None, "")
    found = [judged("mine", PASSED), judged("mine", FAILED), judged("other", PASSED)]
    assert cases_report.sentences(found, ["mine", "other"]) == [
        "mine: 0 of 1 cases passed on all of their paths; failed: 3",
        "other: 1 of 1 cases passed on all of their paths"]
    text = cases_report.markdown(found, [cases_report.Asked(3, "Drain", "it ends")], ["mine", "other"], ["bin/testbed"])
    assert "| 3 Drain | failed (1 of 2) | passed (1 of 1) |" in text

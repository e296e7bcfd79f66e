# SPDX-License-Identifier: GPL-2.0-only
"""Test cases of a draft: their list, what a run shows, and verdicts (analysis/cases)."""
import gzip
from pathlib import Path

import pandas as pd
import pytest

from analysis import cases
from analysis.cases import FAILED, NOTE, OPEN, PASSED, Finding, evidence, network
from analysis.cases.bbr import (c03_drain_inflight as drain, c04_drain_rounds as drain_rounds, c16_slower as slower,
                                c18_spurious_recovery as recovery, c19_spurious_timeout as timeout)
from analysis.cases.evidence import Point, Seen, see
from analysis.pages import cases_report
from testbed.core.errors import AnalysisError
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
    assert Point(1_000_000_000, 100_000) in GRID
    assert Point(1_000_000_000, 600_000) not in GRID
    assert len(GRID) == 15


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


def gains(*rows):
    """Text of the table of gains of version 1; rows of (t_us, pacing gain, window's gain) in 1/256."""
    lines = [f"{t_us},50000,6000,8000000,100000,{pacing / 256},{window / 256},n2,10.0.3.2,10.0.2.2"
             for t_us, pacing, window in rows]
    return "\n".join(["t_us,sport,dport,bw_bps,model_min_rtt_us,pacing_gain,cwnd_gain,node,src,dst", *lines]) + "\n"


def of_version_1(folder, *rows, **wire):
    (folder / "raw").mkdir()
    times = [row[0] for row in rows]
    pd.DataFrame({"t_us": times, "dport": 6000, "state": "ESTAB", "srtt_us": 100_000, "unacked": 80, "lost": 0,
                  "retrans": 0, "cwnd": 160, "ca_state": 0, **wire}).to_csv(folder / "raw/tcp_info.csv.gz", index=False)
    with gzip.open(folder / "raw/bbr_info.csv.gz", "wt") as file:
        file.write(gains(*rows))
    return see(folder, "valid")


STARTUP, DRAIN, UP, DOWN, CRUISE = (739, 739), (88, 739), (320, 512), (192, 512), (256, 512)


def test_gains_tell_the_state_of_version_1(tmp_path):
    found = of_version_1(tmp_path, (0, 0, 0), (10, *STARTUP), (20, *DRAIN), (30, *UP), (40, *DOWN), (50, *CRUISE),
                         (60, 256, 256))
    assert found.model is None
    assert [(one.state, one.begin_us, one.after) for one in found.spells()] == [
        ("Startup", 10, "Drain"), ("Drain", 20, "ProbeBW_UP"), ("ProbeBW_UP", 30, "ProbeBW_DOWN"),
        ("ProbeBW_DOWN", 40, "ProbeBW_CRUISE"), ("ProbeBW_CRUISE", 50, "ProbeRTT"), ("ProbeRTT", 60, None)]
    assert not found.undisturbed("ProbeBW_CRUISE")


def test_gains_of_others_tell_no_state(tmp_path):
    assert of_version_1(tmp_path, (10, *STARTUP), (20, 230, 512)).gains is None


def test_version_1_drains_with_another_gain(tmp_path):
    found = of_version_1(tmp_path, (0, *STARTUP), (10, *DRAIN), (100, *DRAIN), (200, *CRUISE))
    assert [(one.word, one.text) for one in drain.by_gains(SLOW, found)] == [
        (FAILED, "the pacing gain is 0.34"), (PASSED, "ProbeBW_CRUISE with 80 packets in flight, the BDP is 83")]


@pytest.mark.parametrize("times, verdict", [((0, 50_000, 400_000), PASSED), ((0, 50_000, 2_000_000), FAILED)])
def test_drain_of_version_1_by_round_trips(tmp_path, times, verdict):
    begin, end = times[1:]
    rows = [(0, *STARTUP), *((t_us, *DRAIN) for t_us in range(begin, end, 10_000)), (end, *CRUISE)]
    found = of_version_1(tmp_path, *rows, unacked=200)
    assert cases.verdict(drain_rounds.by_gains(SLOW, found)) == verdict


@pytest.mark.parametrize("after, verdict", [(160, PASSED), (90, FAILED)])
def test_the_window_of_version_1_after_a_recovery(tmp_path, after, verdict):
    rows = [(t_us, *CRUISE) for t_us in range(5)]
    found = of_version_1(tmp_path, *rows, ca_state=[0, 1, 3, 0, 0], cwnd=[160, 160, 20, after, 160])
    assert cases.verdict(recovery.by_gains(SLOW, found)) == verdict
    assert cases.verdict(timeout.by_gains(SLOW, found)) == OPEN


@pytest.mark.parametrize("ups, verdict", [(1, PASSED), (2, PASSED), (3, FAILED)])
def test_the_maximum_of_the_rate_is_forgotten_after_two_cycles(ups, verdict):
    change_us = round(1e6 * slower._change_s(SLOW))
    old, new = SLOW.payload, SLOW.payload / 10
    usual = {"bw_shortterm": 0.1 * SLOW.payload, "max_bw": old}
    rows = [(change_us - 5, "ProbeBW_CRUISE", "drained", usual), (change_us + 5, "ProbeBW_CRUISE", "round", usual)]
    for number in range(ups):
        begin_us = change_us + 100 * (number + 1)
        rows += [(begin_us, "ProbeBW_UP", "refilled", usual), (begin_us + 50, "ProbeBW_DOWN", "full_bw", usual),
                 (begin_us + 60, "ProbeBW_REFILL", "no_loss", usual)]
    rows.append((change_us + 5000, "ProbeBW_REFILL", "round", {**usual, "max_bw": new}))
    assert cases.verdict(slower.judge(SLOW, seen(*rows))) == verdict


def test_a_flow_that_was_never_in_startup():
    with pytest.raises(AnalysisError, match="never in Startup"):
        seen((0, "Drain", "init", {})).startup()


def test_a_congestion_control_fails_a_case_on_one_of_its_paths():
    def judged(subject, word):
        return cases_report.Judged(3, subject, SLOW, word, [Finding(word, "because")], ["bin/testbed run"], None, "")
    found = [judged("mine", PASSED), judged("mine", FAILED), judged("other", PASSED)]
    assert cases_report.sentences(found, ["mine", "other"]) == [
        "mine: 0 of 1 cases passed on all of their paths; failed: case 3",
        "other: 1 of 1 cases passed on all of their paths"]
    text = cases_report.markdown(found, [cases_report.Asked(3, "Drain", "it ends")], ["mine", "other"], ["bin/testbed"])
    assert "| 3 Drain | failed (1 of 2) | passed (1 of 1) |" in text

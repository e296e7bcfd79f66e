# SPDX-License-Identifier: GPL-2.0-only
"""Whether greedy flows have settled: what they do when they begin is told, sawtooths of any length are not."""
import re

import pytest

from tests.unit.testbed import evidence_files, steady_runs
from tests.unit.testbed.steady_runs import climbing, sawtooth

COLD = {"prefill_us": 0, "warmup_us": 0, "duration_us": 30_000_000}


def found(folder, spoil, warmup_s=0.0, change=None):
    files = evidence_files.good_files()
    spoil(files)
    if change:
        change(files)
    return evidence_files.findings(folder, "steady", files, timing={**COLD, "warmup_us": int(warmup_s * 1e6)})


@pytest.mark.parametrize("period_s", [0.5, 3, 9, 14, 25])
@pytest.mark.parametrize("warmup_s", [2, 10])
def test_sawtooths_of_any_length_are_steady(tmp_path, period_s, warmup_s):
    """Also of one flow, of which the thirds of the measured time differ by a half."""
    losses = [1.0, *(at for at in (period_s * number for number in range(1, 60)) if 1 < at < 30)]
    (level, text), = found(tmp_path, steady_runs.flows([sawtooth(period_s)], [losses], drops=500), warmup_s)
    assert level == "ok" and "1 flows had settled when measuring began" in text and "by 1.2 s" in text


def test_a_slow_start_in_the_measured_time_is_told_with_the_warm_up_that_is_needed(tmp_path):
    spoil = steady_runs.flows([climbing(5), climbing(6)], [[5.0, 20.0], [6.0, 17.0]], drops=900)
    (level, text), = found(tmp_path, spoil)
    assert level == "suspect"
    assert re.search(r"by 6.2 s\), which changes the throughput of flow \d by -1\d%, the throughput of right_to_left "
                     r"by -1\d%, the drops at right_to_left, of which 100% are .*a warm-up of at least 6.2 s", text)
    assert found(tmp_path / "later", spoil, 6.2)[0][0] == "ok"


def test_a_run_that_is_a_slow_start_is_told(tmp_path):
    text = found(tmp_path, steady_runs.flows([climbing(40)], [[29.95]]))[0][1]
    assert "had not settled by the end" in text and "a warm-up of more than 30 s is needed" in text
    (level, text), = found(tmp_path / "half", steady_runs.flows([climbing(20)], [[20.0]]))
    assert level == "suspect" and "for 67% of the measured time" in text and "at least 21 s" in text


def test_a_short_slow_start_that_changes_little_is_none(tmp_path):
    """Half a second of 30, after which nothing differs; a queue that stood higher meanwhile does."""
    spoil = steady_runs.flows([sawtooth(2)], [[0.4, *range(2, 30, 2)]], drops=5)
    (level, text), = found(tmp_path, spoil)
    assert level == "ok" and "settled by 0.6 s, 2.0% into the measured time" in text
    (level, text), = found(tmp_path / "full", steady_runs.flows(
        [sawtooth(2)], [[0.4, *range(2, 30, 2)]], waits=lambda at: 850 if at < 0.6 else 100))
    assert level == "suspect" and "which changes the queueing delay at right_to_left by +14%" in text


def test_drops_that_end_no_slow_start_are_a_sawtooths(tmp_path):
    """The first overflow comes late after an early end of slow start, and is the only one in the run."""
    spoil = steady_runs.flows([lambda at: 50], [[2.2]], drops=60, ssthresh=40)
    assert found(tmp_path, spoil)[0][0] == "ok"
    (level, text), = found(tmp_path / "slow start", steady_runs.flows([lambda at: 50], [[2.2]], drops=60))
    assert level == "suspect" and "which changes the drops at right_to_left, of which 100% are of that time" in text


def test_flows_that_never_lose_have_settled_once_they_are_fast(tmp_path):
    (level, text), = found(tmp_path, steady_runs.flows([climbing(1)]), 2)
    assert level == "ok" and "by 0.9" in text
    (level, text), = found(tmp_path / "slow", steady_runs.flows([climbing(8)]), 2)
    assert level == "suspect" and "the throughput of right_to_left by" in text


@pytest.mark.parametrize("changes, change, why", [
    ({"stop_us": 20_000_000}, None, "flow 1 begins or ends in the measured time"),
    ({"start_us": 8_000_000}, None, "flow 1 begins or ends in the measured time"),
    ({"bytes": 1_000_000}, None, "greedy comes and goes"),
    ({}, lambda files: files["network.json"]["links"][0].update(schedule=[{"at_us": 5, "rate_bps": 1}]), "changes"),
    ({}, lambda files: files["network.json"]["links"][0].update(lose_segments=[14]), "loses chosen segments"),
    ({}, lambda files: files.pop("tcp_info"), "they were not sampled")])
def test_what_is_a_transient_on_purpose_is_not_judged(tmp_path, changes, change, why):
    (level, text), = found(tmp_path, steady_runs.flows([climbing(15)], [[15.0]], **changes), change=change)
    assert level == "not applicable" and why in text

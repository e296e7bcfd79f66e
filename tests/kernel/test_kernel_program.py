# SPDX-License-Identifier: GPL-2.0-only
"""Unmodified programs in virtual time: what they send and leave, and what happens when one computes without end."""
import json

import pytest

from testbed.engines.uml import watch
from tests.kernel import documented
from tests.kernel.small_runs import small_scenario
from traffic.io.payload import sequence


@pytest.fixture(scope="module")
def programs(run_scenario):
    return run_scenario(documented.scenario("howto/programs.md"))


def test_programs_run_to_their_end(programs):
    assert programs.json("verdict.json")["verdict"] == "valid", programs.json("verdict.json")["reasons"]
    ended = {one["program"]["what"].partition(" (")[0]: one["program"]
             for one in programs.json("raw/guest.json")["accounts"]}
    assert {what: one["exit"] for what, one in ended.items()} == {
        "datagrams: iperf3": 0, "quic: gtlsserver": -15, "quic: gtlsclient": 0}
    assert ended["quic: gtlsclient"]["ended_us"] < 5_000_000 < ended["quic: gtlsserver"]["ended_us"]


def test_outputs_and_files_are_kept(programs):
    raw = programs.folder / "raw"
    sums = json.loads((raw / "program-datagrams-sender.out").read_text())["end"]["sum"]
    assert sums["bits_per_second"] == pytest.approx(2e6, rel=0.01) and sums["packets"] > 600
    assert sums["lost_packets"] <= sums["packets"] * 0.05
    # QUIC brought what it should, in the order in which it should be
    got = (raw / "program-quic-receiver-download").read_bytes()
    assert got == (sequence() * (2_000_000 // len(sequence()) + 1))[:2_000_000]


def test_a_program_that_computes_without_end_is_named(run_scenario, monkeypatch):
    monkeypatch.setattr(watch, "STALL_CPU_S", 3)
    monkeypatch.setattr(watch, "LOOK_S", 0.5)
    # whether the guest gets as far as telling of its traffic is up to its scheduler
    words = (r"stands still at \d s \((programs|traffic)\): "
             r".*: it is the program python3, in a loop without a system call")
    with pytest.raises(AssertionError, match=words):
        run_scenario(small_scenario(**{"timing.test": "1 s", "traffic": {
            "kind": "program", "sender": {"command": ["python3", "-c", "while True: pass"]}}}))


@pytest.mark.parametrize("ends, says", [
    ({"sender": {"command": ["printf", '{{"error": "unable to connect"}']}},
     "program-program-sender.out says that the program failed: unable to connect"),
    ({"sender": {"command": ["python3", "-c", "print('nothing to do')"]}},
     "program carried no data; its programs' last words: nothing to do")])
def test_a_program_that_sends_nothing_and_ends_well_is_told(run_scenario, ends, says):
    run = run_scenario(small_scenario(**{"timing": {"warmup": "500 ms", "test": "1500 ms"},
                                         "traffic": {"name": "program", "kind": "program", **ends}}))
    reasons = [one["message"] for one in run.json("verdict.json")["reasons"] if one["check"] == "carried"]
    assert run.json("verdict.json")["verdict"] == "suspect" and any(says in reason for reason in reasons), reasons

# SPDX-License-Identifier: GPL-2.0-only
"""Runs on the running kernel that are killed, interrupted, ended: the machine is as it was before."""
import pytest


@pytest.fixture(scope="module")
def findings(visit):
    return visit("inside_kill.py").findings


def test_a_run_changes_the_machine(findings):
    """Else the other tests would show nothing."""
    assert {"sysctl", "ps", "tracing", "tracing options"} <= findings["during"].keys()


def test_kill_9_ends_all_its_processes_and_leaves_settings(findings):
    assert "ps" not in findings["killed"] and "ip link" not in findings["killed"]
    assert {"sysctl", "tracing", "tracing options"} <= findings["killed"].keys()


def test_what_a_killed_command_has_started_ends_by_itself(findings):
    assert "ps" not in findings["alone"] and "ip link" not in findings["alone"]
    assert findings["alone_repaired"] == {}


def test_the_doctor_notices(findings):
    assert findings["doctor"]["code"] == 3
    assert "a run that was killed left" in findings["doctor"]["said"]
    assert "testbed doctor --repair" in findings["doctor"]["said"]


def test_repair_puts_everything_back(findings):
    assert findings["repair"]["code"] == 0 and "put back" in findings["repair"]["said"]
    assert findings["repaired"] == {}


def test_there_is_nothing_to_repair_afterwards(findings):
    assert findings["again"]["code"] == 0 and "put back" not in findings["again"]["said"]


@pytest.mark.parametrize("how, code", [("interrupted", 130), ("terminated", 143), ("worker", 4)])
def test_what_can_clean_up_does(findings, how, code):
    assert findings[how] == {"code": code, "difference": {}}

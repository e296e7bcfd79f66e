# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls from outside, built for the running kernel and loaded for a run only."""
import pytest


@pytest.fixture(scope="module")
def machine(visit):
    return visit("inside_modules.py")


def test_a_module_is_built_loaded_and_used(machine):
    assert machine.findings["run"]["code"] == 0, machine.log
    used = [check for check in machine.run_json("verdict.json")["checks"] if check["check"] == "ccas"]
    assert len(used) == 3 and all(check["level"] == "ok" for check in used)
    assert sum("libra" in check["message"] for check in used) == 2
    assert machine.run_json("raw/checks.json")["congestion_controls"]["parameters"]["tcp_libra"]["capacity"] == "10000"


def test_it_is_gone_afterwards(machine):
    difference = machine.findings["difference"]
    # that there was a module from outside is what a kernel never forgets
    assert difference.pop("sysctl") == {"gone": ["kernel.tainted = 0"], "new": ["kernel.tainted = 4096"]}
    assert difference == {}


def test_kill_9_leaves_it_and_repair_removes_it(machine):
    assert [line.split()[0] for line in machine.findings["killed"]] == ["tcp_libra"]
    assert machine.findings["repaired"] == []


def test_a_module_without_a_congestion_control_is_one_clear_line(machine):
    assert machine.findings["idle"]["code"] == 4
    assert "tcp_idle.ko loads, but registers no congestion control" in machine.findings["idle"]["said"]


def test_without_headers_it_says_what_is_missing(machine):
    assert machine.findings["nowhere"]["code"] == 4
    assert "no headers of the running kernel in /tmp/nowhere: apt-get install linux-headers-" \
        in machine.findings["nowhere"]["said"]

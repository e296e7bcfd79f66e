# SPDX-License-Identifier: GPL-2.0-only
"""`testbed shell --engine host`: Mininet's command line on the running kernel."""
import re

import pytest


@pytest.fixture(scope="module")
def machine(visit):
    return visit("inside_shell.py")


def test_commands_of_a_script(machine):
    done = machine.findings["script"]
    assert done["code"] == 0, machine.log
    assert min(float(ms) for ms in re.findall(r"time=([\d.]+) ms", done["said"])) >= 20
    assert "qdisc htb 3:" in done["said"] and "limit 40p" in done["said"]
    assert "net.ipv4.tcp_congestion_control = cubic" in done["said"]


def test_nothing_is_left_of_it_nor_of_what_it_started(machine):
    assert machine.findings["script_left"] == {}


def test_ctrl_c_ends_the_command_inside_and_ctrl_d_the_session(machine):
    assert machine.findings["terminal"] == {"code": 0, "difference": {}}, machine.log


def test_what_kill_nine_leaves_is_repaired(machine):
    assert machine.findings["repair"]["code"] == 0
    assert machine.findings["repaired"] == {}

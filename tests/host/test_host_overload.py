# SPDX-License-Identifier: GPL-2.0-only
"""A machine that is too slow for the network: the run is invalid, and says that it was the CPU."""


def test_an_overloaded_machine_is_noticed(visit):
    machine = visit("inside_overload.py")
    assert machine.findings["run"]["code"] == 0, machine.log
    verdict = machine.run_json("verdict.json")
    assert verdict["verdict"] == "invalid"
    said = [reason["message"] for reason in verdict["reasons"]
            if reason["check"] == "cpu" and reason["level"] == "invalid"]
    assert any("no CPU time was left" in message and "CPU 0 was" in message for message in said), verdict["reasons"]

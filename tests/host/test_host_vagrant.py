# SPDX-License-Identifier: GPL-2.0-only
"""Engine `vagrant` with a real kernel behind it: only the way to the machine, ssh, is another."""
import pytest


@pytest.fixture(scope="module")
def machine(visit):
    return visit("inside_vagrant.py")


def test_the_run_finishes(machine):
    assert machine.findings["run"]["code"] == 0, machine.log
    record = machine.run_json("run.json")
    assert record["status"] == "finished"
    assert {"queue.csv.gz", "sojourn.csv.gz", "tcp_info.csv.gz"} <= set(record["raw_files_sha256"])


def test_what_came_back_can_be_judged(machine):
    verdict = machine.run_json("verdict.json")
    fine = {check["check"] for check in verdict["checks"] if check["level"] == "ok"}
    assert {"ccas", "conservation", "delivered", "losses", "payload", "settings"} <= fine
    assert not verdict["errors"]


def test_it_says_where_it_was(machine):
    environment = machine.run_json("environment.json")
    assert (environment["engine"], environment["clock"]) == ("vagrant", "real")
    assert environment["timer_period_us"] > 0
    assert environment["virtual_machine"]["host_kernel"] == environment["kernel_release"]


def test_a_module_is_sent_and_built_there(machine):
    assert machine.findings["module"]["code"] == 0, machine.log
    assert ['"mine"' in text for text in machine.findings["flows"]] == [True]


def test_nothing_is_left(machine):
    assert machine.findings["difference"] == {} and machine.findings["left"] == []

# SPDX-License-Identifier: GPL-2.0-only
"""A run on the running kernel, from the command line to the verdict, and what is left of it: nothing."""
import pytest

#: what a slow machine may spoil; nothing else may be wrong (sockets: samples of tcp_info that were 0.1 s late)
OF_TIME = {"cpu", "idle_network", "sampling", "littles_law", "sockets"}


@pytest.fixture(scope="module")
def machine(visit):
    return visit("inside_run.py", makes_code=True)


def test_the_doctor_says_ready(machine):
    assert "engine host: ready" in machine.findings["doctor"]["said"]
    assert machine.findings["doctor"]["code"] == 0


def test_the_run_finishes(machine):
    assert machine.findings["run"]["code"] == 0, machine.log
    record = machine.run_json("run.json")
    assert record["status"] == "finished"
    assert "queue.csv.gz" in record["raw_files_sha256"] and "sojourn.csv.gz" in record["raw_files_sha256"]


def test_it_says_where_it_was(machine):
    environment = machine.run_json("environment.json")
    assert environment["engine"] == "host" and environment["clock"] == "real"
    assert environment["replay_compiled"] is True
    assert environment["timer_period_us"] > 0
    assert environment["timer_period_us"] <= environment["timer_lateness_us"]["most"]


def test_only_time_can_spoil_it(machine):
    verdict = machine.run_json("verdict.json")
    assert {reason["check"] for reason in verdict["reasons"]} <= OF_TIME, verdict["reasons"]
    fine = {check["check"] for check in verdict["checks"] if check["level"] == "ok"}
    assert {"ccas", "conservation", "delivered", "losses", "payload", "settings"} <= fine
    assert not verdict["errors"]


def test_the_cpus_were_sampled(machine):
    assert "cpu.csv.gz" in machine.run_json("run.json")["raw_files_sha256"]
    notes = machine.run_json("raw/guest.json")["probes"]["cpu"]
    assert notes["timer_period_us"] == machine.run_json("environment.json")["timer_period_us"]
    assert any(check["check"] == "cpu" and "CPU 0 was" in check["message"]
               for check in machine.run_json("verdict.json")["checks"])


def test_nobody_can_repeat_it(machine):
    assert machine.findings["verify"]["code"] == 2 and "on a wall clock" in machine.findings["verify"]["said"]


def test_nothing_is_left(machine):
    assert machine.findings["difference"] == {}
    # they did look at something
    assert machine.findings["looked_at"]["sysctl"] > 100 and machine.findings["looked_at"]["ip link"] > 0

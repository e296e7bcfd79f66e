# SPDX-License-Identifier: GPL-2.0-only
"""The guest's memory follows from what its network and its programs hold."""
import json
import types
from types import SimpleNamespace

import pytest

from testbed.core.errors import EnvironmentProblem, UsageError
from testbed.engines import uml
from testbed.engines._kernel_engine import KernelEngine
from testbed.engines.uml import memory
from testbed.scenario import scenario

MB = 1 << 20


def network_of(name):
    return scenario.load(name, {}, False).network


def put_workload(folder, *components, programs=0, threads=0, buffers_mb=0):
    program = {"module": "traffic.greedy.flows", "component": "greedy", "threads": threads, "buffers_mb": buffers_mb}
    made = [{**program, "node": f"n{number}"} for number in range(programs)]
    (folder / "workload.json").write_text(json.dumps({"programs": made, "components": [
        {"start_us": 0, "stop_us": 10**6, **component} for component in components]}))


def put_plans(folder, *sizes):
    put_workload(folder)
    for number, size in enumerate(sizes):
        with open(folder / f"tmix-source{number}.plan", "wb") as file:
            file.truncate(size)


def test_few_connections_on_any_network_of_ours_take_the_usual_guest(tmp_path):
    """TCP sees how much memory there is: another size would be another experiment."""
    put_plans(tmp_path, 20 * MB, 20 * MB)
    assert {name: memory.of_run_mb(tmp_path, network_of(name)) for name in scenario.names()} == dict.fromkeys(
        scenario.names(), memory.LEAST_MB)


@pytest.mark.parametrize("plan_mb, wanted_mb", [(210, 1024), (220, 1088), (440, 1728)])
def test_many_connections_take_more(tmp_path, plan_mb, wanted_mb):
    """2.2 million connections of 110 % in the data center make plans of 440 MB."""
    put_plans(tmp_path, *[plan_mb * MB // 2] * 2)
    (tmp_path / "bundle.tar").write_bytes(b"0" * MB)        # not a plan
    assert memory.of_run_mb(tmp_path, network_of("data-center")) == wanted_mb


@pytest.mark.parametrize("programs, wanted_mb", [(70, 1024), (100, 1408), (400, 4992)])
def test_many_programs_take_more(tmp_path, programs, wanted_mb):
    """10 MB for each: guests of 1024 MB with 100 of them reclaimed memory for ever."""
    put_workload(tmp_path, programs=programs)
    assert memory.of_run_mb(tmp_path, network_of("access-link")) == wanted_mb


@pytest.mark.parametrize("programs, threads, wanted_mb", [(100, 1, 1024), (2000, 1, 1600), (16, 8, 1024)])
def test_programs_that_are_one_process_take_less(tmp_path, programs, threads, wanted_mb):
    """0.6 MB for each thread, and 12 MB for each process of at most 128: as a process each, 2000 would take 24 GB."""
    put_workload(tmp_path, programs=programs, threads=threads)
    assert memory.of_run_mb(tmp_path, network_of("access-link")) == wanted_mb


@pytest.mark.parametrize("programs, wanted_mb", [(16, 1024), (40, 1920)])
def test_what_receivers_of_many_flows_read_into(tmp_path, programs, wanted_mb):
    """32 MB for a hundred flows of a host, there from the start: 20 such hosts filled a guest of 1024 MB."""
    put_workload(tmp_path, programs=programs, buffers_mb=32)
    assert memory.of_run_mb(tmp_path, network_of("access-link")) == wanted_mb


def test_a_long_fat_network_takes_more(tmp_path):
    """Four times 41 MB under way and 12.6 MB in a buffer make 205 MB for 1 Gbit/s and 330 ms; 1 GB is the most, for
    which 1024 + (1024 - 512) / 0.9 leave TCP enough."""
    network = network_of("trans-oceanic")
    put_plans(tmp_path, 140 * MB)
    assert memory.of_run_mb(tmp_path, network) == 1024
    put_plans(tmp_path, 160 * MB)
    assert memory.of_run_mb(tmp_path, network) == 1088
    put_plans(tmp_path, 0)
    network = network.changed(links=[
        link.changed(rate_bps=10 * link.rate_bps) if link.bottleneck else link for link in network.links])
    assert memory.of_run_mb(tmp_path, network) == 1600


@pytest.mark.parametrize("plan_mb", [10, 300])
def test_the_run_says_so(tmp_path, monkeypatch, plan_mb):
    monkeypatch.setattr(KernelEngine, "run", lambda *arguments: None)
    (tmp_path / "environment.json").write_text(json.dumps({"guest_memory_mb": memory.LEAST_MB, "clock": "virtual"}))
    put_plans(tmp_path, plan_mb * MB)

    class Plan:
        scenario = types.SimpleNamespace(network=network_of("data-center"))
    uml.Engine({}).run(Plan, tmp_path, tmp_path, 0, lambda *_: None)
    assert json.loads((tmp_path / "environment.json").read_text()) == {
        "guest_memory_mb": memory.of_run_mb(tmp_path, Plan.scenario.network), "clock": "virtual"}


@pytest.mark.parametrize("offered_mbps, duration_s, wanted_mb", [
    (100, 1524, 1024),          # all of it is carried
    (110, 60, 1024),            # 75 MB wait: that has room
    (110, 1524, 2048)])         # 1905 MB wait, three quarters of that in memory, beside 14 MB that are under way
def test_what_an_overloaded_link_leaves_waiting_takes_more(tmp_path, offered_mbps, duration_s, wanted_mb):
    """0.9 of what is beyond 1024 MB, and half of these, hold (0.75 x 1905e6 + 14.4e6) bytes; 1985 MB would do."""
    each = {"start_us": 0, "stop_us": duration_s * 10**6}
    half = {"right_to_left": offered_mbps * 5e5}
    put_workload(tmp_path, {**each, "offered_bps": {**half, "left_to_right": 1e7}}, {**each, "offered_bps": half}, each)
    assert memory.of_run_mb(tmp_path, network_of("access-link")) == wanted_mb
    in_sockets_mb = (0.75 * max(0, offered_mbps - 100) * 1e6 / 8 * duration_s + 14.4e6) / 2**20
    assert 512 + 0.9 * (wanted_mb - 1024) >= in_sockets_mb


def test_a_link_that_gets_slower_leaves_more_waiting(tmp_path):
    network = network_of("access-link")
    put_workload(tmp_path, {"stop_us": 1000 * 10**6, "offered_bps": {"right_to_left": 80e6}})
    assert memory.of_run_mb(tmp_path, network) == 1024
    schedule = [{"at_us": 500 * 10**6, "rate_bps": 10_000_000}]
    network = network.changed(links=[
        link.changed(schedule=schedule) if link.name == "right_to_left" else link for link in network.links])
    # 55 Mbit/s on average are too little by 25: 0.75 x 3125 MB, of which 512 would have had room
    assert memory.of_run_mb(tmp_path, network) == 3008


def test_a_machine_that_has_less_is_one_line(monkeypatch):
    monkeypatch.setattr(uml.environment, "available_memory_mb", lambda: 1500)
    assert uml._tmpfs(1024)
    with pytest.raises(EnvironmentProblem, match="^the guest may need 2048 MB of memory: this machine has 1500"):
        uml._tmpfs(2048)


@pytest.mark.parametrize("choice, large", [("yes", True), ("", True), ("no", False)])
def test_large_pages_are_the_users_choice(monkeypatch, choice, large):
    monkeypatch.setenv("TESTBED_HUGE_PAGES", choice)
    assert memory.large_pages() is large


def test_a_choice_that_is_none_is_said_before_anything_is_built(monkeypatch):
    monkeypatch.setenv("TESTBED_HUGE_PAGES", "of course")
    with pytest.raises(UsageError, match="TESTBED_HUGE_PAGES is 'of course': yes or no"):
        uml.Engine({}).prepare(print)


@pytest.mark.parametrize("choice, options, said", [
    ("yes", {}, False),
    ("no", {}, True),
    ("yes", {"large_pages": False, "virtual_time": False}, True),      # a session in real time
])
def test_guests_are_told_of_it(monkeypatch, tmp_path, choice, options, said):
    monkeypatch.setenv("TESTBED_HUGE_PAGES", choice)
    engine = uml.Engine({})
    engine._found, engine._code = SimpleNamespace(features=(), program=tmp_path / "linux"), tmp_path
    assert ("large_pages=no" in engine._command(tmp_path, "/dev/shm", 1024, **options)) is said

# SPDX-License-Identifier: GPL-2.0-only
"""Unmodified programs in virtual time: what they send and leave, and what happens when one computes without end."""
import json
import pathlib
import subprocess

import pytest

from testbed.engines import _watch as watch
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


@pytest.fixture(scope="module")
def random_numbers(run_scenario, tmp_path_factory):
    """random_numbers(environment): what std::random_device gave to a program of two runs of one seed."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "draw.cc").write_text(
        "#include <cstdio>\n#include <random>\n"
        'int main() { std::random_device device; for (int i = 0; i < 4; i++) std::printf("%u\\n", device()); }\n')
    subprocess.run(["g++", "-O2", "-o", folder / "draw", folder / "draw.cc"], check=True)

    def random_numbers(environment):
        end = {"command": ["draw"], "files": {"draw": {"copy_of": str(folder / "draw")}}, "environment": environment}
        tree = small_scenario(**{"timing": {"warmup": "500 ms", "test": "500 ms"}, "traffic": {
            "name": "draw", "kind": "program", "sender": end}})
        return [(run_scenario(tree).folder / "raw/program-draw-sender.out").read_text() for _ in range(2)]
    return random_numbers


def test_the_random_device_of_a_program_in_cpp_draws_from_the_seed(random_numbers):
    first, second = random_numbers({})
    assert first == second and len(set(first.split())) == 4


def test_without_the_library_it_has_the_processors_numbers(random_numbers):
    """If this fails, the C++ library asks the kernel by itself, and random_device.c can go. Two draws of 128 bits are
    never the same by chance."""
    if "rdrand" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no random numbers")
    first, second = random_numbers({"LD_PRELOAD": ""})
    assert first != second

# SPDX-License-Identifier: GPL-2.0-only
"""Every kernel that the testbed supports builds, boots, and gives valid and reproducible runs."""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import kernel
from kernel import source
from tests.kernel import float_runs
from tests.kernel.small_runs import OF_THE_TREE, small_scenario

PROJECT = pathlib.Path(__file__).parents[2]
MODULES = sorted(path.parent for path in (PROJECT / "kernel-modules").glob("tcp_*/Kbuild"))


def test_it_is_the_kernel_that_was_asked_for(version, built):
    asked = source.resolve(version, print)
    assert re.match(rf"{re.escape(asked)}\.\d+-testbed$", built.release)
    assert set(built.congestion_controls) == OF_THE_TREE


def test_a_second_is_a_thousand_ticks(built):
    assert "CONFIG_HZ=1000" in (built.build_dir / ".config").read_text().splitlines()


def test_seccomp_is_known_of(built):
    number = [int(part) for part in built.release.split(".")[:2]]
    assert ("seccomp" in built.features) == (number >= [6, 16])


def test_every_patch_for_speed_fits(built):
    """None of them must be lost without anybody noticing."""
    clock = (built.source_dir / "arch/um/kernel/time.c").read_text()
    timeouts = (built.source_dir / "io_uring/timeout.c").read_text()
    assert "virtual_clock_mmap" in clock and "must not wake those who wait" in timeouts
    if "seccomp" not in built.features:
        assert "live_fp_registers" in (built.source_dir / "arch/um/os-Linux/skas/process.c").read_text()


def test_floating_point_survives_switches_and_signals(built, tmp_path):
    expected = float_runs.expected_sums(), 0
    for mode in (["seccomp=off"], ["seccomp=on"]) if "seccomp" in built.features else ([],):
        assert float_runs.found(built, tmp_path, *mode) == expected, mode


def test_seccomp_and_ptrace_give_the_same_bytes(engine, built, run_scenario, monkeypatch):
    if "seccomp" not in built.features:
        pytest.skip("this kernel has ptrace only")
    tree = small_scenario(**{"timing.test": "2 s"})
    first = run_scenario(tree)
    monkeypatch.setattr(engine, "_found", dataclasses.replace(built, features=frozenset()))
    assert run_scenario(tree).json("run.json")["raw_files_sha256"] == first.json("run.json")["raw_files_sha256"]


def test_the_access_link_is_a_valid_run(version, built, tmp_path):
    """Tmix traffic: with io_uring where the kernel has what it takes, else with epoll."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "testbed",
            "run",
            "access-link",
            "--quick",
            "--cca",
            "reno,cubic",
            "--no-report",
            "--kernel",
            version,
        ],
        cwd=PROJECT,
        env={**os.environ, "TESTBED_RESULTS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    verdicts = {p.parent.name: json.loads(p.read_text()) for p in tmp_path.glob("*/runs/*/verdict.json")}
    assert {name: v["verdict"] for name, v in verdicts.items()} == {
        "reno-seed1": "valid",
        "cubic-seed1": "valid",
    }, verdicts


@pytest.mark.parametrize("folder", MODULES, ids=lambda folder: folder.name)
def test_our_modules_build_without_warnings_and_load(built, folder):
    module = kernel.build_module(built, folder)
    assert module.warnings == ""
    assert module.congestion_controls


def test_a_flow_runs_with_a_module(run_scenario):
    run = run_scenario(small_scenario(**{"timing.test": "2 s"}), cca=str(MODULES[0]))
    assert run.json("verdict.json")["verdict"] == "valid"

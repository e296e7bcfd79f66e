# SPDX-License-Identifier: GPL-2.0-only
"""The same seed gives the same data to the bit; another seed does not."""
import pytest

from small_runs import small_scenario

LOSSY = small_scenario(**{"topology.central": {
    "rate": "20 Mbit/s", "delay": "2 ms", "loss": "0.5 %", "queue": {"kind": "pfifo", "limit": 50}}})


@pytest.fixture(scope="module")
def first(run_scenario):
    return run_scenario(LOSSY).json("run.json")


def test_same_seed_same_bytes(run_scenario, first):
    again = run_scenario(LOSSY).json("run.json")
    assert again["raw_files_sha256"] == first["raw_files_sha256"]
    assert again["raw_sha256"] == first["raw_sha256"]


def test_other_seed_other_losses(run_scenario, first):
    other = run_scenario(LOSSY, seed=2).json("run.json")
    assert other["raw_files_sha256"]["queue.csv.gz"] != first["raw_files_sha256"]["queue.csv.gz"]
    assert other["raw_files_sha256"]["network.json"] == first["raw_files_sha256"]["network.json"]


def test_congestion_control_under_test_is_the_one_used(run_scenario):
    run = run_scenario(small_scenario(**{"timing.test": "1 s"}), cca="vegas")
    assert set(run.table("tcp_info")["cca"]) == {"vegas"}
    assert {s["net.ipv4.tcp_congestion_control"] for s in run.json("raw/checks.json")["sysctls"].values()} == {"vegas"}

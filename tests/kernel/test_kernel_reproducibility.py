# SPDX-License-Identifier: GPL-2.0-only
"""The same seed gives the same data to the bit; another seed does not."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

import kernel
from tests.kernel.small_runs import small_scenario

PROJECT = pathlib.Path(__file__).resolve().parents[2]

LOSSY = small_scenario(**{"topology.central": {
    "rate": "20 Mbit/s", "delay": "2 ms", "loss": "0.5 %", "queue": {"kind": "pfifo", "limit": 50}}})


@pytest.fixture(scope="module")
def first(run_scenario):
    return run_scenario(LOSSY).json("run.json")


def test_same_seed_same_bytes(run_scenario, first):
    again = run_scenario(LOSSY).json("run.json")
    assert again["raw_files_sha256"] == first["raw_files_sha256"]
    assert again["raw_sha256"] == first["raw_sha256"]


def test_same_bytes_from_a_worker_of_a_cluster(engine, first, tmp_path):
    """It has a cache of its own with the kernel that the client gave it."""
    pytest.importorskip("distributed")
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(LOSSY))
    command = [PROJECT / "bin/testbed", "run", tmp_path / "scenario.yaml", "--cca", "cubic", "--no-report", "--cluster",
               "local:1", "--seeds", "1", *(
                   ["--kernel", engine.options["kernel"]] if "kernel" in engine.options else [])]
    done = subprocess.run(command, env={**os.environ, "TESTBED_RESULTS": str(tmp_path / "results")},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made, = (tmp_path / "results").glob("runs/*/run.json")
    assert {key: json.loads(made.read_text())[key] for key in ("id", "raw_files_sha256")} == {
        key: first[key] for key in ("id", "raw_files_sha256")}


def test_other_seed_other_losses(run_scenario, first):
    other = run_scenario(LOSSY, seed=2).json("run.json")
    assert other["raw_files_sha256"]["queue.csv.gz"] != first["raw_files_sha256"]["queue.csv.gz"]
    assert other["raw_files_sha256"]["network.json"] == first["raw_files_sha256"]["network.json"]


def test_congestion_control_under_test_is_the_one_used(run_scenario):
    run = run_scenario(small_scenario(**{"timing.test": "1 s"}), cca="vegas")
    assert set(run.table("tcp_info")["cca"]) == {"vegas"}
    assert {s["net.ipv4.tcp_congestion_control"] for s in run.json("raw/checks.json")["sysctls"].values()} == {"vegas"}


@pytest.fixture(scope="module")
def checkouts(engine, tmp_path_factory):
    """[(checkout, environment, umask)]: this one; and a copy with a longer path, without byte code or
    what makes programs start faster, with a cache, a results folder, a umask and an environment of its own. They
    share the kernel's program and nothing else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    copy = folder / "a" / "checkout" / "with-a-path-that-is-rather-long"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns(".git", "results", "__pycache__"))
    code = (copy / "testbed/core/c_libraries.py").read_text()
    assert "for name in wanted():" in code
    (copy / "testbed/core/c_libraries.py").write_text(code.replace("in wanted():", "in wanted()[1:]:"))
    built = kernel.find(engine.options.get("kernel"))
    (folder / "cache" / "kernels").mkdir(parents=True)
    (folder / "cache" / "kernels" / built.build_dir.name).symlink_to(built.build_dir)
    lists = built.build_dir.parent.parent / "debian"            # what kernels other Debian releases have
    if lists.exists():
        (folder / "cache" / "debian").symlink_to(lists)
    here = {**os.environ, "TESTBED_RESULTS": str(folder / "r")}
    there = {**os.environ, "TESTBED_RESULTS": str(folder / "results-in-another-place"), "PYTHONDONTWRITEBYTECODE": "1",
             "TESTBED_CACHE": str(folder / "cache"), "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C",
             "SOMETHING": "x" * 5000}
    return [(PROJECT, here, 0o022), (copy, there, 0o077)]


@pytest.mark.parametrize("changes", [
    {"traffic": {"kind": "tmix", "target": "right_to_left", "load": "40 %"}},
    {"traffic": {"kind": "greedy", "tool": "iperf3", "flows": 2}, "topology.central": LOSSY["topology"]["central"]},
    {"traffic": {"kind": "greedy", "tool": "sockets"}, "probes.tcp_probe": {}},
], ids=["Tmix", "iperf3", "tcp_probe"])
def test_the_same_bytes_from_any_checkout(engine, checkouts, tmp_path, changes):
    name = f"{changes['traffic']['kind']}-{len(changes)}-{len(changes['traffic'])}"
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(small_scenario(name=name, **changes)))
    records = []
    for checkout, environment, umask in checkouts:
        before = set(pathlib.Path(environment["TESTBED_RESULTS"]).glob("runs/*/run.json"))
        command = [checkout / "bin" / "testbed", "run", tmp_path / "scenario.yaml", "--cca", "reno", "--no-report"]
        command += ["--kernel", engine.options["kernel"]] if "kernel" in engine.options else []
        done = subprocess.run(command, env=environment, umask=umask, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made, = set(pathlib.Path(environment["TESTBED_RESULTS"]).glob("runs/*/run.json")) - before
        records.append(json.loads(made.read_text()))
        assert not list(made.parent.glob("work"))
    one, other = records
    assert one["raw_files_sha256"] == other["raw_files_sha256"]
    assert one["raw_sha256"] == other["raw_sha256"] and one["id"] == other["id"]
    assert not list(checkouts[1][0].parents[2].glob("cache/bundles/*/testbed/guest/preload.so"))
    assert not list(checkouts[1][0].rglob("__pycache__"))

# SPDX-License-Identifier: GPL-2.0-only
"""Two kernels in one experiment: each is a level of a factor, and they are compared seed by seed."""
import csv
import json
import os
import pathlib
import subprocess

import yaml

from kernel import source
from tests.kernel.small_runs import small_scenario

PROJECT = pathlib.Path(__file__).parents[2]


def test_it_is_compared_with_the_default_kernel(version, built, tmp_path):
    name = source.resolve(version, print)
    assert name != source.DEFAULT_VERSION, "TESTBED_KERNELS: another kernel than the default one expected"
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small_scenario(**{"timing.test": "2 s"})))
    done = subprocess.run(
        [PROJECT / "bin/testbed", "run", tmp_path / "small.yaml", "--cca", "reno", "--seeds", "2",
         "--kernel", f"{source.DEFAULT_VERSION},{version}"], capture_output=True, text=True, timeout=600,
        env={**os.environ, "TESTBED_RESULTS": str(tmp_path / "results")})
    assert done.returncode == 0, done.stderr
    folder = tmp_path / f"results/small-kernels{source.DEFAULT_VERSION}-{name}"
    listed = json.loads((folder / "experiment.json").read_text())
    assert [run["name"] for run in listed["runs"]] == [
        f"reno-kernel{kernel}-seed{seed}" for kernel in (source.DEFAULT_VERSION, name) for seed in (1, 2)]
    releases = {json.loads((folder / "runs" / run["name"] / "environment.json").read_text())["kernel_release"]
                for run in listed["runs"]}
    assert len(releases) == 2 and built.release in releases
    with (folder / "report/tables/kernels.csv").open() as file:
        row, = csv.DictReader(file)
    assert (row["reference"], row["kernel"], row["seeds"], row["pairs_of_runs"]) == (
        source.DEFAULT_VERSION, name, "1, 2", "2")
    assert f"kernel {name} against {source.DEFAULT_VERSION}:" in done.stdout

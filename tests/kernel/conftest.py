# SPDX-License-Identifier: GPL-2.0-only
"""Runs in virtual time: every number they give is exact, so the tests assert exact numbers."""
import json
import pathlib

import pandas as pd
import pytest
import yaml

from small_runs import small_scenario
from testbed import ccas, engines, run, scenario

class FinishedRun:
    """A run folder's content."""

    def __init__(self, folder):
        self.folder = folder

    def json(self, name):
        return json.loads((self.folder / name).read_text())

    def table(self, name):
        return pd.read_csv(self.folder / "raw" / f"{name}.csv.gz")


@pytest.fixture(scope="session")
def engine():
    """The uml engine with its kernel built."""
    ready = engines.load("uml")({})
    ready.prepare(print)
    return ready


@pytest.fixture(scope="session")
def run_scenario(engine, tmp_path_factory):
    """run_scenario(tree, cca, seed) -> FinishedRun; cca: anything that --cca takes."""
    def carry_out(tree, cca="cubic", seed=1) -> FinishedRun:
        folder = tmp_path_factory.mktemp("run")
        (folder / "small.yaml").write_text(yaml.safe_dump(tree))
        loaded = scenario.load(str(folder / "small.yaml"))
        run.prepare_workload(loaded, seed, engine.guest_dir(folder), folder / "workload")
        subject = ccas.make_ready(ccas.parse(cca)[0], engine, print)
        run_dir = pathlib.Path(folder / f"{subject.name}-seed{seed}")
        run.carry_out(run.RunSpec(loaded, subject, seed), engine, folder / "workload", run_dir, 0, lambda *_: None)
        return FinishedRun(run_dir)
    return carry_out


@pytest.fixture(scope="session")
def greedy_run(run_scenario):
    """One greedy CUBIC flow of five seconds over the access link."""
    return run_scenario(small_scenario())

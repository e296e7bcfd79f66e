# SPDX-License-Identifier: GPL-2.0-only
"""Runs in virtual time: every number they give is exact, so the tests assert exact numbers."""
import functools
import json
import os

import pandas as pd
import pytest
import yaml

from testbed import engines
from testbed.runs import campaign, run
from testbed.runs.store import Store
from testbed.scenario import ccas, scenario
from tests.kernel.small_runs import small_scenario


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
    ready = engines.load("uml")
    ready.prepare(print)
    return ready


@pytest.fixture(scope="session")
def run_with(tmp_path_factory):
    """run_with(engine) -> run_scenario with this engine."""
    return functools.partial(_run_scenario, tmp_path_factory)


@pytest.fixture(scope="session")
def run_scenario(run_with, engine):
    """run_scenario(tree or YAML, cca, seed) -> FinishedRun; cca: as --cca takes it. A run that fails is an error."""
    return run_with(engine)


def _run_scenario(tmp_path_factory, engine):
    def carry_out(tree, cca="cubic", seed=1) -> FinishedRun:
        folder = tmp_path_factory.mktemp("run")
        (folder / "small.yaml").write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
        points = scenario.expand(str(folder / "small.yaml"), {}, False, [])
        subject = ccas.make_ready(ccas.parse(cca)[0], engine, print)
        plan, = campaign.make_plans(points, [subject], [seed], engine, print)
        store = Store(folder / "results")
        store.create()
        affinity = os.sched_getaffinity(0)
        with store.shared_folder() as shared:
            outcome = run.execute(run.Job(plan), engine, store, shared, min(affinity), lambda *_: None)
        if outcome.error:
            raise AssertionError(outcome.error)
        return FinishedRun(store.run_dir(plan.id))
    return carry_out


@pytest.fixture(scope="session")
def greedy_run(run_scenario):
    """One greedy CUBIC flow of five seconds over the access link."""
    return run_scenario(small_scenario())

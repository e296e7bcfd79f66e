# SPDX-License-Identifier: GPL-2.0-only
"""Runs of one scenario in several engines."""
import copy
import json
import os

import pandas as pd
import pytest
import yaml

from testbed import engines
from testbed.runs import campaign, run
from testbed.runs.store import Store
from testbed.scenario import ccas, scenario

DUMBBELL = {
    "kind": "dumbbell",
    "central": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"kind": "pfifo", "limit": 50}},
    "edge": {"rate": "100 Mbit/s", "queue": {"kind": "pfifo", "limit": 10000}},
    "left_delays": ["0 ms"], "right_delays": ["0 ms"],
}


def small_scenario(**changes):
    """A greedy flow over 10 Mbit/s and 20 ms for five seconds; `changes` override dotted fields."""
    tree = {"name": "small", "topology": copy.deepcopy(DUMBBELL),
            "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"], "start_within": "0 s"},
            "hosts": {"jitter": "0 us"},
            "timing": {"prefill": "0 s", "warmup": "1 s", "test": "4 s"},
            "probes": {"queue": {"interval": "10 ms"}, "sojourn": {}, "tcp_info": {"interval": "100 ms"}}}
    for key, value in changes.items():
        at = tree
        *sections, last = key.split(".")
        for section in sections:
            at = at[section]
        at[last] = value
    return tree


class FinishedRun:
    """A run folder's content; error: of a run that failed."""

    def __init__(self, folder, error=None):
        self.folder, self.error = folder, error

    def json(self, name):
        return json.loads((self.folder / name).read_text())

    def table(self, name):
        return pd.read_csv(self.folder / "raw" / f"{name}.csv.gz")

    def metrics(self):
        table = pd.read_csv(self.folder / "metrics.csv")
        return {(row.metric, row.scope): row.value for row in table.itertuples()}


def carry_out(points, engine, cca, seed, folder, keep_work=False):
    """The only point of a scenario in an engine -> FinishedRun."""
    subject = ccas.make_ready(ccas.parse(cca)[0], engine, print)
    plan, = campaign.make_plans(points, [subject], [seed], engine, print)
    store = Store(folder / "results")
    store.create()
    with store.shared_folder() as shared:
        outcome = run.execute(run.Job(plan, keep_work=keep_work), engine, store, shared,
                              min(os.sched_getaffinity(0)), lambda *_: None)
    return FinishedRun(store.run_dir(plan.id), outcome.error)


@pytest.fixture(scope="session")
def run_in(tmp_path_factory):
    """run_in(engine name, tree or scenario name, cca, seed, settings) -> FinishedRun; an error is one of the test."""
    ready = {}

    def run_in(name, tree, cca="reno", seed=1, settings=()):
        if name not in ready:
            ready[name] = engines.load(name)
            ready[name].prepare(print)
        folder = tmp_path_factory.mktemp(name)
        quick = isinstance(tree, str)
        if not quick:
            (folder / "small.yaml").write_text(yaml.safe_dump(tree))
            tree = str(folder / "small.yaml")
        finished = carry_out(scenario.expand(tree, {}, quick, list(settings)), ready[name], cca, seed, folder)
        assert finished.error is None, finished.error
        return finished
    return run_in

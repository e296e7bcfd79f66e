# SPDX-License-Identifier: GPL-2.0-only
"""Quick versions of the suite's scenarios in the guest, and their metrics; whatever is run has to be valid.

Fixtures are of the session: those of a file would keep its tests on one worker (tests/conftest.py).
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd
import pytest

from testbed import engines
from testbed.checks import read_verdict
from testbed.runs import campaign, run
from testbed.runs.engine import EngineBase
from testbed.runs.store import Store
from testbed.scenario import ccas, scenario


class Valid(NamedTuple):
    """A valid run: its point of the sweep, its folder, its metrics by (metric, scope)."""
    point: dict[str, str]
    folder: pathlib.Path
    values: dict[tuple[str, str], float]


Runs = Callable[..., list[Valid]]


@pytest.fixture(scope="session")
def engine() -> EngineBase:
    loaded = engines.load("uml")
    loaded.prepare(print)
    return loaded


@pytest.fixture(scope="session")
def quick_runs(tmp_path_factory: pytest.TempPathFactory, engine: EngineBase) -> Runs:
    """quick_runs(scenario, cca, choices) -> a valid run for each point of the quick version, with seed 1.

    but: names of checks that may find a run suspect, as that is what this congestion control does.
    """
    return _runs_of(engine, tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="session")
def air_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The same in the kernel that has radios, where that is built."""
    loaded = engines.load("uml")
    loaded.require(["wireless"])
    if not loaded.find():
        pytest.skip("the guest kernel with the option wireless is not built: make test-wireless")
    loaded.prepare(print)
    return _runs_of(loaded, tmp_path_factory.mktemp("suite-air"))


def _runs_of(engine: EngineBase, folder: pathlib.Path) -> Runs:
    store = Store(folder / "results")
    store.create()

    def carry_out(name: str, cca: str, choices: dict[str, str] | None = None, but: Sequence[str] = ()) -> list[Valid]:
        subject = ccas.make_ready(ccas.parse(cca)[0], engine, print)
        found, wrong = [], []
        for plan in campaign.make_plans(scenario.expand(name, choices, True), [subject], [1], engine, print):
            with store.shared_folder() as shared:
                outcome = run.execute(run.Job(plan), engine, store, shared, min(os.sched_getaffinity(0)),
                                      lambda *_: None)
            assert outcome.error is None, outcome.error
            folder = store.run_dir(plan.id)
            verdict = read_verdict(folder)
            reasons = [one for one in verdict["reasons"] if (one["check"], one["level"]) not in {
                (check, "suspect") for check in but}]
            if reasons or verdict["verdict"] not in ("valid", "suspect"):
                wrong.append((plan.point, verdict["verdict"], reasons))
            table = pd.read_csv(folder / "metrics.csv")
            found.append(Valid(plan.point, folder, {(one.metric, one.scope): one.value for one in table.itertuples()}))
        assert not wrong
        return found
    return carry_out

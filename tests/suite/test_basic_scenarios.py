# SPDX-License-Identifier: GPL-2.0-only
"""The basic scenarios of the Common TCP Evaluation Suite at 60 % load: quick versions are valid, and offer their load.

Minutes; not part of `make test`.
"""
import os

import pandas as pd
import pytest

from testbed import campaign, ccas, engines, run, scenario
from testbed.fidelity import read_verdict
from testbed.store import Store

SCENARIOS = ("access-link", "data-center", "trans-oceanic", "geo-satellite", "dial-up")
#: the baseline of the suite first: NewReno with SACK
CCAS = ("sack", "cubic", "vegas", "bbr")


@pytest.fixture(scope="module")
def engine():
    loaded = engines.load("uml")
    loaded.prepare(print)
    return loaded


@pytest.mark.parametrize("cca", CCAS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_quick_run_is_valid_and_offers_its_load(tmp_path, engine, name, cca):
    subject = ccas.make_ready(ccas.parse(cca)[0], engine, print)
    plan, = campaign.make_plans(scenario.expand(name, {"load": "60"}, True), [subject], [1], engine, print)
    store = Store(tmp_path / "results")
    store.create()
    with store.shared_folder() as shared:
        outcome = run.execute(run.Job(plan), engine, store, shared, min(os.sched_getaffinity(0)), lambda *_: None)
    assert outcome.error is None
    folder = store.run_dir(plan.id)
    verdict = read_verdict(folder)
    assert verdict["verdict"] == "valid", [one for one in verdict["checks"] if one["level"] in ("suspect", "invalid")]
    metrics = pd.read_csv(folder / "metrics.csv").set_index(["metric", "scope"])["value"]
    assert metrics["offered_load_share", "right_to_left"] == pytest.approx(60, rel=0.05)

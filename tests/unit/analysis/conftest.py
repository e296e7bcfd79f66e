# SPDX-License-Identifier: GPL-2.0-only

import pytest

from analysis.metrics import compute_metrics
from analysis.read.runs import Run
from tests.unit.analysis import fixture


@pytest.fixture
def run_dir(tmp_path):
    """A finished run of constant rates."""
    return fixture.write_run(tmp_path / "cubic-seed1")


@pytest.fixture
def values():
    """Function: run folder -> {(metric, scope): value}."""
    def measured(path):
        metrics, errors = compute_metrics(Run(path))
        assert not errors, errors[0]["traceback"]
        return {(metric.metric, metric.scope): metric.value for metric in metrics}
    return measured


@pytest.fixture
def errors():
    """Function: run folder -> {metric file: message of its error}."""
    return lambda path: {error["where"].removeprefix("metric "): error["message"]
                         for error in compute_metrics(Run(path))[1]}


@pytest.fixture
def change():
    """Function that rewrites one raw table of a run, and seals it again: change(run_dir, name, function)."""
    import pandas as pd

    def rewrite(path, name, function):
        file = path / "raw" / f"{name}.csv.gz"
        fixture.save(file, function(pd.read_csv(file)))
        fixture.seal(path)
    return rewrite


@pytest.fixture
def undelivered(change):
    """Function: undelivered(run_dir, mask): the answers do not arrive in connections that `mask` of the table marks."""
    import pandas as pd

    def rewrite(path, mask):
        table = pd.read_csv(path / "raw" / "connections.csv.gz")
        mine = mask(table)
        change(path, "connections", lambda table: table.assign(
            status=table["status"].mask(mine, "unfinished"), end_us=table["end_us"].mask(mine)))
        whose = pd.MultiIndex.from_frame(table[mine][["source", "conn"]])
        change(path, "adus", lambda adus: adus.assign(delivered_us=adus["delivered_us"].mask(
            (adus["side"] == "a") & pd.MultiIndex.from_frame(adus[["source", "conn"]]).isin(whose))))
    return rewrite

# SPDX-License-Identifier: GPL-2.0-only
"""The runs of a part of a suite: of an experiment that may have others, those that the suite asked for."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results


class Runs(NamedTuple):
    """Where the runs of a part are, which count, and what went wrong. folder: of their experiment, None if nothing was
    run."""

    folder: Path | None
    ids: Sequence[str]
    problem: str


def opened(runs: Runs) -> Results | AnalysisError | None:
    """What was measured in the runs; None if nothing was run, the error if it cannot be read."""
    if runs.folder is None:
        return None
    try:
        experiment = Experiment(runs.folder, only=frozenset(runs.ids))
        found = Results(experiment)
        experiment.discard(found.problems)
        return found
    except AnalysisError as error:
        return error

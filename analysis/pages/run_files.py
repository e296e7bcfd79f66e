# SPDX-License-Identifier: GPL-2.0-only
"""Links from an experiment's report to the files of its runs."""

from __future__ import annotations

import os
import urllib.parse
from pathlib import Path
from typing import NamedTuple

from analysis.drawing import style
from analysis.read.experiment import Experiment
from analysis.read.runs import Run

MOST_RUNS = 200     # whose raw files are listed one by one; of more, a link to the folder has to do
#: what there may be beside raw/: (file, what it is)
_RECORDS = (("plan.json", "plan"), ("run.json", "record"), ("environment.json", "environment"), ("log.txt", "log"),
            ("verdict.json", "verdict"), ("metrics.csv", "metrics"), ("raw", "raw data"))


class File(NamedTuple):
    """Words, the address as seen from the report's folder, and how large it is ('' of a folder)."""

    text: str
    link: str
    size: str


def records(run: Run, experiment: Experiment) -> list[File]:
    """The files of a run that are there, and its folder of raw data."""
    return [_file(run.path / name, text, experiment) for name, text in _RECORDS if (run.path / name).exists()]


def raw(run: Run, experiment: Experiment) -> list[File]:
    """The raw files of a run, [] of an experiment with more than MOST_RUNS runs."""
    folder = run.path / "raw"
    if len(experiment.runs) > MOST_RUNS or not folder.is_dir():
        return []
    return [_file(path, path.name, experiment) for path in sorted(folder.iterdir()) if path.is_file()]


def _file(path: Path, text: str, experiment: Experiment) -> File:
    where = os.path.relpath(path, experiment.path / "report")
    # bytes of a name that are no text are percent-encoded, as browsers do
    link = urllib.parse.quote(os.fsencode(where)) + "/" * path.is_dir()
    return File(text, link, "" if path.is_dir() else style.size(path.stat().st_size))

# SPDX-License-Identifier: GPL-2.0-only
"""Experiments compared with the first of them: the page, and its words on the terminal."""
from __future__ import annotations

import hashlib
import os
import pathlib
import shlex
from collections.abc import Sequence

from testbed.cli._shared import MARGIN
from testbed.runs.store import results_dir

_LONGEST_NAME = 200


def make(folders: Sequence[pathlib.Path], margin: float = MARGIN, output: pathlib.Path | None = None) -> None:
    """Write the page and print what it says. AnalysisError if no other experiment has anything in common."""
    from analysis.compare.experiments import Group
    from analysis.pages import comparison_report
    from analysis.read.experiment import Experiment
    group = Group([Experiment(folder) for folder in folders], margin)
    path, found = comparison_report.write(group, output or results_dir() / _name([folder.name for folder in folders]),
                                          _command(folders, margin, output))
    for line in comparison_report.lines(group, found):
        print(line)
    print(path)


def _name(names: Sequence[str]) -> str:
    """compare-small-small-ns3-small-ns2"""
    name = "-".join(["compare", *names])
    return name if len(name) <= _LONGEST_NAME else f"compare-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _command(folders: Sequence[pathlib.Path], margin: float, output: pathlib.Path | None) -> str:
    """As it can be typed again: experiments of the results folder by their names."""
    results = results_dir().resolve()
    words = ["bin/testbed", "compare", *(folder.name if folder.parent == results else os.fspath(folder)
                                         for folder in folders), "--margin", f"{100 * margin:g}%"]
    return shlex.join(words + (["--output", str(output)] if output else []))

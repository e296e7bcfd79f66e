# SPDX-License-Identifier: GPL-2.0-only
"""Executors: where the runs of an experiment are carried out, and how many at a time.

An executor is a file here with a class `Executor(ExecutorBase)`, found by listing.
"""
from __future__ import annotations

import importlib
import pathlib

from testbed.errors import UsageError
from testbed.executors.base import ExecutorBase

DEFAULT = "local"


def names() -> list[str]:
    """Names of all executors."""
    return sorted({path.stem for path in pathlib.Path(__file__).parent.glob("[a-z]*.py")} - {"base"})


def load(name: str) -> type[ExecutorBase]:
    """The class of an executor; UsageError if there is none."""
    if name not in names():
        raise UsageError(f"no executor {name!r}; there are: {', '.join(names())}")
    found: type[ExecutorBase] = importlib.import_module(f"testbed.executors.{name}").Executor
    return found

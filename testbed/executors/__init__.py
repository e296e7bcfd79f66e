# SPDX-License-Identifier: GPL-2.0-only
"""Executors: where the runs of an experiment are carried out, and how many at a time.

An executor is a file or folder here with a class `Executor(ExecutorBase)`, found by listing.
"""
from __future__ import annotations

import functools
import importlib
import pathlib
from collections.abc import Callable

from testbed.core import guesses
from testbed.core.errors import UsageError
from testbed.runs.executor import ExecutorBase

DEFAULT = "local"


def names() -> list[str]:
    """Names of all executors."""
    here = pathlib.Path(__file__).parent
    files = {path.stem for path in here.glob("[a-z]*.py")} | {path.parent.name for path in here.glob("*/__init__.py")}
    return sorted(files)


def load(name: str) -> type[ExecutorBase]:
    """The class of an executor; UsageError if there is none."""
    if name not in names():
        raise UsageError(f"no executor {name!r}; {guesses.alternatives(name, names())}")
    found: type[ExecutorBase] = importlib.import_module(f"testbed.executors.{name}").Executor
    return found


def choose(name: str | None, cluster: str | None) -> Callable[..., ExecutorBase]:
    """What makes the executor that --executor and --cluster ask for, of engine, store and jobs at a time."""
    if cluster is None:
        if name == "cluster":
            raise UsageError("--executor cluster: which one? --cluster local or --cluster tcp://scheduler:8786 says it")
        return load(name or DEFAULT)
    if name not in (None, "cluster"):
        raise UsageError(f"--executor {name} with --cluster: one of them expected")
    from testbed.executors import cluster as executor
    return functools.partial(executor.Executor, where=executor.parse(cluster))

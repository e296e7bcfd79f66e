# SPDX-License-Identifier: GPL-2.0-only
"""Engines: in which kernel (or simulator) a run takes place, and on which clock.

An engine is a file or folder here with a class `Engine(EngineBase)`, found by listing.
"""
import importlib
import pathlib

from testbed.errors import UsageError

_SUPPORT = {"__init__", "base"}


def names():
    """Names of all engines."""
    here = pathlib.Path(__file__).parent
    files = {p.stem for p in here.glob("*.py")} | {p.parent.name for p in here.glob("*/__init__.py")}
    return sorted(files - _SUPPORT)


def load(name):
    """The `Engine` class of an engine; UsageError if there is none."""
    if name not in names():
        raise UsageError(f"no engine {name!r}; there are: {', '.join(names())}")
    return importlib.import_module(f"testbed.engines.{name}").Engine

# SPDX-License-Identifier: GPL-2.0-only
"""Engines: in which kernel (or simulator) a run takes place, and on which clock.

An engine is a file or folder here with a class `Engine(EngineBase)`, found by listing.
"""
from __future__ import annotations

import importlib
import pathlib
from typing import Any

from testbed.engines.base import EngineBase
from testbed.errors import UsageError

#: the one that needs nothing of the machine
DEFAULT = "uml"
_SUPPORT = {"__init__", "base", "kernel_engine"}


def names() -> list[str]:
    """Names of all engines."""
    here = pathlib.Path(__file__).parent
    files = {path.stem for path in here.glob("*.py")} | {path.parent.name for path in here.glob("*/__init__.py")}
    return sorted(files - _SUPPORT)


def load(name: str, options: dict[str, Any] | None = None) -> EngineBase:
    """An engine by its name; UsageError if there is none, or it has no such option."""
    if name not in names():
        raise UsageError(f"no engine {name!r}; there are: {', '.join(names())}")
    kind: type[EngineBase] = importlib.import_module(f"testbed.engines.{name}").Engine
    for option in options or {}:
        if option not in kind.OPTIONS:
            raise UsageError(f"engine {name} has no option {option!r}")
    engine = kind(options or {})
    engine.name = name
    return engine

# SPDX-License-Identifier: GPL-2.0-only
"""Engines: in which kernel (or simulator) a run takes place, and on which clock.

An engine is a file or folder here with a class `Engine(EngineBase)`, found by listing.
"""
from __future__ import annotations

import importlib
import pathlib
from typing import Any

from testbed.core.errors import UsageError
from testbed.runs.engine import EngineBase
from testbed.runs.plan import DEFAULT_ENGINE

DEFAULT = DEFAULT_ENGINE
_SUPPORT = {"__init__", "features", "kernel_engine", "simulators"}


def names() -> list[str]:
    """Names of all engines."""
    here = pathlib.Path(__file__).parent
    files = {path.stem for path in here.glob("*.py")} | {path.parent.name for path in here.glob("*/__init__.py")}
    return sorted(files - _SUPPORT)


def load_several(text: str, options: dict[str, Any]) -> list[EngineBase]:
    """The engines of a comma-separated list, each with those options that it has; one of them must have each."""
    wanted = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not wanted:
        raise UsageError(f"--engine: a name expected; there are: {', '.join(names())}")
    if len(wanted) == 1:
        return [load(wanted[0], options)]
    known = {name: load(name).OPTIONS for name in wanted}
    for option in options:
        if not any(option in of_engine for of_engine in known.values()):
            raise UsageError(f"engines {', '.join(wanted)} have no option {_said(option)}")
    return [load(name, {option: value for option, value in options.items() if option in of_engine})
            for name, of_engine in known.items()]


def _said(option: str) -> str:
    """An option as it is typed."""
    return {"confine": "--no-confine", "kernel_options": "--kernel-option"}.get(option, f"--{option}")


def load(name: str, options: dict[str, Any] | None = None) -> EngineBase:
    """An engine by its name; UsageError if there is none, or it has no such option."""
    if name not in names():
        raise UsageError(f"no engine {name!r}; there are: {', '.join(names())}")
    kind: type[EngineBase] = importlib.import_module(f"testbed.engines.{name}").Engine
    for option in options or {}:
        if option not in kind.OPTIONS:
            raise UsageError(f"engine {name} has no option {_said(option)}")
    engine = kind(options or {})
    engine.name = name
    return engine

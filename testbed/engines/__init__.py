# SPDX-License-Identifier: GPL-2.0-only
"""Engines: in which kernel (or simulator) a run takes place, and on which clock.

An engine is a file or folder here with a class `Engine(EngineBase)`, found by listing. What begins with an underscore
helps engines.
"""
from __future__ import annotations

import ast
import functools
import importlib
import pathlib
from collections.abc import Mapping

from testbed.core import guesses
from testbed.core.errors import UsageError
from testbed.runs.engine import EngineBase, Option
from testbed.runs.plan import DEFAULT_ENGINE

DEFAULT = DEFAULT_ENGINE


def names() -> list[str]:
    """Names of all engines."""
    return sorted(_files())


def _files() -> dict[str, pathlib.Path]:
    """{engine: the file with its class}"""
    here = pathlib.Path(__file__).parent
    return {**{path.parent.name: path for path in here.glob("[!_]*/__init__.py")},
            **{path.stem: path for path in here.glob("[!_]*.py")}}


@functools.cache
def declared() -> dict[str, tuple[Option, ...]]:
    """{engine: its options of the command line}, without importing any. UsageError if one cannot be read."""
    return {name: _declared(path) for name, path in sorted(_files().items())}


def _declared(path: pathlib.Path) -> tuple[Option, ...]:
    """OPTIONS of the class Engine of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        body = ast.parse(text).body if "OPTIONS" in text else []
    except (SyntaxError, ValueError):
        return ()                       # loading this engine says what is wrong
    for node in (node for cls in body if isinstance(cls, ast.ClassDef) and cls.name == "Engine" for node in cls.body):
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["OPTIONS"]:
            calls = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            try:
                return tuple(_option(call) for call in calls)
            except (TypeError, ValueError):
                raise UsageError(f"{path}, line {node.lineno}: OPTIONS: a tuple of Option(...) expected, of constants "
                                 "only") from None
    return ()


def _option(call: ast.expr) -> Option:
    """The option that `Option(...)` would make. TypeError or ValueError if it is no such thing."""
    if not isinstance(call, ast.Call):
        raise TypeError
    words = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    return Option(*map(ast.literal_eval, call.args), **words)


def options() -> dict[str, tuple[str, Option]]:
    """{name of an option: (an engine that has it, the option)} of all engines."""
    return {option.name: (name, option) for name, of_engine in reversed(declared().items()) for option in of_engine}


def load_several(text: str, options: Mapping[str, object]) -> list[EngineBase]:
    """The engines of a comma-separated list, each with those options that it has; one of them must have each."""
    wanted = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not wanted:
        raise UsageError(f"--engine: a name expected; there are: {', '.join(names())}")
    if len(wanted) == 1:
        return [load(wanted[0], options)]
    known = {name: [option.name for option in load(name).OPTIONS] for name in wanted}
    for option in options:
        if not any(option in of_engine for of_engine in known.values()):
            raise UsageError(f"engines {', '.join(wanted)} have no option {_said(option)}")
    return [load(name, {option: value for option, value in options.items() if option in of_engine})
            for name, of_engine in known.items()]


def _said(option: str) -> str:
    """An option as it is typed."""
    known = options().get(option)
    return known[1].flag if known else f"--{option}"


def kind(name: str) -> type[EngineBase]:
    """The class of an engine. UsageError if there is none of this name."""
    if name not in names():
        raise UsageError(f"no engine {name!r}; {guesses.alternatives(name, names())}")
    found: type[EngineBase] = importlib.import_module(f"testbed.engines.{name}").Engine
    return found


def load(name: str, options: Mapping[str, object] | None = None) -> EngineBase:
    """An engine by its name; UsageError if there is none, or it has no such option."""
    of_name = kind(name)
    for option in options or {}:
        if option not in [one.name for one in of_name.OPTIONS]:
            raise UsageError(f"engine {name} has no option {_said(option)}")
    engine = of_name(dict(options or {}))
    engine.name = name
    return engine

# SPDX-License-Identifier: GPL-2.0-only
"""Completion of command lines in a shell, by argcomplete where it is installed (docs/reference/commands.md)."""
from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable

from testbed import engines, probes
from testbed.runs import index
from testbed.runs.store import results_dir
from testbed.scenario import ccas, knobs, scenario, suites


def words_before() -> list[str]:
    """The words of the command line that is to be completed, without the program."""
    return os.environ["COMP_LINE"].split()[1:]


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may follow, and end. Without argcomplete there is no answer."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        return
    _attach(parser)
    argcomplete.autocomplete(parser)


def _attach(parser: argparse.ArgumentParser) -> None:
    """Tell arguments by their names what they take."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _attach(sub)
        elif action.dest in _NAMES:
            setattr(action, "completer", _completer(_NAMES[action.dest]))


def _completer(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Of one name, or of several separated by commas."""
    def complete(prefix: str, **_: object) -> list[str]:
        before = prefix[:prefix.rfind(",") + 1]
        return [before + name for name in names()]
    return complete


def _experiments() -> list[str]:
    return sorted({str(row["experiment"]) for row in index.rows(results_dir(), ("experiment",))} - {""})


def _runs_and_experiments() -> list[str]:
    return [*_experiments(), *sorted({str(row["id"]) for row in index.rows(results_dir(), ("id",))})]


def _ccas() -> list[str]:
    import kernel
    return sorted({*ccas.names(), *kernel.congestion_controls()})


_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "scenario": scenario.names, "suite": suites.names, "cca": _ccas, "baseline": _ccas, "engine": engines.names,
    "probe": probes.names, "only": knobs.names, "experiment": _experiments, "reference": _experiments,
    "others": _experiments, "run": _runs_and_experiments, "what": _runs_and_experiments}

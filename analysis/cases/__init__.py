# SPDX-License-Identifier: GPL-2.0-only
"""Test cases of a draft, judged by the state of a congestion control and by the wire.

A case is a module of a folder here, such as `bbr/c01_startup_plateau.py`, found without registration, with

    NUMBER, TITLE       as the draft has them
    ASKS                what has to be seen, in own words
    sensible(point)     why the case makes no sense there; "" if it does
    first(point)        settings of the scenario, as `--set` has them: a list of (field, value)
    judge(point, seen)  what was found, as a list of Finding

and, if need be,

    second(point, seen) settings of a second run in place of the first's: for what has to happen in a certain state,
                        whose time the first run tells. Runs are deterministic: until then the second is the first
    blind(point)        settings for a congestion control that does not tell its state, in place of the first's
    by_gains(point, seen)   what version 1 shows, whose gains tell the state, where on_wire does not suffice
    on_wire(point, seen)    what can be said without the state; without it the case is open then
    MOMENT = "Drain"    the state whose time the figure shows; without it, all of the run
    SHARED = True       its settings are those of another case: nothing has to be run again

`settings` of `network.py` has what all have in common. One case, one file.
"""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from analysis.cases.evidence import Point, Seen

PASSED, FAILED, OPEN, NOTE = "passed", "failed", "open", "note"
#: what a case, or a part of it, comes to
WORDS = (PASSED, FAILED, OPEN)
Settings = Sequence[tuple[str, str]]


class Finding(NamedTuple):
    """What was found of a part of a case. NOTE: it says something and decides nothing."""

    word: str
    text: str


class Module(Protocol):
    """A case."""

    NUMBER: int
    TITLE: str
    ASKS: str
    sensible: Callable[[Point], str]
    first: Callable[[Point], Settings]
    judge: Callable[[Point, Seen], list[Finding]]


def passed_if(condition: bool, text: str) -> Finding:
    return Finding(PASSED if condition else FAILED, text)


def of_folder(name: str) -> list[Module]:
    """The cases of a folder, in their order; none if there is no such folder."""
    folder = pathlib.Path(__file__).parent / name
    found = [importlib.import_module(f"{__name__}.{name}.{path.stem}") for path in folder.glob("c*.py")]
    return sorted(found, key=lambda module: int(module.NUMBER))


def verdict(findings: Sequence[Finding]) -> str:
    """Of a case: failed if a part of it is, open if a part of it is, else passed."""
    words = [one.word for one in findings if one.word != NOTE]
    return FAILED if FAILED in words else PASSED if words and set(words) == {PASSED} else OPEN

# SPDX-License-Identifier: GPL-2.0-only
"""What ends this process, for whoever catches whatever a library raises.

A handler of a signal raises inside whatever runs just then. Libraries written in C may make an error of their own of
that: without its cause, and as if the data were at fault. Where Python itself calls back (around a fork, when an object
goes), it prints what is raised, and goes on as if there had been nothing. So whoever catches everything, or goes round
for long, asks here.
"""
from __future__ import annotations

_asked: list[BaseException] = []


def noted(why: BaseException) -> BaseException:
    """What a handler is about to raise."""
    _asked.append(why)
    return why


def if_asked() -> None:
    """Raise again what a handler has raised in this process."""
    if _asked:
        raise _asked[-1]


def forget() -> None:
    """The process goes on."""
    _asked.clear()

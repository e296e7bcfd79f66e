# SPDX-License-Identifier: GPL-2.0-only
"""How far runs are, in a notebook or on a terminal: one line, which changes in its place."""
from __future__ import annotations

import abc
import contextlib
import importlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

from testbed.core import progress
from testbed.core.units import show_duration

#: how often a line changes at most
_EVERY_S = 0.2


@contextlib.contextmanager
def told(shown: bool) -> Iterator[None]:
    """Show the messages of the block: in a notebook or a terminal as one line, elsewhere as the command line does.
    With shown false, show none."""
    listener = _listener(shown)
    if listener is None:
        yield
        return
    try:
        with progress.heard_by(listener):
            yield
    finally:
        listener.close()


def _listener(shown: bool) -> _Line | None:
    if not shown:
        return _Silence()
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        return _Notebook()
    return _Terminal() if progress.has_cursor() else None


class _Line(progress.Listener):
    """A line that says what is being done."""

    def __init__(self) -> None:
        self._title, self._shown_at = "", 0.0

    @abc.abstractmethod
    def _show(self, text: str) -> None:
        """The line as it is now."""

    @abc.abstractmethod
    def _keep(self, text: str) -> None:
        """A line that stays, above."""

    def close(self) -> None:
        """Nothing follows."""

    def show(self, text: str, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._shown_at >= _EVERY_S:
            self._shown_at = now
            self._show(text)

    def end(self, text: str) -> None:
        """The line as it stays."""
        self._show(text)

    def say(self, text: str) -> None:
        self._keep(text)

    def title(self, text: str) -> None:
        self._title = text.partition(" -> ")[0]
        self.show(self._title, at_once=True)

    def step(self, text: str) -> None:
        self.show(text)

    def open_display(self, total_runs: int, duration_s: float) -> progress.Display:
        return _Runs(self, self._title, total_runs, duration_s)


class _Runs(progress.Display):
    """Runs as one line; those that fail have one of their own, which stays."""

    def __init__(self, line: _Line, title: str, total_runs: int, duration_s: float) -> None:
        super().__init__(total_runs, duration_s)
        self._line, self._title = line, title
        self._began_at, self._notes = time.monotonic(), ""
        self._verdicts: dict[str, int] = {}
        self._now: dict[str, str] = {}

    def __exit__(self, *exc: object) -> None:
        took = f", {show_duration(time.monotonic() - self._began_at)}" if self.total_runs else ""
        self._line.end(f"{self._title}: {self._text()}{took}")

    def note(self, text: str) -> None:
        self._notes = text
        self._tell(at_once=True)

    def start(self, run: str) -> None:
        super().start(run)
        self._now[run] = "start"
        self._tell()

    def update(self, run: str, phase: str, t_us: int) -> None:
        self._now[run] = self.describe(run, phase, t_us).partition(",")[0]
        self._tell()

    def end(self, run: str, text: str) -> None:
        self.ended += 1
        self._wall_of_ended.append(time.monotonic() - self._began.pop(run))
        self._traffic_since.pop(run, None)
        del self._now[run]
        if text.startswith("failed"):
            self._line.say(f"{run}: {text}")
        what = text.partition(":")[0].rpartition(" ")[2]        # failed, valid, suspect, invalid
        self._verdicts[what] = self._verdicts.get(what, 0) + 1
        self._tell(at_once=True)

    def _tell(self, at_once: bool = False) -> None:
        left = f"; about {show_duration(left_s)} left" if (left_s := self.left_s()) and self.ended else ""
        going_on = "; ".join(f"{run} {state}" for run, state in self._now.items())
        self._line.show(f"{self._text()}{left}{' | ' if going_on else ''}{going_on}", at_once)

    def _text(self) -> str:
        """'3 of 10 runs: 3 valid, 4 runs are already there'"""
        found = [f"{count} {what}" for what, count in self._verdicts.items()]
        parts = [f"{self.ended} of {self.total_runs} runs{': ' if found else ''}{', '.join(found)}"] \
            if self.total_runs else []
        return ", ".join([*parts, *([self._notes] if self._notes else [])])


class _Terminal(_Line):
    def __init__(self) -> None:
        super().__init__()
        self._open = False

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)
        self._open = True

    def _keep(self, text: str) -> None:
        print(f"\r\033[K{text}", file=sys.stderr, flush=True)
        self._open = False

    def end(self, text: str) -> None:
        self._keep(text)

    def close(self) -> None:
        if self._open:
            print(file=sys.stderr, flush=True)


class _Notebook(_Line):
    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None

    def _show(self, text: str) -> None:
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    def _keep(self, text: str) -> None:
        print(text)


class _Silence(_Line):
    def _show(self, text: str) -> None:
        pass

    def _keep(self, text: str) -> None:
        pass

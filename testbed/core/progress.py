# SPDX-License-Identifier: GPL-2.0-only
"""What a command tells of its work: lines, errors, and how far the runs are.

All of it goes to the terminal, with a live table of the runs, or as plain lines to wherever standard error leads. Who
calls the testbed from another program may hear it instead (`heard_by`).
rich is imported when something is shown, not before: errors need nothing but this file.
"""
import abc
import contextlib
import contextvars
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from testbed.core.units import show_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

_PLAIN_EVERY_S = 10
_MOST_COLUMNS = 1000
#: variables of the environment by which rich takes for a terminal what is none
_ASKED_FOR = {"FORCE_COLOR", "TTY_COMPATIBLE"}
#: values of TERM for a terminal whose lines cannot change, such as that of Emacs
_DUMB = ("dumb", "unknown")
#: characters that rich leaves out: bell, backspace, vertical tab, form feed, carriage return
_UNSEEN = dict.fromkeys((7, 8, 11, 12, 13))


class Listener(abc.ABC):
    """Who hears what is told, instead of standard error."""

    @abc.abstractmethod
    def say(self, text: str) -> None:
        """A line for the user."""

    @abc.abstractmethod
    def title(self, text: str) -> None:
        """What is begun."""

    @abc.abstractmethod
    def step(self, text: str) -> None:
        """What is being done just now; the next step takes its place."""

    @abc.abstractmethod
    def open_display(self, total_runs: int, duration_s: float) -> "Display":
        """What shows the runs."""


_listener: "contextvars.ContextVar[Listener | None]" = contextvars.ContextVar("listener", default=None)


@contextlib.contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """What this thread tells in the block goes to a listener."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def say(text: str) -> None:
    """A line for the user that is not what the command was asked for."""
    if listener := _listener.get():
        listener.say(text)
    else:
        print(text, file=sys.stderr)


def step(text: str) -> None:
    """What is being done just now."""
    if listener := _listener.get():
        listener.step(text)
    else:
        print(text, file=sys.stderr)


def title(text: str) -> None:
    """What is begun: the line above all that follows."""
    if listener := _listener.get():
        listener.title(text)
    else:
        print(text, file=sys.stderr)


def reporter() -> Callable[[str], None]:
    """A function that shows what is being done: one changing line on a terminal, else plain lines.

    Lines that begin alike up to a colon tell how far the same thing is: one of them every ten seconds.
    """
    if listener := _listener.get():
        return listener.step
    what, told_s = "", 0.0

    def plain(text: str) -> None:
        nonlocal what, told_s
        if text.split(":")[0] != what or time.monotonic() - told_s >= _PLAIN_EVERY_S:
            print(text, file=sys.stderr, flush=True)
            what, told_s = text.split(":")[0], time.monotonic()

    def line(text: str) -> None:
        print(f"\r\033[K{text[:100]}", end="" if text.startswith("building") else "\n", file=sys.stderr, flush=True)
    return line if has_cursor() else plain


def has_cursor() -> bool:
    """Whether standard error is a terminal on which a line can change."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in _DUMB


def open_display(total_runs: int, duration_s: float) -> "Display":
    """A display for `total_runs` runs of `duration_s` virtual seconds each."""
    if listener := _listener.get():
        return listener.open_display(total_runs, duration_s)
    if has_cursor() or _ASKED_FOR & os.environ.keys():       # else what rich does is not worth loading it
        from rich.console import Console
        console = Console(stderr=True, highlight=False, emoji=False)
        if console.is_terminal and not console.is_dumb_terminal:
            return _Live(console, total_runs, duration_s)
    return _Plain(total_runs, duration_s)


class Display(abc.ABC):
    """A context manager that shows runs. Both kinds know which run began when, how fast it goes, what is left."""

    def __init__(self, total_runs: int, duration_s: float) -> None:
        self.total_runs, self.duration_s = total_runs, duration_s
        self.ended = 0
        self._began: dict[str, float] = {}
        self._traffic_since: dict[str, float] = {}
        self._wall_of_ended: list[float] = []

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    @abc.abstractmethod
    def note(self, text: str) -> None:
        """Show a line that stays."""

    def start(self, run: str) -> None:
        """A run begins."""
        self._began[run] = time.monotonic()

    @abc.abstractmethod
    def update(self, run: str, phase: str, t_us: int) -> None:
        """A run has got to `t_us` of virtual time in a phase."""

    def end(self, run: str, text: str) -> None:
        """A run has ended, with the result `text`."""
        self.ended += 1
        wall_s = time.monotonic() - self._began.pop(run)
        self._wall_of_ended.append(wall_s)
        self._traffic_since.pop(run, None)
        left = f", about {show_duration(left_s)} left" if (left_s := self.left_s()) else ""
        self.note(f"{run}: {text} ({show_duration(wall_s)} of wall time; run {self.ended} of {self.total_runs}{left})")

    def left_s(self) -> float:
        """Wall time that the runs to come will take, by that of those that have ended; 0 when none are left."""
        mean_s = sum(self._wall_of_ended) / max(1, len(self._wall_of_ended))
        return mean_s * (self.total_runs - self.ended) / max(1, len(self._began) + 1)

    def describe(self, run: str, phase: str, t_us: int) -> str:
        """'traffic 120 of 600 s, 5.1x real time, 1:34 left' for a run."""
        if phase != "traffic":
            return phase
        virtual_s = t_us / 1e6
        since = self._traffic_since.setdefault(run, time.monotonic())
        wall_s = time.monotonic() - since
        if virtual_s < 1 or wall_s < 0.5:
            return f"traffic {virtual_s:.0f} of {self.duration_s:.0f} s"
        speed = virtual_s / wall_s
        left_s = max(0.0, self.duration_s - virtual_s) / speed      # on a wall clock a report may come late
        return (f"traffic {virtual_s:.0f} of {self.duration_s:.0f} s, {speed:.1f}x real time, "
                f"{show_duration(left_s)} left")


class _Plain(Display):
    """One line now and then."""

    def __init__(self, total_runs: int, duration_s: float) -> None:
        super().__init__(total_runs, duration_s)
        self._last: dict[str, tuple[str, float]] = {}

    def note(self, text: str) -> None:
        print(text.translate(_UNSEEN), file=sys.stderr, flush=True)

    def update(self, run: str, phase: str, t_us: int) -> None:
        shown_phase, shown_at = self._last.get(run, ("", 0.0))
        now = time.monotonic()
        if phase != shown_phase or now - shown_at >= _PLAIN_EVERY_S:
            self._last[run] = (phase, now)
            self.note(f"{run}: {self.describe(run, phase, t_us)}")


class _Live(Display):
    """A bar for each run that is going on, and one for all of them."""

    def __init__(self, console: "Console", total_runs: int, duration_s: float) -> None:
        from rich.progress import BarColumn, Progress, TextColumn
        super().__init__(total_runs, duration_s)
        self._bars = Progress(TextColumn("{task.description}"), BarColumn(bar_width=24),
                              TextColumn("{task.fields[state]}"), console=console, transient=True)
        self._all = self._bars.add_task("all runs", total=total_runs, state=f"0 of {total_runs}")
        self._tasks: dict[str, "TaskID"] = {}

    def __enter__(self) -> "Display":
        self._bars.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        from rich.text import Text
        self._bars.console.print(Text(text), soft_wrap=True)

    def start(self, run: str) -> None:
        super().start(run)
        self._tasks[run] = self._bars.add_task(run, total=self.duration_s, state="start")

    def update(self, run: str, phase: str, t_us: int) -> None:
        self._bars.update(self._tasks[run], state=self.describe(run, phase, t_us),
                          **({"completed": t_us / 1e6} if phase == "traffic" else {}))

    def end(self, run: str, text: str) -> None:
        self._bars.remove_task(self._tasks.pop(run))
        super().end(run, text)
        self._bars.update(self._all, completed=self.ended,
                          state=f"{self.ended} of {self.total_runs}, about {show_duration(self.left_s())} left")


def print_error(text: str) -> None:
    """One clear line (or few) on standard error; nothing if nobody can read it.

    What was given to us may be in it: lines that nobody would read to their end are cut.
    """
    text = "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)
    lines = (line if len(line) <= _MOST_COLUMNS else f"{line[:_MOST_COLUMNS // 2]} ... {line[-_MOST_COLUMNS // 2:]}"
             for line in text.split("\n"))
    if listener := _listener.get():
        listener.say("\n".join(lines))
        return
    try:
        print("testbed: " + "\n".join(lines), file=sys.stderr, flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)

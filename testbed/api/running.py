# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run` as a function."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from kernel.source import cache_dir
from testbed import engines
from testbed.api.experiment import Experiment
from testbed.api.progress import told
from testbed.cli import _process, run as command
from testbed.cli._experiment import Done
from testbed.cli._parser import Parser
from testbed.core import guesses, imports
from testbed.core.errors import RunFailed, UsageError

Words = str | Iterable[str]


def run(scenario: str | pathlib.Path, ccas: Words | None = None, seeds: int | Iterable[int] | None = None, *,
        quick: bool | str = False, set: Mapping[str, Any] | Words = (), load: object = None,
        choose: Mapping[str, Any] | Words = (), sweep: Mapping[str, Any] | Words = (), probes: Words = (),
        slowdown: bool = False, precision: str | None = None, engine: str = engines.DEFAULT, jobs: int | None = None,
        again: bool = False, progress: bool = True, **options: Any) -> Experiment:
    """Run a scenario, and return the experiment with the runs that were asked for. Runs that are there already are not
    run again; after an interruption, the same call goes on from there.

    scenario: a name (`testbed list scenarios`), or the path of a .yaml file.
    ccas: congestion controls as --cca has them: "reno", ["cubic", "./tcp_mine.c"]; by default those of the scenario.
    seeds: how many (1..N), or which: [4, 7]. quick: the scenario's short version; "smoke": its smallest.
    set: fields of the scenario, as --set has them: {"topology.central.queue.limit": 50}.
    load, choose: choices of the scenario: 85, {"buffer": "long"}.
    sweep: {"topology.central.queue.limit": [50, 100]}: a run for each value (and each combination).
    probes: what to measure besides: ["tcp_probe"]. slowdown: as --slowdown. precision: as --precision: "5%".
    engine: such as "ns3" (`testbed list engines`); options of engines by their names: kernel="6.12", hz=1000.
    jobs: runs at a time, by default one for each CPU. again: rerun what is there.
    progress: one line that says how far it is, in a notebook and on a terminal; False: nothing.

    UsageError, ScenarioError, EnvironmentProblem or RunFailed say in one line what is wrong; they are TestbedErrors.
    """
    if quick not in (False, True, "smoke"):
        raise UsageError(f"quick={quick!r}: True, False or 'smoke' expected")
    words = [*_options(yes=True, quick=quick is True, smoke=quick == "smoke", slowdown=slowdown, again=again,
                       cca=None if ccas is None else ",".join(_list(ccas)), seeds=_seeds(seeds), load=load,
                       set=_pairs("set", set), choose=_pairs("choose", choose), sweep=_pairs("sweep", sweep),
                       probe=_list(probes), precision=precision, engine=engine, jobs=jobs),
             *_of_engines(options), "--", os.fspath(scenario)]
    imports.remember_in(cache_dir)
    with _clear_errors(), _interruptible(), told(progress):
        arguments = _parsed(words)
        asked, levels = command.begin(arguments)
        if len(levels) > 1 and not levels[0].kernel:
            raise UsageError(f"engine {engine}: one engine a call expected")
        done = asked.carry_out(levels, among_others=False)
    _require_all(done)
    return Experiment(done.folder, {*done.ids}, done.subjects)


class _Strict(Parser):
    """A parser whose errors are errors of the testbed."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def _parsed(words: list[str]) -> Any:
    parser = _Strict(prog="testbed.run", add_help=False)
    command.add_arguments(parser)
    return parser.parse_args(words)


def _options(**given: Any) -> list[str]:
    """Options by their names: --NAME for True, --NAME=VALUE for a value or each of a list, none for None and False."""
    words = []
    for name, value in given.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False:
            # one word: a value may begin with a dash
            words += [f"--{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return words


def _of_engines(options: Mapping[str, Any]) -> list[str]:
    """The options of engines, as the command line has them."""
    known, words = engines.options(), []
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"run() has no argument {name!r}"
                             + guesses.question(name, [*run.__annotations__, *known]))
        if value not in (None, False):
            words += known[name][1].words(_list(value) if known[name][1].repeats else value)
    return words


def _list(value: Words) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _seeds(value: int | Iterable[int] | None) -> object:
    """As --seeds has it: 5, or which ones."""
    return "".join(f"{one}," for one in value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def _pairs(name: str, value: Mapping[str, Any] | Words) -> list[str]:
    """KEY=VALUE words; a list of values is what a sweep goes through."""
    if not isinstance(value, Mapping):
        return _list(value)
    return [f"{key}={','.join(map(_text, one)) if name == 'sweep' and isinstance(one, (list, tuple)) else _text(one)}"
            for key, one in value.items()]


def _text(value: object) -> str:
    """A value as YAML has it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, allow_nan=False, default=lambda number: number.item())     # numpy's numbers
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"{value!r}: text, a number, or a list or mapping of these expected") from None


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """Errors of the packages below become the testbed's, with one clear line; what is none of these is a bug."""
    try:
        yield
    except Exception as problem:
        clear = _process.testbed_error(problem)
        if clear is None or clear is problem:
            raise
        raise clear from problem


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and an interrupted kernel clean up as on the command line; so do signals that end the process, which then
    do. Threads get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        with _process.signals():
            yield
    except _process.Signalled as signalled:
        if signalled.number != signal.SIGINT:
            signal.raise_signal(signalled.number)       # what it would have done without us
        raise


def _require_all(done: Done) -> None:
    """RunFailed if something was not run, or failed."""
    where = f"the others are in testbed.open({done.folder.name!r})"
    if done.failures:
        name, error = next(iter(done.failures.items()))
        raise RunFailed(f"{len(done.failures)} of {done.runs} runs failed, {name}: {error.splitlines()[0]}; {where}")
    if done.not_run:
        raise RunFailed(f"not run: {'; '.join(f'{name}: {why}' for name, why in done.not_run.items())}; {where}")

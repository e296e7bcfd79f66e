# SPDX-License-Identifier: GPL-2.0-only
"""`testbed suite` of test cases of a draft: each case on each path, with each congestion control."""
from __future__ import annotations

import argparse
import contextlib
import io
import json
import pathlib
import shlex
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.cli import _kernels, _series, _shared
from testbed.cli._experiment import Asked
from testbed.core import guesses
from testbed.core.errors import AnalysisError, RunFailed, TestbedError, UsageError
from testbed.core.progress import say
from testbed.runs import index
from testbed.runs.executor import Listener
from testbed.runs.run import Job, Outcome
from testbed.runs.store import Store
from testbed.scenario import ccas, suites

if TYPE_CHECKING:
    from analysis.cases import Module, Settings
    from analysis.cases.evidence import Point, Seen
    from analysis.pages.cases_report import Judged

_SCENARIO = "bbr-case"
_EVENT = "bbr:bbr_model"
#: what a run without the event ends with: that of a module, and of the kernel
_NO_EVENT = ("this kernel has no event", "has no event bbr_model")


def main(suite: suites.Suite, arguments: argparse.Namespace, results: pathlib.Path) -> int:
    """Exit code 0, whatever the verdicts; 4 if a case could not be run."""
    from analysis import cases
    from analysis.cases.evidence import Point
    found = _chosen(cases.of_folder(suite.cases), arguments.only)
    if not found:
        raise UsageError(f"{suite.name}: cases: there are no cases {suite.cases!r} in analysis/cases")
    for option in ("seeds", "baseline", "against", "engine"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option}: a case of {suite.name} is one run of one congestion control in a guest")
    if arguments.version == "smoke":
        raise UsageError(f"--smoke: suite {suite.name} has a --quick version")
    grid = suite.quick.grid if arguments.version and suite.quick.grid else suite.grid
    assert grid is not None
    points = [Point(rate_bps, rtt_us) for rate_bps, rtt_us in grid.paths()]
    if arguments.verb == "list":
        for case in found:
            where = [str(point) for point in points if not case.sensible(point)]
            print(f"{case.NUMBER:2}  {case.TITLE}\n    {'; '.join(where) or 'on none of these paths'}")
        return 0
    asked = arguments.cca or ",".join(suite.ccas)
    subjects = [subject.name for subject in ccas.parse(asked)]
    words = [text for text in map(str.strip, asked.split(",")) if text]
    store = Store(results)
    store.require_writable()
    for cca in words:
        # refuse one that cannot be used, before a run begins
        _series.plans(["run", _SCENARIO, "--cca", cca, *_shared.engine_words(arguments, _shared.KERNEL_OPTIONS)])
    store.create()
    bench = _Bench(arguments, results)
    judged: list[Judged] = []
    total = len(words) * sum(not case.sensible(point) for case in found for point in points)
    for name, cca in zip(subjects, words):
        wanted = [(case, point) for case in found for point in points if not case.sensible(point)]
        bench.run_ahead(wanted, cca)
        for case, point in wanted:
            one = bench.judge(case, point, cca, name)
            judged.append(one)
            say(f"{len(judged)} of {total}: case {case.NUMBER}, {name}, {point}: {one.word}"
                + "".join(f"; {finding.text}" for finding in one.findings if finding.word == cases.FAILED))
    from analysis.pages import cases_report
    version = "-quick" if arguments.version else ""
    some = "-only-" + "-".join(str(case.NUMBER) for case in found) if arguments.only else ""
    folder = results / f"{suite.name}-{'-'.join(subjects)}{version}{some}".replace("/", "_")[:120]
    page = cases_report.write(judged, [(case.NUMBER, case.TITLE, case.ASKS) for case in found], subjects, folder,
                              suite.title, suite.description, _command(suite, arguments))
    for line in cases_report.sentences(judged, subjects):
        print(line)
    print(f"suite: {page}")
    if failed := [one for one in judged if one.problem]:
        raise RunFailed(f"{len(failed)} of {total} could not be run, such as case {failed[0].number}: "
                        f"{failed[0].problem}")
    return 0


class _Bench:
    """Runs cases. Without the trace event, a congestion control is judged by its gains or the wire."""

    def __init__(self, arguments: argparse.Namespace, results: pathlib.Path) -> None:
        self._arguments, self._results = arguments, results
        #: of each congestion control: whether it has the trace event
        self._tells: dict[str, bool] = {}
        #: the folders of runs that this command has carried out
        self._done: dict[tuple[str, ...], pathlib.Path] = {}

    def judge(self, case: Module, point: Point, cca: str, name: str) -> Judged:
        from analysis import cases
        from analysis.pages.cases_report import Judged
        commands: list[str] = []
        try:
            seen = self._see(case, point, cca, commands)
            if seen.verdict == "invalid":
                findings = [cases.Finding(cases.OPEN, "the run is invalid")]
            elif seen.model is not None:
                findings = case.judge(point, seen)
            elif seen.gains is not None and hasattr(case, "by_gains"):
                findings = case.by_gains(point, seen)
            elif hasattr(case, "on_wire"):
                findings = case.on_wire(point, seen)
            else:
                findings = [cases.Finding(cases.OPEN, f"{name} does not tell its state, and the wire does not show it")]
        except (RunFailed, AnalysisError) as problem:
            return Judged(case.NUMBER, name, point, cases.OPEN, [], commands, None, str(problem))
        except (IndexError, KeyError, ValueError) as problem:       # a module of a user's emits what it likes
            return Judged(case.NUMBER, name, point, cases.OPEN, [], commands, None,
                          f"its events do not fit the case: {type(problem).__name__}: {problem}")
        return Judged(case.NUMBER, name, point, cases.verdict(findings), findings, commands, seen, "",
                      getattr(case, "MOMENT", ""))

    def run_ahead(self, wanted: Sequence[tuple[Module, Point]], cca: str) -> None:
        """Carry out the runs of these cases, as many at a time as --jobs says. `judge` finds them there, or says what
        is wrong with one."""
        if self._arguments.jobs == 1 or not wanted:
            return
        seconds = []
        with contextlib.suppress(TestbedError, AnalysisError):
            self._run(self._first(*wanted[0], cca), cca, [])    # whether it tells its state
        if cca not in self._tells:
            return
        self._carry_out_all([self._words(self._first(case, point, cca), cca) for case, point in wanted])
        for case, point in wanted:
            with contextlib.suppress(TestbedError, AnalysisError, IndexError, KeyError, ValueError):
                later = self._second(case, point, self._run(self._first(case, point, cca), cca, []), cca)
                if later is not None:
                    seconds.append(self._words(later, cca))
        self._carry_out_all(seconds)

    def _see(self, case: Module, point: Point, cca: str, commands: list[str]) -> Seen:
        settings = self._first(case, point, cca)
        first = self._run(settings, cca, commands)
        if self._first(case, point, cca) != settings:           # now it is known that it does not tell its state
            return self._run(self._first(case, point, cca), cca, commands)
        later = self._second(case, point, first, cca)
        return first if later is None else self._run(later, cca, commands)

    def _first(self, case: Module, point: Point, cca: str) -> Settings:
        return getattr(case, "first" if self._tells.get(cca, True) else "blind", case.first)(point)

    def _second(self, case: Module, point: Point, first: Seen, cca: str) -> Settings | None:
        """None where the first run suffices."""
        blind = not self._tells[cca] and (hasattr(case, "blind") or first.gains is None)
        return None if blind or not hasattr(case, "second") else case.second(point, first)

    def _words(self, settings: Settings, cca: str) -> list[str]:
        """The command of a run, as far as what it records goes."""
        words = ["run", _SCENARIO, "--cca", cca, "--seeds", "1"]
        for field, value in settings:
            words += ["--set", f"{field}={value}"]
        words += _shared.engine_words(self._arguments, _shared.KERNEL_OPTIONS)
        if self._tells.get(cca, True):
            return [*words, "--set", f"probes.trace.events={json.dumps([_EVENT])}"]
        return [*words, "--set", "probes.tcp_info.bbr=yes"]

    def _run(self, settings: Settings, cca: str, commands: list[str]) -> Seen:
        """A run with these settings, or what is there of it already."""
        from analysis.cases.evidence import see
        try:
            run = self._carry_out(self._words(settings, cca))
            self._tells.setdefault(cca, True)
        except TestbedError as problem:
            if cca in self._tells or not any(text in str(problem) for text in _NO_EVENT):
                raise
            self._tells[cca] = False
            run = self._carry_out(self._words(settings, cca))
        words = self._words(settings, cca)
        commands.append(shlex.join(["bin/testbed", *([*words[:-2], "--trace", _EVENT] if self._tells[cca] else words)]))
        return see(run, str(json.loads((run / "verdict.json").read_text(encoding="utf-8"))["verdict"]))

    def _carry_out_all(self, commands: Sequence[Sequence[str]]) -> None:
        """Runs side by side. Those that fail are run again by who wants them, and reported then."""
        if not commands:
            return
        asked = [Asked(_series.parsed(words)) for words in commands]
        levels = _kernels.levels(asked[0].arguments)
        store = Store(self._results)
        with contextlib.redirect_stdout(io.StringIO()):
            plans = {plan.id: plan for one in asked for plan in one.plans(levels)}
        jobs = [Job(plan, again=False, keep_work=False) for run_id, plan in plans.items() if not store.finished(run_id)]

        def ended(number: int, outcome: Outcome) -> None:
            say(f"run {number + 1} of {len(jobs)}: {outcome.error.splitlines()[0] if outcome.error else 'finished'}")
            try:
                index.note_run(store.results, outcome.run_id)
            except (sqlite3.Error, OSError) as problem:     # the run is what counts
                say(f"{outcome.run_id}: not noted in index.sqlite: {problem}")

        if jobs:
            asked[0].executor(levels[0].engine, store, self._arguments.jobs).run(
                jobs, Listener(started=lambda number: None, ended=ended, progress=lambda *_: None))

    def _carry_out(self, words: Sequence[str]) -> pathlib.Path:
        """The folder of the run."""
        if tuple(words) in self._done:
            return self._done[tuple(words)]
        parsed = _series.parsed(words)
        with contextlib.redirect_stdout(io.StringIO()):
            done = Asked(parsed).carry_out(_kernels.levels(parsed), among_others=False)
        if done.failures:
            raise RunFailed("; ".join(done.failures.values()))
        return self._done.setdefault(tuple(words), Store(self._results).run_dir(done.ids[0]))


def _chosen(found: Sequence[Module], only: str | None) -> list[Module]:
    if only is None:
        return list(found)
    numbers = [word for word in map(str.strip, only.split(",")) if word]
    known = [str(case.NUMBER) for case in found]
    for number in numbers:
        if number not in known:
            raise UsageError(f"--only {number}: no such case; {guesses.alternatives(number, known)}")
    return [case for case in found if str(case.NUMBER) in numbers]


def _command(suite: suites.Suite, arguments: argparse.Namespace) -> list[str]:
    words = ["bin/testbed", "suite", "run", suite.name]
    words += ["--quick"] if arguments.version else []
    words += ["--cca", arguments.cca] if arguments.cca else []
    words += ["--only", arguments.only] if arguments.only else []
    return words + _shared.engine_words(arguments, _shared.KERNEL_OPTIONS)

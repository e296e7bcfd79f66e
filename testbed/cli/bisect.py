# SPDX-License-Identifier: GPL-2.0-only
"""Find the commit of a git tree that changed a metric, or brought a crash.

  testbed bisect long-flows --tree ~/mine --module tcp_mine.c \\
      --good v1 --bad main --metric throughput
  testbed bisect access-link --quick --tree ~/linux --cca cubic \\
      --good v6.12 --bad v7.3 --metric p95_delay
  testbed bisect access-link --quick --tree ~/linux --cca cubic \\
      --good v6.12 --bad v7.3 --by warning
  testbed bisect tail-loss.pkt --tree ~/linux --good v6.12 --bad v7.3

Each revision that git chooses runs with the same seeds as the good and the bad
one. It counts as good or bad, whichever it is nearer to. If it is not clearly
nearer to either, the search stops and says how many seeds would decide. With
--by a revision is bad if a run of it crashes, warns of itself in the kernel's
log, or is invalid. With a packet script instead of a scenario it is bad if the
script fails. A revision that does not build is skipped, and with --metric
one that crashes. The tree is only read, and
none of its hooks runs. Run the same command again to resume.
"""
from __future__ import annotations

import abc
import argparse
import csv
import io
import pathlib
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from analysis.compare import unchanged
from analysis.stats import nearness
from testbed import engines
from testbed.cli import _runs, _shared
from testbed.cli._revisions import (Bench, KernelSource, Measured, ModuleSource, Observed, ScriptBench, Source,
                                    Unusable, work_folder)
from testbed.core.errors import RunFailed, TestbedError, UsageError
from testbed.core.files import write_text
from testbed.runs import bisection, queries, symptoms
from testbed.runs.bisection import BAD, GOOD, SKIPPED, UNDECIDED, Found, Step
from testbed.runs.git_history import Commit, History
from testbed.runs.store import Store, results_dir
from testbed.scenario import scenario

HELP = "find the commit that changed a metric, or brought a crash"
GROUP = "Run experiments"
LEAST_SEEDS = 3
_COLUMNS = ("commit", "date", "subject", "state", "metric", "mean", "n", "from_middle", "ci95_low", "ci95_high", "p",
            "why")
_MOST_TOLD = 20
_Found = TypeVar("_Found")


#: what a packet script has no use for: (option, its name in the arguments, what it is if it is not given)
_OF_SCENARIOS: tuple[tuple[str, str, object], ...] = (
    ("--load", "load", None), ("--choose", "choose", []), ("--quick or --smoke", "quick", False),
    ("--set", "settings", []), ("--margin", "margin", _shared.MARGIN), ("--engine", "engine", engines.DEFAULT),
    ("--executor", "executor", None), ("--cluster", "cluster", None), ("--jobs", "jobs", None),
    ("--again", "again", False))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_choice_arguments(parser)
    parser.add_argument("--tree", metavar="DIR", required=True, type=pathlib.Path, help="the git tree; it is only read")
    parser.add_argument("--module", metavar="PATH",
                        help="the module in the tree: a .c file or a folder (default: the tree is a kernel)")
    parser.add_argument("--path", metavar="PATH", action="append", default=[], dest="paths",
                        help="for a kernel: only commits that change files below this path, such as net/ipv4; may be "
                        "repeated")
    parser.add_argument("--good", metavar="REV", required=True, help="a revision with the good value")
    parser.add_argument("--bad", metavar="REV", required=True, help="a later revision with the bad value")
    sought = parser.add_mutually_exclusive_group()
    sought.add_argument("--metric", metavar="NAME[:SCOPE]",
                        help="the metric that changed, such as p95_delay (docs/reference/metrics.md), or a counter of "
                        "the TCP/IP stack by nstat's name")
    sought.add_argument("--by", metavar="SYMPTOM", help="what bad revisions show: crash; warning, in the kernel's "
                        "log; verdict, which is invalid")
    _runs.add_seed_arguments(parser, f" (default: the scenario's; with --metric {LEAST_SEEDS} at least)")
    _shared.add_margin_argument(parser)
    _runs.add_setting_arguments(parser)
    _runs.add_execution_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    _runs.check(arguments)
    if arguments.scenario.endswith(".pkt"):
        return _by_script(arguments)
    if arguments.metric is None and arguments.by is None:
        raise UsageError("--metric or --by expected: what bad revisions are known by")
    if arguments.metric is not None:
        queries.check_metric(arguments.metric)
    elif arguments.by not in symptoms.OF_RUNS:
        raise UsageError(f"--by {arguments.by}: {', '.join(symptoms.OF_RUNS)} expected")
    one = scenario.load(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings)
    least = LEAST_SEEDS if arguments.metric is not None else 1
    seeds = _runs.seeds(arguments.seeds or str(max(least, one.default_seeds)))
    if arguments.kernel and "," in arguments.kernel and not pathlib.Path(arguments.kernel).exists():
        raise UsageError(f"--kernel {arguments.kernel}: one kernel expected")
    if arguments.module and arguments.cca:
        raise UsageError("--cca: with --module, what is tested is its congestion control")
    if arguments.module and arguments.paths:
        raise UsageError("--path: with --module, only commits count that change the module")
    if len(seeds) < 2 and arguments.metric is not None:
        raise UsageError("--seeds: two at least are needed to tell a difference from chance")
    Store(results_dir()).require_writable()
    with work_folder(arguments.tree) as folder:
        history = History(arguments.tree, folder)
        good, bad = history.resolve("--good", arguments.good), history.resolve("--bad", arguments.bad)
        _check_order(history, good, bad)
        source: Source
        if arguments.module:
            engine = engines.load(arguments.engine, _shared.engine_options(arguments))
            _runs.make_engine_ready(engine, [one])
            source = ModuleSource(history, arguments.module, engine)
        else:
            source = KernelSource(history, folder, one, arguments)
        bench = Bench(arguments, one, source, seeds, _command(arguments))
        kind = _ByMetric if arguments.metric is not None else _BySymptom
        return kind(arguments, bench, history, source.paths).run(good, bad)


def _by_script(arguments: argparse.Namespace) -> int:
    """A packet script in place of a scenario."""
    for option, value in (("--metric", arguments.metric), ("--by", arguments.by), ("--seeds", arguments.seeds)):
        if value is not None:
            raise UsageError(f"{option} {value}: a packet script passes or fails, and has no metrics and no seeds")
    for option, name, usual in _OF_SCENARIOS:
        if getattr(arguments, name) != usual:
            raise UsageError(f"{option}: only with a scenario, not with a packet script")
    if arguments.module and arguments.cca:
        raise UsageError("--cca: with --module, what is tested is its congestion control")
    if arguments.module and arguments.paths:
        raise UsageError("--path: with --module, only commits count that change the module")
    if arguments.kernel and not arguments.module:
        raise UsageError(f"--kernel {arguments.kernel}: the kernels are those of --tree; for a module of it, --module")
    Store(results_dir()).require_writable()
    with work_folder(arguments.tree) as folder:
        history = History(arguments.tree, folder)
        good, bad = history.resolve("--good", arguments.good), history.resolve("--bad", arguments.bad)
        _check_order(history, good, bad)
        bench = ScriptBench(arguments, history, folder)
        return _ByScript(arguments, bench, history, bench.paths).run(good, bad)


def _check_order(history: History, good: Commit, bad: Commit) -> None:
    if good.hash == bad.hash:
        raise UsageError(f"--good and --bad are the same commit, {good.short}")
    if history.is_ancestor(good, bad):
        return
    if history.is_ancestor(bad, good):
        raise UsageError(f"--good {good.short} comes after --bad {bad.short}: to find what mended something, call the "
                         "earlier one good")
    base = history.merge_base(good, bad)
    raise UsageError(f"--good {good.short} is no ancestor of --bad {bad.short}"
                     + (f"; both come from {base.short}: is that one good?" if base else ""))


_SomeBench = TypeVar("_SomeBench", bound="Bench | ScriptBench")


class _Bisection(abc.ABC, Generic[_SomeBench]):
    """One command: looks at both ends, then at what git chooses, and writes it down."""

    def __init__(self, arguments: argparse.Namespace, bench: _SomeBench, history: History, paths: list[str]) -> None:
        self._arguments, self._bench, self._history, self._paths = arguments, bench, history, paths
        self._rows: list[dict[str, object]] = []

    def run(self, good: Commit, bad: Commit) -> int:
        self._look_at_ends(good, bad)
        found = bisection.search(self._history, good, bad, self._paths, self._step, print)
        path = self._write()
        for line in self._table():
            print(line)
        print(path)
        return _conclude(found)

    @abc.abstractmethod
    def _look_at_ends(self, good: Commit, bad: Commit) -> None:
        """TestbedError if there is nothing to look for between them."""

    @abc.abstractmethod
    def _step(self, commit: Commit) -> Step:
        """Whether a revision is good or bad."""

    @abc.abstractmethod
    def _table(self) -> list[str]:
        """The steps, for a terminal."""

    def _end(self, name: str, commit: Commit, look: Callable[[Commit], _Found]) -> _Found:
        """What is compared with: it has to work."""
        try:
            return look(commit)
        except TestbedError as problem:
            said = f"--{name} {commit.short}: {problem}"
            if isinstance(problem.__cause__, UsageError):       # what the command has wrong, not this revision
                raise UsageError(said) from None
            raise type(problem)(said) from None

    def _note(self, step: Step, **facts: object) -> Step:
        row: dict[str, object] = dict.fromkeys(_COLUMNS, "")
        self._rows.append(row | {"commit": step.commit.hash, "date": step.commit.date, "subject": step.commit.subject,
                                 "state": step.state, "why": step.why} | facts)
        print(f"{step.commit.short} {step.state}: {step.why}")
        return step

    def _write(self) -> pathlib.Path:
        """bisect.csv of the experiment, with all that the table shows and more digits."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        path = self._bench.folder / "bisect.csv"
        write_text(path, text.getvalue())
        return path


class _ByMetric(_Bisection[Bench]):
    """Good is what is nearer to the good end in a metric."""

    def _look_at_ends(self, good: Commit, bad: Commit) -> None:
        self._good = self._note_end("good", good)
        self._bad = self._note_end("bad", bad)
        if self._bad.same_as(self._good):
            raise TestbedError(f"{good.short} and {bad.short}: {unchanged.WORDS}, all raw data are the same to the "
                               "byte")
        try:
            apart = nearness.apart(self._good.values, self._bad.values, self._bench.is_ratio,
                                   *self._bench.margin(self._arguments.margin))
        except ValueError as problem:
            raise RunFailed(f"{self._bench.metric}: {problem}") from None
        if not apart.side:
            raise TestbedError(f"{good.short} and {bad.short}: {self._bench.metric} is {_not_apart(apart)}")

    def _note_end(self, name: str, commit: Commit) -> Measured:
        found = self._end(name, commit, self._bench.measure)
        self._note(Step(commit, name, "as given"), **self._facts(found))
        return found

    def _facts(self, found: Measured) -> dict[str, object]:
        return {"metric": self._bench.metric, "mean": found.mean, "n": len(found.values)}

    def _step(self, commit: Commit) -> Step:
        try:
            found = self._bench.measure(commit)
        except Unusable as problem:
            return self._note(Step(commit, SKIPPED, _first_words(str(problem))))
        try:
            near = nearness.judge(self._good.values, self._bad.values, found.values, self._bench.is_ratio)
        except ValueError as problem:
            return self._note(Step(commit, SKIPPED, str(problem)), **self._facts(found))
        same = next((f"; raw data the same to the byte as with {end.commit.short}" for end in (self._good, self._bad)
                     if found.same_as(end)), "")
        way = nearness.way(self._good.values, self._bad.values, found.values, self._bench.is_ratio)
        step = Step(commit, near.side, f"nearer to {near.side}, {100 * way:.0f} % of the way from good to bad{same}") \
            if near.side else Step(commit, UNDECIDED, f"nearer to neither{_needs(near)}")
        compared = near.comparison
        return self._note(step, **self._facts(found), from_middle=compared.difference, ci95_low=compared.low,
                          ci95_high=compared.high, p=compared.p)

    def _table(self) -> list[str]:
        """The steps, the metric against the middle between good and bad."""
        head = ["commit", "state", f"{self._bench.metric}", "n", "from the middle", "95 % interval", "p", "subject"]
        return _aligned([head, *([
            str(row["commit"])[:12], str(row["state"]), _number(row["mean"]), str(row["n"]),
            _number(row["from_middle"]), f"{_number(row['ci95_low'])} to {_number(row['ci95_high'])}"
            if row["p"] != "" else "", _p(row["p"]), str(row["subject"])[:60]] for row in self._rows)])


class _ByWhatIsSeen(_Bisection[_SomeBench]):
    """Bad is what shows something; `symptom`: what, in a word."""
    symptom: str

    @abc.abstractmethod
    def _observe(self, commit: Commit) -> Observed:
        """Unusable if it cannot be built or run."""

    def _look_at_ends(self, good: Commit, bad: Commit) -> None:
        found = self._note_observed("good", self._end("good", good, self._observe), "as given")
        if found.shown:
            raise TestbedError(f"--good {good.short} shows it, too: {found.words}")
        found = self._note_observed("bad", self._end("bad", bad, self._observe), "as given")
        if not found.shown:
            raise TestbedError(f"--bad {bad.short}: no {self.symptom} in {found.runs} run"
                               f"{'s' * (found.runs != 1)}; another scenario or other seeds may show it")

    def _note_observed(self, state: str, found: Observed, why: str) -> Observed:
        words = f"{why}: {found.words}" if found.words else why
        self._note(Step(found.commit, state, words), metric=self.symptom, mean=found.shown, n=found.runs)
        return found

    def _step(self, commit: Commit) -> Step:
        try:
            found = self._observe(commit)
        except Unusable as problem:
            return self._note(Step(commit, SKIPPED, _first_words(str(problem))))
        state = BAD if found.shown else GOOD
        self._note_observed(state, found, f"{self.symptom} in {found.shown} of {found.runs} runs")
        return Step(commit, state)

    def _table(self) -> list[str]:
        """The steps, and in how many runs it was seen."""
        head = ["commit", "state", self.symptom, "runs", "subject"]
        return _aligned([head, *([str(row["commit"])[:12], str(row["state"]), str(row["mean"]), str(row["n"]),
                                  str(row["subject"])[:60]] for row in self._rows)])


class _BySymptom(_ByWhatIsSeen[Bench]):
    """Bad is what shows a symptom in any run."""

    @property
    def symptom(self) -> str:       # type: ignore[override]
        return str(self._arguments.by)

    def _observe(self, commit: Commit) -> Observed:
        return self._bench.observe(commit, symptoms.OF_RUNS[self.symptom])


class _ByScript(_ByWhatIsSeen[ScriptBench]):
    """Bad is what a packet script fails with."""
    symptom = "failure"

    def _observe(self, commit: Commit) -> Observed:
        return self._bench.observe(commit)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def _first_words(message: str) -> str:
    """The first line of a message; what it announces, too, where it ends with a colon."""
    first, *rest = message.splitlines()
    return f"{first} {rest[0].strip()}" if first.endswith(":") and rest else first


def _number(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else ""


def _p(value: object) -> str:
    return ("< 0.0001" if value < 0.0001 else f"{value:.2g}") if isinstance(value, float) else ""


def _not_apart(apart: nearness.Nearness) -> str:
    """Why there is nothing to look for."""
    found = apart.comparison
    if not found.distinguishable:
        return f"not distinguishable with {apart.n} seeds{_needs(apart)}"
    return (f"different by less than {found.within} and thus counts as equal ({found.reference:.5g}, "
            f"{found.mean:.5g}, n={apart.n}); a smaller --margin looks for it all the same")


def _needs(near: nearness.Nearness) -> str:
    if near.needed is None:
        return "; there is no difference at all in the means, so no number of seeds is known to show one"
    return f"; a difference like this one would take about {near.needed} seeds" if near.needed > near.n else \
        "; more seeds may tell"


def _conclude(found: Found) -> int:
    if found.undecided:
        step = found.undecided
        raise TestbedError(f"stopped at {step.commit.short}, {step.why}; the first bad commit is one of "
                           f"{len(found.suspects)}: {_short(found.suspects)}")
    if len(found.suspects) > 1:
        raise TestbedError(f"the first bad commit is one of {len(found.suspects)}, as the others of them could not be "
                           f"measured: {_short(found.suspects)}")
    first, = found.suspects
    print(f"first bad commit: {first.hash}\n  {first.subject}\n  {first.date}")
    return 0


def _short(suspects: Sequence[Commit]) -> str:
    names = [f"{one.short} ({one.subject[:40]})" for one in suspects[:_MOST_TOLD]]
    return ", ".join(names) + (" ..." if len(suspects) > _MOST_TOLD else "")


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command as it can be typed again, word by word."""
    words = ["bin/testbed", "bisect", arguments.scenario]
    for name in ("tree", "module", "good", "bad", "metric", "by", "cca", "seeds", "load"):
        if getattr(arguments, name) is not None:
            words += [f"--{name}", str(getattr(arguments, name))]
    words += [*_shared.engine_words(arguments), *_runs.version_words(arguments)]
    for option, values in (("choose", arguments.choose), ("set", arguments.settings), ("path", arguments.paths)):
        for value in values:
            words += [f"--{option}", value]
    return words

# SPDX-License-Identifier: GPL-2.0-only
"""Find a network in which a congestion control starves, as simple as can be.

  testbed search search-one-flow --cca vegas --goal "utilisation < 50 %"
  testbed search search-one-flow --cca ./tcp_mine.c --goal "timeouts > 9" \\
      --budget 30min --robust
  testbed search search-one-flow --cca bbr --goal "utilisation < 50 % of cubic"
  testbed search search-two-flows --cca bbr \\
      --goal "share_of_goodput:cca_cubic < 10 %" --runs 500

The section `search` of the scenario says what may change, and within which
bounds. A finding is a scenario file of its own, in which nothing can be left
out without losing the effect, and a report. Only runs with a valid verdict
count. Run the same command again to resume. docs/howto/search.md
"""
from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import pathlib
import time

from testbed import engines, executors
from testbed.cli import _runs, _search, _shared, run
from testbed.cli._parser import Parser
from testbed.core import units
from testbed.core.errors import EnvironmentProblem, RunFailed, ScenarioError, UsageError
from testbed.core.fields import FieldError
from testbed.core.files import write_text
from testbed.core.progress import say, title
from testbed.runs import goals, searching
from testbed.runs.goals import Goal
from testbed.runs.plan import digest
from testbed.runs.store import Store, results_dir
from testbed.scenario import ccas, scenario, search_space
from testbed.scenario.scenario import Scenario

HELP = "find a network in which a congestion control starves"
GROUP = "Run experiments"
USUAL_BUDGET = "10min"
#: values of each field of the section that are tried on the scenario before the first run
_MOST_CHECKED = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_choice_arguments(parser, several=False)
    parser.add_argument("--goal", metavar="METRIC[:SCOPE]<VALUE", required=True,
                        help="what a finding shows, as an expectation: 'utilisation < 50 %%', or 'utilisation < 50 "
                        "%% of cubic' in the same network (docs/reference/metrics.md)")
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--budget", metavar="TIME", type=_duration_us, dest="budget_us", default=USUAL_BUDGET,
                        help="wall time for the search, such as 30min (default: %(default)s)")
    limits.add_argument("--runs", type=_shared.positive, metavar="N",
                        help="trials in place of a time; finished runs count, too")
    parser.add_argument("--seed", type=_shared.positive, metavar="N", default=1,
                        help="of the search: another one looks elsewhere (default: %(default)s)")
    parser.add_argument("--robust", action="store_true",
                        help="a finding has to meet the goal with the seeds 1, 2 and 3, not only with 1")
    parser.add_argument("--against", metavar="CCA",
                        help="a finding counts only if this congestion control does not meet the goal in the same "
                        "network")
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path,
                        help="where findings and what the search learned go (default: a folder of the results)")
    _runs.add_setting_arguments(parser)
    _runs.add_execution_arguments(parser)


@dataclasses.dataclass(frozen=True)
class Ready:
    """All that a search needs. folder: where findings go."""
    question: _search.Question
    space: search_space.Space
    bench: _search.Bench
    folder: pathlib.Path
    at_once: int


def make_ready(arguments: argparse.Namespace) -> Ready:
    """What makes no sense is refused before a kernel is built. UsageError, RunFailed."""
    _runs.check(arguments)
    goal = _goal(arguments.goal)
    one = scenario.load(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings)
    words = arguments.cca or one.default_ccas[0]
    subjects = ccas.parse(words)
    if len(subjects) > 1:
        raise UsageError(f"--cca {words}: one expected; a+b gives the flows of one run to a and b")
    if arguments.against and goal.of:
        raise UsageError(f"--against {arguments.against}: the goal compares with {goal.of}; one of them expected")
    other = arguments.against or goal.of
    references = ccas.parse(other) if other else []
    if len(references) > 1 or [one.name for one in references] == [subjects[0].name]:
        raise UsageError(f"{f'--goal {goal.text}' if goal.of else f'--against {other}'}: one other congestion control "
                         "expected")
    space = _space(one)
    if importlib.util.find_spec("hypothesis") is None:
        raise EnvironmentProblem("testbed search needs Hypothesis (apt-get install python3-hypothesis)")
    load = _search.Loader(arguments)
    scenarios = [one, *_check(one, space, load)]
    store = Store(results_dir())
    store.require_writable()
    engine = engines.load(arguments.engine, _shared.engine_options(arguments))
    subject = _runs.prepare(engine, subjects, scenarios).subjects[0]
    reference = _runs.prepare(engine, references, scenarios).subjects[0] if references else None
    store.create()
    executor = executors.choose(arguments.executor, arguments.cluster)(engine, store, arguments.jobs)
    seeds = _search.ROBUST_SEEDS if arguments.robust else (1,)
    question = _search.Question(one, goal, words, subject, reference, load)
    bench = _search.Bench(question, seeds, engine, executor, store, arguments.again)
    key = digest([one.resolved(), str(space), goal.text, words, arguments.against, arguments.robust, engine.name,
                  engine.kernel_key()])
    folder = arguments.out or store.results / f"{one.name}-search-{_search.path_word(subject.name)}-{key[:6]}"
    at_once = (arguments.jobs or len(os.sched_getaffinity(0))) if engine.capabilities.parallel else 1
    return Ready(question, space, bench, folder, at_once)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 with a finding or without."""
    began_s = time.monotonic()
    ready = make_ready(arguments)
    goal = ready.question.goal
    _make(ready.folder)
    title(f"{ready.question.scenario.title}: {ready.question.words}, {goal.text} -> {ready.folder}")
    say("first, the scenario itself")
    usual = ready.bench([search_space.Candidate()])[0]
    _check_usual(usual, goal)
    say(f"the scenario itself: {searching.shown(goal, usual.value)}")
    search = searching.Search(ready.space, goal, ready.bench, ready.folder / "examples", say,
                              ready.at_once)
    until_s = began_s + arguments.budget_us / 1e6
    try:
        finding = search.run(arguments.seed, arguments.runs,
                             lambda: arguments.runs is None and time.monotonic() >= until_s)
    except KeyboardInterrupt:
        if so_far := search.so_far():
            _write(arguments, ready, usual, search, so_far)
            say("this is what was found so far; the same command goes on to make it simpler")
        else:
            say(f"nothing found so far: {_search.told(search.trials.values(), search.in_vain)}")
        raise
    if finding is None:
        print(f"nothing found: {_search.told(search.trials.values(), search.in_vain)}")
        return 0
    written, path = _write(arguments, ready, usual, search, finding)
    _usual_report(written, path)
    return 0


def _write(arguments: argparse.Namespace, ready: Ready, usual: searching.Trial, search: searching.Search,
           finding: searching.Finding) -> tuple[_search.Written, pathlib.Path]:
    """Write a finding's files and tell of it; returns the path of its scenario."""
    told = _search.told(search.trials.values(), search.in_vain)
    written = _search.Written(arguments, ready.question, usual, finding, told)
    path = ready.folder / f"{written.name}.yaml"
    written.write_scenario(path)
    write_text(path.with_suffix(".md"), written.report(path))
    print(f"{written.summary(path)}\nwhat it needs: {path.with_suffix('.md')}\n{told}")
    return written, path


def _usual_report(written: _search.Written, path: pathlib.Path) -> None:
    """The report of the finding's run, as `testbed run` makes it. RunFailed if the file is not what was found."""
    parser = Parser(prog="testbed run")
    run.add_arguments(parser)
    if run.main(parser.parse_args(written.run_words(path)[2:])):
        raise RunFailed(f"{path}: the finding cannot be repeated")


def _goal(text: str) -> Goal:
    try:
        return goals.parse(text)
    except FieldError as problem:
        raise UsageError(f"--goal {text}: {problem}") from None


def _space(one: Scenario) -> search_space.Space:
    if one.search is None:
        raise one.error("", f"section 'search' is missing, which says what may change; scenarios with one: "
                            f"{', '.join(name for name in scenario.names() if name.startswith('search-'))}")
    try:
        if one.file:
            search_space.check(one.search, one.file)
    except FieldError as problem:
        raise one.error(problem.field, str(problem)) from None
    return one.search


def _check(one: Scenario, space: search_space.Space, load: _search.Loader) -> list[Scenario]:
    """The scenario with single values of each field. ScenarioError with the place of a value that it does not take."""
    by_field: dict[str, list[search_space.Candidate]] = {}
    for field, candidate in space.single_parts():
        by_field.setdefault(field, []).append(candidate)
    found = []
    for field, candidates in by_field.items():
        stride = -(-len(candidates) // _MOST_CHECKED)
        for candidate in dict.fromkeys([*candidates[::stride], candidates[-1]]):
            try:
                found.append(load(candidate))
            except ScenarioError as problem:
                raise one.error(field, f"{candidate.parts[0].text}: {problem}") from None
    return found


def _check_usual(usual: searching.Trial, goal: Goal) -> None:
    """That there is something to look for."""
    if usual.verdict != searching.VALID:
        raise RunFailed(f"the scenario itself, before anything is changed, is {usual.verdict}: {usual.reason}")
    if usual.value is None:
        raise UsageError(f"--goal {goal.text}: {usual.reason}")
    if usual.meets(goal):
        raise UsageError(f"--goal {goal.text}: the scenario itself meets it ({searching.shown(goal, usual.value)}): "
                         "nothing has to change for that")


def _make(folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EnvironmentProblem(f"cannot make {folder}: {problem.strerror}") from None


def _duration_us(text: str) -> int:
    """'10min' -> 600000000"""
    try:
        kind, value = units.parse(text.strip()) or ("", 0)
    except ValueError:
        kind, value = "", 0
    if kind != "us" or value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a time such as 10min expected")
    return int(value)

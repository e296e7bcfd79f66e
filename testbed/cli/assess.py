# SPDX-License-Identifier: GPL-2.0-only
"""Say which criteria of RFC 9743 a congestion control meets, by what runs show.

  testbed assess ./tcp_mine.c --quick     the short version: minutes
  testbed assess bbr --only 5.1.3,5.2.1   two sections of the RFC
  testbed assess mine.yaml --against cubic
  testbed assess quic:quinn:cubic         a QUIC stack and one of its controls
  testbed assess --list                   the criteria, and what each costs

The candidate runs alone and beside Reno and CUBIC, criterion by criterion. One
page has what the RFC asks, the candidate's numbers beside the references', the
threshold and a verdict. Thresholds stand in suites/rfc9743.yaml. Run the same
command again to resume. docs/howto/assess.md
"""
from __future__ import annotations

import argparse
from collections.abc import Sequence

from testbed.cli import _more_seeds, _runs, _shared, suite
from testbed.cli._parser import Parser
from testbed.core import guesses
from testbed.core.errors import UsageError
from testbed.core.units import show_duration
from testbed.scenario import suites

HELP = "say which criteria of RFC 9743 a congestion control meets"
GROUP = "Run experiments"
SUITE = "rfc9743"
#: whose runs are counted where a list names no candidate
STAND_IN = "bbr"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", nargs="?", metavar="CCA",
                        help="what is assessed, as for --cca of `testbed run`: a name, a .c file, a variant file, "
                             "quic:STACK:CONTROL")
    parser.add_argument("--list", action="store_true", help="list the criteria, their runs and how long they take")
    parser.add_argument("--quick", action="store_true", help="fewer points and shorter runs")
    parser.add_argument("--only", metavar="A,B", help="only these criteria, by name or section")
    parser.add_argument("--against", metavar="A,B", help="the references (default: those of the criteria)")
    parser.add_argument("--criteria", metavar="SUITE", default=SUITE,
                        help="another suite of criteria, such as a copy with other thresholds (default: %(default)s)")
    _runs.add_seed_arguments(parser, " (default: 15; with --quick 5)")
    suite.add_most_seeds_argument(parser)
    parser.add_argument("--yes", action="store_true", help="begin a long assessment without asking")
    _shared.add_engine_options(parser, _shared.KERNEL_OPTIONS)
    _runs.add_executor_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0, whatever the verdicts; 4 if something could not be run."""
    found = suites.load(arguments.criteria)
    most = _more_seeds.limit(found, argparse.Namespace(**vars(arguments), version=arguments.quick))
    if not found.criteria:
        raise UsageError(f"--criteria {arguments.criteria}: it has no criteria; a suite such as {SUITE} expected")
    if not arguments.candidate and not arguments.list:
        raise UsageError("a congestion control expected, such as `testbed assess cubic --quick`")
    words = ["run", arguments.criteria]
    words += ["--yes"] if arguments.yes and not arguments.list else []
    words += ["--quick"] if arguments.quick else []
    for option, value in (("--cca", arguments.candidate), ("--against", arguments.against),
                          ("--seeds", arguments.seeds), ("--most-seeds", arguments.most_seeds),
                          ("--only", ",".join(_names(found, arguments.only)) if arguments.only else None)):
        words += [option, str(value)] if value else []
    parser = Parser(prog="testbed assess")
    suite.add_arguments(parser)
    words += _shared.engine_words(arguments, _shared.KERNEL_OPTIONS) + _runs.executor_words(arguments)
    if arguments.list:
        return _list(found, parser.parse_args(["list", *words[1:]]), most)
    return suite.main(parser.parse_args(words), _typed(arguments))


def _list(found: suites.Suite, asked: argparse.Namespace, most: int) -> int:
    """A line for each criterion: the name of its file, its title, and what it costs.

    most: how many seeds it may have in the end.
    """
    candidate = asked.cca is not None
    asked.cca = asked.cca or STAND_IN
    costs = suite.costs(asked)
    width = max(len(one.part.name) for one in costs) + len(".yaml")
    print(f"{'section':<8} {'file':<{width}} {'runs':>5} {'wall_s':>8}  title")
    for one in costs:
        part = one.part
        runs, seconds = (f"{one.runs}", f"{one.wall_s:.0f}") if one.runs or not (
            one.why_not or one.left.unknown) else ("-", "-")
        note = f" (not run: {one.why_not})" if one.why_not else ""
        if one.shares:
            note = f" ({'more of' if one.runs else 'all'} its runs are those of {', '.join(one.shares)})"
        print(f"{part.section:<8} {part.name + '.yaml':<{width}} {runs:>5} {seconds:>8}  {part.title}{note}")
    total_s = sum(one.wall_s for one in costs)
    left = f", of which {sum(one.left.missing for one in costs)} are left" if candidate else ""
    folder = found.file.path.parent / found.criteria if found.file else found.criteria
    count = sum(one.runs for one in costs)
    unknown = next((one.left.unknown for one in costs if one.left.unknown), "")     # of a kernel that is not built yet
    said = [f"{count} runs, about {show_duration(total_s)}{left}"] if count or not unknown else []
    print(f"all: {'; besides: '.join([*said, *filter(None, [unknown])])}; files in {folder}")
    if most:
        print(f"where a verdict needs more seeds, some are added, up to {most}")
    return 0


def _typed(arguments: argparse.Namespace) -> list[str]:
    """The command, as it can be typed again."""
    words = ["bin/testbed", "assess", arguments.candidate, *["--quick"] * arguments.quick]
    for option in ("only", "against", "criteria", "seeds", "most-seeds"):
        value = getattr(arguments, option.replace("-", "_"))
        words += [f"--{option}", str(value)] if value and (option, value) != ("criteria", SUITE) else []
    return words + _shared.engine_words(arguments, _shared.KERNEL_OPTIONS)


def _names(found: suites.Suite, only: str) -> Sequence[str]:
    """Names of criteria; a section stands for all of its."""
    names: list[str] = []
    for word in filter(None, map(str.strip, only.split(","))):
        here = [part.name for part in found.parts if part.name == word or part.section == word
                or part.section.startswith(f"{word}.")]
        if not here:
            known = [*dict.fromkeys(part.section for part in found.parts), *(part.name for part in found.parts)]
            raise UsageError(f"--only {word}: no such criterion; {guesses.alternatives(word, known)}")
        names += here
    return list(dict.fromkeys(names))

# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run --precision`: seeds are added until the intervals are narrow enough."""
from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Sequence

from testbed.cli import _shared
from testbed.cli._parser import Container
from testbed.core.errors import UsageError
from testbed.core.progress import say
from testbed.runs.plan import Plan

MOST_SEEDS = 30
_MOST_TOLD = 6


def add_arguments(parser: Container) -> None:
    parser.add_argument("--precision", type=_shared.share, metavar="PERCENT",
                        help="add seeds until each 95%% interval is within this share of its mean; if --most-seeds is "
                        "reached, say how many it would take")
    parser.add_argument("--precision-of", choices=("mean", "median"),
                        help="judge intervals of means (default; begins with 5 seeds) or of medians (begins with 10)")
    parser.add_argument("--precision-metrics", metavar="A,B",
                        help="metrics to judge, by name or name:scope (default: by the kind of traffic, "
                        "docs/explanation/statistics.md)")
    parser.add_argument("--most-seeds", type=_shared.positive, metavar="N",
                        help=f"with --precision: at most this many seeds (default: {MOST_SEEDS})")


def check(arguments: argparse.Namespace, seeds: Sequence[int]) -> None:
    """UsageError for options that make no sense together."""
    for name in ("precision_of", "precision_metrics", "most_seeds"):
        if getattr(arguments, name) is not None and arguments.precision is None:
            raise UsageError(f"--{name.replace('_', '-')}: says nothing without --precision")
    most = arguments.most_seeds or MOST_SEEDS
    if arguments.precision is not None and most < len(seeds):
        raise UsageError(f"--most-seeds {most}: {len(seeds)} seeds are asked for")
    if arguments.precision_metrics is not None and not _names(arguments):
        raise UsageError("--precision-metrics: names of metrics, separated by commas, expected")
    if arguments.precision_metrics is not None:
        from testbed.runs import queries
        for name in _names(arguments):
            queries.check_metric(name)


def words(arguments: argparse.Namespace) -> list[str]:
    """The options as they can be typed again."""
    found = []
    if arguments.precision is not None:
        found += ["--precision", f"{100 * arguments.precision:g}%"]
    if arguments.precision_of is not None:
        found += ["--precision-of", arguments.precision_of]
    if arguments.precision_metrics is not None:
        found += ["--precision-metrics", ",".join(_names(arguments))]
    if arguments.most_seeds is not None:
        found += ["--most-seeds", str(arguments.most_seeds)]
    return found


def refine(folder: pathlib.Path, arguments: argparse.Namespace, plans: Sequence[Plan],
           more: Callable[[list[int]], dict[str, str]]) -> dict[str, str]:
    """Add seeds until the intervals are narrow enough, a run fails, or there are as many as there may be.

    plans: what was carried out; more(seeds): carries out these seeds as well, and returns {run: error} of those that
    failed, as this does.
    """
    from analysis.read.experiment import Experiment
    from analysis.stats import precision
    most, target = arguments.most_seeds or MOST_SEEDS, f"{100 * arguments.precision:g} %"
    while True:
        known = {plan.seed for plan in plans}
        reached = precision.judge(Experiment(folder), arguments.precision, _names(arguments),
                                  {plan.id for plan in plans}, arguments.precision_of or precision.MEAN)
        if all(one.enough() for one in reached):
            say(f"precision {target} reached with {len(known)} seeds")
            return {}
        count = precision.next_count(reached, len(known), most)
        short = [one for one in reached if not one.enough()]
        if count == len(known):
            say(f"precision {target} not reached with {len(known)} seeds:")
            _tell(short)
            return {}
        added = [max(known) + 1 + place for place in range(count - len(known))]
        say(f"precision {target}: {count - len(known)} more seed{'s' * (count - len(known) > 1)}, {added[0]}"
            + (f" to {added[-1]}; " if len(added) > 1 else "; ") + f"{short[0]}")
        failures = more(added)
        if failures:
            say(f"precision {target}: no more seeds are added, as runs failed")
            return failures


def _names(arguments: argparse.Namespace) -> list[str]:
    return [name.strip() for name in (arguments.precision_metrics or "").split(",") if name.strip()]


def _tell(short: Sequence[object]) -> None:
    for one in short[:_MOST_TOLD]:
        say(f"  {one}")
    if len(short) > _MOST_TOLD:
        say(f"  and {len(short) - _MOST_TOLD} more")

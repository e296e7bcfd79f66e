# SPDX-License-Identifier: GPL-2.0-only
"""What a page shows, in sentences made from its numbers: they stand before everything else.

Words such as different and equal are those of the page's comparisons (analysis/compare/rows.py); nothing is said of
fewer than stats.LEAST seeds but that they are too few, and how many would do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis import stats
from analysis.compare.rows import Compared, Comparisons
from analysis.drawing import style
from analysis.read import expectations
from analysis.read.experiment import Experiment, Row
from analysis.read.tables import Results

#: sentences of a page
MOST_SENTENCES = 6
#: congestion controls that have a sentence each; of more, the table tells
MOST_SUBJECTS = 4
#: runs that are not valid which are named
MOST_RUNS = 2
#: a number of seeds above which it is of no use to say how many would do
MOST_SEEDS = 1000
SHARE, POINTS, OWN = "%", "percentage points", "its own"
_BAD = ("damaged", "failed", "invalid", "missing", "suspect")


class Quantity(NamedTuple):
    """A metric that sentences are about; of the first loaded link, or of its direction, else of one of `scopes`.

    noun: what it is called. more, less: a difference, `{}` its size. scale: what sizes are in: SHARE of the reference,
    POINTS (of a metric in %), or OWN, the metric's unit.
    """

    metric: str
    noun: str
    more: str
    less: str
    scale: str
    scopes: tuple[str, ...] = ()


QUANTITIES = (
    Quantity("throughput_mean", "throughput", "{} more throughput", "{} less throughput", SHARE),
    Quantity("queueing_delay_mean", "queueing delay", "{} more queueing delay", "{} less queueing delay", OWN),
    Quantity("drop_rate", "drop rate", "{} more drops", "{} fewer drops", POINTS),
    Quantity("retransmission_share", "share of retransmissions",
             "{} more retransmissions", "{} fewer retransmissions", POINTS),
    Quantity("flow_completion_time_mean", "completion times", "completion times that are {} longer on average",
             "completion times that are {} shorter on average", SHARE, ("all",)),
    Quantity("jains_index", "fairness", "a fairness index (Jain) that is {} higher",
             "a fairness index (Jain) that is {} lower", OWN, ("bin_",)),
)


class Known(NamedTuple):
    """A quantity in the scope and the unit that a page has it in."""

    quantity: Quantity
    scope: str
    unit: str


class Findings(NamedTuple):
    """Sentences, the most important first, and what they are of."""

    sentences: list[str]
    note: str


def of_report(results: Results, comparisons: Comparisons, kernels: Iterable[tuple[str, str, Comparisons]] = ()) \
        -> Findings:
    """What the report of an experiment shows. kernels: (a kernel, the one it is compared with, their comparisons)."""
    experiment = results.experiment
    known = quantities(results)
    said = [*_dropped(experiment), *_not_valid(experiment), *_expected(results)]
    if not experiment.usable_runs:
        return Findings(said or ["No run can be used: nothing is known."], "")
    pairs = list(kernels)
    subjects = {subject: [row for row in experiment.rows if row.subject == subject] for subject in experiment.subjects}
    reference, *others = experiment.subjects
    said += _levels(results, known, subjects[reference])
    for other, first, of_kernels in pairs:
        said += [text for subject, rows in subjects.items()
                 if (text := _against(of_kernels, known, rows, f"With kernel {other}, against {first}, {subject}"))]
    who = f"Against {reference}, "
    # what is said of several alike is said once
    of: dict[str, list[str]] = {}
    for subject in others[:MOST_SUBJECTS]:
        if text := _against(comparisons, known, subjects[subject], f"{who}{subject}"):
            of.setdefault(text.removeprefix(f"{who}{subject}"), []).append(subject)
    said += [f"{who}{_listed(alike)}{rest}" for rest, alike in of.items()]
    left_out = len(others) - MOST_SUBJECTS
    if len(said) > MOST_SENTENCES:
        left_out, said = max(left_out, 0) + len(said) - MOST_SENTENCES, said[:MOST_SENTENCES]
    more = f" The tables have {left_out} more comparison{'s' * (left_out > 1)}." if left_out > 0 else ""
    return Findings(said, _note(results, known) + more)


def of_comparison(results: Results, comparisons: Comparisons, rows: Sequence[Row], of: str) -> Findings:
    """What a comparison of two experiments shows. results: of the other one; of: words that say which, with a {}."""
    known = quantities(results)
    said = [*_dropped(results.experiment), *_not_valid(results.experiment)]
    subjects = list(dict.fromkeys(row.subject for row in rows))
    for subject in subjects[:MOST_SUBJECTS]:
        text = _against(comparisons, known, [row for row in rows if row.subject == subject],
                        of.format(subject))
        said += [text] if text else []
    left_out = len(subjects) - MOST_SUBJECTS
    more = f" The tables have {left_out} more congestion control{'s' * (left_out > 1)}." if left_out > 0 else ""
    return Findings(said[:MOST_SENTENCES], _note(results, known) + more)


def quantities(results: Results) -> list[Known]:
    """What the usable runs of an experiment have of QUANTITIES."""
    run = next(iter(results.experiment.usable_runs), None)
    link = next(iter(run.bottlenecks), None) if run else None
    direction = (run.bottlenecks[link].direction or link) if run and link else None
    found = []
    for one in QUANTITIES:
        there = results.scopes(one.metric)
        wanted = [name for beginning in one.scopes for name in there if name.startswith(beginning)] if one.scopes \
            else [name for name in (link, direction) if name in there]
        if wanted and wanted[0] is not None:
            found.append(Known(one, wanted[0], _unit(results.unit(one.metric, wanted[0]))))
    return found


def _listed(words: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _unit(unit: str | None) -> str:
    return "" if unit in (None, "1") else str(unit)


def _note(results: Results, known: Sequence[Known]) -> str:
    """What the sentences are of."""
    link = next((one.scope for one in known if not one.quantity.scopes), None)
    # without a drop rate where drops count whole packets and what was sent counts segments
    drops = ["drops"] if any(one.quantity.metric == "drop_rate" for one in known) else []
    what = _listed(["Throughput", "queueing delay", *drops])
    where = f"{what}: of the bottleneck {style.direction(link)}. " if link else ""
    several = max((len(results.counted(row)) for row in results.experiment.rows), default=0) > 1
    spread = "The tables have the intervals." if results.experiment.axes else "In brackets: 95 % intervals."
    return (where + (spread if several else "")).strip()


def _not_valid(experiment: Experiment) -> list[str]:
    """A sentence on runs that are not valid; [] if all are."""
    verdicts = [(run, experiment.verdict(run)) for run in experiment.runs]
    bad = {word: [run.name for run, verdict in verdicts if verdict == word] for word in _BAD}
    parts = []
    for word, names in bad.items():
        if names:
            which = f" ({', '.join(names)})" if len(names) <= MOST_RUNS else ""
            parts.append(f"{len(names)} {'is' if len(names) == 1 else 'are'} {word}{which}")
    if not parts:
        return []
    out = sum(len(names) for word, names in bad.items() if word != "suspect")
    rest = "" if not out else " What follows is without it." if out == 1 else " What follows is without them."
    if bad["suspect"]:
        rest += " Suspect runs count: read below what is wrong with them."
    return [f"Of {len(verdicts)} runs {_listed(parts)}.{rest}"]


def _dropped(experiment: Experiment) -> list[str]:
    """A sentence on runs that somebody took off the experiment's list; [] if nobody did."""
    gone = experiment.description.dropped
    if not gone:
        return []
    reasons: dict[str, list[str]] = {}
    for run in gone:
        reasons.setdefault(run.why or "no reason given", []).append(run.name)
    return [f"{len(gone)} run{'s were' if len(gone) > 1 else ' was'} dropped from this experiment: "
            + "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items()) + "."]


def _expected(results: Results) -> list[str]:
    """A sentence on expectations that were not met, or could not be judged; [] if there are none."""
    judged = [one for one in expectations.judge(results) if one.result != expectations.NOT_CONCERNED]
    if not judged:
        return []
    met = sum(one.result == expectations.MET for one in judged)
    if met == len(judged):
        return [f"All {met} expectations of the scenario are met." if met > 1 else
                "The expectation of the scenario is met."]
    return [f"{met} of {len(judged)} expectations of the scenario {'is' if met == 1 else 'are'} met."]


def _levels(results: Results, known: Sequence[Known], rows: Sequence[Row]) -> list[str]:
    """How the first congestion control does by itself; that there are too few seeds, if so."""
    rows = [row for row in rows if results.counted(row)]
    fewest = min((_n(results, known, row) for row in rows), default=0)
    if not fewest:
        return []
    subject = rows[0].subject
    if fewest < stats.LEAST:
        return [_too_few(results, known, rows, fewest)] if len(results.experiment.subjects) == 1 else []
    parts: list[str] = []
    for one in known[:3]:
        means = [(results.summarise(one.quantity.metric, sample), row) for row in rows
                 if (sample := results.sample(row, one.quantity.metric, one.scope)) and all(map(math.isfinite, sample))]
        if not means or not any(found.mean for found, _ in means):
            continue
        unit, verb = f" {one.unit}" if one.unit else "", "" if parts else "is "
        low, high = min(means, key=lambda pair: pair[0].mean), max(means, key=lambda pair: pair[0].mean)
        texts = [style.number(found.mean) for found, _ in (low, high)]
        if len(rows) == 1 or texts[0] == texts[1]:
            mean, spread = _with_ends(low[0]) if len(rows) == 1 else (texts[0], " at all points")
            parts.append(f"{one.quantity.noun} {verb}{mean}{unit}{spread}")
        else:
            low_at, high_at = (_at(results.experiment, row) for _, row in (low, high))
            parts.append(f"{one.quantity.noun} {verb}{texts[0]}{unit} ({low_at}) to {texts[1]}{unit} ({high_at})")
    return [f"With {subject}, {_listed(parts)}."] if parts else []


def _n(results: Results, known: Sequence[Known], row: Row) -> int:
    """Values that the means of a row rest on."""
    return max((len(results.sample(row, one.quantity.metric, one.scope)) for one in known), default=0)


def _with_ends(found: stats.Summary) -> tuple[str, str]:
    if found.low is None or found.high is None:
        return style.number(found.mean), ""
    mean, low, high = style.with_ends(found.mean, found.low, found.high)
    return mean, f" ({low} to {high})"


def _at(experiment: Experiment, row: Row) -> str:
    return ", ".join(axis.say(value) for axis, value in zip(experiment.axes, row.point) if value)


def _too_few(results: Results, known: Sequence[Known], rows: Sequence[Row], fewest: int) -> str:
    """That there are too few seeds to say anything of means."""
    seeds = "1 seed is" if fewest == 1 else f"{fewest} seeds are"
    parts: list[tuple[str, str]] = []
    for one in known[:3]:
        needed = [count for row in rows if (count := _needed(results.sample(row, one.quantity.metric, one.scope),
                                                             results.is_ratio(one.quantity.metric)))]
        if needed:
            parts.append((_count(max(needed)), one.quantity.noun))
    told = f"; for means to within {100 * stats.MARGIN:g} %, {_seeds_for(parts)} would do" if parts else ""
    return f"{seeds} too few to say anything of means: {stats.LEAST} are the least{told}."


def _needed(sample: Sequence[float], ratio: bool) -> int | None:
    """Seeds for an interval of the mean of ± stats.MARGIN; None where nothing is known of the spread."""
    if len(sample) < 2 or not all(map(math.isfinite, sample)) or stats.one_value(sample):
        return None
    found = stats.seeds_needed(stats.summarise(sample, ratio), stats.MARGIN)
    return max(stats.LEAST, found) if found else None


def _seeds_for(needed: Sequence[tuple[str, str]]) -> str:
    """14 for throughput and drop rate and 9 for queueing delay"""
    counts = dict.fromkeys(count for count, _ in needed)
    return _listed([f"{count} for {_listed([noun for other, noun in needed if other == count])}" for count in counts])


def _count(seeds: int) -> str:
    return f"more than {MOST_SEEDS}" if seeds > MOST_SEEDS else str(seeds)


def _against(comparisons: Comparisons, known: Sequence[Known], rows: Sequence[Row], who: str) -> str:
    """How rows (one, or points of a sweep) stand to what they are compared with; '' if nothing is compared."""
    found = {one: [compared for row in rows if (compared := comparisons.of(row, one.quantity.metric, one.scope))]
             for one in known}
    found = {one: of_one for one, of_one in found.items()
             if any(compared.comparison.silence != "none in any run" for compared in of_one)}
    if not found:
        return ""
    few = [one.comparison for of_one in found.values() for one in of_one
           if min(one.comparison.n, one.comparison.n_reference) < stats.LEAST]
    if few:
        return _undecided_by_few(comparisons, found, few, who)
    has: dict[str, list[str]] = {}
    rest: dict[str, list[str]] = {}
    unknown: dict[Known, list[Compared]] = {}
    for one, of_one in found.items():
        for where, words in _differ(one, [compared for compared in of_one if compared.decision.different],
                                    len(of_one)):
            has.setdefault(where, []).append(words)
        equal = [compared for compared in of_one if compared.decision.equal and not compared.decision.different]
        if equal:
            words = f"equal within {equal[0].comparison.within}{_where(equal, len(of_one))}"
            rest.setdefault(words, []).append(one.quantity.noun)
        if same := [compared for compared in of_one if compared.comparison.silence.startswith("the same")]:
            rest.setdefault(f"the same in every run{_where(same, len(of_one))}", []).append(one.quantity.noun)
        if flat := [compared for compared in of_one if compared.comparison.silence.startswith("no spread")]:
            rest.setdefault(f"not judged, as one side has the same value in every run{_where(flat, len(of_one))}",
                            []).append(one.quantity.noun)
        open_ = [compared for compared in of_one if compared.decision.p is not None
                 and not compared.decision.different and not compared.decision.equal]
        if open_:
            unknown[one] = open_
    parts = [f"has {'; '.join(_listed(words) + where for where, words in has.items())}"] if has else []
    if rest:
        same_words = [f"{words}: {_listed(nouns)}" for words, nouns in rest.items()]
        parts.append(f"{'' if has else 'is '}{'; '.join(same_words)}")
    if unknown:
        parts.append(f"{'' if parts else 'is '}{_not_told(comparisons, unknown, found)}")
    return f"{who} {'; '.join(parts)}." if parts else ""


def _where(mine: Sequence[Compared], points: int) -> str:
    """At which of the points of a sweep something holds; '' without a sweep."""
    if points == 1:
        return ""
    if len(mine) == 1:
        return f" at {mine[0].row.label.removeprefix(mine[0].row.subject).strip()}"
    return f" at all {points} points" if len(mine) == points else f" at {len(mine)} of {points} points"


def _not_told(comparisons: Comparisons, unknown: dict[Known, list[Compared]],
              found: dict[Known, list[Compared]]) -> str:
    """What is not distinguishable, and how many seeds would tell."""
    parts = list[str]()
    for one, open_ in unknown.items():
        needed = [count for compared in open_ if (count := _to_decide(comparisons, compared))]
        points = _where(open_, len(found[one])).strip()
        would = f"{_count(max(needed))} would do" if needed else ""
        more = ", ".join(filter(None, (points, would)))
        parts.append(one.quantity.noun + (f" ({more})" if more else ""))
    n = min(min(one.comparison.n, one.comparison.n_reference) for open_ in unknown.values() for one in open_)
    return f"not distinguishable with {n} seeds: {_listed(parts)}"


def _to_decide(comparisons: Comparisons, one: Compared) -> int | None:
    """Seeds that would decide a comparison of a table in which others are open, too."""
    open_ = sum(not other.decision.different and not other.decision.equal and other.comparison.low is not None
                for other in comparisons.family(one.family))
    return stats.seeds_to_decide(one.comparison, max(1, open_))


def _undecided_by_few(comparisons: Comparisons, found: dict[Known, list[Compared]], few: Sequence[stats.Comparison],
                      who: str) -> str:
    fewest = min(min(one.n, one.n_reference) for one in few)
    parts = list[tuple[str, str]]()
    for one, of_one in found.items():
        needed = [count for compared in of_one if (count := _to_decide(comparisons, compared))]
        if needed:
            parts.append((_count(max(needed)), one.quantity.noun))
    told = f"; as they differ and spread so far, {_seeds_for(parts)} would do" if parts else ""
    seeds = "1 seed is" if fewest == 1 else f"{fewest} seeds are"
    return f"{who} cannot be told apart: {seeds} too few, {stats.LEAST} are the least{told}."


def _differ(known: Known, differ: Sequence[Compared], points: int) -> list[tuple[str, str]]:
    """(at which points, how much more or less there is), the latter from the smallest to the largest difference."""
    if not differ:
        return []
    quantity = known.quantity
    if points == 1:
        one = differ[0]
        words = quantity.more if _above(one.comparison) else quantity.less
        size, ends = _size(known, one.comparison)
        little = f", within {one.comparison.within}" if one.decision.equal else ""
        return [("", f"{words.format(size)} ({ends}{little})")]
    found = []
    for words, mine in ((quantity.more, [one for one in differ if _above(one.comparison)]),
                        (quantity.less, [one for one in differ if not _above(one.comparison)])):
        if mine:
            mine = sorted(mine, key=lambda one: abs(_shares(quantity, one.comparison)[0]))
            sizes = list(dict.fromkeys(_size(known, one.comparison)[0] for one in (mine[0], mine[-1])))
            found.append((_where(mine, points), words.format(" to ".join(sizes))))
    return found


def _above(found: stats.Comparison) -> bool:
    return found.difference > (1 if found.ratio else 0)


def _shares(quantity: Quantity, found: stats.Comparison) -> list[float]:
    """Difference and the ends of its interval in the scale of the quantity: %, percentage points, or its own unit."""
    values = [found.difference if one is None else one for one in (found.difference, found.low, found.high)]
    if found.ratio:
        return [100 * (one - 1) for one in values]
    if quantity.scale == SHARE and found.reference:
        return [100 * one / abs(found.reference) for one in values]
    return values


def _size(known: Known, found: stats.Comparison) -> tuple[str, str]:
    """(how much, its interval), both without a sign: the words of the quantity have it."""
    value, *ends = _shares(known.quantity, found)
    half = abs(ends[1] - ends[0]) / 2
    way = 1 if value >= 0 else -1

    def text(number: float) -> str:
        said = style.plus_minus(abs(number), half)[0] if half else style.number(abs(number))
        return said if number >= 0 or not float(said) else f"\u2212{said}"
    low, high = sorted(way * one for one in ends)
    scale = known.quantity.scale
    unit = known.unit if scale == OWN or scale == SHARE and not found.reference else scale
    return f"{text(way * value)}{f' {unit}' if unit else ''}", f"{text(low)} to {text(high)}"

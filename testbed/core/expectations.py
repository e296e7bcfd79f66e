# SPDX-License-Identifier: GPL-2.0-only
"""What a scenario expects of its results: `utilisation > 0.9`, `throughput_mean:right_to_left >= 50 Mbit/s`.

METRIC[:SCOPE] COMPARISON NUMBER [UNIT]. Expectations belong to an experiment, not to its runs: none of them enters a
run's id.
"""
from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from decimal import Decimal
from typing import Any

from testbed.core import fields, metric_names, units
from testbed.core.fields import FieldError

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?"
_FORM = re.compile(rf"([A-Za-z_]\w*)(?::(\S+))?\s*(<=|>=|==|<|>)\s*({_NUMBER})\s*(\S*)", re.ASCII)
_LONGEST = 200
#: what the description of an experiment can hold
_LARGEST = 1e300
_EXAMPLE = "such as 'queueing_delay_mean < 20 ms' expected"


@dataclasses.dataclass(frozen=True)
class Expectation:
    """One expectation. limit: in the metric's own unit; scope: '' for `all`, or else the first; ccas: () for every
    subject."""
    metric: str
    scope: str
    comparison: str
    limit: float
    unit: str
    ccas: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As a user would write it, with the unit."""
        scope = f":{self.scope}" if self.scope else ""
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{self.metric}{scope} {self.comparison} {self.limit:.10g}{unit}"

    def met_by(self, value: float) -> bool:
        return bool(COMPARISONS[self.comparison](value, self.limit))

    def record(self) -> dict[str, Any]:
        """As experiment.json has it."""
        return {**dataclasses.asdict(self), "ccas": list(self.ccas)}


@dataclasses.dataclass(frozen=True)
class _OfSome:
    """`{that: utilisation > 0.9, cca: [cubic, bbr]}`."""
    that: str = fields.text(longest=_LONGEST)
    cca: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=100, distinct=True, single=True)


def decode(given: object) -> tuple[Expectation, ...]:
    """The section `expect` of a scenario. FieldError, with the number of the element."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise FieldError("", f"a list of expectations, {_EXAMPLE.replace(' expected', '')}, expected, not "
                             f"{fields.show(given)}")
    found: tuple[Expectation, ...] = _read_list(given)
    return found


def _one(given: object) -> Expectation:
    if not isinstance(given, dict):
        return parse(given)
    some = fields.decode(_OfSome, given)
    try:
        return dataclasses.replace(parse(some.that), ccas=some.cca)
    except FieldError as problem:
        raise problem.inside("that") from None


_read_list = fields.reader(fields.listing(fields.custom(_one)))


def parse(text: object) -> Expectation:
    """An expectation from its text. FieldError for what is none, and for metrics and units that there are not."""
    fits = isinstance(text, str) and len(text) <= _LONGEST and text.strip().isprintable()
    match = _FORM.fullmatch(str(text).strip()) if fits else None
    if not match:
        raise FieldError("", f"METRIC[:SCOPE] COMPARISON NUMBER [UNIT], {_EXAMPLE}, not {fields.show(text)}; "
                             f"comparisons are: {', '.join(COMPARISONS)}")
    metric, scope, comparison, number, unit = match.groups()
    known = metric_names.units()
    if metric not in known:
        close = difflib.get_close_matches(metric, known, 3, 0.5)
        raise FieldError("", f"no metric {metric}" + (f"; close to it are {', '.join(close)}" if close else "")
                         + " (docs/metrics.md)")
    limit = float(_in_unit(metric, Decimal(number), unit, known[metric]))
    if abs(limit) > _LARGEST:
        raise FieldError("", f"{number}: at most {_LARGEST:g} in the metric's unit expected")
    return Expectation(metric, scope or "", comparison, limit, known[metric])


def _in_unit(metric: str, number: Decimal, given: str, unit: str) -> Decimal:
    """The number in the metric's own unit; of a share in %, a plain number from 0 to 1 is the share itself."""
    if given == unit or not given and unit != "%":
        return number
    if not given:
        if not 0 <= number <= 1:
            raise FieldError("", f"{metric} is in %: {number} % expected, or a share from 0 to 1")
        return number * 100
    try:
        (of, factor), (own, own_factor) = units.factor(given), units.factor(unit)
    except ValueError:
        of, own, factor, own_factor = "", given, 1, 1
    if of != own:
        own_words = f"in {unit}" if unit != "1" else "a plain number"
        raise FieldError("", f"{metric} is {own_words}, not in {given}")
    return number * factor / own_factor

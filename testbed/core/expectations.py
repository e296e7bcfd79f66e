# SPDX-License-Identifier: GPL-2.0-only
"""What a scenario expects of its results: `utilisation > 0.9`, `throughput_mean:right_to_left >= 50 Mbit/s`.

METRIC[:SCOPE] COMPARISON NUMBER [UNIT], of the whole measurement or of a part of it (`Window`). Expectations belong to
an experiment, not to its runs: none of them enters a run's id.
"""
from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast

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
class Window:
    """A part of the measurement. Its times count from the start of the run, or from the event `after`; None: as far as
    the measurement goes. after: COMPONENT.start or COMPONENT.stop, as the scenario has them; '' for none."""
    from_us: int | None = None
    to_us: int | None = None
    after: str = ""

    @property
    def text(self) -> str:
        """As words behind an expectation."""
        words = [f"{word} {units.show('us', value)}" for word, value in (("from", self.from_us), ("to", self.to_us))
                 if value is not None]
        return " ".join([*words, *(["after", self.after] if self.after else [])])

    def interval_us(self, components: Sequence[Mapping[str, object]], begin_us: int, end_us: int) -> tuple[int, int]:
        """The window of a run whose measurement is [begin_us, end_us). FieldError of a field of it if it has none.

        components: of the resolved scenario, with name, start_us and stop_us.
        """
        zero_us = self._event_us(components) if self.after else 0
        first_us = zero_us + (self.from_us or 0) if self.after or self.from_us is not None else begin_us
        last_us = end_us if self.to_us is None else zero_us + self.to_us
        first_field = "from" if self.from_us is not None else "after" if self.after else "to"
        last_field = "to" if self.to_us is not None else first_field
        measured = f"what is measured begins at {_seconds(begin_us)} and ends at {_seconds(end_us)}"
        for field, wrong, what in ((first_field, first_us < begin_us, f"begins at {_seconds(first_us)}"),
                                   (last_field, last_us > end_us, f"ends at {_seconds(last_us)}"),
                                   (last_field, first_us >= last_us,
                                    f"begins at {_seconds(first_us)} and ends at {_seconds(last_us)}")):
            if wrong:
                raise FieldError(field, f"the window {what}; {measured}")
        return first_us, last_us

    def _event_us(self, components: Sequence[Mapping[str, object]]) -> int:
        name, _, event = self.after.rpartition(".")
        if event not in ("start", "stop"):
            raise FieldError("after", f"COMPONENT.start or COMPONENT.stop expected, not {fields.show(self.after)}")
        times_us = {str(one["name"]): cast(int, one[f"{event}_us"]) for one in components}
        if name not in times_us:
            raise FieldError("after", f"no component {fields.show(name)}; there are: {', '.join(times_us)}")
        return times_us[name]


def _seconds(time_us: int) -> str:
    return f"{time_us / 1e6:g} s"


@dataclasses.dataclass(frozen=True)
class Expectation:
    """One expectation. limit: in the metric's own unit; scope: '' for `all`, or else the first; ccas: () for every
    subject; window: None for the whole measurement."""
    metric: str
    scope: str
    comparison: str
    limit: float
    unit: str
    ccas: tuple[str, ...] = ()
    window: Window | None = None

    @property
    def text(self) -> str:
        """As a user would write it, with the unit."""
        window = f" {self.window.text}" if self.window else ""
        scope = f":{self.scope}" if self.scope else ""
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{self.metric}{scope} {self.comparison} {self.limit:.10g}{unit}{window}"

    def met_by(self, value: float) -> bool:
        return bool(COMPARISONS[self.comparison](value, self.limit))

    def record(self) -> dict[str, object]:
        """As experiment.json has it."""
        return {**dataclasses.asdict(self), "ccas": list(self.ccas)}


@dataclasses.dataclass(frozen=True)
class _Section:
    """`{that: utilisation > 0.9, cca: [cubic, bbr], from: 2 s, to: 5 s, after: other.stop}`."""
    that: str = fields.text(longest=_LONGEST)
    cca: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=100, distinct=True, single=True)
    from_us: int | None = fields.time(default=None)
    to_us: int | None = fields.time(default=None)
    after: str = fields.text(default="", longest=_LONGEST)


def decode(given: object, components: Sequence[Mapping[str, object]], begin_us: int, end_us: int) \
        -> tuple[Expectation, ...]:
    """The section `expect` of a scenario. FieldError, with the number of the element.

    components: see Window.interval_us; [begin_us, end_us): what is measured.
    """
    if given is None:
        return ()
    if not isinstance(given, list):
        raise FieldError("", f"a list of expectations, {_EXAMPLE.replace(' expected', '')}, expected, not "
                             f"{fields.show(given)}")
    found: tuple[Expectation, ...] = _read_list(given)
    for number, one in enumerate(found, start=1):
        if one.window:
            try:
                one.window.interval_us(components, begin_us, end_us)
            except FieldError as problem:
                raise problem.inside(str(number)) from None
    return found


def _one(given: object) -> Expectation:
    if not isinstance(given, dict):
        return parse(given)
    some = fields.decode(_Section, given)
    window = Window(some.from_us, some.to_us, some.after)
    try:
        found = dataclasses.replace(parse(some.that), ccas=some.cca, window=window if window != Window() else None)
        if found.window and found.metric not in metric_names.windowed():
            raise FieldError("", f"{found.metric} is not known of a part of a run; these are: "
                                 f"{', '.join(sorted(metric_names.windowed()))}")
    except FieldError as problem:
        raise problem.inside("that") from None
    return found


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
                         + " (docs/reference/metrics.md)")
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

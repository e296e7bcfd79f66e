# SPDX-License-Identifier: GPL-2.0-only
"""What a search looks for: an expectation, or one that compares with another congestion control in the same network.

    utilisation < 50 %                      METRIC[:SCOPE] COMPARISON VALUE
    utilisation < 50 % of cubic             METRIC[:SCOPE] COMPARISON NUMBER % of CCA
"""
from __future__ import annotations

import dataclasses
import re

from testbed.core import expectations
from testbed.core.expectations import Expectation
from testbed.core.fields import FieldError

_OF = re.compile(r"(.*[<>=])\s*(\d+\.?\d*|\.\d+)\s*%\s+of\s+(\S+)", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Goal(Expectation):
    """of: the congestion control of whose value the limit is a share, in %; '' for a limit in the metric's own unit,
    which `unit` is in any case."""
    of: str = ""

    @property
    def text(self) -> str:
        scope = f":{self.scope}" if self.scope else ""
        return f"{self.metric}{scope} {self.comparison} {self.limit:.10g}{self.unit_words}"

    @property
    def unit_words(self) -> str:
        """What follows a number that is compared with the limit."""
        if self.of:
            return f" % of {self.of}"
        return "" if self.unit == "1" else f" {self.unit}"

    def absolute(self, limit: float | None) -> Expectation:
        """What a scenario file can expect; limit: of the metric itself, of a goal that is a share."""
        return Expectation(self.metric, self.scope, self.comparison, self.limit if limit is None else limit, self.unit)


def parse(text: str) -> Goal:
    """A goal from its text. FieldError: bad syntax, or an unknown metric or unit."""
    if match := _OF.fullmatch(text.strip()):
        head, number, of = match.groups()
        limit = float(number)
        if not 0 < limit < 1e9:
            raise FieldError("", f"{number} % of {of}: a share above 0 expected")
        found = expectations.parse(f"{head} 1")         # metric, scope and comparison
    else:
        found, of = expectations.parse(text), ""
        limit = found.limit
    if found.comparison == "==":
        raise FieldError("", "<, <=, > or >= expected: == says not what is nearer to it")
    return Goal(found.metric, found.scope, found.comparison, limit, found.unit, of=of)

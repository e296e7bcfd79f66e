# SPDX-License-Identifier: GPL-2.0-only
"""What was published: a result's cells and quantities, as suites read them and pages show them."""
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Cell(NamedTuple):
    """What was published of a quantity at a point: values of trials, or bounds (None: no such bound).

    point: {axis: value as text}; cca: '' where the result has only one; decimals: of the value with the fewest.
    """

    point: Mapping[str, str]
    cca: str
    quantity: str
    trials: tuple[float, ...]
    least: float | None
    most: float | None
    decimals: int


class Compared(NamedTuple):
    """A quantity: a metric of a scope. within_percent: how far from a published value without trials, such as a
    formula's, ours may be, and why so far; None: as far as trials and seeds scatter. resolution: how exactly the
    authors' program counts, in the metric's unit."""

    name: str
    metric: str
    scope: str
    label: str
    within_percent: float | None
    why_within: str
    resolution: float = 0.0


class Cause(NamedTuple):
    """A suspected cause. ccas: {congestion control of the result: what runs in its place}."""

    why: str
    ccas: Mapping[str, str]

    def scope(self, scope: str) -> str:
        """What a scope of the result is called in the runs with the switch: cca_cubic may be cca_cubic-plain there."""
        cca = scope.removeprefix("cca_")
        return f"cca_{self.ccas[cca]}" if scope != cca and cca in self.ccas else scope


class About(NamedTuple):
    """What a page says of a published result. deviations: (what, why); causes: {switch: its cause}; open: what stays
    unexplained."""

    name: str
    title: str
    source: str
    quantities: Mapping[str, Compared]
    deviations: Sequence[tuple[str, str]]
    causes: Mapping[str, Cause]
    open: str

# SPDX-License-Identifier: GPL-2.0-only
"""QUIC stacks beside each other and beside the kernel's TCP as a page, in Markdown and as a table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis import stats
from analysis.compare.stacks import DISTANCES, KERNEL, PARTS, QUANTITIES, Distance, Quantity, Stacks
from analysis.compare.stacks_figure import draw
from analysis.drawing import style
from analysis.pages import Head, inline, page_folder, templates
from analysis.read.parts import Runs
from testbed.core.quic_sender import QuicSender

_FILES = {"index.html", "stacks.md", "tables", "figures"}
_TITLES = {"alone": "Alone", "pair": "Two flows of the same kind", "beside": "Beside one flow of the kernel's CUBIC"}
NOTHING = "-"
PAGE_OF_A_SUITE = True


class Table(NamedTuple):
    """heads: of all columns; rows: (whether it is the kernel's, cells)."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[bool, Sequence[str]]]


def write(runs: Mapping[str, Runs], folder: Path, head: Head) -> tuple[Path, Sequence[str]]:
    """Write folder/index.html, stacks.md, tables/stacks.csv and figures/; (path of the page, sentences for a terminal).

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    found = Stacks(runs)
    tables = [_pattern(found, pattern) for pattern in PARTS] + [_distances(found)]
    with page_folder(folder, _FILES, "report of QUIC stacks") as building:
        _rows(found).to_csv(building / "tables/stacks.csv", index=False, float_format="%.10g")
        name = draw(found, building / "figures")
        (building / "stacks.md").write_text(markdown(tables, found, head.command), encoding="utf-8")
        (building / "index.html").write_text(str(templates().get_template("stacks.html.j2").render(
            title=head.title, description=head.description, sentences=found.sentences(), problems=found.problems,
            tables=tables,
            figure=inline(building / f"figures/{name}.svg") if name else "", kernel=found.kernel,
            command=shlex.join(head.command), short=head.short)), encoding="utf-8")
    return folder / "index.html", found.sentences()


def markdown(tables: Sequence[Table], found: Stacks, command: Sequence[str]) -> str:
    """The tables for a document."""
    lines = [f"`{shlex.join(command)}`, Linux {found.kernel}. {'. '.join(found.sentences())}.", ""]
    for table in tables:
        lines += [f"## {table.title}", "", "| " + " | ".join(table.heads) + " |", "|---" * len(table.heads) + "|",
                  *("| " + " | ".join(cells) + " |" for _, cells in table.rows), ""]
    return "\n".join(lines)


def _rows(found: Stacks) -> pd.DataFrame:
    """A row for each value of each seed."""
    return pd.DataFrame([(one.stack, one.control, quantity.pattern, quantity.name, quantity.unit, value)
                         for one in found.senders for quantity in QUANTITIES for value in found.values(one, quantity)],
                        columns=["stack", "control", "pattern", "quantity", "unit", "value"])


def _pattern(found: Stacks, pattern: str) -> Table:
    """Mean and interval of the quantities of a pattern, sender by sender."""
    quantities = [one for one in QUANTITIES if one.pattern == pattern]
    rows = [(sender.stack == KERNEL, [str(sender), *cells]) for sender in found.senders
            if set(cells := [_cell(found.summary(sender, one)) for one in quantities]) != {NOTHING}]
    return Table(_TITLES[pattern], ["sender", *map(_head, quantities)], rows)


def _head(quantity: Quantity) -> str:
    return quantity.label + (f" ({quantity.unit})" if quantity.unit else "")


def _cell(found: stats.Summary | None) -> str:
    """11.9 (11.5 to 12.4; 5)"""
    if found is None:
        return NOTHING
    if found.low is None or found.high is None:
        return f"{style.number(found.mean)} ({found.n})"
    mean, low, high = style.with_ends(found.mean, found.low, found.high)
    return f"{mean} ({low} to {high}; {found.n})"


def _distances(found: Stacks) -> Table:
    """A row for each stack: how far it is from the kernel in each quantity."""
    of: dict[QuicSender, dict[Quantity, Distance]] = {}
    for one in found.distances:
        of.setdefault(one.sender, {})[one.quantity] = one
    rows = [(False, [str(sender), *(_distance(distances.get(quantity)) for quantity in DISTANCES)])
            for sender, distances in of.items()]
    return Table("Distance of Reno and CUBIC from the kernel's",
                 ["sender", *(f"{_TITLES[one.pattern].lower()}: {one.label}" for one in DISTANCES)], rows)


def _distance(one: Distance | None) -> str:
    """times 1.31 (1.2 to 1.43): different"""
    if one is None:
        return NOTHING
    compared = one.compared
    sign = "times " if compared.ratio else "+" if compared.difference > 0 else ""
    value, ends = style.number(compared.difference), ""
    if compared.low is not None and compared.high is not None:
        value, low, high = style.with_ends(compared.difference, compared.low, compared.high)
        ends = f" ({low} to {high})"
    unit = "" if compared.ratio or not one.quantity.unit else f" {one.quantity.unit}"
    return f"{sign}{value}{ends}{unit}: {one.decision.words}"

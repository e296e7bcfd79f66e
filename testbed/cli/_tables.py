# SPDX-License-Identifier: GPL-2.0-only
"""Tables on the terminal."""
from __future__ import annotations

import itertools
import os
import textwrap
from collections.abc import Sequence

#: from which width on a terminal has room for details
_DETAILS_FROM = 140
#: where there is no terminal to ask for its width
_WIDTH = 100
#: however narrow a terminal says it is
_LEAST_WIDTH = 40
#: below this width columns without a value are left out, and there are two blanks between the others, not three
_NARROW_BELOW = 100


def show(heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]], details: Sequence[str] = ()) -> None:
    """Print a table as wide as the terminal, or blocks of lines where words, which people copy, would not be whole.

    details: columns that only a wide terminal has room for.
    """
    from rich.console import Console
    from rich.text import Text
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=_WIDTH)
    console.width = max(console.width, _LEAST_WIDTH)
    # not as the table's title: that would be wrapped at the table's width
    console.print(Text(heading, style="bold"), soft_wrap=True)
    shown = [i for i, column in enumerate(columns) if console.width >= _DETAILS_FROM or column not in details]
    narrow = console.width < _NARROW_BELOW
    if narrow and rows:
        shown = [i for i in shown if any(row[i] not in (None, "") for row in rows)]
    cells = [[columns[i], *("" if row[i] is None else str(row[i]) for row in rows)] for i in shown]
    for padding in (2, 1) if narrow else (3, 2, 1):
        room = console.width - padding * (len(shown) - 1)
        found = widths(cells, room)
        if sum(found) <= room:
            break
    else:
        for row in list(zip(*cells))[1:]:
            print("\n".join(_block([column[0] for column in cells], row, console.width)), end="\n\n")
        return
    head, *others = (_lines(row, found, " " * padding) for row in zip(*cells))
    console.print(Text("\n".join(head), style="bold"), soft_wrap=True)
    for lines in others:
        print("\n".join(lines))
    if console.width < _DETAILS_FROM and {*columns} & {*details}:
        console.print(Text(f"(more columns from {_DETAILS_FROM} characters on: "
                           f"{', '.join(c for c in columns if c in details)})", style="dim"))
    console.print()


def _lines(row: Sequence[str], widths: Sequence[int], gap: str) -> list[str]:
    """Lines for the cells of a row beside each other."""
    wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths)]
    return [gap.join(part.ljust(width) for part, width in zip(parts, widths)).rstrip()
            for parts in itertools.zip_longest(*wrapped, fillvalue="")]


def _block(columns: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Lines for a row that has no room beside itself: a value per line. A longer word goes beyond the width: it can be
    copied."""
    lines = []
    for column, cell in zip(columns, row):
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
        lines += wrapper.wrap(f"{column}: {cell}") if cell else []
    return lines


def widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """The width of each column of cells, together at most `room` if all words can be whole in it."""
    full = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    found = list(map(_longest_word, columns))
    while sum(found) < min(room, sum(full)):
        # to the column with the highest cells
        lines = [max(len(_wrapped(cell, width)) for cell in column) if width < most else 0
                 for column, width, most in zip(columns, found, full)]
        found[lines.index(max(lines))] += 1
    return found


def _longest_word(column: Sequence[str]) -> int:
    return max((len(word) for cell in column for word in cell.split()), default=0)


def _wrapped(cell: str, width: int) -> list[str]:
    """Lines of a cell."""
    wrapper = textwrap.TextWrapper(max(width, 1), break_on_hyphens=False)
    return [part for line in cell.split("\n") for part in wrapper.wrap(line) or [""]]

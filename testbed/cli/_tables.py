# SPDX-License-Identifier: GPL-2.0-only
"""Tables on the terminal."""
from __future__ import annotations

import os
from collections.abc import Sequence

#: from which width on a terminal has room for details
_DETAILS_FROM = 140
#: where there is no terminal to ask for its width
_WIDTH = 100
#: however narrow a terminal says it is
_LEAST_WIDTH = 40
#: columns that are copied from the terminal; others give way
_WHOLE = ("id", "name", "scenario")
_MOST_WHOLE_LETTERS = 20
#: below this width columns without a value are left out, and there is less room between the others
_NARROW_BELOW = 100


def show(heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]], details: Sequence[str] = ()) -> None:
    """Print a table as wide as the terminal; details: columns that only a wide one has room for."""
    from rich.console import Console
    from rich.table import Table
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
    table = Table(box=None, pad_edge=False, padding=(0, 2 if narrow else 3, 0, 0))
    for i in shown:
        # a folder that is no run's may be called anything
        whole = [len(str(row[i])) for row in rows if columns[i] in _WHOLE and len(str(row[i])) <= _MOST_WHOLE_LETTERS]
        # of columns with a least width rich may make a table that is too wide
        fit = bool(whole) and len(whole) == len(rows)
        table.add_column(columns[i], overflow="fold", no_wrap=fit, min_width=None if fit else max(whole, default=None))
    for row in rows:
        table.add_row(*(Text("" if row[i] is None else str(row[i])) for i in shown))
    with console.capture() as captured:
        console.print(table)
    # without the blanks that fill each line up
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    if console.width < _DETAILS_FROM and {*columns} & {*details}:
        console.print(Text(f"(more columns from {_DETAILS_FROM} characters on: "
                           f"{', '.join(c for c in columns if c in details)})", style="dim"))
    console.print()

# SPDX-License-Identifier: GPL-2.0-only
"""Tables of a report for LaTeX (package booktabs): main.tex is the first, results.tex has all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.pages.report_tables import Cell, Table

_SPECIAL = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
            "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\u00b1": r"$\pm$", "\u2212": "$-$",
            "\u00d7": r"$\times$", "\u2013": "--", "\u2026": r"\ldots{}", "<": "$<$", ">": "$>$", "\u00a0": "~"}
_ONE = re.compile("|".join(map(re.escape, _SPECIAL)))
_HEAD = "% SPDX-License-Identifier: CC0-1.0\n% needs \\usepackage{booktabs}\n"


def tables(shown: Sequence[Table]) -> dict[str, str]:
    """{name of a file: its text}; {} without tables."""
    texts = [table(one) for one in shown]
    return {"main": _HEAD + texts[0], "results": _HEAD + "\n".join(texts)} if texts else {}


def table(shown: Table) -> str:
    """A tabular: means with their intervals."""
    heads = [*shown.axes, shown.head, "$n$"]
    lines = [rf"% {shown.title}", rf"\begin{{tabular}}{{{'l' * (len(shown.axes) + 1)}r{'r' * len(shown.columns)}}}",
             r"\toprule",
             " & ".join([*(escaped(head) if head != "$n$" else head for head in heads),
                         *(escaped(label) for label, _ in shown.columns)]) + r" \\",
             " & ".join([*("" for _ in heads), *(f"({escaped(unit)})" if unit else "" for _, unit in shown.columns)])
             + r" \\", r"\midrule"]
    for row in shown.rows:
        point = [escaped(text) if span else "" for text, span in row.point]
        lines.append(" & ".join([*point, escaped(row.name), row.n, *(_cell(cell) for cell in row.cells)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escaped(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return _ONE.sub(lambda match: _SPECIAL[match[0]], text)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    spread = cell.spread if cell.spread.startswith("\u00b1") or not cell.spread else f"({cell.spread})"
    return escaped(f"{cell.mean} {spread}".strip())

# SPDX-License-Identifier: GPL-2.0-only
"""What cases 18 and 19 have in common: a recovery that turns out to be spurious."""

from __future__ import annotations

import pandas as pd

from analysis.cases import NOTE, OPEN, Finding, passed_if
from analysis.cases.evidence import Seen


def judge(seen: Seen, ca_states: tuple[int, ...], what: str) -> list[Finding]:
    """Of each undo: are bounds at least what they were before the recovery?"""
    model = seen.told
    undone = model[(model["why"] == "undo") & model["ca_state"].isin(ca_states) & (model["why"].shift() != "undo")]
    if not len(undone):
        return [Finding(OPEN, f"no {what} was found to be spurious")]
    lower = [t for t, before, after in ((row["t_us"], _before(model, place), row) for place, row in undone.iterrows())
             if any(_infinite(after[name]) < _infinite(before[name])
                    for name in ("bw_shortterm", "inflight_shortterm", "inflight_longterm"))]
    restored = [(row, _before(model, place)) for place, row in undone.iterrows()]
    windows = sum(row["cwnd"] >= min(before["cwnd"], row["max_inflight"]) for row, before in restored)
    returned = sum(row["undo_state"] != "None" for row, _ in restored)
    return [passed_if(not lower, f"{len(undone) - len(lower)} of {len(undone)} times no bound is lower than before the "
                                 f"{what}"),
            passed_if(windows == len(undone), f"{windows} of {len(undone)} times the window is restored"
                                              + (f"; {returned} times it had left a state for it" if returned else ""))]


def _before(model: pd.DataFrame, place: int) -> pd.Series:
    """The last row before the recovery that this undo ends."""
    rows = model[model.index <= place]
    recovered = rows[rows["ca_state"] < 3]
    return recovered.iloc[-1] if len(recovered) else rows.iloc[0]


def _infinite(value: float) -> float:
    return float("inf") if value < 0 else float(value)


def on_wire(seen: Seen, ca_state: int, what: str) -> list[Finding]:
    """Of each recovery on a path that loses nothing: is the window what it was before, once it is over?"""
    wire = seen.wire
    number = (wire["ca_state"] != wire["ca_state"].shift()).cumsum()
    spells = [rows for _, rows in wire.groupby(number)]
    ended = [(before.iloc[-1], after.iloc[0]) for before, within, after in _runs_of(spells)
             if (within["ca_state"] == ca_state).any()]
    if not ended:
        return [Finding(OPEN, f"samples show no {what} that ends")]
    lower = [after["cwnd"] / before["cwnd"] for before, after in ended if after["cwnd"] < before["cwnd"]]
    return [passed_if(not lower, f"{len(ended) - len(lower)} of {len(ended)} times the window is restored after "
                                 f"a {what}"
                                 + (f"; else to {min(lower):.2f} of what it was at worst" if lower else "")),
            Finding(NOTE, "version 1 has no bounds that could be restored")]


def _runs_of(spells: list[pd.DataFrame]) -> list[tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]]:
    """Before, within and after each time in a recovery: spells of states of 3 and more in a row are one."""
    found = []
    quiet = [place for place, rows in enumerate(spells) if rows["ca_state"].iloc[0] < 3]
    for first, last in zip(quiet, quiet[1:]):
        if last - first > 1:
            found.append((spells[first], pd.concat(spells[first + 1:last]), spells[last]))
    return found

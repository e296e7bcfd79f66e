# SPDX-License-Identifier: GPL-2.0-only
"""What cases 18 and 19 have in common: a recovery that turns out to be spurious."""

from __future__ import annotations

import pandas as pd

from analysis.cases import OPEN, Finding, passed_if
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

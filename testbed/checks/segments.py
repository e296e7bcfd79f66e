# SPDX-License-Identifier: GPL-2.0-only
"""Flows whose component sets the size of segments, or how many are in flight, keep to that."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._sockets import ends_of

if TYPE_CHECKING:
    import pandas as pd

#: A write has so many bytes. Where TCP hands over several segments at once, the last one of a write may not be full
#: (docs/reference/greedy.md).
_SHORT_IN_BYTES = 1 << 20
_COLUMNS = ["node", "src", "sport", "dst", "dport", "state", "mss", "unacked"]


def check(evidence: Evidence) -> Iterator[Finding]:
    limited = [component for component in evidence.workload.components if component.segment_bytes or component.window]
    if not limited:
        return
    samples = evidence.table("tcp_info", usecols=lambda name: name in _COLUMNS)
    if samples is None:
        yield Finding("suspect", "no socket was sampled: whether flows kept to their segments and windows is not known")
        return
    samples = samples[samples["state"] != "SYN-SENT"]
    for component in limited:
        flows = [flow for flow in evidence.flows if flow.component == component.name]
        sender, _ = ends_of(samples, flows)
        several = {node.name for node in evidence.network.nodes if node.has("gso") and node.gso}
        for given, column, words, exact in ((component.segment_bytes, "mss", "bytes in a segment", True),
                                            (component.window, "unacked", "segments in flight", False)):
            if given:
                mine = samples[column][sender > 0]
                if mine.isna().all() and len(mine) and not evidence.can("kernel"):
                    yield Finding(NOT_APPLICABLE, f"the engine does not tell the {words}")
                else:
                    most_mss = samples["mss"][sender > 0].max()
                    short = 1 + int(given * most_mss // _SHORT_IN_BYTES) if not exact and most_mss > 0 and any(
                        flow.sender in several for flow in flows) else 0
                    yield _judged(component.name, given, mine.dropna(), exact, words, short)


def _judged(component: str, given: int, values: pd.Series, exact: bool, words: str, short: int) -> Finding:
    """short: how many segments that are not full there may be beside the given number."""
    if values.empty:
        return Finding("suspect", f"{component}: no sender was sampled: the {words} are not known")
    wrong = values[(values != given) if exact else (values > given + short)]
    if len(wrong):
        return Finding("invalid", f"{component}: {len(wrong)} of {len(values)} samples have {wrong.iloc[0]:.0f} "
                                  f"{words}, not {'' if exact else 'at most '}{given}")
    most = f"{'' if exact else 'at most '}{values.max():.0f}"
    return Finding("ok", f"{component}: {most} {words} in {len(values)} samples")

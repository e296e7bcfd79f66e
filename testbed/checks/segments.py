# SPDX-License-Identifier: GPL-2.0-only
"""Flows whose component sets the size of segments, or how many are in flight, keep to that."""
from collections.abc import Iterator
from typing import Any

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._sockets import ends_of

_COLUMNS = ["node", "src", "sport", "dst", "dport", "state", "mss", "unacked"]
_WHAT = {"segment_bytes": ("mss", "bytes in a segment"), "window": ("unacked", "segments in flight")}


def check(evidence: Evidence) -> Iterator[Finding]:
    limited = [component for component in evidence.workload["components"]
               if any(component.get(name) for name in _WHAT)]
    if not limited:
        return
    samples = evidence.table("tcp_info", usecols=lambda name: name in _COLUMNS)
    if samples is None:
        yield Finding("suspect", "no socket was sampled: whether flows kept to their segments and windows is not known")
        return
    samples = samples[samples["state"] != "SYN-SENT"]
    for component in limited:
        flows = [flow for flow in evidence.flows if flow["component"] == component["name"]]
        sender, _ = ends_of(samples, flows)
        for name, (column, words) in _WHAT.items():
            if component.get(name):
                mine = samples[column][sender > 0]
                if mine.isna().all() and len(mine) and not evidence.can("kernel"):
                    yield Finding(NOT_APPLICABLE, f"the engine does not tell the {words}")
                else:
                    yield _judged(component["name"], component[name], mine.dropna(), name, words)


def _judged(component: str, given: int, values: Any, name: str, words: str) -> Finding:
    if values.empty:
        return Finding("suspect", f"{component}: no sender was sampled: the {words} are not known")
    exact = name == "segment_bytes"
    wrong = values[(values != given) if exact else (values > given)]
    if len(wrong):
        return Finding("invalid", f"{component}: {len(wrong)} of {len(values)} samples have {wrong.iloc[0]:.0f} "
                                  f"{words}, not {'' if exact else 'at most '}{given}")
    most = f"{'' if exact else 'at most '}{values.max():.0f}"
    return Finding("ok", f"{component}: {most} {words} in {len(values)} samples")

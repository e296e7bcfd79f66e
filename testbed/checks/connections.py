# SPDX-License-Identifier: GPL-2.0-only
"""Connections of sources began when they were due, could be made, and some of them finished."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from testbed.checks import Evidence, Finding
from testbed.checks._free import overloaded
from testbed.core import replayed

if TYPE_CHECKING:
    import pandas as pd

#: more than these fail for other reasons than a full queue now and then
_FAILED_SHARE = 0.01
#: what TCP says when it has sent in vain for long enough: over an overloaded link that is what happens to some
_GAVE_UP = "failed: ETIMEDOUT"
#: in an overload a connection may still be there when its port's turn comes again, after 60,000 others of its source
_PORTLESS_SHARE = 0.001
#: how late a connection may begin, by clock
_LATE_US = {"virtual": 1000.0, "simulated": 1000.0, "real": 5000.0}
#: no port, or none that is free
_PORTS = ("failed: EADDRINUSE", "failed: EADDRNOTAVAIL")


def check(evidence: Evidence) -> Iterator[Finding]:
    sources = {flow.source: flow.component for flow in evidence.flows if flow.source is not None}
    if not sources:
        return
    connections = evidence.table("connections", low_memory=False)
    if connections is None:
        yield Finding("suspect", "no record of the connections: what they delivered is not known")
        return
    # clients may go on until the run ends
    endless = {name for name, what in replayed.names(evidence.workload.components).items() if not what.closes}
    components = list(dict.fromkeys(sources.values()))
    owner = connections["source"].map(sources)
    busy = overloaded(evidence)
    for component in components:
        overload = any(busy & {*flow.hops, *(flow.hops_back or ())} for flow in evidence.flows
                       if flow.component == component and flow.source is not None)
        yield from _connections(connections[owner == component], _LATE_US[evidence.clock],
                                f"{component}: " if len(components) > 1 else "", component in endless, overload)


def _connections(connections: pd.DataFrame, most_late_us: float, whose: str, endless: bool, overload: bool) \
        -> Iterator[Finding]:
    status = connections["status"].astype(str)
    failed = status.str.startswith("failed")
    began = connections["start_us"].notna() | connections["scheduled_us"].isna()
    missing = int((~began & ~failed).sum())
    if missing:
        yield Finding("invalid", f"{whose}{missing} of {len(connections)} connections were due and never began")
    late = connections["start_us"] - connections["scheduled_us"]
    if late.max() > most_late_us:
        yield Finding("suspect", f"{whose}{int((late > most_late_us).sum())} connections began late, by up to "
                                 f"{late.max():.0f} us")
    yield from _failures(status[failed], len(connections), whose, overload)
    finished = int((status == "finished").sum())
    if not finished and not endless:
        yield Finding("suspect", f"{whose}none of {len(connections)} connections finished")
    elif not missing:
        yield Finding("ok", f"{whose}{len(connections)} connections began when they were due; {finished} finished, "
                            f"{int((status == 'unfinished').sum())} were alive at the end")


def _failures(failures: pd.Series, total: int, whose: str, overload: bool) -> Iterator[Finding]:
    if failures.empty:
        return
    ports = int(failures.isin(_PORTS).sum())
    named = ", ".join(f"{count} {status.removeprefix('failed: ')}" for status, count in failures.value_counts().items())
    gave_up = int((failures == _GAVE_UP).sum()) if overload else 0
    aside = " (ETIMEDOUT: a link is overloaded)" if gave_up else ""
    yield Finding("suspect" if len(failures) - gave_up > _FAILED_SHARE * total else "ok",
                  f"{whose}{len(failures)} connections failed ({len(failures) / total:.2%}): {named}{aside}")
    if ports > _PORTLESS_SHARE * total:
        yield Finding("suspect", f"{whose}{ports} connections found no free port")

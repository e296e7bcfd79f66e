# SPDX-License-Identifier: GPL-2.0-only
"""Times of connections and data units are possible, and fit each other.

Nothing arrives before the links' delay has passed, no connection ends before its data have arrived, and what has
finished lacks nothing.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from testbed.checks import Evidence, Finding
from testbed.checks._measured import connections_of_sources
from topologies.links import wires
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

#: how exact the times are, in us. Some simulators know only to within a packet when a connection was connected
_EXACT_US = {"virtual": 1.0, "simulated": 1000.0, "real": 1000.0}
_KEY = ["source", "conn"]
_COUNTS = (("adus_delivered", "adus_asked"), ("init_bytes_delivered", "init_bytes_asked"),
           ("acc_bytes_delivered", "acc_bytes_asked"))


def check(evidence: Evidence) -> Iterator[Finding]:
    connections, flows = connections_of_sources(evidence)
    if connections is None:
        return
    units = evidence.table("adus", usecols=[*_KEY, "side", "sent_us", "delivered_us"])
    problems = [*_connections(connections, flows, evidence), *_finished(connections),
                *(_units(units, connections, flows, evidence) if units is not None else ())]
    for problem in problems:
        yield Finding("invalid", problem)
    if not problems:
        whose = f"{len(units)} data units and " if units is not None else ""
        yield Finding("ok", f"the times of {whose}{len(connections)} connections are possible, and fit each other")


def _delays_us(flows: Mapping[int, Flow], evidence: Evidence) -> dict[str, dict[int, float]]:
    """{"i" or "a": {source: delay of the links that what this side sends goes over}}"""
    delay_us = {link.name: wires.least_delay_us(link) for link in evidence.network.links}
    return {side: {source: sum(delay_us[name] for name in flow.way(back)) for source, flow in flows.items()}
            for side, back in (("i", False), ("a", True))}


def _connections(connections: pd.DataFrame, flows: Mapping[int, Flow], evidence: Evidence) -> Iterator[str]:
    delays_us, exact_us = _delays_us(flows, evidence), _EXACT_US[evidence.clock]
    rtt_us = sum(connections["source"].map(one) for one in delays_us.values())
    took_us = connections["connected_us"] - connections["start_us"]
    yield from _wrong(connections, took_us < rtt_us - exact_us, "were connected in less than a round trip", took_us)
    most_us = evidence.timing.duration_us + exact_us
    yield from _wrong(connections, connections["end_us"] > most_us, "ended after the run", connections["end_us"])


def _finished(connections: pd.DataFrame) -> Iterator[str]:
    finished = connections[connections["status"] == "finished"]
    yield from _wrong(finished, finished["end_us"].isna(), "finished and have no end")
    lacking = False
    for delivered, asked in _COUNTS:
        lacking |= finished[delivered] != finished[asked]
    yield from _wrong(finished, lacking, "finished, though not all was delivered")
    others = connections[connections["status"] == "unfinished"]
    yield from _wrong(others, others["end_us"].notna(), "ended, though they are unfinished")


def _units(units: pd.DataFrame, connections: pd.DataFrame, flows: Mapping[int, Flow], evidence: Evidence) \
        -> Iterator[str]:
    units = units[units["source"].isin(flows)]
    exact_us = _EXACT_US[evidence.clock]
    delays_us = _delays_us(flows, evidence)
    delay_us = units["source"].map(delays_us["i"]).where(units["side"] == "i", units["source"].map(delays_us["a"]))
    took_us = units["delivered_us"] - _sent_us(units, connections, delays_us, evidence)
    early = took_us < delay_us - exact_us
    yield from _wrong(units, early, "got a data unit before the delay of the links had passed", took_us)
    yield from _wrong(units, units["delivered_us"].notna() & units["sent_us"].isna(),
                      "got a data unit that nobody sent")
    late = units["delivered_us"] > evidence.timing.duration_us + exact_us
    yield from _wrong(units, late, "got a data unit after the run", units["delivered_us"])
    per_connection = units.groupby(_KEY)["delivered_us"].agg(["max", "count"])
    mine = connections.join(per_connection, on=_KEY)
    spare_us = mine["end_us"] - mine["max"]
    yield from _wrong(mine, spare_us < -exact_us, "ended before their last data unit was delivered", spare_us)
    yield from _wrong(mine, mine["count"].fillna(0) != mine["adus_delivered"],
                      "have another number of delivered data units than the table of these")


def _sent_us(units: pd.DataFrame, connections: pd.DataFrame, delays_us: dict[str, dict[int, float]],
             evidence: Evidence) -> pd.Series:
    """When data units were sent.

    A simulator may find out only later that a connection is established, and that what had waited for nothing else has
    been sent (simulation/ns2/replay.tcl): a round trip after the connection began at the earliest.
    """
    if evidence.clock != "simulated":
        return units["sent_us"]
    began = connections[[*_KEY, "start_us", "connected_us"]]
    mine = units[_KEY].merge(began, on=_KEY, how="left").set_axis(units.index)
    rtt_us = sum(units["source"].map(one) for one in delays_us.values())
    at_once = units["sent_us"] == mine["connected_us"]
    return units["sent_us"].where(~at_once, mine["start_us"] + rtt_us)


def _wrong(rows: pd.DataFrame, wrong: pd.Series, what: str, value_us: pd.Series | None = None) -> Iterator[str]:
    """One line on the rows for which something is so, with the first of them."""
    if wrong.any():
        one = rows[wrong].iloc[0]
        value = "" if value_us is None else f" ({value_us[wrong].iloc[0]:.0f} us)"
        count = len(rows[wrong][_KEY].drop_duplicates())
        yield f"{count} connections {what}, such as connection {one['conn']} of source {one['source']}{value}"

# SPDX-License-Identifier: GPL-2.0-only
"""Camps: Tmix components that replay the same connections side by side, each with a congestion control of its own.

One camp always uses standard TCP, the other what is tested. The run in which that is standard TCP, too, is the baseline
of the others with its seed. With T, the mean transfer time of a camp's connections, the loss of the standard camp is
L = T(mix) / T(baseline), the gain of the other one G = T(mix) / T(baseline). Source: draft-irtf-iccrg-tcpeval-01,
impact on standard TCP traffic.

Quarters are those of the connections by size, the same in all camps and runs: all of them replay the same connections.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from analysis.flows import per_connection
from analysis.metrics import Metric, Shown
from analysis.read.runs import AnalysisError, Run

RATIO, IN_ONE = "transfer_time_ratio", "transfers_in_one_run_only"
UNITS = {"transfer_time_ratio": "1", "transfers_in_one_run_only": "%"}
RATIOS = frozenset({RATIO})
NOT_COMPARED = {IN_ONE}
SHOWN = [Shown("camp_ratios", RATIO, "", 10), Shown("camp_ratios", IN_ONE, "finished in one run only", 20)]
QUARTERS = 4
ALL = 0
_CONNECTIONS = per_connection.KINDS[0]


class Camp(NamedTuple):
    """A component; variants: those that it uses whatever is tested, () where it uses what is tested."""

    name: str
    variants: tuple[str, ...]

    @property
    def standard(self) -> bool:
        return bool(self.variants)


def camps(run: Run) -> list[Camp]:
    """The Tmix component that others draw like, and those; [] if there are none."""
    components = [one for one in run.scenario.traffic if one.get("kind") == "tmix"]
    drawn = {one.get("draws") or one.get("name") for one in components if one.get("draws")}
    found = []
    for one in components:
        if (one.get("draws") or one.get("name")) in drawn:
            ccas = one.get("cca")
            found.append(Camp(str(one["name"]), tuple(ccas) if isinstance(ccas, (list, tuple)) else ()))
    return found


def scope(camp: str, quarter: int = ALL) -> str:
    return f"camp_{camp}/quarter_{quarter}" if quarter else f"camp_{camp}"


def baseline_subject(run: Run) -> str:
    """The subject of the run's baseline: what its standard camp uses; '' where there is no such thing."""
    found = camps(run)
    fixed = [one for one in found if one.standard]
    return "+".join(fixed[0].variants) if len(fixed) == 1 < len(found) else ""


def transfers(run: Run) -> dict[str, pd.DataFrame]:
    """{camp: table} of connections that are due in the measurement interval.

    Index: source, counted within the camp, and connection. Columns: bytes; seconds, missing of those that did not
    finish; quarter by size, from 1. AnalysisError if the camps did not replay the same connections.
    """
    known: dict[str, pd.DataFrame] | None = run.__dict__.get("_camp_transfers")
    if known is None:
        known = run.__dict__["_camp_transfers"] = _transfers(run)
    return known


def _transfers(run: Run) -> dict[str, pd.DataFrame]:
    names = [camp.name for camp in camps(run)]
    table = _CONNECTIONS.read(run) if names else None
    if table is None:
        return {}
    found: dict[str, pd.DataFrame] = {}
    for name in names:
        sources = sorted({flow.source for flow in run.flows if flow.component == name and flow.source is not None})
        mine = table[table["source"].isin(sources)]
        mine = pd.DataFrame({"source": mine["source"].map(sources.index), "conn": mine["conn"], "bytes": mine["bytes"],
                             "seconds": mine["time_us"] / 1e6})
        # the order of equal sizes is that of the connections, so that it is the same in every camp
        mine = mine[mine["bytes"] > 0].sort_values(["bytes", "source", "conn"], ignore_index=True)
        mine["quarter"] = 1 + QUARTERS * mine.index // max(len(mine), 1)
        found[name] = mine.set_index(["source", "conn"])
    first = names[0]
    for name in names[1:]:
        _same(found[first], found[name], f"camp {name} did not replay the connections of camp {first}")
    return found


def _same(one: pd.DataFrame, other: pd.DataFrame, otherwise: str) -> None:
    if not one["bytes"].equals(other["bytes"]):
        raise AnalysisError(otherwise)


def against(run: Run, baseline: Run) -> list[Metric]:
    """L and G: mean transfer times of each camp over those in its baseline, of connections that finished in both.

    And the share of those that finished in one of both only, which are in neither mean. AnalysisError if the runs did
    not replay the same connections.
    """
    mine, reference = transfers(run), transfers(baseline)
    found: list[Metric] = []
    for camp, table in mine.items():
        if camp not in reference:
            raise AnalysisError(f"{baseline.path}: there is no camp {camp}")
        _same(reference[camp], table, f"{run.path}: camp {camp} did not replay the connections of {baseline.path}")
        base = reference[camp]["seconds"]
        done = table["seconds"].notna() & base.notna()
        for quarter in range(QUARTERS + 1):
            of_quarter = done & (table["quarter"] == quarter) if quarter else done
            if of_quarter.any():
                found.append(Metric(RATIO, scope(camp, quarter), "1",
                                    float(table["seconds"][of_quarter].mean() / base[of_quarter].mean())))
        either = table["seconds"].notna() | base.notna()
        if either.any():
            found.append(Metric(IN_ONE, scope(camp), "%", 100 * float((either & ~done).sum() / either.sum())))
    return found

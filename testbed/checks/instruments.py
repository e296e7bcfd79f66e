# SPDX-License-Identifier: GPL-2.0-only
"""What two instruments counted is the same: samples and counters of queues, trace events, their distribution.

Counters of links are read once more when the traffic has ended (raw/counters.json), and the kernel's trace events
(`sojourn`) know nothing of the queues' own counters. So rows that are missing or wrong in one of them show.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, interval_us, of_links
from testbed.core import ip
from testbed.core.guest_files import LinkCounters
from topologies.links import varying
from topologies.links.records import Link

if TYPE_CHECKING:
    import pandas as pd

#: how much later one may be read than the other, in us; in virtual time nothing happens between them
_LATER_US = {"virtual": 0, "simulated": 0, "real": 250_000}
#: what may leave a queue within a time: bytes of the smallest packet, and packets that are just leaving. A simulator
#: may count a packet when it begins to leave in one place, and when it has left in the other.
_LEAST_BYTES, _LEAVING = 60, 2
#: in virtual time a packet that leaves at the very instant of the end is in the counters, and in no interval of sojourn
_AT_THE_END = {"virtual": 1, "simulated": 0, "real": 0}
#: of the sum of times: figures of the tables are rounded to 1 ns
_ROUNDED = 1e-4
#: of a single time: both tables have three decimals
_ROUNDED_US = 0.002
_COUNTERS = ("sent_packets", "sent_bytes", "drops")


def check(evidence: Evidence) -> Iterator[Finding]:
    tables = {name: evidence.table(name) for name in ("queue", "edge_queue", "sojourn", "sojourn_hist")}
    problems: list[str] = []
    compared = []
    if evidence.can("counters.json"):
        at_end = evidence.counters.at_end
        for name in ("queue", "edge_queue"):
            if tables[name] is not None:
                problems += _counters(name, tables[name], at_end, evidence)
                compared.append(name)
    sojourn, spread = tables["sojourn"], tables["sojourn_hist"]
    if sojourn is not None and tables["queue"] is not None and "sent_packets" in tables["queue"]:
        problems += _sojourns(sojourn, tables["queue"], evidence)
        compared.append("sojourn")
        problems += _sojourns_in_time(sojourn, tables["queue"], evidence)
    if sojourn is not None and spread is not None:
        problems += _distributions(sojourn, spread, evidence)
        problems += _spreads(sojourn, spread, evidence)
        compared.append("sojourn_hist")
    elif sojourn is not None and evidence.can("kernel"):
        problems.append("there is no distribution of the time that packets spent in queues (sojourn_hist)")
    for problem in problems:
        yield Finding("invalid", problem)
    if not compared:
        yield Finding(NOT_APPLICABLE, "nothing was counted twice")
    elif not problems:
        yield Finding("ok", f"{', '.join(compared)} agree with what other instruments counted on "
                            f"{len(evidence.network.links)} link directions")


def _links(table: pd.DataFrame, evidence: Evidence) -> Iterator[tuple[str, Link, Columns]]:
    """(name, link, rows) of every link that the table is about; of what is missing others complain."""
    links = {link.name: link for link in evidence.network.links}
    for name, mine in of_links(table, links):
        yield name, links[name], mine


def _most_bytes(link: Link, from_us: float, for_us: float) -> float:
    """What may leave a queue within a time."""
    if link.opportunities:
        return sum(count for _, count in varying.opportunities(link, from_us, from_us + for_us)) * varying.FRAME_BYTES
    return float(varying.most(link, "rate_bps") * for_us / 8e6)


def _counters(table: str, samples: pd.DataFrame, at_end: Mapping[str, LinkCounters], evidence: Evidence) \
        -> Iterator[str]:
    """The last sample of each queue, with what has left it until the counters were read."""
    duration_us = evidence.timing.duration_us
    for name, link, mine in _links(samples, evidence):
        last = {column: values[-1] for column, values in mine.items()}
        later_us = max(0, duration_us - last["t_us"]) + _LATER_US[evidence.clock]
        more_bytes = _most_bytes(link, last["t_us"], later_us)
        leaving = _LEAVING * (later_us > 0 or evidence.clock == "simulated")
        counted = at_end[name]
        for column, at_last in zip(_COUNTERS, (counted.sent_packets, counted.sent_bytes, counted.dropped_packets)):
            most = more_bytes + leaving * (link.mtu_bytes + ip.ETHERNET_BYTES) if column == "sent_bytes" \
                else more_bytes / _LEAST_BYTES + leaving
            if not 0 <= at_last - last[column] <= most:
                yield (f"{name}: {last[column]:.0f} {column} in the last row of {table}, {at_last} by "
                       "its counters at the end")
        falls = np.any([np.diff(mine[column]) < 0 for column in _COUNTERS], axis=0)
        if falls.any():
            yield f"{name}: counters go down in {table}, at {mine['t_us'][1 + falls.argmax()] / 1e6:g} s"


def _sojourns(sojourn: pd.DataFrame, queue: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    """As many packets have been timed as the queue has sent, which counts segments where nobody cuts packets."""
    timed_on = sojourn.groupby("link")["packets"].sum()
    for name, link, mine in _links(queue, evidence):
        sent, timed = mine["sent_packets"][-1], timed_on.get(name, 0)
        later_us = max(0, evidence.timing.duration_us - mine["t_us"][-1]) \
            + _LATER_US[evidence.clock]
        leaving = _LEAVING * (later_us > 0 or evidence.clock == "simulated")
        more = _most_bytes(link, mine["t_us"][-1], later_us) / _LEAST_BYTES + leaving
        if not sent / link.most_segments - more - _AT_THE_END[evidence.clock] <= timed <= sent + more:
            yield f"{name}: {sent:.0f} packets were sent, of which {timed:.0f} are in sojourn"


def _sojourns_in_time(sojourn: pd.DataFrame, queue: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    """In virtual time they agree at each instant at which both are known: neither is shifted, or of another run.

    Of a link with a trace many packets leave in one instant, which may be before or after that of the sample. Where
    nobody cuts packets the queue counts segments.
    """
    interval_us = evidence.scenario.probe("sojourn").interval_us
    if evidence.clock != "virtual" or not interval_us:
        return
    others = {link.name for link in evidence.network.links if link.opportunities or link.uncut}
    timed = {name: rows for name, _, rows in _links(sojourn, evidence)}
    for name, _, mine in _links(queue, evidence):
        if name not in timed or name in others:
            continue
        ends_us = timed[name]["t_us"] + interval_us
        until = np.append(0, np.cumsum(timed[name]["packets"]))[np.searchsorted(ends_us, mine["t_us"], "right")]
        short = (mine["sent_packets"] - until)[mine["t_us"] % interval_us == 0]
        wrong = (short < 0) | (short > _AT_THE_END["virtual"])
        if wrong.any():
            at_us = mine["t_us"][mine["t_us"] % interval_us == 0][int(np.argmax(wrong))]
            yield (f"{name}: sojourn has another number of packets than queue at {int(wrong.sum())} of {len(short)} "
                   f"instants, such as {at_us / 1e6:g} s ({short[int(np.argmax(wrong))]:+.0f} in queue)")


def _spreads(sojourn: pd.DataFrame, spread: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    """The distribution has as many packets on either side of each edge of a bin as the shortest and longest times of
    the intervals say at least."""
    from_us, _ = interval_us(evidence)
    bins_of = {name: bins for name, _, bins in _links(spread, evidence)}
    for name, _, mine in _links(sojourn, evidence):
        timed = (mine["packets"] > 0) & ~np.isnan(mine["min_us"]) & ~np.isnan(mine["max_us"])
        outside = timed & ((mine["mean_us"] < mine["min_us"] - _ROUNDED_US)
                           | (mine["mean_us"] > mine["max_us"] + _ROUNDED_US))
        if outside.any():
            yield (f"{name}: the mean of {int(outside.sum())} intervals of sojourn is not between their shortest and "
                   f"longest times, such as {mine['mean_us'][int(np.argmax(outside))] / 1000:.3f} ms at "
                   f"{mine['t_us'][int(np.argmax(outside))] / 1e6:g} s")
        bins = bins_of.get(name)
        if bins is None or np.isnan(bins["packets"]).any():
            continue
        late = timed & (mine["t_us"] >= from_us)
        order = np.argsort(bins["high_us"], kind="stable")
        below = np.cumsum(bins["packets"][order])
        edges_us = bins["high_us"][order]
        known = ~np.isnan(edges_us)
        below, edges_us = below[known], edges_us[known]
        least = _up_to(mine["max_us"][late], mine["packets"][late], edges_us - _ROUNDED_US)
        above = mine["packets"][late].sum() - _up_to(mine["min_us"][late], mine["packets"][late], edges_us
                                                     + _ROUNDED_US)
        wrong = (below < least) | (np.nansum(bins["packets"]) - below < above)
        if wrong.any():
            one = int(np.argmax(wrong))
            yield (f"{name}: {below[one]:.0f} packets were queued for less than {edges_us[one] / 1000:.3f} ms by "
                   f"sojourn_hist, by sojourn {least[one]:.0f} at least and "
                   f"{np.nansum(bins['packets']) - above[one]:.0f} at most")


def _up_to(values: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The sum of the weights of values that are no larger than each edge."""
    order = np.argsort(values, kind="stable")
    return np.concatenate([[0], np.cumsum(weights[order])])[np.searchsorted(values[order], edges, "right")]


def _distributions(sojourn: pd.DataFrame, spread: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    """After warm-up as many packets as the series has, and times that sum up to the same."""
    from_us, _ = interval_us(evidence)
    settings = evidence.scenario.probe("sojourn")
    bins_of = {name: bins for name, _, bins in _links(spread, evidence)}
    for name, _, mine in _links(sojourn, evidence):
        late, bins = mine["t_us"] >= from_us, bins_of.get(name, {column: np.zeros(0) for column in spread})
        # the interval in which the warm-up ends has packets of both parts
        split = ~late & (mine["t_us"] + (settings.interval_us or 0) > from_us)
        packets, spent_us = mine["packets"], mine["packets"] * mine["mean_us"]
        counted, timed = np.nansum(bins["packets"]), np.nansum(packets[late])
        if not timed <= counted <= timed + np.nansum(packets[split]):
            yield f"{name}: {timed:.0f} packets after warm-up in sojourn, {counted:.0f} in sojourn_hist"
            continue
        total_us, more_us = np.nansum(spent_us[late]), np.nansum(spent_us[split])
        least_us, most_us = (np.nansum(bins["packets"] * bins[edge]) for edge in ("low_us", "high_us"))
        slack_us = _ROUNDED * total_us + counted * 1e-3
        if not np.isnan(bins["high_us"]).any() and not (
                least_us - slack_us <= total_us + more_us and total_us <= most_us + slack_us):
            yield (f"{name}: packets spent {total_us / 1e6:.3f} s in the queue by sojourn, {least_us / 1e6:.3f} to "
                   f"{most_us / 1e6:.3f} s by sojourn_hist")

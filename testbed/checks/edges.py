# SPDX-License-Identifier: GPL-2.0-only
"""No hidden bottleneck: packets do not wait at hosts and on links that the scenario does not call bottlenecks.

Drops there are the business of the check `losses`.
"""
import functools
import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, inside, interval_us, of_links
from topologies import queues
from topologies.links import varying
from topologies.links.records import Link

NEEDS = ("edge_queue.csv.gz",)

#: mean wait, of the shortest base round-trip time over the link: bursts of slow start queue, too, for a moment ...
_SHARE_OF_RTT = 0.1
#: ... and a packet that is just being sent is no queue
_PACKETS = 1.0
#: of bursts at a host: a mean is not told from one that is larger by so many standard errors
_ERRORS = 2
#: ... and is seen by one sample in ten at most: as many long waits in a row as now and then are less likely than this
_BURSTS, _LUCK = 0.1, 0.01
#: of the link's rate; what is slower than the bottlenecks and carries more is one itself, whether packets wait or not
_UTILISATION = 0.95
#: of the samples: a host that is as slow as the bottleneck, and busy while packets wait, in more of them, has taken its
#: place: nothing that is slower than the host's own link can be behind it
_SATURATED = 0.5
#: fewer say nothing of a mean
_LEAST_SAMPLES = 5


def check(evidence: Evidence) -> Iterator[Finding]:
    links = {link.name: link for link in evidence.network.links if not link.bottleneck}
    if not links:
        return
    table = evidence.table("edge_queue")
    if table is None:
        yield Finding("suspect", "the queues of links that are no bottlenecks were not sampled")
        return
    table = inside(table, evidence)
    from_us, to_us = interval_us(evidence)
    if to_us - from_us < _LEAST_SAMPLES * _interval_us(evidence):
        yield Finding(NOT_APPLICABLE, f"{(to_us - from_us) / 1e6:g} s are too short to judge the queues of links that "
                                      "are no bottlenecks")
        return
    rows = table["link"].value_counts(sort=False).to_dict()
    unseen = [name for name in links if rows.get(name, 0) < _LEAST_SAMPLES]
    if unseen:
        yield Finding("suspect", f"no samples of the queues of {len(unseen)} links that are no bottlenecks, such as "
                                 f"{unseen[0]}")
    bottlenecks = {link.name: varying.mean_rate_bps(link, from_us, to_us) for link in evidence.network.links
                   if link.bottleneck}
    waits_us = functools.cache(lambda: _bottlenecks_us(evidence, bottlenecks))
    hosts = {node.name for node in evidence.network.nodes if node.role == "host"}
    bad, longest, busiest = 0, 0.0, 0.0
    for name, samples in of_links(table, (name for name in rows if name in links and name not in unseen)):
        ways = [way for path in evidence.network.paths for way in (path.hops, path.hops_back) if name in way]
        rate_bps = max(varying.mean_rate_bps(links[name], from_us, to_us), 1)      # 0 in an outage
        slower = any(rate_bps < bottlenecks.get(other, 0) for way in ways for other in way)
        # a host that is as slow as the bottleneck holds a burst before the bottleneck can: it takes its place
        as_slow = not slower and any(rate_bps <= bottlenecks.get(other, 0) for way in ways for other in way)
        behind_us = None if not as_slow or links[name].from_node not in hosts else max(
            (sum(waits_us().get(other, 0.0) for other in way) for way in ways), default=0.0)
        paces = queues.traits(links[name]).paces and links[name].from_node in hosts
        wait_us, utilisation, finding = _link(links[name], rate_bps, samples, _shortest_rtt_us(name, evidence), slower,
                                              behind_us, paces)
        longest, busiest = max(longest, wait_us), max(busiest, utilisation)
        if finding:
            bad += 1
            yield finding
    if not bad and not unseen:
        yield Finding("ok", f"no hidden bottleneck: on {len(links)} other links packets waited for at most "
                            f"{longest / 1000:.3f} ms on average, and none carried more than {busiest:.1%} of its rate")


def _interval_us(evidence: Evidence) -> int:
    """Time between two samples; where nothing is said of it, any number of samples is right."""
    return evidence.scenario.probe("queue").edge_interval_us or 0


def _bottlenecks_us(evidence: Evidence, rates_bps: dict[str, float]) -> dict[str, float]:
    """How long packets wait in each bottleneck, on the mean."""
    queue = evidence.table("queue", usecols=["t_us", "link", "backlog_bytes"])
    if queue is None:
        return {}                               # of which other checks complain
    return {name: np.nanmean(samples["backlog_bytes"]) * 8e6 / max(rates_bps[name], 1)
            for name, samples in of_links(inside(queue, evidence), rates_bps)}


def _link(link: Link, rate_bps: float, samples: Columns, rtt_us: float, slower: bool,
          behind_us: float | None, paces: bool) -> tuple[float, float, Finding | None]:
    """(mean wait in us, utilisation, what is wrong).

    slower: than a bottleneck on one of its paths; behind_us: of a host that may hold bursts in a bottleneck's place,
    how long packets wait in that; paces: packets may wait for their time, too, and not only for the link.
    """
    name = link.name
    busy = _busy(samples, rate_bps)
    waits = busy if paces else np.ones_like(busy)
    packets = np.nanmean(samples["backlog_packets"] * waits)
    wait_us = np.nanmean(samples["backlog_bytes"] * waits) * 8e6 / rate_bps
    span_us = samples["t_us"][-1] - samples["t_us"][0]
    utilisation = (samples["sent_bytes"][-1] - samples["sent_bytes"][0]) * 8e6 / span_us / rate_bps
    finding = None
    allowed_us, in_a_row = _SHARE_OF_RTT * rtt_us, 0
    if behind_us is not None:
        allowed_us += _SHARE_OF_RTT * behind_us
        in_a_row = _longest(samples["backlog_bytes"] * waits * 8e6 / rate_bps > allowed_us)
        if (len(samples["t_us"]) - in_a_row + 1) * _BURSTS**in_a_row >= _LUCK:
            allowed_us += _ERRORS * pd.Series(samples["backlog_bytes"] * waits).sem() * 8e6 / rate_bps
            in_a_row = 0
    saturated = np.mean(busy & (samples["backlog_packets"] > 0))
    if packets > _PACKETS and wait_us > allowed_us:
        finding = Finding("suspect", f"{name} is no bottleneck, but packets wait there for {wait_us / 1000:.2f} ms on "
                                     f"average ({packets:.1f} packets; its shortest round trip has "
                                     f"{rtt_us / 1000:g} ms{f'; {in_a_row} samples in a row' if in_a_row else ''})")
    elif behind_us is not None and saturated > _SATURATED and packets > _PACKETS and wait_us > behind_us:
        finding = Finding("suspect", f"{name} is as slow as the bottleneck, and takes its place: it is busy while "
                                     f"packets wait in {saturated:.1%} of the samples, for {wait_us / 1000:.2f} ms on "
                                     f"average, and behind it for {behind_us / 1000:.2f} ms")
    elif slower and utilisation > _UTILISATION:
        finding = Finding("suspect", f"{name} is no bottleneck, but slower than one and carries {utilisation:.1%} of "
                                     "its rate")
    return wait_us, utilisation, finding


def _busy(samples: Columns, rate_bps: float) -> np.ndarray:
    """Whether the link carried all it can until each sample; until the first one, whether it did so until the next."""
    used = np.diff(samples["sent_bytes"]) * 8e6 / np.maximum(np.diff(samples["t_us"]), 1) / rate_bps
    return np.concatenate([used[:1], used]) > _UTILISATION


def _longest(long: np.ndarray) -> int:
    """How many in a row are true, at most."""
    return max((sum(1 for _ in run) for true, run in itertools.groupby(long) if true), default=0)


def _shortest_rtt_us(name: str, evidence: Evidence) -> float:
    return min((path.base_rtt_us for path in evidence.network.paths
                if name in [*path.hops, *path.hops_back]), default=0.0)

# SPDX-License-Identifier: GPL-2.0-only
"""What the network lost of flows of TCP and of programs: of the only one of a run, and of those with links of their own
at both ends."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from analysis.flows import program_curves
from analysis.metrics import Metric, Shown
from analysis.metrics.udp import account
from analysis.read import tcp
from analysis.read.runs import Run
from testbed.core.guest_files import Counters, LinkCounters
from traffic.workload.records import Flow

UNITS = {"flow_loss": "%"}
BETTER = {"flow_loss": "lower"}
OF_ANY_SENDER = {"flow_loss": ""}
SHOWN = [Shown("flows", "flow_loss", "packets lost", 20)]


def compute(run: Run) -> list[Metric]:
    """Packets dropped on the way there / packets that its sender sent, acknowledgements not among them.

    Of the measurement interval. Nothing of flows of which the counters of links do not say it.
    """
    return [Metric("flow_loss", f"flow_{flow}", "%", 100 * share) for flow, share in shares(run).items()]


def shares(run: Run) -> dict[int, float]:
    """{flow: share of its packets that was dropped in the measurement interval}"""
    flows = [*tcp.listed_flows(run), *program_curves.flows(run)]
    counters = run.record(Counters, "counters.json") if flows else None
    if counters is None:
        return {}
    if any(link.uncut for link in run.network.links):
        return {}                               # what was sent is counted in segments, what was lost in packets
    links = counters.drained
    # counters of the interval alone do not tell UDP's drops from others, or losses from what is under way
    exact = counters.has("measure_from") and len(run.flows) == 1
    if exact:
        links = {name: _since(counters.measure_from[name], one) for name, one in counters.at_end.items()}
    parts = {} if exact or not run.interval.start_us else _parts(run)
    found = {}
    for flow in flows:
        lost = _as_the_only_one(run, flow, links) if len(flows) == 1 else _between_own_links(run, flow, links)
        first = links.get(flow.hops[0]) if flow.hops else None
        sent = first.sent_packets + first.dropped_packets if first else 0
        if lost is None or lost < 0 or not sent:
            continue
        share = lost / sent
        if share and not exact and run.interval.start_us:
            share *= parts.get(flow.flow, math.nan)
        if math.isfinite(share):
            found[flow.flow] = share
    return found


def _since(before: LinkCounters, after: LinkCounters) -> LinkCounters:
    """What was counted between two readings; nothing of what was delivered."""
    return LinkCounters({"sent_packets": after.sent_packets - before.sent_packets,
                         "dropped_packets": after.dropped_packets - before.dropped_packets,
                         "wire_dropped_packets": after.wire_dropped_packets - before.wire_dropped_packets})


def _parts(run: Run) -> dict[int, float]:
    """{flow: share of what it sent that it sent again, in the measurement interval over that in the whole run}

    What was lost is sent again a round trip later. Nothing of flows that sent nothing again.
    """
    samples, inside = tcp.flow_samples(run), tcp.measured(run, single=True)
    if samples is None or inside is None:
        return {}
    samples = samples.sort_values("t_us", kind="stable")
    columns = ["total_retrans", "bytes_sent"]
    whole, part = (steps[columns].groupby(tcp.flow_numbers(run, of)).sum()
                   for of, steps in ((samples, tcp.growth(samples)), inside))
    rates = (table["total_retrans"] / table["bytes_sent"] for table in (part, whole))
    ratio = next(rates) / next(rates)
    found: dict[int, float] = ratio[np.isfinite(ratio)].to_dict()
    return found


def _as_the_only_one(run: Run, flow: Flow, links: Mapping[str, LinkCounters]) -> int | None:
    """What UDP flows lost is known by their numbers: the rest of the drops on the links of all flows is the flow's."""
    udp = [one for one in run.flows if one.transport == "udp"]
    lost = {one.flow: one.lost_packets for one in account(run) if one.lost_packets is not None}
    crossed = {name for one in (flow, *udp) for name in one.hops}
    if (len(udp) + 1 != len(run.flows) or not crossed <= links.keys()
            or any(one.flow not in lost or one.sender == flow.sender for one in udp)):
        return None
    dropped = sum(links[name].dropped_packets + links[name].wire_dropped_packets for name in crossed)
    return dropped - sum(lost[one.flow] for one in udp)


def _between_own_links(run: Run, flow: Flow, links: Mapping[str, LinkCounters]) -> int | None:
    """What entered the first link and did not come out of the last, where nobody else uses these two."""
    ends = {*flow.hops[:1], *flow.hops[-1:]}
    others = {name for one in run.flows for back in (False, True)
              for name in one.way(back) if one.flow != flow.flow or back}
    if len(ends) != 2 or ends & others or not ends <= links.keys():
        return None
    first, last = (links[flow.hops[place]] for place in (0, -1))
    if not last.has("wire_delivered_packets"):
        return None
    return first.sent_packets + first.dropped_packets - last.wire_delivered_packets

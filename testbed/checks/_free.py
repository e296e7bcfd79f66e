# SPDX-License-Identifier: GPL-2.0-only
"""What the load leaves free of each bottleneck."""

from testbed.checks import Evidence
from testbed.checks._measured import interval_us
from topologies.links import varying
from topologies.links.records import Link

#: what counts as a part of a trace, at least
_PART_US = 1_000_000
#: of a link's rate: with less to spare than that it is overloaded
_LEAST_FREE = 0.02


def free_bps(evidence: Evidence) -> dict[str, float]:
    """{bottleneck: bit/s that one more flow gets}; 0 for one that is overloaded.

    Flows that take what they can get share what is left with one that comes.
    """
    from_us, to_us = interval_us(evidence)
    return {link.name: _free_bps(link, evidence, from_us, to_us) for link in evidence.network.links
            if link.bottleneck}


def overloaded(evidence: Evidence) -> set[str]:
    """Bottlenecks that are offered more than 98 % of what they carry on average, outages included."""
    from_us, to_us = interval_us(evidence)
    return {link.name for link in evidence.network.links if link.bottleneck
            and _offered_bps(link, evidence) > (1 - _LEAST_FREE) * varying.mean_rate_bps(link, from_us, to_us)}


def _offered_bps(link: Link, evidence: Evidence) -> float:
    return float(sum(component.offered_bps.get(link.name, 0)
                     for component in evidence.workload.components))


def _free_bps(link: Link, evidence: Evidence, from_us: int, to_us: int) -> float:
    name = link.name
    load_bps = _offered_bps(link, evidence)
    others = [flow for flow in evidence.flows if flow.source is None and name in flow.hops]
    load_bps += sum(flow.rate_bps for flow in others if flow.rate_bps is not None)
    # a data unit may take as long as the slowest part of the schedule
    if link.opportunities:
        parts = max(1, (to_us - from_us) // _PART_US)
        edges_us = [from_us + (to_us - from_us) * number // parts for number in range(parts + 1)]
        rate_bps = min(round(varying.mean_rate_bps(link, *ends_us)) for ends_us in zip(edges_us, edges_us[1:]))
    else:
        rate_bps = min(state.carries_bps for _, _, state in varying.spans(link, from_us, to_us))
    left_bps = float(rate_bps - load_bps)
    greedy = sum(flow.rate_bps is None for flow in others)
    return left_bps / (1 + greedy) if left_bps >= _LEAST_FREE * max(rate_bps, 1) else 0.0

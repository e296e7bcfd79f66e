# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls that are made for marks (DCTCP) have a queue on their way that can mark."""
from collections.abc import Iterator

from testbed.checks import Evidence, Finding
from topologies import queues

NEEDS = ("kernel",)


def check(evidence: Evidence) -> Iterator[Finding]:
    names = {variant.name for variant in evidence.variants if variant.needs_ecn}
    flows = [flow for flow in evidence.flows if flow.variant in names]
    if not flows:
        yield Finding("ok", "no flow has a congestion control that is made for marks")
        return
    marking_links = {link.name for link in evidence.network.links if queues.traits(link).marks}
    for name in sorted({str(flow.variant) for flow in flows}):
        mine = [flow for flow in flows if flow.variant == name]
        never = [flow.flow for flow in mine
                 if not marking_links.intersection([*flow.hops, *(flow.hops_back if flow.both_ways else ())])]
        if never:
            yield Finding("suspect", f"{name} answers marks, and no queue on the way of {len(never)} of its "
                                     f"{len(mine)} flows can mark, such as flow {never[0]}: what it does about losses "
                                     "is all that is seen")
        else:
            yield Finding("ok", f"every flow of {name} has a queue on its way that can mark")

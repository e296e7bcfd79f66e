# SPDX-License-Identifier: GPL-2.0-only
"""The congestion control that every connection used: as its socket said before its SYN, when it was connected, and in
samples."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from testbed.checks import Evidence, Finding
from testbed.checks._programs import ends, tcp_flows
from testbed.checks._sockets import ends_of, trying
from testbed.core.guest_files import FlowEnd
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

NEEDS = ("kernel",)
#: a socket has what its flow is to have before it is connected, too: what another one leaves behind stays
_BORN = ("SYN-SENT",)
_CONNECTED = ("ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING")
_DEFAULT = "net.ipv4.tcp_congestion_control"
#: flows or names in one message
_MOST_NAMED = 5


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = tcp_flows(evidence)
    if flows:
        samples = evidence.table("tcp_info", usecols=["node", "sport", "dst", "dport", "state", "cca"])
        asking = trying(samples, flows, evidence.network)
        yield from _births(evidence, flows)
        yield from _connections(evidence, flows, set() if asking is None else set(asking["flow"]))
        yield from _samples(samples, flows)


# -- before the SYN ------------------------------------------------------------------------------


def _births(evidence: Evidence, flows: Sequence[Flow]) -> Iterator[Finding]:
    """What a program can choose only once its connection is there is what its host has by default until then, and what
    that leaves behind stays: pacing, ECN."""
    found, sysctls = ends(evidence), evidence.measured.sysctls
    wrong = known = 0
    for flow in flows:
        for end in ("sender", "receiver"):
            one = found.get((flow.flow, end))
            born = one.born if one else {}
            if not born and not flow.chooses_cca:
                default = sysctls.get(flow.sender if end == "sender" else flow.receiver, {}).get(_DEFAULT)
                born = {default: 1} if default else {}
            others = sorted(name for name in born if name != flow.cca)
            known += bool(born)
            if others:
                wrong += 1
                yield Finding("invalid", f"flow {flow.flow}: its {end} was born with {', '.join(others)}, not with "
                                         f"{flow.cca}: what that leaves behind (pacing, ECN) stays")
    if known and not wrong:
        yield Finding("ok", f"{known} ends of flows had their congestion control before their SYN")


# -- every connection ----------------------------------------------------------------------------


def _connections(evidence: Evidence, flows: Sequence[Flow], asking: set[int]) -> Iterator[Finding]:
    """Of flows that send one way the sender only: what the other end is set to decides nothing.

    asking: flows that were seen before they were connected, which some of them may never have been.
    """
    found, wrong = ends(evidence), 0
    silent = []
    total = 0
    for flow in flows:
        for end in ("sender", *(["receiver"] if flow.both_ways else [])):
            one = found.get((flow.flow, end))
            counts = one.ccas if one else {}
            others = {name: count for name, count in counts.items() if name != flow.cca}
            total += sum(counts.values()) - sum(others.values())
            if others:
                wrong += 1
                yield Finding("invalid", f"flow {flow.flow}: {sum(others.values())} connections used "
                                         f"{', '.join(sorted(name or 'an unknown one' for name in others))} at the "
                                         f"{end}, not {flow.cca}")
            if not counts and flow.flow not in asking:
                silent.append(flow.flow)
    if silent:
        yield Finding("suspect", f"no connection of {len(set(silent))} of {len(flows)} flows said which congestion "
                                 f"control it uses{_such_as(silent)}")
    yield from _missing(evidence, flows, found)
    if not wrong and not silent:
        yield Finding("ok", f"{total} sockets of {len(flows)} flows said that they use "
                            + _named(_used(flows)))


def _missing(evidence: Evidence, flows: Sequence[Flow], found: Mapping[tuple[int, str], FlowEnd]) -> Iterator[Finding]:
    """Connections that were established, and nobody asked."""
    connections = evidence.table("connections", usecols=["source", "connected_us"]) \
        if any(flow.source is not None for flow in flows) else None
    if connections is None:
        return
    established = connections[connections["connected_us"].notna()].groupby("source").size().to_dict()
    asked: dict[int, int] = {}
    for flow in flows:
        if flow.source is not None:
            one = found.get((flow.flow, "sender"))
            asked[flow.source] = asked.get(flow.source, 0) + (sum(one.ccas.values()) if one else 0)
    for source, count in asked.items():
        if count != established.get(source, 0):
            yield Finding("invalid", f"source {source}: {established.get(source, 0)} connections were established, "
                                     f"of which {count} said which congestion control they use")


def _used(flows: Sequence[Flow]) -> list[str]:
    return sorted({str(flow.cca) for flow in flows})


def _named(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + " ..." * (len(names) > _MOST_NAMED)


def _such_as(flows: list[int]) -> str:
    return f", such as flow {flows[0]}"


# -- samples: it may change later ----------------------------------------------------------------


def _samples(samples: pd.DataFrame, flows: Sequence[Flow]) -> Iterator[Finding]:
    if samples is None:
        return
    if not samples["state"].isin(_CONNECTED).any():
        yield Finding("suspect", "no connected flow was sampled: whether they kept their congestion control is not "
                                 "known")
        return
    samples = samples[samples["state"].isin(_BORN + _CONNECTED)]
    samples = samples.assign(cca=samples["cca"].fillna("unknown"))
    ccas = _used(flows)
    if len(ccas) == 1:                      # whatever socket it is, of a flow or beside one
        others = samples.loc[samples["cca"] != ccas[0], "cca"].value_counts()
        if len(others):
            yield Finding("invalid", f"{others.sum()} of {len(samples)} flow samples use another congestion control: "
                                     + ", ".join(map(str, others.index)))
            return
    yield from _by_flow(samples, flows, ccas)


def _by_flow(samples: pd.DataFrame, flows: Sequence[Flow], ccas: list[str]) -> Iterator[Finding]:
    sender, receiver = ends_of(samples, flows)
    both_ways = {flow.flow for flow in flows if flow.both_ways}
    number = sender + receiver * [one in both_ways for one in receiver]
    used = samples[number > 0].groupby(number[number > 0])["cca"].unique()
    wrong = 0
    for flow in flows:
        if flow.flow in used.index and list(used[flow.flow]) != [flow.cca]:
            wrong += 1
            yield Finding("invalid", f"flow {flow.flow} used {', '.join(sorted(used[flow.flow]))}, "
                                     f"not {flow.cca}")
    if not wrong:
        yield Finding("ok", f"{(number > 0).sum()} samples of {len(used)} flows report {_named(ccas)}"
                            + ", each its own" * (len(ccas) > 1))

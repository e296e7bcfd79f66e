# SPDX-License-Identifier: GPL-2.0-only
"""Flows limited by the receive window or the send buffer tell nothing of congestion control."""
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import NOT_APPLICABLE, Evidence, Finding
from testbed.fidelity._sockets import ends_of

_SHARE = 0.05
_SOCKET = ["node", "src", "sport", "dst", "dport"]
_TIMES = ["busy_us", "rwnd_limited_us", "sndbuf_limited_us"]


def check(evidence: Evidence) -> Iterator[Finding]:
    workload = evidence.json("workload.json")
    flows = [flow for flow in workload["flows"] if flow["transport"] == "tcp"]
    samples = evidence.table("tcp_info", usecols=[*_SOCKET, *_TIMES]) if flows else None
    if samples is None:
        return
    last = samples.groupby(_SOCKET, sort=False, as_index=False)[_TIMES].max()
    if not evidence.can("kernel") and samples["busy_us"].isna().all():
        yield Finding(NOT_APPLICABLE, "the engine does not tell what limited the flows")
        return
    if not last["busy_us"].sum():
        yield Finding("suspect", "no sampled flow was busy: what limited the flows is not known")
        return
    components = list(dict.fromkeys(flow["component"] for flow in flows))
    # whose receive windows are part of the traffic
    given = {component["name"] for component in workload["components"] if component.get("windows") == "vector"}
    if len(components) < 2:
        yield from _judge("sampled flows", last, components[0] in given)
        return
    sender, receiver = ends_of(last, flows)
    of = {flow["flow"]: flow["component"] for flow in flows}
    owner = last.assign(component=[of.get(number, "") for number in sender + receiver])
    for component in components:
        mine = owner[owner["component"] == component]
        if mine["busy_us"].sum():
            yield from _judge(f"sampled flows of {component}", mine, component in given)
        else:
            yield Finding("suspect", f"no sampled flow of {component} was busy: what limited its flows is not known")


def _judge(whose: str, last: Any, windows_given: bool) -> Iterator[Finding]:
    busy_us = last["busy_us"].sum()
    for column, what in (("rwnd_limited_us", "the receive window"), ("sndbuf_limited_us", "the send buffer")):
        share = last[column].sum() / busy_us
        meant = windows_given and column == "rwnd_limited_us"
        yield Finding("suspect" if share > _SHARE and not meant else "ok",
                      f"{whose} were limited by {what} for {share:.2%} of their busy time"
                      f"{', as their vectors have it' * meant}")

# SPDX-License-Identifier: GPL-2.0-only
"""What was asked for was delivered: bytes of every connection that finished, packets of every UDP flow."""
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import NOT_APPLICABLE, Evidence, Finding

_FAILED_SHARE = 0.01


def check(evidence: Evidence) -> Iterator[Finding]:
    workload = evidence.json("workload.json")
    sources = {flow["source"]: flow["component"] for flow in workload["flows"] if flow["source"] is not None}
    if sources:
        connections = evidence.table("connections", low_memory=False)
        if connections is None:
            yield Finding("suspect", "no record of the connections: what they delivered is not known")
        else:
            components = list(dict.fromkeys(sources.values()))
            owner = connections["source"].map(sources)
            for component in components:
                yield from _connections(connections[owner == component],
                                        f"{component}: " if len(components) > 1 else "")
    datagrams = [flow for flow in workload["flows"] if flow["transport"] == "udp"]
    if datagrams:
        yield from _datagrams(evidence, datagrams, alone=len(datagrams) == len(workload["flows"]))


def _connections(connections: Any, whose: str) -> Iterator[Finding]:
    finished = connections[connections["status"] == "finished"]
    wrong = finished[(finished["init_bytes_asked"] != finished["init_bytes_delivered"])
                     | (finished["acc_bytes_asked"] != finished["acc_bytes_delivered"])
                     | (finished["adus_asked"] != finished["adus_delivered"])]
    if len(wrong):
        first = wrong.iloc[0]
        yield Finding("invalid", f"{whose}{len(wrong)} finished connections did not get the bytes they asked for, such "
                                 f"as connection {first['conn']} of source {first['source']}")
    elif finished.empty:
        yield Finding("suspect", f"{whose}none of {len(connections)} connections finished")
    else:
        yield Finding("ok", f"{whose}bytes asked = delivered on all {len(finished)} finished connections "
                            f"of {len(connections)} started")
    failures = connections.loc[connections["status"].astype(str).str.startswith("failed"), "status"]
    if len(failures):
        share = len(failures) / len(connections)
        yield Finding("suspect" if share > _FAILED_SHARE else "ok",
                      f"{whose}{len(failures)} connections failed ({share:.2%}): " + ", ".join(
                          f"{count} {status.removeprefix('failed: ')}"
                          for status, count in failures.value_counts().items()))


def _datagrams(evidence: Evidence, flows: list[dict[str, Any]], alone: bool) -> Iterator[Finding]:
    """Every packet sent was received, or dropped on its way; alone: nothing else could have been dropped there."""
    if not evidence.can("guest.json") or not evidence.can("counters.json"):
        yield Finding(NOT_APPLICABLE, "the engine does not count the packets of UDP flows")
        return
    accounts = evidence.json("guest.json").get("traffic", {})
    counts = {one["flow"]: one for account in accounts.values() if isinstance(account, dict)
              for one in account.get("flows", ())}
    unknown = [flow for flow in flows if flow["flow"] not in counts]
    if unknown:
        yield Finding("suspect", f"no record of the packets of {len(unknown)} of {len(flows)} UDP flows")
        return
    links = evidence.json("counters.json")["drained"]
    yield from _ends(flows, counts, links)
    sent = sum(counts[flow["flow"]]["sent_packets"] for flow in flows)
    received = sum(counts[flow["flow"]]["received_packets"] for flow in flows)
    dropped = _dropped({name for flow in flows for name in flow["hops"]}, links)
    message = f"{sent} packets sent = {received} received + {sent - received} lost of {len(flows)} UDP flows"
    if sent - received > dropped or alone and sent - received != dropped:
        yield Finding("invalid", f"{message}, but {dropped} were dropped on their links")
    else:
        yield Finding("ok", f"{message} ({dropped} dropped on their links)")


def _ends(flows: list[dict[str, Any]], counts: dict[int, dict[str, Any]], links: dict[str, Any]) -> Iterator[Finding]:
    """Each flow by itself: what its socket dropped, and what only its own links can have lost."""
    for flow in flows:
        one, dropped = counts[flow["flow"]], _dropped(set(flow["hops"]), links)
        if one.get("socket_dropped_packets"):
            yield Finding("invalid", f"flow {flow['flow']}: the receiver's socket dropped "
                                     f"{one['socket_dropped_packets']} packets")
        if not 0 <= one["sent_packets"] - one["received_packets"] <= dropped:
            yield Finding("invalid", f"flow {flow['flow']}: {one['sent_packets']} packets sent, "
                                     f"{one['received_packets']} received, {dropped} dropped on its links")
        if not one["sent_packets"]:
            yield Finding("suspect", f"flow {flow['flow']} sent no packet")


def _dropped(names: set[str], links: dict[str, Any]) -> int:
    return sum(links[name]["dropped_packets"] + links[name]["wire_dropped_packets"] for name in names)

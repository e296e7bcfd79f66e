# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings read back as they were set, and the congestion control that each flow really used."""
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import Evidence, Finding
from testbed.fidelity._sockets import ends_of

NEEDS = ("kernel",)
_CONNECTED = ("ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING")
#: flows named one by one
_MOST_NAMED = 5


def check(evidence: Evidence) -> Iterator[Finding]:
    yield from _sysctls(evidence.json("checks.json"))
    flows = [flow for flow in evidence.json("workload.json")["flows"] if flow["transport"] == "tcp"]
    if flows:
        yield from _ccas(evidence.table("tcp_info", usecols=["node", "sport", "dst", "dport", "state", "cca"]), flows)


def _sysctls(checks: dict[str, Any]) -> Iterator[Finding]:
    """What was asked for against what was read back; both were recorded by the run."""
    wanted, found = checks.get("sysctls_wanted"), checks["sysctls"]
    if not wanted:
        yield Finding("suspect", "no record of the kernel settings that were wanted")
        return
    wrong = 0
    for node, settings in wanted.items():
        values = found.get(node, {})
        for name, value in settings.items():
            value, active = " ".join(str(value).split()), values.get(name)
            if active != value:
                wrong += 1
                yield Finding("invalid", f"{node}: {name} is {active}, not {value}")
    if not wrong:
        yield Finding("ok", f"{max(map(len, wanted.values()))} kernel settings read back as they were set on "
                            f"{len(wanted)} nodes")


def _ccas(samples: Any, flows: list[dict[str, Any]]) -> Iterator[Finding]:
    if samples is None or samples.empty:
        yield Finding("suspect", "no flow was sampled: which congestion control they used is not known")
        return
    samples = samples[samples["state"].isin(_CONNECTED)]
    if samples.empty:
        yield Finding("suspect", "no connected flow was sampled: which congestion control they used is not known")
        return
    samples = samples.assign(cca=samples["cca"].fillna("unknown"))
    ccas = sorted({flow["cca"] for flow in flows})
    if len(ccas) == 1:                      # whatever socket it is, of a flow or beside one
        others = samples.loc[samples["cca"] != ccas[0], "cca"].value_counts()
        if len(others):
            yield Finding("invalid", f"{others.sum()} of {len(samples)} flow samples use another congestion control: "
                                     + ", ".join(map(str, others.index)))
            return
    yield from _by_flow(samples, flows, ccas)


def _by_flow(samples: Any, flows: list[dict[str, Any]], ccas: list[str]) -> Iterator[Finding]:
    """Of flows that send one way the sender only: what the other end is set to decides nothing."""
    sender, receiver = ends_of(samples, flows)
    both_ways = {flow["flow"] for flow in flows if flow["both_ways"]}
    number = sender + receiver * [one in both_ways for one in receiver]
    used = samples[number > 0].groupby(number[number > 0])["cca"].unique()
    wrong = 0
    for flow in flows:
        if flow["flow"] in used.index and list(used[flow["flow"]]) != [flow["cca"]]:
            wrong += 1
            yield Finding("invalid", f"flow {flow['flow']} used {', '.join(sorted(used[flow['flow']]))}, "
                                     f"not {flow['cca']}")
    unseen = [flow for flow in flows if flow["flow"] not in used.index and flow["connections"] > 0]
    # of a source that has few connections, none may be there when samples are taken
    unknown = [flow for flow in unseen if not flow["both_ways"]
               or not any(other["flow"] in used.index for other in flows if other["variant"] == flow["variant"])]
    if unknown:
        yield Finding("suspect", f"{len(unknown)} of {len(flows)} flows were never sampled: which congestion control "
                                 "they used is not known")
    elif not wrong:
        names = ", ".join(ccas[:_MOST_NAMED]) + " ..." * (len(ccas) > _MOST_NAMED)
        others = f"; {len(unseen)} sources had no connection when samples were taken" if unseen else ""
        yield Finding("ok", (f"all {(number > 0).sum()} samples of {len(used)} flows report {names}" if len(ccas) == 1
                             else f"each of {len(used)} flows used its own congestion control: {names}") + others)

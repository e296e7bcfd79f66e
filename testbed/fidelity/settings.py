# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings read back as they were set, and the congestion control really in use."""
from testbed.fidelity import Finding
from testbed.guest.tuning import node_sysctls

_CONNECTED = ("ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING")


def check(evidence):
    sysctls = evidence.json("checks.json")["sysctls"]
    network = evidence.json("network.json")
    flows = evidence.json("workload.json").get("flows")
    wanted = node_sysctls(network, evidence.scenario["hosts"], evidence.variants, flows)
    wrong = 0
    for node, settings in wanted.items():
        values = sysctls.get(node, {})
        for name, value in settings.items():
            value, active = " ".join(str(value).split()), values.get(name)
            if active != value:
                wrong += 1
                yield Finding("invalid", f"{node}: {name} is {active}, not {value}")
    if not wrong:
        yield Finding("ok", f"{max(map(len, wanted.values()))} kernel settings read back as they were set on {len(wanted)} nodes")
    samples = evidence.table("tcp_info", usecols=["node", "sport", "dst", "dport", "state", "cca"])
    if samples is None or samples.empty:
        yield Finding("suspect", "no flow was sampled: which congestion control they used is not known")
        return
    samples = samples[samples["state"].isin(_CONNECTED)]
    if samples.empty:
        yield Finding("suspect", "no connected flow was sampled: which congestion control they used is not known")
    elif len(evidence.variants) == 1:
        yield _all_the_same(samples, evidence.variants[0]["kernel_cca"])
    else:
        yield from _in_turn(samples, flows, [v["kernel_cca"] for v in evidence.variants])


def _all_the_same(samples, cca):
    used = samples["cca"].fillna("unknown")
    others = used[used != cca].value_counts()
    if len(others):
        return Finding("invalid", f"{others.sum()} of {len(samples)} flow samples use another congestion control: "
                                  + ", ".join(map(str, others.index)))
    return Finding("ok", f"all {len(samples)} flow samples report {cca}")


def _in_turn(samples, flows, ccas):
    """Senders only: what the other end is set to decides nothing."""
    seen, wrong = 0, 0
    for flow in flows:
        cca = ccas[(flow["flow"] - 1) % len(ccas)]
        mine = samples[(samples["node"] == flow["sender"]) & (samples["dst"] == flow["dst"])
                       & (samples["dport"] == flow["dport"])]
        if flow.get("sport") is not None:            # else a control connection would count too
            mine = mine[mine["sport"] == flow["sport"]]
        used = sorted(set(mine["cca"].fillna("unknown")))
        seen += bool(used)
        if used and used != [cca]:
            wrong += 1
            yield Finding("invalid", f"flow {flow['flow']} used {', '.join(used)}, not {cca}")
    if seen < len(flows):
        yield Finding("suspect", f"{len(flows) - seen} of {len(flows)} flows were never sampled: "
                                 "which congestion control they used is not known")
    elif not wrong:
        yield Finding("ok", f"each of {len(flows)} flows used its own congestion control: {', '.join(ccas)} in turn")

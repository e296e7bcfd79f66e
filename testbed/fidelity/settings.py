# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings read back as they were set, and the congestion control really in use."""
from testbed.fidelity import Finding
from testbed.guest.tuning import host_sysctls

_CONNECTED = ("ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING")


def check(evidence):
    sysctls = evidence.json("checks.json")["sysctls"]
    network = evidence.json("network.json")
    wanted = host_sysctls(network, evidence.cca, evidence.scenario["hosts"])
    wrong = 0
    for node in (n["name"] for n in network["nodes"]):
        values = sysctls.get(node, {})
        for name, value in wanted.items():
            value, active = " ".join(str(value).split()), values.get(name)
            if active != value:
                wrong += 1
                yield Finding("invalid", f"{node}: {name} is {active}, not {value}")
    if not wrong:
        yield Finding("ok", f"{len(wanted)} kernel settings read back as they were set on {len(network['nodes'])} nodes")
    flows = evidence.table("tcp_info", usecols=["state", "cca"])
    if flows is None or flows.empty:
        yield Finding("suspect", "no flow was sampled: which congestion control they used is not known")
        return
    flows = flows[flows["state"].isin(_CONNECTED)]
    if flows.empty:
        yield Finding("suspect", "no connected flow was sampled: which congestion control they used is not known")
        return
    used = flows["cca"].fillna("unknown")
    others = used[used != evidence.cca].value_counts()
    if len(others):
        yield Finding("invalid", f"{others.sum()} of {len(flows)} flow samples use another congestion control: "
                                 + ", ".join(map(str, others.index)))
    else:
        yield Finding("ok", f"all {len(flows)} flow samples report {evidence.cca}")

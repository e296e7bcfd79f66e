# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings read back as they were set, and the congestion control really in use."""
from testbed.fidelity import Finding

_CONNECTED = ("ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING")


def check(evidence):
    sysctls = evidence.json("checks.json")["sysctls"]
    for node, values in sysctls.items():
        active = values.get("net.ipv4.tcp_congestion_control")
        if active != evidence.cca:
            yield Finding("invalid", f"{node} uses {active}, not {evidence.cca}")
    flows = evidence.table("tcp_info", usecols=["state", "cca"])
    if flows is None or flows.empty:
        yield Finding("suspect", "no flow was sampled: which congestion control they used is not known")
        return
    flows = flows[flows["state"].isin(_CONNECTED)]
    others = flows.loc[flows["cca"] != evidence.cca, "cca"].value_counts()
    if len(others):
        yield Finding("invalid", f"{others.sum()} of {len(flows)} flow samples use another congestion control: "
                                 + ", ".join(map(str, others.index)))
    else:
        yield Finding("ok", f"all {len(flows)} flow samples report {evidence.cca}")

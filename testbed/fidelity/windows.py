# SPDX-License-Identifier: GPL-2.0-only
"""Flows limited by the receive window or the send buffer tell nothing of congestion control."""
from testbed.fidelity import Finding

_SHARE = 0.05


def check(evidence):
    flows = evidence.table("tcp_info", usecols=["node", "src", "sport", "dst", "dport", "busy_us",
                                                "rwnd_limited_us", "sndbuf_limited_us"])
    if flows is None:
        return
    last = flows.groupby(["node", "src", "sport", "dst", "dport"], sort=False)[
        ["busy_us", "rwnd_limited_us", "sndbuf_limited_us"]].max().sum()
    if not last["busy_us"]:
        yield Finding("suspect", "no sampled flow was busy: what limited the flows is not known")
        return
    for column, what in (("rwnd_limited_us", "the receive window"), ("sndbuf_limited_us", "the send buffer")):
        share = last[column] / last["busy_us"]
        yield Finding("suspect" if share > _SHARE else "ok",
                      f"sampled flows were limited by {what} for {share:.2%} of their busy time")

# SPDX-License-Identifier: GPL-2.0-only
"""Samples were taken when they were due, none were lost, and they agree with the buffer."""
from testbed.fidelity import Finding

_LATE_US = {"virtual": 1000, "real": 5000}


def check(evidence):
    guest = evidence.json("guest.json")
    for probe, lateness_us in guest["sampler_lateness_us"].items():
        if lateness_us > _LATE_US[evidence.clock]:
            yield Finding("suspect", f"probe {probe} was up to {lateness_us} us late")
    for probe, notes in guest["probes"].items():
        if notes.get("lost_events"):
            yield Finding("invalid", f"probe {probe} lost {notes['lost_events']} events")
    if guest["sampler_lateness_us"]:
        yield Finding("ok", f"samples at most {max(guest['sampler_lateness_us'].values())} us late")
    queue = evidence.table("queue", usecols=["link", "backlog_packets"])
    for link in evidence.json("network.json")["links"]:
        if link["bottleneck"] and queue is not None and link["limit_packets"]:
            longest = queue.loc[queue["link"] == link["name"], "backlog_packets"].max()
            if longest != longest:
                yield Finding("suspect", f"{link['name']}: its queue was never sampled")
                continue
            level = "ok" if longest <= link["limit_packets"] else "invalid"
            yield Finding(level, f"{link['name']}: longest queue sampled {longest} of {link['limit_packets']} packets")

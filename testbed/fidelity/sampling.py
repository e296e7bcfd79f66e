# SPDX-License-Identifier: GPL-2.0-only
"""Samples were taken when they were due, none were lost, and they agree with the buffers."""
from collections.abc import Iterator

from testbed.fidelity import Evidence, Finding

NEEDS = ("kernel",)

_LATE_US = {"virtual": 1000, "real": 5000}


def check(evidence: Evidence) -> Iterator[Finding]:
    guest = evidence.json("guest.json")
    for probe, lateness_us in guest["sampler_lateness_us"].items():
        if lateness_us > _LATE_US[evidence.clock]:
            yield Finding("suspect", f"probe {probe} was up to {lateness_us} us late")
    for probe, notes in guest["probes"].items():
        if notes.get("lost_events"):
            yield Finding("invalid", f"probe {probe} lost {notes['lost_events']} events")
    if guest["sampler_lateness_us"]:
        yield Finding("ok", f"samples at most {max(guest['sampler_lateness_us'].values())} us late")
    queue = evidence.table("queue", usecols=["link", "backlog_packets", "backlog_bytes"])
    if queue is None:
        return
    longest = queue.groupby("link")[["backlog_packets", "backlog_bytes"]].max()
    for link in evidence.json("network.json")["links"]:
        if not link["bottleneck"]:
            continue
        if link["name"] not in longest.index:
            yield Finding("suspect", f"{link['name']}: its queue was never sampled")
            continue
        unit = "packets" if link["limit_packets"] is not None else "bytes"
        most, limit = longest.loc[link["name"], f"backlog_{unit}"], link[f"limit_{unit}"]
        yield Finding("ok" if most <= limit else "invalid",
                      f"{link['name']}: longest queue sampled {most} of {limit} {unit}")

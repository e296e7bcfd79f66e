# SPDX-License-Identifier: GPL-2.0-only
"""Samples were taken when they were due, none were lost, and they agree with the buffers."""
from collections.abc import Iterator

from testbed import raw_tables
from testbed.fidelity import Evidence, Finding

_LATE_US = {"virtual": 1000.0, "real": 5000.0}
#: of the sampling interval, where that is shorter
_LATE_SHARE = {"virtual": 0.1, "real": 0.5}


def check(evidence: Evidence) -> Iterator[Finding]:
    if evidence.can("kernel"):
        yield from _samplers(evidence)
    yield from _queues(evidence)


def _samplers(evidence: Evidence) -> Iterator[Finding]:
    """Of probes, which are on a clock of their own only where there is a kernel."""
    guest = evidence.json("guest.json")
    for probe in evidence.scenario.get("probes", {}):
        if probe not in guest["sampler_lateness_us"]:
            yield Finding("suspect", f"no record of probe {probe}, which the scenario asks for")
        if probe in raw_tables.TABLES and evidence.table(probe, nrows=0) is None:
            yield Finding("suspect", f"probe {probe} left no table")
    for probe, lateness_us in guest["sampler_lateness_us"].items():
        interval_us = (evidence.scenario.get("probes", {}).get(probe) or {}).get("interval_us")
        most_us = _LATE_US[evidence.clock]
        if interval_us:
            most_us = min(most_us, _LATE_SHARE[evidence.clock] * interval_us)
        if lateness_us > most_us:
            yield Finding("suspect", f"probe {probe} was up to {lateness_us} us late")
    for probe, notes in guest["probes"].items():
        if notes.get("lost_events"):
            yield Finding("invalid", f"probe {probe} lost {notes['lost_events']} events")
    if guest["sampler_lateness_us"]:
        yield Finding("ok", f"samples at most {max(guest['sampler_lateness_us'].values())} us late")


def _queues(evidence: Evidence) -> Iterator[Finding]:
    queue = evidence.table("queue", usecols=["link", "backlog_packets", "backlog_bytes"])
    if queue is None:
        yield Finding("suspect", "no queue was sampled")
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

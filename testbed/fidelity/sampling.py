# SPDX-License-Identifier: GPL-2.0-only
"""Samples were taken when they were due, and none were lost."""
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
    """Of every bottleneck as many samples as its interval promises."""
    queue = evidence.table("queue", usecols=["link"])
    if queue is None:
        yield Finding("suspect", "no queue was sampled")
        return
    counts = queue["link"].value_counts()
    interval_us = (evidence.scenario.get("probes", {}).get("queue") or {}).get("interval_us")
    wanted = evidence.scenario["timing"]["duration_us"] // interval_us + 1 if interval_us and evidence.can("kernel") \
        else 1
    for link in evidence.json("network.json")["links"]:
        name = link["name"]
        if link["bottleneck"] and name not in counts:
            yield Finding("suspect", f"{name}: its queue was never sampled")
        elif link["bottleneck"]:
            due = f", {wanted} were due" if wanted > 1 else ""
            yield Finding("ok" if counts[name] >= wanted else "suspect",
                          f"{name}: {counts[name]} samples of its queue{due}")

# SPDX-License-Identifier: GPL-2.0-only
"""Little's law: packets that are queued = packets that leave per second x the time each was queued.

The left side comes from the queue's own counters, the right side from the kernel's trace events: instruments that
share nothing. If they agree, neither has missed anything.
"""
import math
from collections.abc import Iterator

import numpy as np

from testbed.fidelity import Evidence, Finding
from testbed.fidelity._measured import Columns, inside, interval_us, of_links

NEEDS = ("sojourn.csv.gz",)

#: relative, beside the error of looking at the queue now and then
_TOLERANCE = 0.02
#: standard errors of the sampled mean: between two samples the queue changes as it does from one to the next
_DEVIATIONS = 4
_LEAST_SAMPLES = 20
#: queues shorter than this on average say nothing: the packet that is being sent counts on one side only
_LEAST_PACKETS = 1.0
#: these drop packets that have waited, whose wait nobody times (fq_codel where it overflows)
_DROP_WHAT_WAITED = ("choke", "cake", "dualpi2", "fq_codel")


def check(evidence: Evidence) -> Iterator[Finding]:
    queue, sojourn = evidence.table("queue"), evidence.table("sojourn")
    if sojourn is None:
        if "sojourn" in evidence.scenario.get("probes", {}):
            yield Finding("suspect", "no record of the time that packets spent in queues")
        return
    if queue is None:
        return                                  # of that another check complains
    from_us, to_us = interval_us(evidence)
    kinds = {link["name"]: link["queue"] for link in evidence.network["links"] if link["bottleneck"]}
    samples, times = (dict(of_links(inside(table, evidence), kinds)) for table in (queue, sojourn))
    for name, kind in kinds.items():
        nothing = {column: np.zeros(0) for table in (queue, sojourn) for column in table}
        yield _link(name, samples.get(name, nothing), times.get(name, nothing), to_us - from_us,
                    kind in _DROP_WHAT_WAITED)


def _link(name: str, queue: Columns, sojourn: Columns, span_us: int, drops_what_waited: bool) -> Finding:
    backlog, timed = queue["backlog_packets"], len(sojourn["t_us"])
    if len(backlog) < _LEAST_SAMPLES or not timed and np.nanmean(backlog):
        return Finding("suspect", f"{name}: {len(backlog)} samples of its queue and {timed} of the time in it are "
                                  "too few to compare")
    queued = np.nanmean(backlog)
    law = np.nansum(sojourn["packets"] * sojourn["mean_us"]) / span_us
    # who is in the queue at the beginning has waited there before, who is in it at the end has not left it
    across = max((backlog[end] * sojourn["mean_us"][end] / span_us for end in (0, -1) if timed), default=0.0)
    allowed = _TOLERANCE * queued + _DEVIATIONS * float(np.nanstd(np.diff(backlog), ddof=1)) / math.sqrt(len(backlog)) \
        + across
    # who is dropped has waited no longer than somebody who was not, at some time
    unseen = (queue["drops"][-1] - queue["drops"][0]) * np.nanmax(sojourn["max_us"]) / span_us \
        if drops_what_waited and law < queued and timed else 0.0
    allowed += unseen
    message = f"{name}: {queued:.2f} packets queued on average, {law:.2f} by the time that each was queued"
    if max(queued, law) < _LEAST_PACKETS:
        return Finding("ok", message)
    return Finding("ok" if abs(law - queued) <= allowed else "suspect",
                   f"{message} ({law - queued:+.2f}, {allowed:.2f} allowed)")

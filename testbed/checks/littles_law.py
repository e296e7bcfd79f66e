# SPDX-License-Identifier: GPL-2.0-only
"""Little's law: packets that are queued = packets that leave per second x the time each was queued.

The left side comes from the queue's own counters, the right side from the kernel's trace events: instruments that
share nothing. If they agree, neither has missed anything. Where the kernel counted what the queue held between samples
(raw/backlog.csv.gz), that is the left side, and no sample misses anything.
"""
import math
from collections.abc import Iterator

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, inside, interval_us, of_links
from topologies import queues
from topologies.queues import Traits

NEEDS = ("sojourn.csv.gz",)

#: relative, beside the error of looking at the queue now and then
_TOLERANCE = 0.02
#: standard errors of the sampled mean: between two samples the queue changes as it does from one to the next
_DEVIATIONS = 4
_LEAST_SAMPLES = 20
#: queues shorter than this on average say nothing: the packet that is being sent counts on one side only
_LEAST_PACKETS = 1.0


def check(evidence: Evidence) -> Iterator[Finding]:
    queue, sojourn = evidence.table("queue"), evidence.table("sojourn")
    if sojourn is None:
        if "sojourn" in evidence.scenario.probes:
            yield Finding("suspect", "no record of the time that packets spent in queues")
        return
    if queue is None:
        return                                  # of that another check complains
    from_us, to_us = interval_us(evidence)
    traits = {link.name: queues.traits(link) for link in evidence.network.links if link.bottleneck}
    # both with the samples at the ends
    before, during = (dict(of_links(queue[queue["t_us"].between(*ends_us)], traits))
                      for ends_us in ((0, from_us), (from_us, to_us)))
    samples, times = (dict(of_links(inside(table, evidence), traits)) for table in (queue, sojourn))
    backlog = evidence.table("backlog")
    held = {} if backlog is None else {
        name: mean_held(mine, from_us, to_us) for name, mine in of_links(backlog, traits)}
    for name, its in traits.items():
        nothing = {column: np.zeros(0) for table in (queue, sojourn) for column in table}
        longer_us = _waited_us(during.get(name, nothing)) - _waited_us(before.get(name, nothing))
        yield _link(name, samples.get(name, nothing), times.get(name, nothing), longer_us, to_us - from_us,
                    its, _left_at_once(name, evidence, from_us, to_us), held.get(name))


def mean_held(backlog: Columns, from_us: int, to_us: int) -> float:
    """The mean of what a queue held, in packets, as the kernel counted it."""
    return float(np.diff(np.interp([from_us, to_us], backlog["t_us"], backlog["packet_us"]))[0]) / (to_us - from_us)


def _left_at_once(name: str, evidence: Evidence, from_us: int, to_us: int) -> float:
    """How many packets more samples may find than there are on average, if the queue has a trace.

    Samples of an instant come before its opportunities. Until the next ones the queue holds at least what these have
    left, so that it is overestimated by no more than the packets that they took, each for that long.
    """
    table = evidence.table("opportunities")
    if table is None:
        return 0.0
    mine = table[(table["link"] == name).to_numpy()]
    taken = mine["sent_packets"].diff().fillna(0).to_numpy()
    t_us = np.append(mine["due_us"].to_numpy(), to_us)
    lasts_us = np.diff(t_us)[t_us[:-1] >= from_us]
    return float((taken[t_us[:-1] >= from_us] * lasts_us).sum() / (to_us - from_us))


def _link(name: str, queue: Columns, sojourn: Columns, longer_us: float, span_us: int,
          traits: Traits, left_at_once: float, held: float | None) -> Finding:
    """longer_us: what those have waited who have not left in the end, without what others had before the beginning;
    held: the mean queue where the kernel counted it."""
    backlog, timed = queue["backlog_packets"], len(sojourn["t_us"])
    left = np.ptp(queue["sent_packets"]) if len(backlog) else 0
    if len(backlog) >= _LEAST_SAMPLES and not timed and not left and np.nanmean(backlog):
        return Finding(NOT_APPLICABLE, f"{name}: no packet left its queue in the measured time")
    if len(backlog) < (_LEAST_SAMPLES if held is None else 1) or not timed and np.nanmean(backlog):
        return Finding("suspect", f"{name}: {len(backlog)} samples of its queue and {timed} of the time in it are "
                                  "too few to compare")
    queued = np.nanmean(backlog) if held is None else held
    # who was dropped had waited, too
    dropped_us = sojourn.get("dropped_us", np.full(1, np.nan))
    known = not traits.drops_uncounted and not np.isnan(dropped_us).any()
    waited_us = np.nansum(sojourn["packets"] * sojourn["mean_us"]) + (dropped_us.sum() if known else 0)
    law = (waited_us + longer_us) / span_us
    # who is in the queue at the beginning has waited there before, who is in it at the end has not left it: that is
    # counted as if packets left in their order, and where they do not a packet may have waited as long as another
    across = max((backlog[end] * sojourn["mean_us"][end] / span_us for end in (0, -1) if timed), default=0.0)
    allowed = _TOLERANCE * queued + across
    if held is None:
        allowed += _DEVIATIONS * float(np.nanstd(np.diff(backlog), ddof=1)) / math.sqrt(len(backlog))
    # where nobody timed them, no longer than somebody who was not dropped, at some time
    unseen = (queue["drops"][-1] - queue["drops"][0]) * np.nanmax(sojourn["max_us"]) / span_us \
        if not known and traits.drops_queued and law < queued and timed else 0.0
    allowed += unseen + (left_at_once if law < queued and held is None else 0.0)
    message = f"{name}: {queued:.2f} packets queued on average, {law:.2f} by the time that each was queued"
    if max(queued, law) < _LEAST_PACKETS:
        return Finding("ok", message)
    return Finding("ok" if abs(law - queued) <= allowed else "suspect",
                   f"{message} ({law - queued:+.2f}, {allowed:.2f} allowed)")


def _waited_us(queue: Columns) -> float:
    """How long all that is still queued in the last sample has waited since the first one, added up.

    At a sample it was there as far as more had come by then than has left until the last one; between two samples
    packets come evenly.
    """
    if len(queue["t_us"]) < 2:
        return 0.0
    sent, backlog, t_us = (queue[name].astype(float) for name in ("sent_packets", "backlog_packets", "t_us"))
    there = np.minimum(sent + backlog - sent[-1], backlog[-1])
    few, many = np.minimum(there[1:], there[:-1]), np.maximum(there[1:], there[:-1])
    # of a straight line the part above 0
    above = np.where(few >= 0, (few + many) / 2, np.maximum(many, 0)**2 / 2 / np.maximum(many - few, 1e-9))
    return float(np.nansum(above * np.diff(t_us)))

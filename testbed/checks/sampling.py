# SPDX-License-Identifier: GPL-2.0-only
"""Samples were taken when they were due, and none were lost."""
from collections.abc import Iterator

import numpy as np

from testbed.checks import Evidence, Finding
from testbed.checks._measured import inside, interval_us, of_links
from testbed.checks.littles_law import mean_held
from testbed.core import grouping, raw_tables

_LATE_US = {"virtual": 1000.0, "real": 5000.0}
#: of the sampling interval, where that is shorter
_LATE_SHARE = {"virtual": 0.1, "real": 0.5}
#: a wall clock's, where that is longer: where readings are far apart, one that is a little late says the same
_LATE_SHARE_REAL = 0.1
#: times are noted in whole us
_CLOCK_US = 2
#: what a row is of, beside its instant
_KEYS = {"queue": ("link",), "edge_queue": ("link",), "sojourn": ("link",),
         "tcp_info": ("node", "src", "sport", "dst", "dport", "state"), "tcp_info_often": (
             "node", "src", "sport", "dst", "dport", "state")}
#: of probes that an engine adds by itself: they come last, and what they count is summed up second by second
_OWN_LATE_US = {"virtual": 1000.0, "real": 100_000.0}
#: how far the mean of samples may be from what a queue held before that is told: of it, and in packets
_UNSEEN, _UNSEEN_PACKETS = 0.1, 0.5


def check(evidence: Evidence) -> Iterator[Finding]:
    if evidence.can("kernel"):
        yield from _samplers(evidence)
    yield from _queues(evidence)
    yield from _times(evidence)
    yield from _unseen(evidence)
    yield from _instants(evidence)


def _samplers(evidence: Evidence) -> Iterator[Finding]:
    """Of probes, which are on a clock of their own only where there is a kernel."""
    guest = evidence.guest
    for probe in evidence.scenario.probes:
        if probe not in guest.sampler_lateness_us:
            yield Finding("suspect", f"no record of probe {probe}, which the scenario asks for")
        if probe in raw_tables.TABLES and evidence.table(probe, nrows=0) is None:
            yield Finding("suspect", f"probe {probe} left no table")
    for probe, lateness_us in guest.sampler_lateness_us.items():
        interval_us = evidence.scenario.probe(probe).interval_us
        most_us = _late_us(evidence, interval_us) if interval_us else _OWN_LATE_US[evidence.clock]
        if lateness_us > most_us:
            yield Finding("suspect", f"probe {probe} was up to {lateness_us} us late")
    for probe, notes in guest.probes.items():
        if notes.lost_events:
            yield Finding("invalid", f"probe {probe} lost {notes.lost_events} events")
    if guest.sampler_lateness_us:
        yield Finding("ok", f"samples at most {max(guest.sampler_lateness_us.values())} us late")


def _queues(evidence: Evidence) -> Iterator[Finding]:
    """Of every bottleneck as many samples as its interval promises."""
    if not evidence.network.links:
        return                                  # of a network of radios only
    queue = evidence.table("queue", usecols=["link"])
    if queue is None:
        yield Finding("suspect", "no queue was sampled")
        return
    counts = queue["link"].value_counts()
    interval_us = evidence.scenario.probe("queue").interval_us
    wanted = evidence.timing.duration_us // interval_us + 1 if interval_us and evidence.can("kernel") \
        else 1
    for link in evidence.network.links:
        name = link.name
        if link.bottleneck and name not in counts:
            yield Finding("suspect", f"{name}: its queue was never sampled")
        elif link.bottleneck:
            due = f", {wanted} were due" if wanted > 1 else ""
            yield Finding("ok" if counts[name] >= wanted else "suspect",
                          f"{name}: {counts[name]} samples of its queue{due}")


def _times(evidence: Evidence) -> Iterator[Finding]:
    """Of every link, bottleneck or not, a row for each time at which it was due: neither a gap nor an early end."""
    if not evidence.can("kernel"):
        return
    settings = evidence.scenario.probe("queue")
    duration_us = evidence.timing.duration_us
    step_us = settings.interval_us
    for table, each_us, bottleneck in (("queue", step_us, True), ("edge_queue", settings.edge_interval_us, False)):
        rows = evidence.table(table, usecols=["t_us", "link"]) if each_us else None
        if rows is None or not step_us or not each_us:
            continue                            # of a table that is missing other checks complain
        # edges are read with the bottlenecks, at the first of these times that is not before theirs
        apart_us = -(-each_us // step_us) * step_us
        most_us = apart_us + step_us * (not bottleneck) + _late_us(evidence, step_us)
        names = [link.name for link in evidence.network.links if link.bottleneck == bottleneck]
        for name, mine in of_links(rows, names):
            times_us = mine["t_us"]
            if np.isnan(times_us).any():
                yield Finding("suspect", f"{name}: a row of {table} has no time")
            gap_us = max(np.diff(times_us[~np.isnan(times_us)]).max(initial=0), times_us[0],
                         duration_us - times_us[-1])
            if gap_us > most_us:
                yield Finding("suspect", f"{name}: {gap_us / 1e6:g} s without a sample of its queue in "
                                         f"{table}, one was due every {apart_us / 1e6:g} s")


def _unseen(evidence: Evidence) -> Iterator[Finding]:
    """What samples do not show of a queue, as those do not that always meet it in the same phase of what it does.

    Metrics have what the kernel counted between samples; figures over time, and what compares queues sample by sample,
    have not.
    """
    backlog = evidence.table("backlog")
    notes = evidence.guest.probes if evidence.can("kernel") else {}
    counted = "queue" in notes and notes["queue"].counts_backlog
    for link in evidence.network.links if counted else []:
        mine = [] if backlog is None else backlog.loc[backlog["link"] == link.name, "t_us"]
        if link.bottleneck and (not len(mine) or max(mine) < evidence.timing.duration_us):
            yield Finding("suspect", f"{link.name}: the kernel counted what its queue held until the end, and "
                                     "raw/backlog.csv.gz does not have it")
    queue = None if backlog is None else evidence.table("queue", usecols=["t_us", "link", "backlog_packets"])
    if backlog is None or queue is None:
        return
    from_us, to_us = interval_us(evidence)
    samples = dict(of_links(inside(queue, evidence), [link.name for link in evidence.network.links]))
    for name, mine in of_links(backlog, samples):
        held, seen = mean_held(mine, from_us, to_us), samples[name]["backlog_packets"]
        since = (mine["t_us"] > from_us) & (mine["t_us"] <= to_us)
        if not since.any() or not len(seen):
            continue
        if abs(held - np.nanmean(seen)) > max(_UNSEEN * held, _UNSEEN_PACKETS):
            yield Finding("ok", f"{name}: samples do not show what its queue held: {np.nanmean(seen):.2f} packets on "
                                f"average and {np.nanmax(seen):.0f} at most instead of {held:.2f} and "
                                f"{mine['most_packets'][since].max():.0f}, which metrics have")


def _instants(evidence: Evidence) -> Iterator[Finding]:
    """In virtual time every row is of an instant at which a sample was due, or as late as the probe says, and there is
    one of each link or socket."""
    if evidence.clock != "virtual" or not evidence.can("kernel"):
        return
    duration_us = evidence.timing.duration_us
    late_us = evidence.guest.sampler_lateness_us
    for table, key in _KEYS.items():
        interval_us = evidence.scenario.probe("queue" if table == "edge_queue" else table).interval_us
        rows = evidence.table(table, usecols=["t_us", *key]) if interval_us else None
        if rows is None or rows.empty:
            continue                            # of a table that is missing other checks complain
        t_us = rows["t_us"].to_numpy()
        late = late_us.get("queue" if table == "edge_queue" else table, 0) + _CLOCK_US
        wrong = ((t_us + _CLOCK_US) % interval_us > late + _CLOCK_US) | (t_us < 0) | (
            t_us > duration_us + late)
        if wrong.any():
            yield Finding("suspect", f"{table}: {int(wrong.sum())} of {len(rows)} rows are of instants at which no "
                                     f"sample was due, such as {t_us[int(np.argmax(wrong))] / 1e6:g} s")
        again = len(rows) - grouping.numbered([rows["t_us"], *(rows[name] for name in key)]).max() - 1
        if again:
            yield Finding("suspect", f"{table}: {again} of {len(rows)} rows are there twice")


def _late_us(evidence: Evidence, interval_us: int) -> float:
    """How late a sample may be."""
    late_us = min(_LATE_US[evidence.clock], _LATE_SHARE[evidence.clock] * interval_us)
    return max(late_us, _LATE_SHARE_REAL * interval_us) if evidence.clock == "real" else late_us

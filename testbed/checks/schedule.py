# SPDX-License-Identifier: GPL-2.0-only
"""Links that change did so at their times, and carried what their rate then was.

The record of the changes (`link_changes`) says when each took effect; the samples of the queue say what the link
carried, wherever packets were waiting all the time.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.core import ip
from testbed.core.units import show_rate
from topologies.links import varying
from topologies.links.records import Link

if TYPE_CHECKING:
    import pandas as pd

#: how late a change may take effect, in us
_LATE_US = {"virtual": 1, "simulated": 1, "real": 5000}
#: relative error of the rate
_TOLERANCE = {"virtual": 0.001, "simulated": 0.001, "real": 0.02}
#: frames that may be more or less: one at either end; and two that come at once when an outage ends
_AT_THE_ENDS, _AFTER_OUTAGE = 2, 2
#: what shorter stretches of a full queue carry says nothing of a rate
_LEAST_FRAMES = 100


def check(evidence: Evidence) -> Iterator[Finding]:
    for link in evidence.network.links:
        if link.opportunities:
            yield _traced(link, evidence)
            yield from _on_the_wire(link, evidence)
    links = [link for link in evidence.network.links if varying.changes(link)]
    if not links:
        return
    table = evidence.table("link_changes")
    if table is None:
        yield Finding("suspect", "no record of the changes of links")
        return
    for link in links:
        yield _on_time(link, table[table["link"] == link.name], evidence)
        yield from _pauses(link, table[table["link"] == link.name], evidence)
    samples = evidence.table("queue")
    if samples is None:
        return                                  # of which other checks complain
    # what a trace carries is known opportunity by opportunity
    for link in (one for one in links if one.bottleneck and not one.opportunities):
        yield _carried(link, samples[samples["link"] == link.name], evidence.clock)


def _traced(link: Link, evidence: Evidence) -> Finding:
    """Each opportunity of a trace was there at its time, and used if a packet waited; nothing left at others."""
    name, table = link.name, evidence.table("opportunities")
    if table is None:
        return Finding("suspect", f"{name}: no record of the opportunities of its trace")
    rows = table[table["link"] == name]
    due = list(varying.opportunities(link, 0, evidence.timing.duration_us))
    late_us = (rows["t_us"] - rows["due_us"]).abs().max()
    if due != list(zip(rows["due_us"], rows["packets"])) or late_us > _LATE_US[evidence.clock]:
        return Finding("invalid", f"{name}: {rows['packets'].sum()} opportunities at {len(rows)} instants, up to "
                                  f"{late_us:.0f} us late, not the {sum(count for _, count in due)} of its trace")
    offered = rows["packets"] * varying.FRAME_BYTES
    used = rows["sent_bytes"].diff().fillna(rows["sent_bytes"])
    wrong = (used > offered) | (rows["backlog_packets"] > 0) & (used <= offered - varying.FRAME_BYTES)
    return Finding("invalid" if wrong.any() else "ok",
                   f"{name}: of {rows['packets'].sum()} opportunities of its trace "
                   + (f"{wrong.sum()} instants did not use what they should" if wrong.any() else
                      f"{used.sum() / varying.FRAME_BYTES:.0f} were used, and none was left while packets waited"))


def _on_the_wire(link: Link, evidence: Evidence) -> Iterator[Finding]:
    """All that leaves at an instant of a trace is on the wire at once, which sends it at `rate`. Before the next
    instant it has, but for a frame; where it has not, packets wait behind the queue, and no instrument sees them."""
    table = evidence.table("opportunities")
    rows = None if table is None else table[(table["link"] == link.name).to_numpy()]
    if rows is None or len(rows) < 2:
        return
    gaps_us = np.diff(rows["due_us"].to_numpy(dtype=float))
    used = np.diff(rows["sent_bytes"].to_numpy(dtype=float), prepend=0)[:-1]
    # a queue that gets `used` and sends at the rate: what it holds is how far that sum is above its lowest so far
    ahead = np.cumsum(used - link.rate_bps * gaps_us / 8e6)
    standing = float((ahead - np.minimum.accumulate(np.minimum(ahead, 0))).max())
    if standing > varying.FRAME_BYTES:
        enough_bps = np.divide(8e6 * used, gaps_us, out=np.zeros(len(used)), where=gaps_us > 0).max()
        yield Finding("suspect", f"{link.name}: up to {standing:.0f} bytes of its trace's opportunities waited on "
                                 f"the wire, where nothing counts them, for its rate of {show_rate(link.rate_bps)}: "
                                 f"{show_rate(round(enough_bps))} sends each before the next one")


def _on_time(link: Link, rows: pd.DataFrame, evidence: Evidence) -> Finding:
    """Every change that is due within the run, in its turn, as the schedule has it."""
    name, end_us = link.name, evidence.timing.duration_us
    due = [(at_us, state) for at_us, state in list(varying.states(link))[1:] if at_us <= end_us]
    made = list(zip(rows["due_us"], rows.to_dict("records")))
    if [at_us for at_us, _ in due] != [at_us for at_us, _ in made] or any(
            row[quantity] != getattr(state, quantity) for (_, state), (_, row) in zip(due, made)
            for quantity in varying.QUANTITIES):
        return Finding("invalid", f"{name}: {len(made)} changes were made, not the {len(due)} that its schedule has")
    late_us = (rows["t_us"] - rows["due_us"]).max() if len(rows) else 0
    on_time = -1 <= (rows["t_us"] - rows["due_us"]).min() and late_us <= _LATE_US[evidence.clock] if len(rows) else True
    return Finding("ok" if on_time else "suspect" if evidence.clock == "real" else "invalid",
                   f"{name}: {len(made)} changes, at most {late_us:.0f} us late")


def _pauses(link: Link, rows: pd.DataFrame, evidence: Evidence) -> Iterator[Finding]:
    """Nothing is sent from the beginning of an outage to its end, or to that of the run."""
    sent = rows["sent_packets"].diff()[rows["up"].shift() == 0].sum()
    if len(rows) and not rows["up"].iloc[-1] and evidence.can("counters.json"):
        sent += evidence.counters.at_end[link.name].sent_packets - rows["sent_packets"].iloc[-1]
    if sent > 0:
        yield Finding("invalid", f"{link.name} sent {int(sent)} packets during outages")


def _carried(link: Link, samples: pd.DataFrame, clock: str) -> Finding:
    """What a queue that is never empty lets go, against the rates of the schedule.

    A queue that is not empty at two samples may have been in between, and the link have carried less. It was not if
    there was more in it than the link carries until the next sample.
    """
    name, worst, checked_us, frame_bytes = link.name, 0.0, 0.0, link.mtu_bytes + ip.ETHERNET_BYTES
    waiting = samples["backlog_bytes"] > 0
    until_next_us = -samples["t_us"].diff(-1)
    carries = [varying.mean_rate_bps(link, at_us, at_us + wait_us) * wait_us / 8e6 + frame_bytes if wait_us > 0
               else math.inf for at_us, wait_us in zip(samples["t_us"], until_next_us)]
    enough = samples["backlog_bytes"] >= carries
    again = waiting & waiting.shift(-1, fill_value=False)
    for begin, end, sure in [*((*ends, False) for ends in _stretches(samples, again)),
                             *((*ends, True) for ends in _stretches(samples, enough))]:
        from_us, to_us = begin["t_us"], end["t_us"]
        expected = varying.mean_rate_bps(link, from_us, to_us) * (to_us - from_us) / 8e6
        carried = end["sent_bytes"] - begin["sent_bytes"]
        if expected < _LEAST_FRAMES * frame_bytes or carried < expected and not sure:
            continue
        checked_us += (to_us - from_us) * sure
        allowed = _TOLERANCE[clock] * expected + _frames(link, from_us, to_us) * frame_bytes
        worst = max(worst, abs(carried / expected - 1))
        if abs(carried - expected) > allowed:
            return Finding("invalid", f"{name} carried {carried:.0f} bytes from {from_us / 1e6:g} to "
                                      f"{to_us / 1e6:g} s, when its queue was never empty, not {expected:.0f}")
    if not checked_us:
        return Finding(NOT_APPLICABLE, f"{name}: its queue was never full for long, so that its rates do not show")
    return Finding("ok", f"{name} carried what its schedule says within {worst:.4%}, in {checked_us / 1e6:.1f} s in "
                         "which its queue was never empty")


def _stretches(samples: pd.DataFrame, until_next: pd.Series) -> Iterator[tuple[pd.Series, pd.Series]]:
    """(first, last sample) of every stretch; until_next: of each sample, if the time to the next belongs to one."""
    position = until_next.reset_index(drop=True)
    for _, rows in position[position].groupby((~position).cumsum()[position]):
        yield samples.iloc[rows.index[0]], samples.iloc[rows.index[-1] + 1]


def _frames(link: Link, from_us: float, to_us: float) -> float:
    """By how many frames a link may differ from its schedule: the one that is being sent goes on at the old rate."""
    frames, states = float(_AT_THE_ENDS), list(varying.states(link))
    for (_, before), (at_us, after) in zip(states, states[1:]):
        if from_us <= at_us <= to_us:
            frames += abs(after.rate_bps / before.rate_bps - 1)
            frames += _AFTER_OUTAGE * (after.up and not before.up)
    return frames

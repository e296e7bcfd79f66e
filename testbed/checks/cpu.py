# SPDX-License-Identifier: GPL-2.0-only
"""On a wall clock: the machine was fast enough for the network that it emulated."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import inside, interval_us as measured_us

if TYPE_CHECKING:
    import pandas as pd

_KINDS = ["user_us", "system_us", "irq_us", "softirq_us", "steal_us", "idle_us"]
#: the kernel's own work, and what another machine took
_KERNEL = ["system", "irq", "softirq", "steal"]
_SECOND_US = 10**6
#: percent of a second: all CPUs that busy, or one that busy with packets, and the network waits for them
_ALL_BUSY, _KERNEL_BUSY = 95.0, 90.0
#: percent (suspect, invalid): of the seconds, of the time, of the samples, of the time
_SATURATED, _STOLEN, _WAITING = (0.0, 5.0), (1.0, 5.0), (25.0, 100.0)
_LATE, _LATE_US, _LATE_SHARE = (1.0, 5.0), 5000, 0.1


def check(evidence: Evidence) -> Iterator[Finding]:
    if evidence.clock != "real":
        yield Finding(NOT_APPLICABLE, "computing takes no time on this clock")
        return
    spent = _spent(evidence)
    if spent is None or spent.empty:
        yield Finding("suspect", "the CPUs were not sampled: whether they were fast enough is not known")
        return
    seconds, whole = _percent(spent), _percent(spent.groupby(level="cpu").sum(min_count=1))
    cpu = whole["busy"].idxmax()
    words = f"CPU {cpu} was {whole['busy'][cpu]:.0f} % busy (" + ", ".join(
        f"{name} {whole[name][cpu]:.0f} %" for name in ("user", *_KERNEL)) + ")"
    full = (seconds["busy"].groupby(level="second").min() >= _ALL_BUSY) \
        | (seconds[_KERNEL].sum(axis=1).groupby(level="second").max() >= _KERNEL_BUSY)
    late_us = _late_us(evidence)
    saturated, late = 100 * float(full.mean()), _late_percent(evidence, late_us)
    yield Finding(_level(saturated, _SATURATED), f"no CPU time was left in {saturated:.0f} % of the seconds: {words}")
    yield Finding(_level(late, _LATE),
                  f"{late:.1f} % of the samples were more than {late_us / 1000:g} ms late: {words}")
    yield Finding(_level(whole["steal"].max(), _STOLEN), f"CPU {whole['steal'].idxmax()} was taken away by other "
                                                         f"machines for {whole['steal'].max():.1f} % of the time")
    waiting = whole["waiting"].dropna()
    if not waiting.empty:
        yield Finding(_level(waiting.max(), _WAITING), f"tasks waited for CPU {waiting.idxmax()} for "
                                                       f"{waiting.max() * 10:.0f} ms of each second")
    dropped = spent["packets_dropped"].groupby(level="cpu").sum()
    yield Finding("invalid" if dropped.any() else "ok",
                  f"CPU {dropped.idxmax()} dropped {dropped.max():.0f} packets that it had no time for")


def _level(value: float, bounds: tuple[float, float]) -> str:
    return "invalid" if value > bounds[1] else "suspect" if value > bounds[0] else "ok"


def _spent(evidence: Evidence) -> pd.DataFrame | None:
    """What was counted in each second of the measured part, by CPU and second; None without samples."""
    table = evidence.table("cpu")
    if table is None:
        return None
    table = inside(table, evidence)
    at_ends = table.assign(second=table["t_us"] // _SECOND_US).groupby(["cpu", "second"]).last()
    return at_ends.groupby(level="cpu").diff().dropna(subset=["t_us"])


def _percent(spent: pd.DataFrame) -> pd.DataFrame:
    """Shares of the time in percent: of each kind, `busy` for all but idle, `waiting` for tasks that had no CPU."""
    counted = spent[_KINDS].sum(axis=1)
    shares = 100 * spent[_KINDS].div(counted.where(counted > 0), axis=0)
    shares.columns = [name.removesuffix("_us") for name in _KINDS]
    return shares.assign(busy=100 - shares["idle"], waiting=100 * spent["run_delay_us"] / spent["t_us"])


def _interval_us(evidence: Evidence) -> int:
    """Between readings of the queues, which are due at multiples of it; 0 without such readings."""
    return evidence.scenario.probe("queue").interval_us or 0


def _late_us(evidence: Evidence) -> float:
    """From when on a reading of the queues is late: it says what was at another time than it should."""
    return max(_LATE_US, _LATE_SHARE * _interval_us(evidence))


def _late_percent(evidence: Evidence, late_us: float) -> float:
    """Of the readings of the queues."""
    interval_us = _interval_us(evidence)
    table = evidence.table("queue", usecols=["t_us"])
    if not interval_us or table is None or table.empty:
        return 0.0
    taken_us = table["t_us"].drop_duplicates().to_numpy()
    due_us = interval_us * np.arange(len(taken_us))
    from_us, to_us = measured_us(evidence)
    late = (taken_us - due_us > late_us)[(due_us >= from_us) & (due_us < to_us)]
    return 100 * float(late.mean()) if late.size else 0.0

# SPDX-License-Identifier: GPL-2.0-only
"""The part of a run over which it is measured."""
from typing import Any

from testbed.fidelity import Evidence


def interval_us(evidence: Evidence) -> tuple[int, int]:
    """(begin, end) of the measurement interval, as of all metrics."""
    timing = evidence.scenario["timing"]
    return timing["prefill_us"] + timing["warmup_us"], timing["duration_us"]


def inside(table: Any, evidence: Evidence) -> Any:
    """The rows of a table with t_us in the measurement interval, its end left out."""
    from_us, to_us = interval_us(evidence)
    return table[(table["t_us"] >= from_us) & (table["t_us"] < to_us)]

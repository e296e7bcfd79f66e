# SPDX-License-Identifier: GPL-2.0-only
"""How steady an offered load is: its second third against its last (draft-irtf-iccrg-tcpeval-01, section 3).

Those who make a load, judge it and report it have this definition from here.
"""
from collections.abc import Sequence

#: the most that the suite accepts
LIMIT = 0.05
#: How many standard deviations of chance are accepted. A sum of independent terms of random sign exceeds four times
#: the root of their sum of squares with a probability of at most 2 exp(-4^2 / 2) = 0.07 %, however heavy their tail
#: (Hoeffding's inequality).
SIGMAS = 4.0
#: With a larger standard deviation by chance four of them are more than 20 %: a load that grows by a fifth would pass.
#: Nothing can be said of its steadiness then.
MOST_CHANCE = 0.05


def difference(thirds: Sequence[float]) -> float:
    """|last third - second third| / second third; infinite if the second third is 0."""
    _, second, last = thirds
    return float(abs(last - second) / second) if second else float("inf")


def can_be_judged(chance: float) -> bool:
    """False if chance alone makes so much of a difference that none says anything."""
    return chance <= MOST_CHANCE


def accepted(chance: float) -> float:
    """The largest difference that says nothing against a load; chance: its standard deviation by chance alone."""
    return max(LIMIT, SIGMAS * chance)

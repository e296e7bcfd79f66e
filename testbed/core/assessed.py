# SPDX-License-Identifier: GPL-2.0-only
"""What an assessment asks: criteria and their tests, as suites read them and pages show them."""
from collections.abc import Sequence
from typing import NamedTuple

#: what of the runs a test looks at, see `CriterionTest`
VALUE, RATIO, HARM, SHARE, BESIDE = STATISTICS = ("value", "ratio", "harm", "share", "beside")
#: of which both seats are run
OF_SEATS = (HARM, SHARE, BESIDE)
#: in the metric's own unit
IN_UNIT = (VALUE, BESIDE)
#: scope of a metric of a flow that has a seat: flow_1 and flow_2 of two that take turns
SEAT = "seat"


class Threshold(NamedTuple):
    """Up to where a value meets a criterion, beyond what it does not; in between somebody has to judge."""

    meets: float
    fails: float
    why: str


class CriterionTest(NamedTuple):
    """A metric of a scope, and what of it is compared with the threshold.

    value: that of the candidate
    ratio: the candidate's over that of a reference in its place
    harm: of a reference, what it loses beside the candidate, compared with what it has beside itself: 1 - beside the
        candidate / beside itself where more is better, and 1 - beside itself / beside the candidate where less is
        (Ware, Mukerjee, Seshan, Sherry, Beyond Jain's Fairness Index, HotNets 2019)
    share: what the candidate has beside a reference, over what the reference has there beside itself
    beside: the metric of runs in which the candidate is beside a reference

    Of harm, share and beside both seats are run, and a seed's value is the mean over both.
    """

    name: str
    label: str
    metric: str
    scope: str
    of: str
    #: of the metric
    more_is_better: bool
    threshold: Threshold
    #: whether a mean that meets is not enough: no seed, in no seat, may be beyond `fails`
    every_seed: bool = False

    @property
    def high_meets(self) -> bool:
        """Whether values above the threshold meet it; of harm, less is always better."""
        return self.more_is_better and self.of != HARM


class Criterion(NamedTuple):
    """A section of the RFC. level: its words of RFC 2119, in capitals, or ''; asks: what it asks, in own words;
    not_run: why nothing was run for it; deviations: (what, why)."""

    name: str
    title: str
    section: str
    level: str
    asks: str
    not_run: str
    tests: Sequence[CriterionTest]
    deviations: Sequence[tuple[str, str]]

# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from topologies.queues._pie import PieLike
from topologies.queues._queue import Places, Traits


@dataclasses.dataclass(frozen=True)
class Pie(PieLike):
    """Proportional integral controller enhanced (RFC 8033)."""
    TRAITS: ClassVar[Traits] = Traits(flow_blind=True)
    PLACES: ClassVar[Places] = {"target": (1, 0, "I"), "limit": (2, 0, "I"), "tupdate": (3, 0, "I"),
                                "alpha": (4, 0, "I"), "beta": (5, 0, "I"), "ecn": (6, 0, "I")}
    MARKED_AT: ClassVar[int] = 36

# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from testbed.core import fields
from topologies.queues._pie import PieLike
from topologies.queues._queue import Places


@dataclasses.dataclass(frozen=True)
class FqPie(PieLike):
    """Fair queueing with PIE."""
    flows: int | None = fields.count(default=None, least=1, most=65536)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)

    USUAL_LIMIT: ClassVar[int] = 10240
    PLACES: ClassVar[Places] = {"limit": (1, 0, "I"), "flows": (2, 0, "I"), "target": (3, 0, "I"),
                                "tupdate": (4, 0, "I"), "alpha": (5, 0, "I"), "beta": (6, 0, "I"),
                                "quantum": (7, 0, "I"), "ecn": (10, 0, "I")}
    MARKED_AT: ClassVar[int] = 16

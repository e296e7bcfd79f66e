# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from testbed.core import fields
from topologies.queues._queue import HOUR_US, InPackets, Option, Places, Traits
from topologies.queues.codel import codel_time


@dataclasses.dataclass(frozen=True)
class FqCodel(InPackets):
    """Fair queueing with CoDel (RFC 8290)."""
    flows: int | None = fields.count(default=None, least=1, most=65536)
    target_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    interval_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)
    ecn: bool | None = fields.flag(default=None)

    #: where it overflows it drops the head of the longest flow
    TRAITS: ClassVar[Traits] = Traits(drops_queued=True, may_deny=True)
    CAN_CHANGE: ClassVar[bool] = True
    USUAL_LIMIT: ClassVar[int] = 10240
    PLACES: ClassVar[Places] = {"target": (1, 0, "I"), "limit": (2, 0, "I"), "interval": (3, 0, "I"),
                                "ecn": (4, 0, "I"), "flows": (5, 0, "I"), "quantum": (6, 0, "I")}
    MARKED_AT: ClassVar[int] = 12

    @classmethod
    def as_held(cls, name: str, value: Option, jiffy_us: int) -> int | tuple[int, int]:
        return codel_time(int(value)) if name in ("target", "interval") else int(value)

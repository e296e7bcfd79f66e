# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from testbed.core import fields
from topologies.queues._queue import HOUR_US, InPackets, Option, Places, Traits


@dataclasses.dataclass(frozen=True)
class Codel(InPackets):
    """Controlled delay (RFC 8289)."""
    target_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    interval_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    ecn: bool | None = fields.flag(default=None)

    TRAITS: ClassVar[Traits] = Traits(flow_blind=True, drops_queued=True)
    CAN_CHANGE: ClassVar[bool] = True
    PLACES: ClassVar[Places] = {"target": (1, 0, "I"), "limit": (2, 0, "I"), "interval": (3, 0, "I"),
                                "ecn": (4, 0, "I")}
    MARKED_AT: ClassVar[int] = 24

    @classmethod
    def as_held(cls, name: str, value: Option, jiffy_us: int) -> int | tuple[int, int]:
        return codel_time(int(value)) if name in ("target", "interval") else int(value)


def codel_time(time_us: int) -> int:
    """A time as CoDel holds it: in units of 1024 ns."""
    return (time_us * 1000 // 1024) * 1024 // 1000

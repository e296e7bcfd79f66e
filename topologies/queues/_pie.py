# SPDX-License-Identifier: GPL-2.0-only
"""What PIE and FQ-PIE share."""
import dataclasses
from typing import ClassVar

from testbed.core import fields
from topologies.linux.rtnetlink import TICK_NS
from topologies.queues._queue import HOUR_US, InPackets, Option, in_jiffies


@dataclasses.dataclass(frozen=True)
class PieLike(InPackets):
    """The options of PIE."""
    target_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    tupdate_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    alpha: int | None = fields.count(default=None, most=32)
    beta: int | None = fields.count(default=None, most=32)
    ecn: bool | None = fields.flag(default=None)

    CAN_CHANGE: ClassVar[bool] = True

    @classmethod
    def as_held(cls, name: str, value: Option, jiffy_us: int) -> int | tuple[int, int]:
        if name == "target":
            # it is handed out through 32 bits of nanoseconds
            return int(value) * 1000 // TICK_NS * TICK_NS % 2**32 // 1000
        return in_jiffies(int(value), jiffy_us) if name == "tupdate" else int(value)

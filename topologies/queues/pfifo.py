# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from topologies.queues._queue import InPackets, Places, Traits


@dataclasses.dataclass(frozen=True)
class Pfifo(InPackets):
    """Drop tail, counted in packets."""
    TRAITS: ClassVar[Traits] = Traits(tail_drop=True, flow_blind=True)
    CAN_CHANGE: ClassVar[bool] = True
    PLACES: ClassVar[Places] = {"limit": (None, 0, "I")}

# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from topologies.queues._queue import InBytes, Places, Traits


@dataclasses.dataclass(frozen=True)
class Bfifo(InBytes):
    """Drop tail, counted in bytes."""
    TRAITS: ClassVar[Traits] = Traits(tail_drop=True, flow_blind=True)
    CAN_CHANGE: ClassVar[bool] = True
    PLACES: ClassVar[Places] = {"limit": (None, 0, "I")}

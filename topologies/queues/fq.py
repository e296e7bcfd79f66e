# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from testbed.core import fields
from topologies.queues._queue import MOST, InPackets, Places, Traits


@dataclasses.dataclass(frozen=True)
class Fq(InPackets):
    """Fair queueing with pacing."""
    flow_limit: int | None = fields.count(default=None, least=1, most=MOST)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)

    TRAITS: ClassVar[Traits] = Traits(paces=True)
    CAN_CHANGE: ClassVar[bool] = True
    USUAL_LIMIT: ClassVar[int] = 10_000
    PLACES: ClassVar[Places] = {"limit": (1, 0, "I"), "flow_limit": (2, 0, "I"), "quantum": (3, 0, "I")}

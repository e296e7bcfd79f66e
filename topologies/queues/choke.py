# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import math
from typing import ClassVar

from testbed.core import fields
from testbed.core.ip import MTU_BYTES
from topologies.queues._queue import MOST, InPackets, Option, Options, Traits
from topologies.queues._red import RedLike, checked, usual_avpkt


@dataclasses.dataclass(frozen=True)
class Choke(RedLike, InPackets):
    """CHOKe: RED, and a packet that finds one of its own flow at a random place is dropped together with that."""
    min: int | None = fields.count(default=None, least=1, most=MOST)
    max: int | None = fields.count(default=None, least=1, most=MOST)
    avpkt_bytes: int | None = fields.size(default=None, least=1, most=65535)
    burst: int | None = fields.count(default=None, least=1, most=10**6)
    bandwidth_bps: int | None = fields.rate(default=None, least=8)
    probability: float = fields.number(default=0.02, above=0, most=1)
    ecn: bool | None = fields.flag(default=None)

    TRAITS: ClassVar[Traits] = Traits(drops_queued=True, drops_marked=True)
    # CHOKE_MAX_QUEUE of the kernel
    MOST_LIMIT: ClassVar[int] = 128 * 1024 - 1

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Option]:
        avpkt = self.avpkt_bytes or usual_avpkt(mtu_bytes)
        given, limit = super().options(rate_bps, mtu_bytes), self.hard_limit(rate_bps, mtu_bytes)
        # as tc has them
        highest = self.max or max(2, limit // 4)
        lowest = self.min or max(1, highest // 3)
        burst = self.burst or math.ceil((2 * lowest + highest) / 3)
        options: dict[str, Option] = {"bandwidth": rate_bps, **given, "avpkt": avpkt, "min": lowest, "max": highest,
                                      "burst": burst}
        return checked(options, ("limit", "min", "max", "avpkt", "burst", "bandwidth", "probability", "ecn"),
                       lowest * avpkt, (highest - lowest) * avpkt, "packets")

    @classmethod
    def lowest_bytes(cls, options: Options) -> int:
        return int(options["min"]) * int(options["avpkt"])

# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import math
import struct
from typing import ClassVar

from testbed.core import fields
from testbed.core.ip import MTU_BYTES
from topologies.linux.rtnetlink import attribute
from topologies.queues._queue import MOST, InBytes, Option, Options, Traits
from topologies.queues._red import RedLike, checked, red_probability, red_weight, usual_avpkt


@dataclasses.dataclass(frozen=True)
class Red(RedLike, InBytes):
    """Random early detection; by default as the manual page of tc-red advises, marking up to 2 %."""
    min_bytes: int | None = fields.size(default=None, least=1, most=MOST)
    max_bytes: int | None = fields.size(default=None, least=1, most=MOST)
    avpkt_bytes: int | None = fields.size(default=None, least=1, most=65535)
    burst: int | None = fields.count(default=None, least=1, most=10**6)
    bandwidth_bps: int | None = fields.rate(default=None, least=8)
    probability: float = fields.number(default=0.02, above=0, most=1)
    ecn: bool | None = fields.flag(default=None)
    harddrop: bool | None = fields.flag(default=None)
    adaptive: bool | None = fields.flag(default=None)

    #: what it has marked its queue may have no room for
    TRAITS: ClassVar[Traits] = Traits(flow_blind=True, drops_marked=True)
    DUMP_CHANGES: ClassVar[bool] = True

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Option]:
        avpkt = self.avpkt_bytes or usual_avpkt(mtu_bytes)
        given, limit = super().options(rate_bps, mtu_bytes), self.hard_limit(rate_bps, mtu_bytes)
        highest = self.max_bytes or min(3 * (limit if self.min_bytes is None else self.min_bytes), limit // 4)
        lowest = self.min_bytes or max(1, highest // 3)
        burst = self.burst or math.ceil((2 * lowest + highest) / (3 * avpkt))
        options: dict[str, Option] = {"bandwidth": rate_bps, **given, "avpkt": avpkt, "min": lowest, "max": highest,
                                      "burst": burst}
        return checked(options, ("limit", "min", "max", "avpkt", "burst", "bandwidth", "probability", "ecn",
                                 "harddrop", "adaptive"), lowest, highest - lowest, "B")

    @classmethod
    def for_simulators(cls, options: Options) -> Options:
        # tc's burst is a weight of the average, 2**-n
        weight = red_weight(int(options["min"]), int(options["burst"]), int(options["avpkt"]))
        assert weight is not None               # checked when the scenario was read
        return {**options, "weight": 0.5**weight}

    @classmethod
    def netlink_options(cls, options: Options) -> bytes:
        """Lets RED adapt. tc hands its flags over in an attribute of theirs, which the kernel keeps and shows, but it
        starts the timer that adapts for the flag in struct tc_red_qopt only (net/sched/sch_red.c, __red_change). The
        table of what idle times do to the average is left empty: a queue below a shaper is never asked while it is
        empty."""
        if not options.get("adaptive"):
            return b""
        wanted = cls.wanted(options, 0)
        parameters = struct.pack("=IIIBBBB", *(wanted[name] for name in ("limit", "min", "max", "weight_log")), 0,
                                 wanted["idle_log"], wanted["flags"])
        probability = red_probability(float(options["probability"]))
        return attribute(1, parameters) + attribute(2, bytes(256)) + attribute(3, struct.pack("=I", probability))

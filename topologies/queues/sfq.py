# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
from typing import ClassVar

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.ip import MTU_BYTES
from topologies.queues._queue import HOUR_US, InPackets, Option, Options, Places, Traits


@dataclasses.dataclass(frozen=True)
class Sfq(InPackets):
    """Stochastic fair queueing; `perturb`: how often its hash changes."""
    perturb_us: int | None = fields.time(default=None, most=HOUR_US)
    quantum_bytes: int | None = fields.size(default=None, least=256, most=1 << 20)

    #: where it overflows it drops the tail of the longest flow
    TRAITS: ClassVar[Traits] = Traits(drops_queued=True)
    USUAL_LIMIT: ClassVar[int] = 127
    # 127 packets of each of 128 flows
    LEAST_LIMIT: ClassVar[int] = 2
    MOST_LIMIT: ClassVar[int] = 127 * 128
    PLACES: ClassVar[Places] = {"quantum": (None, 0, "I"), "perturb": (None, 4, "i"), "limit": (None, 8, "I")}
    DUMP_CHANGES: ClassVar[bool] = True

    def options(self, rate_bps: int, mtu_bytes: int = MTU_BYTES) -> dict[str, Option]:
        options = super().options(rate_bps, mtu_bytes)
        if self.perturb_us is not None:
            if self.perturb_us % 1_000_000:
                raise FieldError("perturb", "whole seconds such as '10 s' expected")
            options["perturb"] = self.perturb_us // 1_000_000
        return options

    @classmethod
    def tc_words(cls, options: Options) -> list[str]:
        return [word for name, value in options.items() for word in (name, str(value))]

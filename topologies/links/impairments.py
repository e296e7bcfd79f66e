# SPDX-License-Identifier: GPL-2.0-only
"""Sections of a link direction that say what its wire does to packets beside delaying them (docs/howto/links.md)."""
import dataclasses
from typing import TYPE_CHECKING

from testbed.core import fields, ip
from testbed.core.fields import FieldError

if TYPE_CHECKING:
    from topologies.links.link import Link

#: tc counts whole bytes per second: below, that is not exact to 0.1 %; above, nanoseconds are not exact to 1 %
LEAST_RATE_BPS, MOST_RATE_BPS = 1000, 100 * 10**9
#: tc's numbers hold no longer times
MOST_DELAY_US = 274 * 10**6
_MOST_US = 3600 * 10**6
#: netem has half of it in nanoseconds of 31 bits
_MOST_SPREAD_US = 2 * (2**31 - 1) // 1000
#: the kernel has the time that a bucket takes to fill in units of 64 ns, of 32 bits
_LONGEST_BURST_NS = 64 * (2**32 - 1)
#: what netem's table of delays holds: steps of 2**10 in numbers of 16 bits, and a step of 2**31 ns / 8
_MOST_ATTEMPTS, _MOST_STEP_US = 31, 268_000
#: tc's gact takes no larger number
_MOST_EVERY = 10_000


@dataclasses.dataclass(frozen=True)
class GilbertElliott:
    """Two states, good and bad: from packet to packet it changes with these probabilities, and each loses its share."""
    kind: str = fields.word()
    to_bad_percent: float = fields.percent(above=0)
    to_good_percent: float = fields.percent(above=0)
    bad_loss_percent: float = fields.percent(default=100.0)
    good_loss_percent: float = fields.percent(default=0.0)


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Every so many-th packet is lost."""
    kind: str = fields.word()
    every: int = fields.count(least=2, most=_MOST_EVERY)


@dataclasses.dataclass(frozen=True)
class Jitter:
    """A delay that differs by up to `spread` from packet to packet. Without `reordering` nobody overtakes."""
    spread_us: int = fields.time(least=1, most=_MOST_SPREAD_US)
    reordering: bool = fields.flag(default=False)


@dataclasses.dataclass(frozen=True)
class Reorder:
    """A share of the packets arrives early: by a time, or by so many full packets of a link that is busy."""
    share_percent: float = fields.percent(above=0)
    early_us: int | None = fields.time(default=None, least=1, most=_MOST_US)
    displacement: int | None = fields.count(default=None, least=1, most=10_000)

    def __post_init__(self) -> None:
        if (self.early_us is None) == (self.displacement is None):
            raise FieldError("early", "either early (a time) or displacement (a number of packets) expected")

    def time_us(self, frame_us: float) -> int:
        """How much earlier: half a packet more than the displacement, so that it is exactly that on a busy link."""
        return self.early_us if self.early_us is not None else round((_whole(self.displacement) + 0.5) * frame_us)


def _whole(value: int | None) -> int:
    return value or 0


@dataclasses.dataclass(frozen=True)
class Policer:
    """A token bucket at the beginning of the wire: what exceeds it is lost. Bytes are those of layer 2."""
    rate_bps: int = fields.rate(least=LEAST_RATE_BPS, most=MOST_RATE_BPS)
    burst_bytes: int = fields.size(least=ip.LEAST_FRAME_BYTES, most=2**31 - 1)

    def __post_init__(self) -> None:
        if self.burst_bytes * 8 * 10**9 > self.rate_bps * _LONGEST_BURST_NS:
            raise FieldError("burst", f"at most {_LONGEST_BURST_NS // 10**9} s of the rate expected, which is "
                                      f"{self.rate_bps * _LONGEST_BURST_NS // (8 * 10**9)} B")


@dataclasses.dataclass(frozen=True)
class Retransmission:
    """A data link that sends a lost frame again: a delay for each attempt, in order; lost after the last."""
    loss_percent: float = fields.percent(above=0, most=99)
    delay_us: int = fields.time(least=1, most=_MOST_STEP_US)
    attempts: int = fields.count(default=7, least=1, most=_MOST_ATTEMPTS)


LOSS_MODELS: dict[str, type[GilbertElliott | Periodic]] = {"gilbert-elliott": GilbertElliott, "periodic": Periodic}


@dataclasses.dataclass(frozen=True)
class Impaired:
    """The fields of a link that say it. All that is None is left out of its record."""
    loss_model: GilbertElliott | Periodic | None = fields.tagged(LOSS_MODELS, default=None)
    duplicate_percent: float | None = fields.percent(default=None, above=0)
    jitter: Jitter | None = fields.section(Jitter, default=None)
    reorder: Reorder | None = fields.section(Reorder, default=None)
    policer: Policer | None = fields.section(Policer, default=None)
    retransmission: Retransmission | None = fields.section(Retransmission, default=None)
    #: the rate is that of a shaper before a much faster wire
    shaper: bool | None = fields.flag(default=None)


#: what a link's record has of it, by key
NAMES = tuple(field.name for field in dataclasses.fields(Impaired))


def check(link: "Link") -> None:
    """What needs several fields of a link; FieldError where two of them cannot be had together."""
    delaying = [name for name in ("jitter", "reorder", "retransmission") if getattr(link, name) is not None]
    changing = "schedule" if any(entry.delay_us for entry in link.schedule or ()) else ""
    if len(delaying) > 1 or delaying and changing:
        raise FieldError(delaying[-1], f"not together with {delaying[0] if len(delaying) > 1 else changing}: one thing "
                                       "at a time changes the delay of a wire")
    changing_rate = ("trace" if link.trace else
                     "schedule" if any(entry.rate_bps or entry.walk for entry in link.schedule or ()) else "")
    if changing_rate and link.reorder is not None and link.reorder.displacement:
        raise FieldError("reorder.displacement", f"not together with a {changing_rate} that changes the rate, and with "
                                                 "it the time of a packet; early expected")
    if changing_rate and link.shaper:
        raise FieldError("shaper", f"not together with a {changing_rate} that changes the rate")
    losing = [name for name, there in (
        ("loss", link.loss_percent or any(entry.loss_percent for entry in link.schedule or ())),
        ("loss_model", link.loss_model), ("lose_segments", link.lose_segments), ("policer", link.policer)) if there]
    if link.loss_model and link.retransmission:
        losing.append("retransmission")
    if len(losing) > 1:
        raise FieldError(losing[1], f"not together with {losing[0]}: one model of loss at a time")
    if link.policer is not None and link.policer.burst_bytes < link.frame_bytes:
        raise FieldError("policer.burst", f"at least {link.frame_bytes} B, a full frame, expected, not "
                                          f"{link.policer.burst_bytes} B")
    if link.reorder is not None and early_us(link) > link.delay_us:
        raise FieldError("reorder", f"packets cannot be {early_us(link)} us early on a link with a delay of "
                                    f"{link.delay_us} us")


def early_us(link: "Link") -> int:
    """How much earlier than the others reordered packets arrive."""
    return 0 if link.reorder is None else int(link.reorder.time_us(link.frame_bytes * 8e6 / link.rate_bps))


def record(link: "Link") -> dict[str, object]:
    """What network.json has of it, with the time that a displacement comes to."""
    found = {name: fields.encoded(getattr(link, name)) for name in NAMES if getattr(link, name) is not None}
    if link.reorder is not None:
        found["reorder"] = fields.encode(link.reorder) | {"early_us": early_us(link)}
    return found

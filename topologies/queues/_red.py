# SPDX-License-Identifier: GPL-2.0-only
"""What RED and CHOKe share: the arithmetic of tc and of the kernel (tc_red.c, include/net/red.h)."""
import math
from typing import ClassVar

from testbed.core.fields import FieldError
from testbed.core.ip import MTU_BYTES
from topologies.linux.rtnetlink import TICK_NS
from topologies.queues._queue import MOST, Option, Options, Places, Queue, Wanted

#: bounds of what adaptive RED makes of its probability: include/net/red.h, red_adaptative_algo()
_ADAPTED = (0.9 * 0.01, 0.50 + 0.01)
_FLAGS = {"ecn": 1, "harddrop": 2, "adaptive": 4}


class RedLike(Queue):
    """A queue with RED's probability."""
    TC_SAYS_NO: ClassVar[bool] = False
    MARKED_AT: ClassVar[int] = 12
    PLACES: ClassVar[Places] = {
        "limit": (1, 0, "I"), "min": (1, 4, "I"), "max": (1, 8, "I"), "weight_log": (1, 12, "B"),
        "idle_log": (1, 14, "B"), "flags": (1, 15, "B"), "probability": (3, 0, "I")}

    @classmethod
    def lowest_bytes(cls, options: Options) -> int:
        """`min` in the bytes of average packets."""
        return int(options["min"])

    @classmethod
    def tc_number(cls, name: str, value: int | float | str) -> str:
        # tc hands a probability over in 32 bits after the point, of which 1 has none left, and 0 stands for another
        return repr(min(max(value, 1.01 * 2**-32), 1 - 2**-32)) if isinstance(value, float) else str(value)

    @classmethod
    def wanted(cls, options: Options, jiffy_us: int) -> Wanted:
        weight = red_weight(cls.lowest_bytes(options), int(options["burst"]), int(options["avpkt"]))
        asked = float(options["probability"])
        wanted: Wanted = {"limit": int(options["limit"]), "min": int(options["min"]), "max": int(options["max"]),
                          "flags": sum(bit for name, bit in _FLAGS.items() if options.get(name)),
                          "probability": red_probability(asked)}
        if weight is not None:
            idle_log = _idle_log(weight, int(options["avpkt"]), int(options["bandwidth"]))
            wanted.update(weight_log=weight, idle_log=idle_log)
        if options.get("adaptive"):
            wanted["probability"] = (red_probability(min(asked, _ADAPTED[0])), red_probability(max(asked, _ADAPTED[1])))
        return wanted

    @classmethod
    def held_probability(cls, options: Options) -> float | None:
        """At `max`: the kernel divides what it holds by max - min, and drops the rest (red_set_parms)."""
        width = int(options["max"]) - int(options["min"])
        return max(1, red_probability(float(options["probability"])) // width) * width / 2**32


def usual_avpkt(mtu_bytes: int) -> int:
    """An average packet: the 1000 bytes of tc-red's manual page, which are two thirds of Ethernet's MTU."""
    return round(mtu_bytes * 1000 / MTU_BYTES)


def checked(options: Options, names: tuple[str, ...], lowest_bytes: int, width_bytes: int, unit: str) \
        -> dict[str, Option]:
    """Options in the order of names; FieldError if tc or the kernel cannot have them. unit: what min and max count."""
    lowest, highest, limit = (int(options[name]) for name in ("min", "max", "limit"))
    if not lowest < highest <= limit:
        raise FieldError("max", f"min < max <= limit expected, not {lowest}, {highest} and {limit} {unit}")
    burst, avpkt = int(options["burst"]), int(options["avpkt"])
    weight = red_weight(lowest_bytes, burst, avpkt)
    if weight is None:
        raise FieldError("burst", f"{burst} packets of {avpkt} B are too few for min = {lowest_bytes} B")
    if highest.bit_length() + weight >= 32:
        raise FieldError("burst", f"the kernel cannot average over {burst} packets up to max = {highest} {unit}")
    # tc has no number for a smaller probability at max that grows over so many bytes
    if float(options["probability"]) / width_bytes <= 2**-31:
        raise FieldError("probability", f"more than {width_bytes / 2**31:.3g} expected where max - min is "
                                        f"{width_bytes} B: less is 0 to tc")
    return {name: options[name] for name in names if name in options}


def red_weight(lowest: int, burst: int, avpkt: int) -> int | None:
    """The averaging weight 2**-n that tc computes for a RED queue, as n; None if there is none."""
    packets = burst + 1 - lowest / avpkt
    if packets < 1:
        return None
    return next((n for n in range(1, 32) if packets <= (1 - (1 - 0.5**n)**burst) / 0.5**n), None)


def red_probability(probability: float) -> int:
    """A probability as RED holds it: 0 would stand for one that the kernel makes up, so the least is 1."""
    return max(1, min(MOST, int(probability * 2**32)))


def _idle_log(weight: int, avpkt: int, bandwidth_bps: int) -> int:
    """What tc computes of it for the time in which a queue is empty (tc_red_eval_idle_damping)."""
    ticks = math.ceil(avpkt * 10**6 / (bandwidth_bps // 8) * 1000 / TICK_NS)
    longest = 31 * ticks / -math.log(1 - 0.5**weight)
    return next((n for n in range(32) if longest / 2**n < 512), 31)

# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import struct
from typing import ClassVar

from testbed.core import fields
from topologies.linux.rtnetlink import attribute
from topologies.queues._queue import HOUR_US, MOST, InPackets, Option, Options, Places, Traits

#: attribute (TCA_DUALPI2_*), its form, what the value is multiplied by or stands for
_ATTRIBUTES: dict[str, tuple[int, str, int | dict[str, int]]] = {
    "limit": (1, "I", 1), "target": (3, "I", 1), "tupdate": (4, "I", 1), "alpha": (5, "I", 256), "beta": (6, "I", 256),
    "step_thresh": (8, "I", 1), "min_qlen_step": (9, "I", 1), "coupling_factor": (10, "B", 1),
    "overload": (11, "B", {"overflow": 0, "drop": 1}), "drop_at": (12, "B", {"dequeue": 0, "enqueue": 1}),
    "classic_protection": (13, "B", 1), "classify": (14, "B", {"l4s_ect": 1, "any_ect": 3})}


@dataclasses.dataclass(frozen=True)
class DualPi2(InPackets):
    """DualPI2 (RFC 9332): a queue for scalable congestion controls beside one for the others, coupled. It always marks.

    step_thresh: the wait from which all that waits for scalable ones is marked; classify: which packets are of them.
    """
    target_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    tupdate_us: int | None = fields.time(default=None, least=1, most=4_000_000)
    alpha: float | None = fields.number(default=None, above=0, most=1000)
    beta: float | None = fields.number(default=None, above=0, most=1000)
    step_thresh_us: int | None = fields.time(default=None, most=4_000_000)
    min_qlen_step: int | None = fields.count(default=None, most=MOST)
    coupling_factor: int | None = fields.count(default=None, least=1, most=255)
    overload: str | None = fields.word(choices=("drop", "overflow"), default=None)
    drop_at: str | None = fields.word(choices=("dequeue", "enqueue"), default=None)
    classify: str | None = fields.word(choices=("l4s_ect", "any_ect"), default=None)
    classic_protection: int | None = fields.count(default=None, most=100)

    #: what it marks by its probability it may mark by its step, too
    TRAITS: ClassVar[Traits] = Traits(drops_queued=True, marks=True, drops_marked=True, counts_marks_twice=True)
    CUTS: ClassVar[bool] = True                 # split-gso
    USUAL_LIMIT: ClassVar[int] = 10_000
    PLACES: ClassVar[Places] = {name: (number, 0, form) for name, (number, form, _) in _ATTRIBUTES.items()}
    MARKED_AT: ClassVar[int] = 24
    KNOWN_TO_TC: ClassVar[bool] = False
    KERNEL_FEATURE: ClassVar[str] = "dualpi2"
    FOR_L4S: ClassVar[bool] = True

    @classmethod
    def l4s_codepoints(cls, options: Options) -> frozenset[str]:
        found = {"ect1", "ect0", "ce"} if options.get("classify") == "any_ect" else {"ect1", "ce"}
        # there it marks before the packet counts as queued: a mark says nothing of the queue
        return frozenset(found - {"ce"} if options.get("drop_at") == "enqueue" else found)

    @classmethod
    def netlink_options(cls, options: Options) -> bytes:
        return b"".join(attribute(number, struct.pack(f"={form}", _number(name, options[name])))
                        for name in options for number, form, _ in (_ATTRIBUTES[name],))

    @classmethod
    def as_held(cls, name: str, value: Option, jiffy_us: int) -> int | tuple[int, int]:
        number = _number(name, value)
        # gains are kept in units of 64 ns, a little finer than those of the message: 1.07 to one
        return (number - 1, number) if name in ("alpha", "beta") else number


def _number(name: str, value: Option) -> int:
    unit = _ATTRIBUTES[name][2]
    return unit[str(value)] if isinstance(unit, dict) else round(float(value) * unit)

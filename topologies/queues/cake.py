# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import struct
from typing import ClassVar

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.ip import ETHERNET_BYTES, MTU_BYTES
from topologies.linux.rtnetlink import attributes
from topologies.queues._queue import HOUR_US, InBytes, Option, Options, Places, Traits, Wanted

#: words of an option in the order of the kernel's numbers
_WORDS = {"priority": ("diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence"),
          "isolation": ("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost",
                        "triple-isolate"),
          "ack_filter": ("off", "on", "aggressive")}
#: TCA_CAKE_STATS_TIN_STATS, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS
_TINS, _MARKED = 10, 8


@dataclasses.dataclass(frozen=True)
class Cake(InBytes):
    """CAKE without its shaper (the link has its own). Its limit counts the kernel's memory; it always marks."""
    rtt_us: int | None = fields.time(default=None, least=1, most=HOUR_US)
    priority: str | None = fields.word(choices=("besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence"),
                                       default=None)
    isolation: str | None = fields.word(choices=_WORDS["isolation"], default=None)
    ack_filter: str | None = fields.word(choices=_WORDS["ack_filter"], default=None)

    TRAITS: ClassVar[Traits] = Traits(drops_queued=True, may_deny=True, marks=True)
    CUTS: ClassVar[bool] = True                 # split-gso
    #: what it has by itself: 10240 frames of the interface's MTU
    USUAL_LIMIT: ClassVar[int | None] = 10240 * (MTU_BYTES + ETHERNET_BYTES)
    PLACES: ClassVar[Places] = {"rate": (2, 0, "Q"), "priority": (3, 0, "I"), "isolation": (5, 0, "I"),
                                "rtt": (7, 0, "I"), "limit": (10, 0, "I"), "ack_filter": (16, 0, "I")}

    def frame_takes_bytes(self, mtu_bytes: int) -> int:
        """What the kernel counts for a full packet (its truesize)."""
        if mtu_bytes != MTU_BYTES:
            raise FieldError("kind", f"cake counts memory, and how much a packet takes is known for an MTU of "
                                     f"{MTU_BYTES} B only, not of {mtu_bytes} B")
        return 2304

    @classmethod
    def traits(cls, options: Options) -> Traits:
        # what the filter removes the kernel does not call a drop (consume_skb)
        return dataclasses.replace(cls.TRAITS, drops_uncounted=options.get("ack_filter", "off") != "off")

    @classmethod
    def tc_words(cls, options: Options) -> list[str]:
        """CAKE's options are mostly words of their own. The link has a shaper already."""
        words = ["unlimited", "memlimit", str(options["limit"])]
        if "rtt" in options:
            words += ["rtt", f"{options['rtt']}us"]
        if "ack_filter" in options:
            words.append({"off": "no-ack-filter", "on": "ack-filter", "aggressive": "ack-filter-aggressive"}[
                str(options["ack_filter"])])
        return words + [str(options[name]) for name in ("priority", "isolation") if name in options]

    @classmethod
    def wanted(cls, options: Options, jiffy_us: int) -> Wanted:
        return {"rate": 0, **super().wanted(options, jiffy_us)}

    @classmethod
    def as_held(cls, name: str, value: Option, jiffy_us: int) -> int | tuple[int, int]:
        return _WORDS[name].index(str(value)) if name in _WORDS else int(value)

    @classmethod
    def marked_packets(cls, statistics: bytes) -> int:
        """Those of all its tins."""
        tins = attributes(attributes(statistics).get(_TINS, b""))
        return sum(struct.unpack_from("=I", attributes(tin)[_MARKED])[0] for tin in tins.values())

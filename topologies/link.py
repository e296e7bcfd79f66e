# SPDX-License-Identifier: GPL-2.0-only
"""The emulated link: rate, buffer, delay and loss, each in its own place.

One direction of a link from A to B is

    A's egress                          B's ingress
    tbf (rate) > buffer or AQM   -->    ifb: netem (serialisation, delay, loss)

* A's egress holds the *queue*: a token bucket at the link's rate, and below it the
  buffer (pfifo/bfifo) or the AQM. Nothing but waiting packets is counted there.
* B's ingress is the *wire*: packets are redirected to an IFB device whose netem
  serialises them at the link's rate and delays them. A token bucket lets a packet
  go the moment there are tokens, that is when its transmission would *start*;
  netem's `rate` adds the transmission time of each packet on an idle link.
  Chosen segments (topologies/losses.py) are lost where the wire begins.

Were netem placed below the bucket on A (as Mininet's TCLink does), packets in
flight would count as queued, AQMs would average over the delay line, and on an end
host netem would orphan the packets and switch off TCP small queues.
"""
from dataclasses import dataclass, field

from topologies import losses
from topologies.parameters import EXAMPLES, ParameterError, plain, require_fields, require_mapping

MTU_BYTES = 1500
ETHERNET_HEADER_BYTES = 14
FRAME_BYTES = MTU_BYTES + ETHERNET_HEADER_BYTES
# A packet's worth of tokens and a little more: tc rounds the bucket down to its clock
# ticks, and a frame larger than the bucket would be dropped.
_MIN_BURST_BYTES = FRAME_BYTES + 86
# The token bucket sits above the queue; its own byte limit must never be the one that drops.
_NO_LIMIT_BYTES = 2**31 - 1

#: qdiscs that may stand below the token bucket, with the options each accepts
#: (tc's own names; values are numbers, or words from the listed choices).
QUEUES = {
    "pfifo": {"limit"},
    "bfifo": {"limit"},
    "red": {"limit", "min", "max", "avpkt", "burst", "bandwidth", "probability",
            "ecn", "harddrop", "adaptive"},
    "codel": {"limit", "target", "interval", "ecn"},
    "fq_codel": {"limit", "flows", "target", "interval", "quantum", "ecn"},
    "pie": {"limit", "target", "tupdate", "alpha", "beta", "ecn"},
    "fq": {"limit", "flow_limit", "quantum"},
    "sfq": {"limit", "perturb", "quantum"},
}
_FLAGS = {"ecn", "harddrop", "adaptive"}
_LIMIT_IN_BYTES = {"bfifo", "red"}
#: units of options, other than those that count or have none; bytes may be given without
_UNITS = {"target": "us", "interval": "us", "tupdate": "us", "bandwidth": "bps", "min": "bytes", "max": "bytes",
          "avpkt": "bytes", "quantum": "bytes"}


@dataclass(frozen=True)
class Queue:
    """What waits in front of a link: a qdisc and its options.

    `limit` is in packets, except for `bfifo` and `red`, where it is in bytes.
    """
    kind: str = "pfifo"
    options: dict = field(default_factory=lambda: {"limit": 1000})

    def __post_init__(self):
        if self.kind not in QUEUES:
            raise ParameterError("kind", f"no queue {self.kind!r}; there are: {', '.join(sorted(QUEUES))}")
        for name, value in self.options.items():
            if name not in QUEUES[self.kind]:
                raise ParameterError(name, f"{self.kind} has no such option; it has: "
                                     f"{', '.join(sorted(QUEUES[self.kind]))}")
            if name in _FLAGS:
                if not isinstance(value, bool):
                    raise ParameterError(name, f"true or false expected, not {value!r}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise ParameterError(name, f"a number >= 0 expected, not {value!r}")

    @classmethod
    def from_section(cls, section, rate_bps):
        """{"kind": "pfifo", "limit": 850} -> Queue. A limit given as a time is turned into packets or bytes."""
        options = dict(require_mapping(section, "queue"))
        kind = options.pop("kind", "pfifo")
        plain_options = {}
        for key, value in options.items():
            name = plain(key)
            unit = key[len(name) + 1:]
            wanted = _UNITS.get(name, "bytes" if name == "limit" and kind in _LIMIT_IN_BYTES else "")
            if name == "limit" and unit == "us" and isinstance(value, int):
                value = bytes_for_time(rate_bps, value) if kind in _LIMIT_IN_BYTES else packets_for_time(rate_bps, value)
            elif name == "perturb" and unit == "us":
                value /= 1e6
            elif unit not in ("", wanted) or not unit and wanted in ("us", "bps"):
                raise ParameterError(name, f"a value such as '{EXAMPLES[wanted]}' expected" if wanted else
                                     f"a number {'of packets ' if name == 'limit' else ''}without a unit expected")
            plain_options[name] = value
        return cls(kind, plain_options)

    @property
    def limit_packets(self):
        """Largest number of packets the queue holds, or None if it is not counted in packets."""
        if self.kind in _LIMIT_IN_BYTES:
            return None
        return self.options.get("limit")

    def tc(self):
        """The queue as tc spells it, as a list of words."""
        words = [self.kind]
        for name, value in self.options.items():
            if name in _FLAGS:
                words += [name] if value else []
            elif name in ("target", "interval", "tupdate"):
                words += [name, f"{value}us"]
            elif name == "bandwidth":
                words += [name, f"{int(value)}bit"]
            else:
                words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
        return words


def packets_for_time(rate_bps, buffer_us):
    """Packets of 1500 bytes that a buffer of `buffer_us` holds at `rate_bps` (at least 1)."""
    return max(1, round(rate_bps * buffer_us / 1e6 / 8 / MTU_BYTES))


def bytes_for_time(rate_bps, buffer_us):
    """Bytes that a buffer of `buffer_us` holds at `rate_bps`."""
    return round(rate_bps * buffer_us / 8e6)


@dataclass(frozen=True)
class LinkDirection:
    """One direction of a link. Rates are layer 2 (Ethernet header, no FCS).

    loss_percent: random loss; lose_segments: which segments of a bulk transfer are lost, the first
    lose_copies times that they pass.
    """
    rate_bps: int
    delay_us: int = 0
    loss_percent: float = 0.0
    lose_segments: tuple = ()
    lose_copies: int = 1
    queue: Queue = Queue()
    name: str = ""
    bottleneck: bool = False

    def __post_init__(self):
        if self.rate_bps <= 0:
            raise ParameterError("rate", f"must be above 0 bit/s, not {self.rate_bps}")
        if self.delay_us < 0:
            raise ParameterError("delay", f"must not be negative, not {self.delay_us} us")
        if not 0 <= self.loss_percent <= 100:
            raise ParameterError("loss", f"must be within 0..100 %, not {self.loss_percent}")
        losses.check(self.lose_segments, self.lose_copies)

    @classmethod
    def from_section(cls, section, **fixed):
        """{"rate_bps": .., "delay_us": .., "loss_percent": .., "lose_segments": [..], "lose_copies": ..,
        "queue": {..}} -> LinkDirection."""
        require_fields(section, {"rate_bps": int, "delay_us": int, "loss_percent": (int, float),
                                 "lose_segments": object, "lose_copies": object, "queue": dict}, required=("rate_bps",))
        values = dict(section)
        if "queue" in values:
            try:
                values["queue"] = Queue.from_section(values["queue"], values["rate_bps"])
            except ParameterError as problem:
                raise problem.inside("queue") from None
        return cls(**values, **fixed)

    def burst_bytes(self, timer_period_us):
        """Bucket depth: one frame in virtual time; what one timer period lets through in real time."""
        return max(_MIN_BURST_BYTES, int(self.rate_bps * timer_period_us / 8e6))

    def wire_limit_packets(self):
        """Packets the delay line may hold: well above its bandwidth-delay product of small packets."""
        return max(1000, int(4 * self.rate_bps * (self.delay_us + 10_000) / 1e6 / 8 / 64))

    def egress_tc(self, device, timer_period_us):
        """tc batch lines for the sending side."""
        return [
            f"qdisc add dev {device} root handle 1: tbf rate {self.rate_bps}bit "
            f"burst {self.burst_bytes(timer_period_us)} limit {_NO_LIMIT_BYTES}",
            f"qdisc add dev {device} parent 1:1 handle 10: {' '.join(self.queue.tc())}",
        ]

    def ingress_tc(self, device, wire_device):
        """tc batch lines for the receiving side, where `wire_device` is an IFB."""
        netem = (f"qdisc add dev {wire_device} root handle 2: netem limit {self.wire_limit_packets()} "
                 f"delay {self.delay_us}us rate {self.rate_bps}bit")
        if self.loss_percent:
            netem += f" loss {self.loss_percent:g}%"
        return [
            f"qdisc add dev {device} handle ffff: ingress",
            *losses.filters(device, self.lose_segments, self.lose_copies),
            f"filter add dev {device} parent ffff: protocol all matchall "
            f"action mirred egress redirect dev {wire_device}",
            netem,
        ]

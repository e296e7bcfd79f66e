# SPDX-License-Identifier: GPL-2.0-only
"""What the wire of a link does to packets beside its constant delay, in numbers: from a link of network.json.

Only plain values here: guest and checks use it (sections: topologies/links/impairments.py).
"""
import math
from collections.abc import Mapping
from typing import Any

from topologies.links import varying

Link = Mapping[str, Any]
#: entries of netem's table of delays, one of which it draws for each packet, and what stands for one more step
TABLE_ENTRIES, TABLE_STEP = 16384, 1024


def late_us(link: Link) -> float:
    """The most by which a packet may be later than the delay of the link, jitter of hosts left out."""
    again = link.get("retransmission")
    spread_us = (link.get("jitter") or {}).get("spread_us", 0)
    return float(spread_us + (again["delay_us"] * again["attempts"] if again else 0))


def early_us(link: Link) -> float:
    """The most by which it may be earlier."""
    return float((link.get("reorder") or {}).get("early_us", 0))


def least_delay_us(link: Link) -> float:
    """No packet has less."""
    return float(varying.least(link, "delay_us")) - early_us(link)


def reorders(link: Link) -> bool:
    """True if packets may overtake others."""
    return bool(link.get("reorder") or (link.get("jitter") or {}).get("reordering"))


def drops_at_ingress(link: Link) -> bool:
    """True if packets are lost where the wire begins, before anything random."""
    model = link.get("loss_model") or {}
    return bool(link.get("lose_segments") or link.get("policer") or model.get("kind") == "periodic")


def attempts(link: Link) -> list[int]:
    """Of TABLE_ENTRIES packets of a link with retransmission, how many need 0, 1, ... more attempts."""
    again = link["retransmission"]
    share = again["loss_percent"] / 100
    left, counts = TABLE_ENTRIES, []
    for number in range(again["attempts"]):
        here = round(TABLE_ENTRIES * share**number * (1 - share))
        counts.append(min(here, left))
        left -= counts[-1]
    return [*counts, left]


def lost_share(link: Link) -> float:
    """Probability that a packet is lost at random, in the long run; of a link whose loss does not change."""
    model, again = link.get("loss_model") or {}, link.get("retransmission")
    if model.get("kind") == "gilbert-elliott":
        bad = model["to_bad_percent"] / (model["to_bad_percent"] + model["to_good_percent"])
        return float(bad * model["bad_loss_percent"] + (1 - bad) * model["good_loss_percent"]) / 100
    # of a frame and its copies, the last is lost, too
    residual = (again["loss_percent"] / 100) ** (again["attempts"] + 1) if again else 0.0
    return float(1 - (1 - float(link.get("loss_percent") or 0) / 100) * (1 - residual))


def lost_deviation(link: Link, packets: int) -> float:
    """Standard deviation of the number of random losses among so many packets.

    Of Gilbert-Elliott with the correlation of its states: the chain forgets by a factor of 1 - p - r per packet.
    """
    share, model = lost_share(link), link.get("loss_model") or {}
    variance = share * (1 - share)
    if model.get("kind") == "gilbert-elliott":
        p, r = model["to_bad_percent"] / 100, model["to_good_percent"] / 100
        apart = (model["bad_loss_percent"] - model["good_loss_percent"]) / 100
        variance += 2 * apart**2 * p * r / (p + r)**2 * (1 - p - r) / (p + r)
    return math.sqrt(max(packets * variance, 0.0))

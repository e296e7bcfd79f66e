# SPDX-License-Identifier: GPL-2.0-only
"""What the wire of a link does to packets beside its constant delay, in numbers: from a link of network.json.

Guest and checks use it (sections: topologies/links/impairments.py).
"""
import math

from topologies.links import varying
from topologies.links.records import Link, LossModel, Retransmission

#: entries of netem's table of delays, one of which it draws for each packet, and what stands for one more step
TABLE_ENTRIES, TABLE_STEP = 16384, 1024


def late_us(link: Link) -> float:
    """The most by which a packet may be later than the delay of the link, jitter of hosts left out."""
    again, jitter = link.retransmission, link.jitter
    return float((jitter.spread_us if jitter else 0) + (again.delay_us * again.attempts if again else 0))


def early_us(link: Link) -> float:
    """The most by which it may be earlier."""
    return float(link.reorder.early_us) if link.reorder else 0.0


def least_delay_us(link: Link) -> float:
    """No packet has less."""
    return float(varying.least(link, "delay_us")) - early_us(link)


def frame_us(link: Link, frame_bytes: float, rate_bps: float | None = None) -> float:
    """How long a frame takes on the wire at the link's rate, or at this one of a link that changes; a shaper passes it
    on at once."""
    return 0.0 if link.shaper else frame_bytes * 8e6 / (rate_bps or link.rate_bps)


def reorders(link: Link) -> bool:
    """True if packets may overtake others."""
    return bool(link.reorder or link.jitter and link.jitter.reordering)


def drops_at_ingress(link: Link) -> bool:
    """True if packets are lost where the wire begins, before anything random."""
    return bool(link.lose_segments or link.policer or periodic(link))


def gilbert_elliott(link: Link) -> LossModel | None:
    """The link's model of loss, if it is this one."""
    model = link.loss_model
    return model if model is not None and model.kind == "gilbert-elliott" else None


def periodic(link: Link) -> LossModel | None:
    """The link's model of loss, if it is that every so many-th packet is lost."""
    model = link.loss_model
    return model if model is not None and model.kind == "periodic" else None


def attempts(again: Retransmission) -> list[int]:
    """Of TABLE_ENTRIES packets of a link with retransmission, how many need 0, 1, ... more attempts."""
    share = again.loss_percent / 100
    left, counts = TABLE_ENTRIES, []
    for number in range(again.attempts):
        here = round(TABLE_ENTRIES * share**number * (1 - share))
        counts.append(min(here, left))
        left -= counts[-1]
    return [*counts, left]


def lost_share(link: Link) -> float:
    """Probability that a packet is lost at random, in the long run; of a link whose loss does not change."""
    if (model := gilbert_elliott(link)) is not None:
        bad = model.to_bad_percent / (model.to_bad_percent + model.to_good_percent)
        return float(bad * model.bad_loss_percent + (1 - bad) * model.good_loss_percent) / 100
    again = link.retransmission
    # of a frame and its copies, the last is lost, too
    residual = (again.loss_percent / 100) ** (again.attempts + 1) if again else 0.0
    return float(1 - (1 - float(link.loss_percent or 0) / 100) * (1 - residual))


def lost_deviation(link: Link, packets: int) -> float:
    """Standard deviation of the number of random losses among so many packets.

    Of Gilbert-Elliott with the correlation of its states: the chain forgets by a factor of 1 - p - r per packet.
    """
    share, model = lost_share(link), gilbert_elliott(link)
    variance = share * (1 - share)
    if model is not None:
        p, r = model.to_bad_percent / 100, model.to_good_percent / 100
        apart = (model.bad_loss_percent - model.good_loss_percent) / 100
        variance += 2 * apart**2 * p * r / (p + r)**2 * (1 - p - r) / (p + r)
    return math.sqrt(max(packets * variance, 0.0))

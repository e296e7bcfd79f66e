# SPDX-License-Identifier: GPL-2.0-only
"""What connections put on the wire, and when: the offered load.

Sizes are those of layer 2 without frame check sequence, as a qdisc counts them, unless said otherwise. Times are
those of an uncongested path, so "offered" is demand: it can exceed the link's rate, and it
has no retransmissions in it. docs/howto/tmix.md derives the model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from traffic.tmix.batch import Batch
from traffic.tmix.vectors import ACCEPTOR, INITIATOR, SEQ
from traffic.tmix.wire import L2, Overhead, packets, wire_bytes

INITIAL_WINDOW_PACKETS = 10     # RFC 6928
DIRECTIONS = ("left_to_right", "right_to_left")     # index: side that sends data that way


@dataclass(frozen=True)
class Pieces:
    """Portions of wire traffic, one for each ADU or FIN: which connection, when, how much.

    A piece is spread evenly over [begin_us, end_us], counted from its connection's start.
    """

    first: np.ndarray    # int64[n + 1]: rows of each connection
    owner: np.ndarray    # int64[pieces]
    begin_us: np.ndarray        # float64[pieces]
    end_us: np.ndarray   # float64[pieces]
    wire_bytes: np.ndarray      # float64[2, pieces]: from the initiator, from the acceptor; or float64[links, pieces]
    data_end_us: np.ndarray     # float64[n]: last data packet, from the connection's start
    overhead: Overhead = L2     # what wire_bytes counts beside payload

    @property
    def connection_bytes(self) -> np.ndarray:
        """Wire bytes of each connection in each direction (on each link), float64[2, n]."""
        return np.add.reduceat(self.wire_bytes, self.first[:-1], axis=1)

    def recounted(self, batch: Batch, overhead: Overhead) -> "Pieces":
        """The same with other headers counted; batch: what the pieces are of."""
        return self if overhead == self.overhead else replace(
            self, wire_bytes=wire_bytes(batch, overhead), overhead=overhead)

    def on_links(self, crossing: np.ndarray) -> "Pieces":
        """The same with what crosses each link; crossing: float64[links, n, 2], 1 where a side's data do."""
        wire = np.empty((len(crossing), len(self.owner)))
        for link, sides in enumerate(crossing):
            wire[link] = sides[self.owner, 0] * self.wire_bytes[0] + sides[self.owner, 1] * self.wire_bytes[1]
        return replace(self, wire_bytes=wire)


def pieces(batch: Batch, rtt_us: float | np.ndarray, share_bps: float | np.ndarray, overhead: Overhead = L2) -> Pieces:
    """The `Pieces` of a batch whose FINs are explicit (`Batch.with_explicit_fins`).

    rtt_us: base round-trip time, a number or one for each connection.
    share_bps: rate at which a long transfer proceeds, from `expected_share_bps`; likewise.
    overhead: what a qdisc counts.
    """
    counts = np.diff(batch.first)
    owner = batch.owner
    rtt_us = np.broadcast_to(np.asarray(rtt_us, float), len(batch))[owner]
    share_bps = np.broadcast_to(np.asarray(share_bps, float), len(batch))[owner]
    is_fin = batch.size_bytes == 0
    count = packets(batch, overhead)
    group, order = _dependency_chains(batch, counts)
    sent_before = np.zeros(len(owner))
    for side in (INITIATOR, ACCEPTOR):
        by_side = np.where(batch.side == side, count, 0)
        total = np.cumsum(by_side) - by_side
        total -= np.repeat(total[batch.first[:-1]], counts)
        np.copyto(sent_before, total, where=batch.side == side)
    # Slow start from the window that the connection has grown to: after j round trips
    # window * (2^j - 1) packets are out, so a transfer of one window takes no round trip
    # beside the path's own.
    window = INITIAL_WINDOW_PACKETS + sent_before
    rounds = np.ceil(np.log2(count / window + 1))
    data_wire = batch.size_bytes + overhead.header_bytes * count
    lasts_us = np.maximum(rounds - 1, 0) * rtt_us + data_wire * (8e6 / share_bps)
    begin_us = _begin_us(batch, group, order, owner, rtt_us, lasts_us)
    end_us = begin_us + lasts_us
    data_end_us = np.maximum.reduceat(np.where(is_fin, 0, end_us), batch.first[:-1])
    return Pieces(batch.first, owner, begin_us, end_us, wire_bytes(batch, overhead), data_end_us, overhead)


def expected_share_bps(rate_bps: float, load: float) -> float:
    """Rate of a long transfer on a link that is loaded to `load` by everybody.

    Under processor sharing, which TCP approximates, a transfer of x bits takes
    x / (C (1 - load)) on the mean; from 90 % on the transfer keeps a tenth of the link.
    """
    return rate_bps * max(1 - load, 0.1)


def _dependency_chains(batch: Batch, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Chains of ADUs each waiting for the one before: a SEQ connection, a side of a CONC one.

    Returns the chain of every ADU in chain order, and the order (None: rows are in it).
    """
    owner = np.repeat(np.arange(len(batch)), counts)
    chain = 2 * owner + np.where(batch.kind[owner] == SEQ, 0, batch.side)
    if (np.diff(chain) >= 0).all():
        return chain, None
    order = np.argsort(chain, kind="stable")
    return chain[order], order


def _begin_us(batch: Batch, chain: np.ndarray, order: np.ndarray | None, owner: np.ndarray, rtt_us: np.ndarray,
              lasts_us: np.ndarray) -> np.ndarray:
    """When each piece begins, from the connection's start, if nothing delays it."""
    def arrange(column: np.ndarray) -> np.ndarray:
        return column if order is None else column[order]

    side, lasts_us = arrange(batch.side), arrange(lasts_us)
    leads = np.ones(len(chain), bool)
    leads[1:] = chain[1:] != chain[:-1]
    answers = np.zeros(len(chain), bool)
    answers[1:] = side[1:] != side[:-1]
    rtt_us = arrange(rtt_us)
    # The first ADU follows the handshake, an answer the arrival of what it answers; on one
    # side's own next ADU the wire is free when the one before has left.
    step = arrange(batch.wait_us) + np.where(leads, rtt_us, 0.0)
    step[1:] += np.where(leads[1:], 0.0, lasts_us[:-1] + np.where(answers[1:], rtt_us[1:] / 2, 0))
    total = np.cumsum(step)
    starts = np.flatnonzero(leads)
    base = total[starts] - step[starts]
    begin = total - np.repeat(base, np.diff(np.append(starts, len(chain))))
    if order is None:
        return begin
    result = np.empty_like(begin)
    result[order] = begin
    return result


def carried_bytes(pieces_: Pieces, start_us: np.ndarray, from_us: float, to_us: float) -> np.ndarray:
    """Wire bytes in [from_us, to_us) in each direction, float64[2].

    start_us: experiment time at which each connection of the Pieces starts; negative for
    one that takes no part.
    """
    return pieces_.wire_bytes @ inside(pieces_, start_us, from_us, to_us)


def inside(pieces_: Pieces, start_us: np.ndarray, from_us: float, to_us: float) -> np.ndarray:
    """The share of each piece in [from_us, to_us), float64[pieces]; start_us likewise."""
    start_us = np.asarray(start_us, float)
    begin = start_us[pieces_.owner]
    end = begin + pieces_.end_us
    taking_part = begin >= 0
    begin += pieces_.begin_us
    span = np.maximum(end - begin, 1.0)
    share = np.clip((np.minimum(end, to_us) - np.maximum(begin, from_us)) / span, 0, 1)
    # a piece of no length is inside or outside
    instant = end - begin < 1.0
    share[instant] = (begin[instant] >= from_us) & (begin[instant] < to_us)
    return share * taking_part


def offered_bps(pieces_: Pieces, start_us: np.ndarray, from_us: float, to_us: float) -> np.ndarray:
    """Offered load over [from_us, to_us) in each direction, bit/s, float64[2]."""
    if to_us <= from_us:
        raise ValueError(f"interval [{from_us}, {to_us}) us is empty")
    return carried_bytes(pieces_, start_us, from_us, to_us) * 8e6 / (to_us - from_us)


def thirds_bps(pieces_: Pieces, start_us: np.ndarray, from_us: float, to_us: float) -> np.ndarray:
    """Offered load of the three thirds of an interval, float64[2, 3]."""
    edges = np.linspace(from_us, to_us, 4)
    return np.stack([offered_bps(pieces_, start_us, a, b) for a, b in zip(edges, edges[1:])],
                    axis=1)


def scale_starts(start_us: np.ndarray, scale: float) -> np.ndarray:
    """Experiment start times: scale * trace start, in whole microseconds."""
    return np.rint(np.asarray(start_us) * scale).astype(np.int64)


def search_scale(offered: Callable[[float], float], target_bps: float, guess: float = 1.0, *,
                 tolerance: float = 0.002, most_evaluations: int = 24) -> tuple[float, float]:
    """The scale at which `offered(scale)` is closest to the target.

    offered: function scale -> bit/s, about proportional to 1 / scale. A long transfer that
    enters or leaves the interval makes it jump, so the tolerance may be out of reach.
    tolerance: relative; the search ends when it is met.
    Returns (scale, offered bit/s there). Raises ValueError if the load is 0 everywhere it
    looked.
    """
    best: tuple[float, float] | None = None
    scale, damping = guess, 1.0
    for _ in range(most_evaluations):
        load = offered(scale)
        error = load / target_bps - 1
        if best is None or abs(error) < abs(best[1] / target_bps - 1):
            best = (scale, load)
        elif error * (best[1] - target_bps) < 0:
            # overshot, as happens around a jump: take shorter steps from the best point
            damping /= 2
            scale, error = best[0], best[1] / target_bps - 1
        if abs(error) <= tolerance:
            break
        # at most a factor of 8 at a time, for a load of 0 or an absurd guess
        scale *= float(np.clip(1 + error, 0.125, 8.0)) ** damping
    if best is None or not best[1] > 0:
        raise ValueError(f"no load at any scale tried (from {guess:g} down to {scale:g})")
    return best

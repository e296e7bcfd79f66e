# SPDX-License-Identifier: GPL-2.0-only
"""Many connection vectors as numpy columns: one connection table, one ADU table.

Rows `first[i]:first[i + 1]` of the ADU table belong to connection i, in the order of
`Vector.adus`. Absent properties are -1.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from traffic.tmix.vectors import DEFAULT_FIN_WAIT_US, SEQ, Adu, Vector


@dataclass(frozen=True)
class Batch:
    """Columns of n connections and their ADUs."""

    start_us: np.ndarray        # int64[n]
    kind: np.ndarray            # int8[n]: vectors.SEQ or CONC
    ids: np.ndarray             # int64[n, 2]
    windows: np.ndarray         # int64[n, 2], bytes
    min_rtt_us: np.ndarray      # int64[n]
    loss: np.ndarray            # float64[n, 2], ratios
    mss: np.ndarray             # int64[n, 2], bytes
    first: np.ndarray           # int64[n + 1]
    side: np.ndarray            # int8[adus]: vectors.INITIATOR or ACCEPTOR
    wait_us: np.ndarray         # int64[adus]
    size_bytes: np.ndarray      # int64[adus]; 0 is a FIN

    def __len__(self) -> int:
        return len(self.start_us)

    @property
    def owner(self) -> np.ndarray:
        """The connection each ADU belongs to, int64[adus]."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def vector(self, index: int) -> Vector:
        """Connection `index` as a `Vector`."""
        rows = slice(self.first[index], self.first[index + 1])
        adus = tuple(map(Adu, self.side[rows].tolist(), self.wait_us[rows].tolist(),
                         self.size_bytes[rows].tolist()))

        def pair(column: np.ndarray) -> np.ndarray:
            return tuple(column[index].tolist()) if column[index, 0] >= 0 else None

        rtt_us = int(self.min_rtt_us[index])
        return Vector(int(self.start_us[index]), int(self.kind[index]),
                      tuple(self.ids[index].tolist()), adus, pair(self.windows),
                      rtt_us if rtt_us >= 0 else None, pair(self.loss), pair(self.mss))

    def __iter__(self) -> Iterator[Vector]:
        return map(self.vector, range(len(self)))

    def take(self, indices: np.ndarray) -> "Batch":
        """The connections `indices` (an integer array), in that order."""
        counts = np.diff(self.first)[indices]
        first = offsets(counts)
        rows = np.repeat(self.first[indices] - first[:-1], counts) + np.arange(first[-1])
        return Batch(self.start_us[indices], self.kind[indices], self.ids[indices],
                     self.windows[indices], self.min_rtt_us[indices], self.loss[indices],
                     self.mss[indices], first, self.side[rows], self.wait_us[rows],
                     self.size_bytes[rows])

    def with_starts(self, start_us: np.ndarray) -> "Batch":
        """The same connections with other start times, in their present order."""
        return replace(self, start_us=np.asarray(start_us, np.int64))

    def with_explicit_fins(self) -> "Batch":
        """Every connection closed by somebody: the default FIN of `vectors` added."""
        has_fin = np.bincount(self.owner[self.size_bytes == 0], minlength=len(self)) > 0
        if has_fin.all():
            return self
        added = np.flatnonzero(~has_fin)
        ends = self.first[added + 1]
        first = self.first.copy()
        first[1:] += np.cumsum(~has_fin)
        return replace(
            self, first=first,
            # without a FIN the last row is the ADU sent last
            side=np.insert(self.side, ends, self.side[ends - 1]),
            wait_us=np.insert(self.wait_us, ends, DEFAULT_FIN_WAIT_US),
            size_bytes=np.insert(self.size_bytes, ends, 0))


def offsets(counts: np.ndarray) -> np.ndarray:
    """Row offsets [0, c0, c0 + c1, ...] of consecutive groups of `counts` rows."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def from_vectors(vectors: Iterable[Vector]) -> Batch:
    """A Batch of any iterable of Vectors; only the columns are held in memory."""
    start_us, ids, windows, rtt_us, mss, counts, wait_us, size_bytes = (array("q") for _ in range(8))
    kind, side, loss = array("b"), array("b"), array("d")
    for vector in vectors:
        start_us.append(vector.start_us)
        kind.append(vector.kind)
        ids.extend(vector.ids)
        windows.extend(vector.windows or (-1, -1))
        rtt_us.append(-1 if vector.min_rtt_us is None else vector.min_rtt_us)
        loss.extend(vector.loss or (-1.0, -1.0))
        mss.extend(vector.mss or (-1, -1))
        counts.append(len(vector.adus))
        sides, waits, sizes = zip(*vector.adus)
        side.extend(sides)
        wait_us.extend(waits)
        size_bytes.extend(sizes)

    def column(values: "array[int] | array[float]", kind_: type, shape: int | tuple[int, int] = -1) -> np.ndarray:
        return np.frombuffer(values, kind_).reshape(shape) if len(values) else \
            np.zeros(0 if shape == -1 else (0, 2), kind_)

    return Batch(column(start_us, np.int64), column(kind, np.int8),
                 column(ids, np.int64, (-1, 2)), column(windows, np.int64, (-1, 2)),
                 column(rtt_us, np.int64), column(loss, np.float64, (-1, 2)),
                 column(mss, np.int64, (-1, 2)), offsets(column(counts, np.int64)),
                 column(side, np.int8), column(wait_us, np.int64), column(size_bytes, np.int64))


def concatenate(batches: Sequence[Batch]) -> Batch:
    """The connections of all batches, one after the other."""
    columns = {field.name: np.concatenate([getattr(batch, field.name) for batch in batches])
               for field in fields(Batch) if field.name != "first"}
    columns["first"] = offsets(np.concatenate([np.diff(batch.first) for batch in batches]))
    return Batch(**columns)


def bytes_received_before(batch: Batch) -> np.ndarray:
    """For every ADU: payload its sender's peer has sent earlier in the connection."""
    by_side = [np.where(batch.side == side, batch.size_bytes, 0) for side in (0, 1)]
    peer = np.empty_like(batch.size_bytes)
    for side in (0, 1):
        before = np.cumsum(by_side[1 - side]) - by_side[1 - side]
        before -= np.repeat(before[batch.first[:-1]], np.diff(batch.first))
        np.copyto(peer, before, where=batch.side == side)
    return peer


def needs(batch: Batch) -> np.ndarray:
    """`need_bytes` of every ADU's op: in SEQ all that the peer sent before, in CONC 0."""
    sequential = np.repeat(batch.kind == SEQ, np.diff(batch.first))
    return np.where(sequential, bytes_received_before(batch), 0)

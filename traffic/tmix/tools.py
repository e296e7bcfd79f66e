# SPDX-License-Identifier: GPL-2.0-only
"""Looks at, converts, makes and shuffles vector files; works on anybody's traces."""

import math
import pathlib

import numpy as np

from traffic.tmix.batch import Batch, from_vectors
from traffic.tmix.load import DIRECTIONS, expected_share_bps, pieces
from traffic.tmix.marginals import marginals
from traffic.tmix.reader import Limits, read_vectors
from traffic.tmix.shuffle import shuffle_starts
from traffic.tmix.synth import SynthParameters, expected_connections, synthesise
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, MAX_TIME_US, SEQ
from traffic.tmix.writer import ALTERNATE, ORIGINAL, write_vectors

PERCENTILES = (1, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
FORMATS = (ORIGINAL, ALTERNATE)


def info(path: str | pathlib.Path, *, check_epochs: bool = True, limits: Limits = Limits()) -> dict[str, object]:
    """What a vector file contains: a JSON-able dict, units in the key names.

    `wire_*` is what a link would carry, with headers, ACKs, handshakes and FINs (`load`);
    the rates are over `duration_s`, the time from 0 to the last start. An empty file gives
    `connections` 0 and nothing else.
    """
    batch = from_vectors(read_vectors(path, check_epochs=check_epochs, limits=limits))
    if not len(batch):
        return {"connections": 0}
    explicit = batch.with_explicit_fins()
    # an idle 1 Gbit/s path of the trace's own round-trip times
    wire = pieces(explicit, np.where(batch.min_rtt_us >= 0, batch.min_rtt_us, 0),
                  expected_share_bps(1e9, 0))
    duration_s = (int(batch.start_us.max()) + 1) / 1e6
    data = batch.size_bytes > 0
    result: dict[str, object] = {
        "connections": len(batch),
        "kinds": {"SEQ": int((batch.kind == SEQ).sum()), "CONC": int((batch.kind == CONC).sum())},
        "first_start_s": int(batch.start_us.min()) / 1e6,
        "duration_s": duration_s,
        "connections_per_second": len(batch) / duration_s,
        "sorted_by_start": bool((np.diff(batch.start_us) >= 0).all()),
        "explicit_fins": int((~data).sum()),
        "payload": {name: round(value, 6) for name, value in marginals(batch).items()},
        "data_duration_s_percentiles": _percentiles(wire.data_end_us / 1e6),
        "mss": _mss(batch),
    }
    for side, name, direction in ((INITIATOR, "initiator", DIRECTIONS[0]),
                                  (ACCEPTOR, "acceptor", DIRECTIONS[1])):
        sizes = batch.size_bytes[data & (batch.side == side)]
        wire_bytes = float(wire.wire_bytes[side].sum())
        result[name] = {
            "adus": len(sizes),
            "payload_bytes": int(sizes.sum()),
            "payload_bytes_per_connection": float(sizes.sum() / len(batch)),
            "wire_bytes": wire_bytes,
            "wire_rate_bps": wire_bytes * 8 / duration_s,
            "adu_bytes_percentiles": _percentiles(sizes),
            "direction_with_initiators_left": direction,
        }
    return result


def _percentiles(values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return {}
    found: np.ndarray = np.percentile(values, PERCENTILES)
    return {f"{p:g}": round(float(v), 6) for p, v in zip(PERCENTILES, found)}


def _mss(batch: Batch) -> dict[str, int]:
    """Connections for each pair of `m` values."""
    pairs, counts = np.unique(batch.mss, axis=0, return_counts=True)
    return {"none" if pair[0] < 0 else f"{pair[0]} {pair[1]}": int(count)
            for pair, count in zip(pairs, counts)}


def convert(source: str | pathlib.Path, target: str | pathlib.Path, text_format: str, *, check_epochs: bool = True,
            limits: Limits = Limits()) -> int:
    """Write the vectors of `source` to `target` in 'original' or 'alternate' format.

    Either may be gzip-compressed (the target if its name ends in .gz). Returns the number
    of connections. Nothing appears under the target's name if the source has a defect.
    """
    return write_vectors(target, read_vectors(source, check_epochs=check_epochs, limits=limits), text_format)


def synth(target: str | pathlib.Path, duration_s: float, seed: int, parameters: SynthParameters = SynthParameters(),
          text_format: str = ORIGINAL, limits: Limits = Limits()) -> int:
    """Write a synthesised trace; returns the number of connections. ValueError if that cannot be."""
    if seed < 0:
        raise ValueError(f"a seed of 0 or more expected, not {seed}")
    if not (math.isfinite(duration_s) and duration_s > 0):
        raise ValueError(f"seconds above 0 expected, not {duration_s:g}")
    expected = expected_connections(duration_s, parameters)
    if expected > limits.connections:
        raise ValueError(f"about {expected:.0f} connections; at most {limits.connections}")
    return write_vectors(target, synthesise(duration_s, seed, parameters), text_format)


def shuffle(source: str | pathlib.Path, target: str | pathlib.Path, bin_s: float, seed: int,
            text_format: str = ORIGINAL, *, check_epochs: bool = True, limits: Limits = Limits()) -> int:
    """Write `source` with its bins of `bin_s` seconds of trace time in another order.

    The result is sorted by start time. Returns the number of connections. ValueError for a bin that is none.
    """
    if not (math.isfinite(bin_s) and 1e-6 <= bin_s <= MAX_TIME_US / 1e6):
        raise ValueError(f"a bin of 1 us to {MAX_TIME_US / 1e6:.0f} s expected, not {bin_s:g} s")
    batch = from_vectors(read_vectors(source, check_epochs=check_epochs, limits=limits))
    batch = batch.with_starts(shuffle_starts(batch.start_us, round(bin_s * 1e6), seed))
    return write_vectors(target, batch.take(np.argsort(batch.start_us, kind="stable")),
                         text_format)

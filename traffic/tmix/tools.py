# SPDX-License-Identifier: GPL-2.0-only
"""Looks at, converts, makes and shuffles vector files; works on anybody's traces."""

import numpy as np

from .batch import from_vectors
from .load import DIRECTIONS, expected_share_bps, pieces
from .reader import read_vectors
from .shuffle import shuffle_starts
from .synth import SynthParameters, synthesise
from .vectors import ACCEPTOR, CONC, INITIATOR, SEQ
from .writer import ALTERNATE, ORIGINAL, write_vectors

PERCENTILES = (1, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
FORMATS = (ORIGINAL, ALTERNATE)


def info(path, *, check_epochs=True):
    """What a vector file contains: a JSON-able dict, units in the key names.

    `wire_*` is what a link would carry, with headers, ACKs, handshakes and FINs (`load`);
    the rates are over `duration_s`, the time from 0 to the last start. An empty file gives
    `connections` 0 and nothing else.
    """
    batch = from_vectors(read_vectors(path, check_epochs=check_epochs))
    if not len(batch):
        return {"connections": 0}
    explicit = batch.with_explicit_fins()
    # an idle 1 Gbit/s path of the trace's own round-trip times
    wire = pieces(explicit, np.where(batch.min_rtt_us >= 0, batch.min_rtt_us, 0),
                  expected_share_bps(1e9, 0))
    duration_s = (int(batch.start_us.max()) + 1) / 1e6
    data = batch.size_bytes > 0
    result = {
        "connections": len(batch),
        "kinds": {"SEQ": int((batch.kind == SEQ).sum()), "CONC": int((batch.kind == CONC).sum())},
        "first_start_s": int(batch.start_us.min()) / 1e6,
        "duration_s": duration_s,
        "connections_per_second": len(batch) / duration_s,
        "sorted_by_start": bool((np.diff(batch.start_us) >= 0).all()),
        "explicit_fins": int((~data).sum()),
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


def _percentiles(values):
    if not len(values):
        return {}
    return {f"{p:g}": round(float(v), 6) for p, v in
            zip(PERCENTILES, np.percentile(values, PERCENTILES))}


def _mss(batch):
    """Connections for each pair of `m` values."""
    pairs, counts = np.unique(batch.mss, axis=0, return_counts=True)
    return {"none" if pair[0] < 0 else f"{pair[0]} {pair[1]}": int(count)
            for pair, count in zip(pairs, counts)}


def convert(source, target, text_format, *, check_epochs=True):
    """Write the vectors of `source` to `target` in 'original' or 'alternate' format.

    Either may be gzip-compressed (the target if its name ends in .gz). Returns the number
    of connections. Nothing appears under the target's name if the source has a defect.
    """
    return write_vectors(target, read_vectors(source, check_epochs=check_epochs), text_format)


def synth(target, duration_s, seed, parameters=SynthParameters(), text_format=ORIGINAL):
    """Write a synthesised trace; returns the number of connections."""
    return write_vectors(target, synthesise(duration_s, seed, parameters), text_format)


def shuffle(source, target, bin_s, seed, text_format=ORIGINAL, *, check_epochs=True):
    """Write `source` with its bins of `bin_s` seconds of trace time in another order.

    The result is sorted by start time. Returns the number of connections.
    """
    batch = from_vectors(read_vectors(source, check_epochs=check_epochs))
    batch = batch.with_starts(shuffle_starts(batch.start_us, round(bin_s * 1e6), seed))
    return write_vectors(target, batch.take(np.argsort(batch.start_us, kind="stable")),
                         text_format)

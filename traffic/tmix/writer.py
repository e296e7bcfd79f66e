# SPDX-License-Identifier: GPL-2.0-only
"""Writes connection vectors in UNC's original or ns-2's alternate text format."""

import contextlib
import gzip
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from traffic.tmix.vectors import CONC, INITIATOR, SEQ, Vector, check, epochs

ORIGINAL, ALTERNATE = "original", "alternate"


def format_vector(vector: Vector, text_format: str = ORIGINAL) -> str:
    """The lines of one vector, each ended by a newline.

    Raises ValueError for a vector that cannot be replayed, and for one that the original
    format has no words for: a SEQ connection closed by the side that did not send last.
    """
    check(vector)
    lines = [_header(vector, text_format)]
    if vector.windows is not None:
        lines.append("w {} {}".format(*vector.windows))
    if vector.min_rtt_us is not None:
        lines.append(f"r {vector.min_rtt_us}")
    if vector.loss is not None:
        lines.append("l {} {}".format(*map(_ratio, vector.loss)))
    if vector.mss is not None:
        lines.append("m {} {}".format(*vector.mss))
    if text_format == ALTERNATE:
        lines += _alternate(vector)
    elif vector.kind == CONC:
        lines += _original_conc(vector)
    else:
        lines += _original_seq(vector)
    return "\n".join(lines) + "\n"


def write_vectors(path: str | Path, vectors: Iterable[Vector], text_format: str = ORIGINAL) -> int:
    """Write the vectors to a file, gzip-compressed if its name ends in .gz.

    A file appears under its name only when it is complete; what is there already and is no file, such as a
    pipe or a device, is written to. Returns the number written. Raises OSError.
    """
    if text_format not in (ORIGINAL, ALTERNATE):
        raise ValueError(f"format {text_format!r} is neither '{ORIGINAL}' nor '{ALTERNATE}'")
    path = Path(path)
    count = 0
    with _output(path) as raw:
        # mtime 0 and no name: the same vectors give the same bytes
        stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(
            filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) \
            if path.suffix == ".gz" else raw
        for vector in vectors:
            stream.write(format_vector(vector, text_format).encode("ascii"))
            count += 1
        if stream is not raw:
            stream.close()
    return count


@contextlib.contextmanager
def _output(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all went well; or what has that name, if it is no file."""
    try:
        # a link stays a link: what it points to is replaced
        path = Path(os.path.realpath(path)) if path.is_symlink() else path
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        is_file = True
    if not is_file:
        with open(path, "wb") as raw:
            yield raw
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "xb") as raw:
            yield raw
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _ratio(value: float) -> str:
    """UNC's six decimals where they are exact, else as many digits as it takes."""
    text = f"{value:.6f}"
    return text if float(text) == value else repr(float(value))


def _header(vector: Vector, text_format: str) -> str:
    alternate = text_format == ALTERNATE
    if vector.kind == SEQ:
        return "{} {} {} {} {}".format("S" if alternate else "SEQ", vector.start_us,
                                       epochs(vector.adus), *vector.ids)
    n_init = sum(1 for adu in vector.adus if adu[2] and adu[0] == INITIATOR)
    n_acc = sum(1 for adu in vector.adus if adu[2] and adu[0] != INITIATOR)
    return "{} {} {} {} {} {}".format("C" if alternate else "CONC", vector.start_us, n_init,
                                      n_acc, *vector.ids)


def _alternate(vector: Vector) -> Iterator[str]:
    last_data_side = None
    for side, wait_us, size_bytes in vector.adus:
        waits_for_peer = vector.kind == SEQ and last_data_side not in (None, side)
        send_us, receive_us = (0, wait_us) if waits_for_peer else (wait_us, 0)
        yield f"{'IA'[side]} {send_us} {receive_us} {size_bytes}"
        if size_bytes:
            last_data_side = side


def _original_seq(vector: Vector) -> Iterator[str]:
    last_data_side = None
    for side, wait_us, size_bytes in vector.adus:
        if last_data_side is not None or wait_us:
            yield f"t {wait_us}"
        if size_bytes:
            yield f"{'><'[side]} {size_bytes}"
            last_data_side = side
        elif side != last_data_side or vector.adus[-1] != (side, wait_us, 0):
            raise ValueError(
                f"connection {vector.ids[0]} {vector.ids[1]}: in the original format only the "
                "side that sent last can close a SEQ connection; write the alternate format")


def _original_conc(vector: Vector) -> Iterator[str]:
    begun: set[int] = set()
    for side, wait_us, size_bytes in vector.adus:
        if side in begun or wait_us or not size_bytes:
            yield f"t{'><'[side]} {wait_us}"
        if size_bytes:
            yield f"c{'><'[side]} {size_bytes}"
            begun.add(side)

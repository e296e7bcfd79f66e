# SPDX-License-Identifier: GPL-2.0-only
"""Reads connection vectors in UNC's original and ns-2's alternate text format.

The format is recognised at each connection's header (`SEQ`/`CONC` or `S`/`C`). Files may be
gzip-compressed; they are streamed, never held. A file is somebody else's data: numbers,
line lengths, sizes and counts are bounded and every defect raises one `VectorError`.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from traffic.tmix.vectors import (ACCEPTOR, CONC, INITIATOR, MAX_ADU_BYTES, MAX_ID, MAX_MSS, MAX_TIME_US, MIN_MSS, SEQ,
                                  Adu, Vector, epochs)

MAX_LINE_BYTES = 1024
MAX_WINDOW_BYTES = 1 << 32
MAX_DIGITS = 20
_MOST_SHOWN = 40
MAX_ADUS = 1 << 22         # of a connection
#: what a compressed file may unpack to without being suspicious: this much, or so many times its size
_UNSUSPICIOUS_BYTES, _UNSUSPICIOUS_RATIO = 8 << 20, 100

_HEADERS = {b"SEQ": (SEQ, False), b"CONC": (CONC, False), b"S": (SEQ, True), b"C": (CONC, True)}
_SIDES = {b">": INITIATOR, b"<": ACCEPTOR, b"c>": INITIATOR, b"c<": ACCEPTOR,
          b"t>": INITIATOR, b"t<": ACCEPTOR, b"I": INITIATOR, b"A": ACCEPTOR}
_NAMES = ("initiator", "acceptor")
_FORMS = {b">": "> <bytes>", b"<": "< <bytes>", b"c>": "c> <bytes>", b"c<": "c< <bytes>",
          b"t>": "t> <us>", b"t<": "t< <us>",
          b"I": "I <send wait us> <receive wait us> <bytes>",
          b"A": "A <send wait us> <receive wait us> <bytes>"}


class VectorError(ValueError):
    """A defect in a vector file: `file`, `line` (1-based) and what would be right."""

    def __init__(self, file: str | Path, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file = str(file)
        self.line = line


@dataclass(frozen=True)
class Limits:
    """How much is read before it is taken for an attack or a mistake.

    size_bytes: of a file, uncompressed; None: 4 GB, and less of a file that is compressed too well.
    connections: of all files together, which is for the caller to see to.
    """
    size_bytes: int | None = None
    connections: int = 5_000_000
    option: str = "--most-bytes"        # what raises the first, for messages


_MOST_BYTES = 4 << 30


def read_vectors(path: str | Path, *, check_epochs: bool = True, limits: Limits = Limits()) -> Iterator[Vector]:
    """Yield the `Vector`s of a file in file order.

    path: text or gzip file in either format.
    check_epochs: refuse a SEQ vector whose header announces another number of epochs than
        follow. It is what finds a line lost in the middle of a file.
    Raises VectorError at the first defect, OSError if the file cannot be opened.
    """
    with open(path, "rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        packed = magic == b"\x1f\x8b"
        stream = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), 1 << 16) if packed else raw
        guard = _Guard(path, raw if packed else None, limits)
        yield from _Parser(Path(path), check_epochs).vectors(_lines(stream, path, guard))


class _Guard:
    """Looks at how much has been read, from time to time."""

    EVERY_LINES = 1 << 14

    def __init__(self, path: str | Path, packed: BinaryIO | None, limits: Limits) -> None:
        self._path, self._packed, self._limits = path, packed, limits
        self._most = limits.size_bytes or _MOST_BYTES

    def check(self, line: int, size_bytes: int) -> None:
        """VectorError if `size_bytes` up to a line are too many."""
        if size_bytes > self._most:
            raise VectorError(self._path, line, f"more than {self._most} bytes{' uncompressed' * bool(self._packed)}; "
                              f"if that is meant, allow it with {self._limits.option}")
        if (self._packed and self._limits.size_bytes is None and size_bytes > _UNSUSPICIOUS_BYTES
                and size_bytes > _UNSUSPICIOUS_RATIO * self._packed.tell()):
            raise VectorError(self._path, line, f"unpacks to more than {_UNSUSPICIOUS_RATIO} times its size; if that "
                              f"is meant, say with {self._limits.option} how many bytes it may have")


def _lines(stream: BinaryIO, path: str | Path, guard: _Guard) -> Iterator[tuple[int, list[bytes]]]:
    """(line number, fields) of every line that is not blank or a comment."""
    number = size_bytes = 0
    while True:
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise VectorError(path, number + 1,
                              f"damaged gzip data ({error}); fetch the file again") from error
        if not line:
            return guard.check(number + 1, size_bytes)
        number += 1
        size_bytes += len(line)
        if not number % guard.EVERY_LINES:
            guard.check(number, size_bytes)
        if len(line) > MAX_LINE_BYTES:
            raise VectorError(path, number, f"line longer than {MAX_LINE_BYTES} bytes; is this "
                              "a text file of connection vectors?")
        fields = line.split()
        if fields and b"#" in line:
            fields = line.split(b"#", 1)[0].split()
        if fields:
            yield number, fields


def _show(fields: Iterable[bytes]) -> str:
    """A part of a line in a message."""
    text = b" ".join(fields).decode("ascii", "replace")
    if not text.isascii() or not text.isprintable():
        return "binary data"
    return f"'{text}'" if len(text) <= _MOST_SHOWN else f"'{text[:_MOST_SHOWN]}...'"


class _Parser:
    """State of the connection being read."""

    def __init__(self, path: Path, check_epochs: bool) -> None:
        self._path = path
        self._check_epochs = check_epochs
        self._line = 0
        self._kind, self._alternate = SEQ, False
        self._count, self._adu_counts = 0, (0, 0)       # what the header announces of a SEQ, of a CONC vector
        self._start_us, self._header_line = 0, 0
        self._ids: tuple[int, ...] = ()
        self._properties: dict[bytes, tuple[float, ...]] = {}
        self._data: list[Adu] = []
        self._fins: list[int | None] = [None, None]
        self._closed = False
        self._pending: list[int | None] = [None, None]  # waits of the sides; of a SEQ vector the first only

    def _error(self, message: str, line: int | None = None) -> VectorError:
        return VectorError(self._path, line or self._line, message)

    def vectors(self, lines: Iterable[tuple[int, list[bytes]]]) -> Iterator[Vector]:
        opened = False
        for self._line, fields in lines:
            word = fields[0]
            if word in _HEADERS:
                if opened:
                    yield self._finish()
                self._header(fields)
                opened = True
            elif not opened:
                raise self._error(f"{_show(fields)} before the first connection; a connection "
                                  "begins with SEQ, CONC, S or C")
            elif word in (b"w", b"r", b"l", b"m"):
                self._property(word, fields)
            elif self._alternate:
                self._alternate_line(word, fields)
            elif self._kind == SEQ:
                self._seq_line(word, fields)
            else:
                self._conc_line(word, fields)
        if opened:
            yield self._finish()

    def _number(self, fields: list[bytes], name: str, bound: int, what: str) -> int:
        """The one integer after the keyword. The shortcut carries nearly all of a file."""
        if len(fields) == 2:
            field = fields[1]
            if field.isdigit() and len(field) <= MAX_DIGITS and int(field) <= bound:
                return int(field)
        return self._numbers(fields, (name,), (bound,), what)[0]

    def _numbers(self, fields: list[bytes], names: Sequence[str], bounds: Sequence[int], what: str) -> list[int]:
        """The integers after the keyword."""
        if len(fields) != len(names) + 1:
            raise self._error(f"{_show(fields)} has {len(fields) - 1} fields after "
                              f"{_show(fields[:1])}; right is '{what}'")
        values = []
        for field, name, bound in zip(fields[1:], names, bounds):
            # bytes.isdigit() is ASCII only: no signs, underscores or other scripts' digits
            if not field.isdigit() or len(field) > MAX_DIGITS or int(field) > bound:
                raise self._error(f"{name} {_show([field])} is not an integer from 0 to "
                                  f"{bound}; right is '{what}'")
            values.append(int(field))
        return values

    def _header(self, fields: list[bytes]) -> None:
        self._kind, self._alternate = _HEADERS[fields[0]]
        word = fields[0].decode()
        if self._kind == SEQ:
            start_us, count, *ids = self._numbers(
                fields, ("start", "epochs", "id", "id"), (MAX_TIME_US, MAX_ID, MAX_ID, MAX_ID),
                f"{word} <start us> <epochs> <id> <id>")
            self._count = count
        else:
            start_us, n_init, n_acc, *ids = self._numbers(
                fields, ("start", "initiator ADUs", "acceptor ADUs", "id", "id"),
                (MAX_TIME_US, MAX_ID, MAX_ID, MAX_ID, MAX_ID),
                f"{word} <start us> <initiator ADUs> <acceptor ADUs> <id> <id>")
            self._adu_counts = (n_init, n_acc)
        self._start_us, self._ids = start_us, tuple(ids)
        self._header_line = self._line
        self._properties = {}
        self._data, self._fins, self._closed = [], [None, None], False
        self._pending = [None, None]

    def _property(self, word: bytes, fields: list[bytes]) -> None:
        value: tuple[float, ...]
        if self._data or self._pending != [None, None]:
            raise self._error(f"{_show(fields)} after an ADU; w, r, l and m lines stand "
                              "between the header and the first ADU")
        if word in self._properties:
            raise self._error(f"a second '{word.decode()}' line in one connection; one is right")
        if word == b"w":
            value = tuple(self._numbers(fields, ("window", "window"), (MAX_WINDOW_BYTES,) * 2,
                                        "w <initiator bytes> <acceptor bytes>"))
        elif word == b"r":
            value = (self._number(fields, "RTT", MAX_TIME_US, "r <min RTT us>"),)
        elif word == b"m":
            value = tuple(self._numbers(fields, ("MSS", "MSS"), (MAX_MSS,) * 2,
                                        "m <initiator MSS> <acceptor MSS>"))
            if min(value) < MIN_MSS:
                raise self._error(f"MSS {min(value)} is below {MIN_MSS}, the least that Linux "
                                  "accepts for TCP_MAXSEG")
        else:
            value = self._losses(fields)
        self._properties[word] = value

    def _losses(self, fields: list[bytes]) -> tuple[float, ...]:
        try:
            value: tuple[float, ...] = tuple(float(field) for field in fields[1:])
        except ValueError:
            value = ()
        if len(value) != 2 or not all(0 <= ratio <= 1 for ratio in value):
            raise self._error(f"{_show(fields)} is not two loss ratios from 0 to 1; right is "
                              "'l <initiator to acceptor> <acceptor to initiator>'")
        return value

    def _add(self, side: int, wait_us: int, size_bytes: int, what: str) -> None:
        if size_bytes == 0:
            raise self._error(f"an ADU of 0 bytes; {what}")
        if self._closed and (self._kind == SEQ or self._fins[side] is not None):
            raise self._error(f"data of the {_NAMES[side]} after a FIN; the FIN comes last")
        if len(self._data) >= MAX_ADUS:
            raise self._error(f"more than {MAX_ADUS} ADUs in one connection", self._header_line)
        self._data.append(Adu(side, wait_us, size_bytes))

    def _seq_line(self, word: bytes, fields: list[bytes]) -> None:
        if word == b"t":
            if self._pending[0] is not None:
                raise self._error("a second 't' line in a row; one wait stands between two ADUs")
            self._pending[0] = self._number(fields, "wait", MAX_TIME_US, "t <us>")
        elif word in (b">", b"<"):
            size = self._number(fields, "ADU size", MAX_ADU_BYTES, _FORMS[word])
            self._add(_SIDES[word], self._pending[0] or 0, size,
                      "in this format the FIN is a 't' line at the end")
            self._pending[0] = None
        else:
            raise self._error(f"{_show(fields)} in a SEQ connection; right are '> bytes', "
                              "'< bytes' and 't us'")

    def _conc_line(self, word: bytes, fields: list[bytes]) -> None:
        if word in (b"t>", b"t<"):
            side = _SIDES[word]
            if self._pending[side] is not None:
                raise self._error(f"a second '{word.decode()}' line without a "
                                  f"'c{word.decode()[1]}' between")
            self._pending[side] = self._number(fields, "wait", MAX_TIME_US, _FORMS[word])
        elif word in (b"c>", b"c<"):
            side = _SIDES[word]
            size = self._number(fields, "ADU size", MAX_ADU_BYTES, _FORMS[word])
            self._add(side, self._pending[side] or 0, size,
                      "in this format the FIN is a 't>' or 't<' line at the end")
            self._pending[side] = None
        else:
            raise self._error(f"{_show(fields)} in a CONC connection; right are 'c> bytes', "
                              "'c< bytes', 't> us' and 't< us'")

    def _alternate_line(self, word: bytes, fields: list[bytes]) -> None:
        if word not in (b"I", b"A"):
            raise self._error(f"{_show(fields)} in an S or C connection; right is "
                              "'I|A <send wait us> <receive wait us> <bytes>'")
        side = _SIDES[word]
        send_us, receive_us, size = self._numbers(
            fields, ("send wait", "receive wait", "ADU size"),
            (MAX_TIME_US, MAX_TIME_US, MAX_ADU_BYTES), _FORMS[word])
        if send_us and receive_us:
            raise self._error("send wait and receive wait are both set; one of them is 0")
        if self._kind == CONC and receive_us:
            raise self._error("a receive wait in a C connection, whose sides do not wait for "
                              "each other; use the send wait")
        if self._kind == SEQ and self._data:
            if self._data[-1].side == side and receive_us:
                raise self._error("a receive wait after an ADU of the same side; use the send "
                                  "wait")
            if self._data[-1].side != side and send_us:
                raise self._error("a send wait after an ADU of the other side; use the receive "
                                  "wait")
        if size:
            self._add(side, send_us + receive_us, size, "")
        elif self._fins[side] is not None:
            raise self._error(f"a second FIN of the {_NAMES[side]}")
        else:
            self._fins[side], self._closed = send_us + receive_us, True

    def _finish(self) -> Vector:
        if not self._data:
            raise self._error("a connection without ADUs; at least one with data must follow "
                              "its header", self._header_line)
        if not self._alternate:
            # A wait with nothing after it is the one before the FIN: in SEQ of the side that
            # sent last, in CONC of its own side.
            if self._kind == CONC:
                self._fins = self._pending
            elif self._pending[0] is not None:
                self._fins[self._data[-1].side] = self._pending[0]
        self._check_counts()
        fins = [Adu(side, wait_us, 0) for side, wait_us in enumerate(self._fins)
                if wait_us is not None]
        windows, mss = (cast("tuple[int, int] | None", self._properties.get(name)) for name in (b"w", b"m"))
        min_rtt_us, = cast("tuple[int | None]", self._properties.get(b"r", (None,)))
        return Vector(self._start_us, self._kind, self._ids, tuple(self._data + fins), windows, min_rtt_us,
                      cast("tuple[float, float] | None", self._properties.get(b"l")), mss)

    def _check_counts(self) -> None:
        if self._kind == SEQ:
            seen = epochs(self._data)
            if self._check_epochs and seen != self._count:
                raise self._error(f"the header announces {self._count} epochs, {seen} follow; "
                                  "lines are missing or the count is wrong", self._header_line)
            return
        found = (sum(adu.side == INITIATOR for adu in self._data),
                 sum(adu.side == ACCEPTOR for adu in self._data))
        if found != self._adu_counts:
            raise self._error("the header announces {} initiator and {} acceptor ADUs, {} and {} "
                              "follow; lines are missing or the counts are wrong"
                              .format(*self._adu_counts, *found), self._header_line)

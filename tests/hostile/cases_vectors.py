# SPDX-License-Identifier: GPL-2.0-only
"""Vector files in both formats, as `tmix info` and as the traces of a scenario."""
from __future__ import annotations

import gzip
import io

from tests.hostile.case import Case, Content, packed

_PROPERTIES = "w 65535 65535\nr 20000\nl 0 0\n"
_SEQ = "SEQ 1000 1 1 1\n" + _PROPERTIES + "> 500\nt 100\n< 2000\n"
_CONC = "CONC 1000 1 1 1 1\n" + _PROPERTIES + "c> 500\nc< 2000\n"
_S = "S 1000 1 1 1\n" + _PROPERTIES + "I 0 0 500\nA 0 100 2000\n"


def _info(name: str, content: Content, says: str, code: int = 2, file: str = "x.cvec") -> Case:
    return Case(f"vectors-{name}", ["tmix", "info", file], code, says, {file: content})


def _bad(name: str, text: str, line: int, says: str = "") -> Case:
    return _info(name, text, rf"x\.cvec:{line}: .*{says}")


def _zeros() -> bytes:
    """A gzip bomb: 4 GB of zeros, packed twice over into few bytes."""
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=9, mtime=0) as file:
        for _ in range(64):
            file.write(bytes(1 << 22))
    return target.getvalue() * 16


def _many_lines(line: bytes) -> bytes:
    """A gzip bomb without a long line: 512 MB of them."""
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=9, mtime=0) as file:
        for _ in range(16):
            file.write((line.ljust(1000) + b"\n") * ((1 << 21) // 1001))
    return target.getvalue() * 16


CASES = [
    _info("empty", "", "connections +0", 0),
    _info("only-comments", "# nothing\n\n# more\n", "connections +0", 0),
    _info("good-seq", _SEQ, "connections +1", 0),
    _info("good-conc", _CONC, "connections +1", 0),
    _info("good-alternate", _S, "connections +1", 0),
    _info("both-formats", _SEQ + _S, "connections +2", 0),
    _info("dos-lines", _SEQ.replace("\n", "\r\n"), "connections +1", 0),
    _info("without-last-newline", _SEQ.rstrip(), "connections +1", 0),
    _bad("word", "hello\n", 1, "before the first connection"),
    _bad("adu-first", "> 500\n" + _SEQ, 1, "before the first connection"),
    _bad("negative-start", _SEQ.replace("SEQ 1000", "SEQ -1000"), 1),
    _bad("start-fraction", _SEQ.replace("SEQ 1000", "SEQ 10.5"), 1),
    _bad("start-huge", _SEQ.replace("SEQ 1000", "SEQ " + "9" * 30), 1),
    _bad("start-beyond", _SEQ.replace("SEQ 1000", f"SEQ {2**63}"), 1),
    _bad("start-nan", _SEQ.replace("SEQ 1000", "SEQ nan"), 1),
    _bad("start-underscore", _SEQ.replace("SEQ 1000", "SEQ 1_000"), 1),
    _bad("start-arabic-digits", _SEQ.replace("SEQ 1000", "SEQ ٣٣"), 1),
    _bad("header-short", "SEQ 1000\n" + _SEQ, 1),
    _bad("header-long", _SEQ.replace("SEQ 1000 1 1 1", "SEQ 1000 1 1 1 1 1 1 1"), 1),
    _bad("size-zero", _SEQ.replace("> 500", "> 0"), 5),
    _bad("size-negative", _SEQ.replace("> 500", "> -5"), 5),
    _bad("size-huge", _SEQ.replace("> 500", f"> {2**62}"), 5),
    _bad("size-word", _SEQ.replace("> 500", "> many"), 5),
    _bad("size-missing", _SEQ.replace("> 500", ">"), 5),
    _bad("wait-negative", _SEQ.replace("t 100", "t -100"), 6),
    _bad("wait-ages", _SEQ.replace("t 100", f"t {2**60}"), 6),
    _bad("unknown-line", _SEQ.replace("t 100", "q 100"), 6),
    _bad("loss-two", _SEQ.replace("l 0 0", "l 2 2"), 4),
    _bad("loss-nan", _SEQ.replace("l 0 0", "l nan 0"), 4),
    _bad("loss-inf", _SEQ.replace("l 0 0", "l inf 0"), 4),
    _bad("loss-negative", _SEQ.replace("l 0 0", "l -0.1 0"), 4),
    _bad("loss-one-value", _SEQ.replace("l 0 0", "l 0"), 4),
    _bad("window-negative", _SEQ.replace("w 65535", "w -1"), 2),
    _bad("rtt-negative", _SEQ.replace("r 20000", "r -1"), 3),
    _bad("mss-zero", _SEQ.replace("l 0 0", "m 0 0"), 4),
    _bad("mss-huge", _SEQ.replace("l 0 0", "m 99999999 1"), 4),
    _bad("property-twice", _SEQ.replace("l 0 0", "r 3"), 4),
    _bad("epochs-too-many", _SEQ.replace("SEQ 1000 1", "SEQ 1000 9"), 1, "epoch"),
    _bad("epochs-huge", _SEQ.replace("SEQ 1000 1", "SEQ 1000 " + "9" * 18), 1, "epoch"),
    _bad("seq-line-in-conc", _CONC.replace("c> 500", "> 500"), 5),
    _bad("conc-line-in-seq", _SEQ.replace("> 500", "c> 500"), 5),
    _bad("alternate-line-in-original", _SEQ.replace("> 500", "I 0 0 500"), 5),
    _bad("alternate-short", _S.replace("I 0 0 500", "I 0 500"), 5),
    _bad("alternate-negative", _S.replace("I 0 0 500", "I 0 -1 500"), 5),
    _bad("second-connection-bad", _SEQ + _SEQ.replace("> 500", "> x"), 12),
    _bad("null-bytes", _SEQ.replace("t 100", "t 1\x0000"), 6),
    _bad("control-characters", _SEQ.replace("t 100", "t \x1b[31m"), 6),
    _info("all-zero", bytes(10_000), r"x\.cvec:1: line longer than"),
    _info("random-bytes", bytes(range(1, 256)) * 100, r"x\.cvec:\d: "),
    _info("endless-line", lambda: b"SEQ " + b"1" * (64 << 20), r"x\.cvec:1: line longer than"),
    _info("gzip-good", packed(_SEQ), "connections +1", 0),
    _info("gzip-two-members", packed(_SEQ) + packed(_SEQ), "connections +2", 0),
    _info("gzip-named-text", _SEQ, "connections +1", 0, "x.cvec.gz"),
    _info("gzip-truncated", packed(_SEQ * 200)[:-20], r"x\.cvec:\d+: .*gzip"),
    _info("gzip-header-only", packed(_SEQ)[:10], r"x\.cvec:1: .*gzip"),
    _info("gzip-magic-only", b"\x1f\x8b", r"x\.cvec:1: .*gzip"),
    _info("gzip-wrong-sum", packed(_SEQ * 50)[:-8] + bytes(8), r"x\.cvec:\d+: .*gzip"),
    _info("gzip-garbage-inside", packed(_SEQ * 50)[:40] + b"garbage" * 50, r"x\.cvec:\d+: .*gzip"),
    _info("gzip-garbage-behind", packed(_SEQ) + b"garbage", r"x\.cvec:\d+: .*gzip"),
    _info("gzip-in-gzip", packed(packed(_SEQ)), r"x\.cvec:1: "),
    _info("gzip-bomb", _zeros, r"x\.cvec:1: line longer than"),
    _info("gzip-bomb-of-comments", lambda: _many_lines(b"#"), r"x\.cvec:\d+: unpacks to more than"),
    _info("gzip-bomb-of-blanks", lambda: _many_lines(b""), r"x\.cvec:\d+: unpacks to more than"),
    _info("gzip-bomb-of-adus", lambda: packed("CONC 1000 9999999 1 1 1\n" + _PROPERTIES) + _many_lines(b"c> 500"),
          r"x\.cvec:\d+: unpacks to more than"),
]

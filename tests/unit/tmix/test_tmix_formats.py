# SPDX-License-Identifier: GPL-2.0-only
"""Reading and writing both text formats."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.tmix.tmix_strategies import vectors
from traffic.tmix import reader
from traffic.tmix.batch import concatenate, from_vectors
from traffic.tmix.reader import Limits, VectorError, read_vectors
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, SEQ, Adu, Vector, programs
from traffic.tmix.writer import ALTERNATE, ORIGINAL, format_vector, write_vectors


def test_original_file_by_hand(data):
    found = list(read_vectors(data / "original.txt"))
    assert found[0] == Vector(
        1000, SEQ, (7, 101),
        (Adu(INITIATOR, 0, 826), Adu(ACCEPTOR, 534, 1213), Adu(INITIATOR, 90000, 100),
         Adu(ACCEPTOR, 250, 3000), Adu(ACCEPTOR, 872, 0)),
        (64240, 65535), 40000, (0.0, 0.125), (496, 496))
    assert found[2].kind == CONC
    assert found[2].adus == (
        Adu(ACCEPTOR, 0, 190), Adu(INITIATOR, 0, 396), Adu(ACCEPTOR, 505, 46),
        Adu(INITIATOR, 6250, 10), Adu(INITIATOR, 777, 0), Adu(ACCEPTOR, 888, 0))
    assert found[3] == Vector(900000, SEQ, (9, 104), (Adu(INITIATOR, 0, 5), Adu(ACCEPTOR, 0, 6)))


def test_both_formats_are_the_same_trace(data):
    original = list(read_vectors(data / "original.txt"))
    alternate = list(read_vectors(data / "alternate.txt"))
    assert original == alternate
    assert [programs(v) for v in original] == [programs(v) for v in alternate]


def test_conversion_of_the_files(data, tmp_path):
    out = tmp_path / "converted"
    assert write_vectors(out, read_vectors(data / "original.txt"), ALTERNATE) == 4
    lines = (data / "alternate.txt").read_text().splitlines(keepends=True)
    assert out.read_text() == "".join(line for line in lines if not line.startswith("#"))


@given(st.lists(vectors(), max_size=5), st.sampled_from([ORIGINAL, ALTERNATE]),
       st.sampled_from(["trace", "trace.gz"]))
def test_round_trip(tmp_path, trace, text_format, name):
    write_vectors(tmp_path / name, trace, text_format)
    assert list(read_vectors(tmp_path / name)) == trace
    assert list(from_vectors(read_vectors(tmp_path / name))) == trace


@given(st.lists(vectors(), min_size=1, max_size=5))
def test_conversion_there_and_back_is_exact(tmp_path, trace):
    a, b, c = (tmp_path / name for name in "abc")
    write_vectors(a, trace, ORIGINAL)
    write_vectors(b, read_vectors(a), ALTERNATE)
    write_vectors(c, read_vectors(b), ORIGINAL)
    assert a.read_bytes() == c.read_bytes()
    assert [programs(v) for v in read_vectors(b)] == [programs(v) for v in trace]


@given(vectors(any_closer=True))
def test_alternate_expresses_every_closer(tmp_path, vector):
    write_vectors(tmp_path / "t", [vector], ALTERNATE)
    assert list(read_vectors(tmp_path / "t")) == [vector]


def test_original_has_no_words_for_some_closers():
    vector = Vector(0, SEQ, (1, 2), (Adu(INITIATOR, 0, 5), Adu(ACCEPTOR, 0, 0)))
    assert format_vector(vector, ALTERNATE).endswith("A 0 0 0\n")
    with pytest.raises(ValueError, match="connection 1 2: .*alternate"):
        format_vector(vector, ORIGINAL)


def test_batches_select_and_join(data):
    trace = list(read_vectors(data / "original.txt"))
    batch = from_vectors(trace)
    assert list(batch.take(np.array([3, 0, 0]))) == [trace[3], trace[0], trace[0]]
    assert list(concatenate([batch, batch.take(np.array([2]))])) == trace + [trace[2]]
    assert not len(from_vectors([]).with_explicit_fins())


def test_gzip_is_recognised_by_content_and_reproducible(data, tmp_path):
    trace = list(read_vectors(data / "original.txt"))
    write_vectors(tmp_path / "a.gz", trace)
    write_vectors(tmp_path / "b.gz", trace)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    (tmp_path / "plain-name").write_bytes((tmp_path / "a.gz").read_bytes())
    assert list(read_vectors(tmp_path / "plain-name")) == trace


def test_nothing_is_left_of_a_failed_write(tmp_path):
    def trace():
        yield Vector(0, SEQ, (1, 2), (Adu(INITIATOR, 0, 5),))
        raise OSError("disk")
    with pytest.raises(OSError):
        write_vectors(tmp_path / "out", trace())
    assert list(tmp_path.iterdir()) == []


SEQ_HEAD = "SEQ 0 1 1 1\nw 1 1\nr 1\nl 0 0\n"
MALFORMED = [
    # text, line, part of the message
    ("> 5\n", 1, "before the first connection"),
    ("SEQ 0 1 1\n> 5\n", 1, "right is 'SEQ <start us> <epochs> <id> <id>'"),
    ("SEQ -5 1 1 1\n> 5\n", 1, "start '-5' is not an integer"),
    ("SEQ 1_0 1 1 1\n> 5\n", 1, "start '1_0'"),
    ("SEQ 99999999999999999999999999 1 1 1\n> 5\n", 1, "is not an integer from 0 to"),
    ("SEQ 1.5 1 1 1\n> 5\n", 1, "start '1.5'"),
    ("CONC 0 1 1 1\nc> 5\n", 1, "initiator ADUs> <acceptor ADUs>"),
    (SEQ_HEAD + "> 0\n", 5, "FIN is a 't' line at the end"),
    (SEQ_HEAD + "> 99999999999999\n", 5, "ADU size"),
    (SEQ_HEAD + "> five\n", 5, "ADU size 'five'"),
    (SEQ_HEAD + "> 5\nt 1\nt 2\n", 7, "second 't' line"),
    (SEQ_HEAD + "> 5 6\n", 5, "2 fields"),
    (SEQ_HEAD + "c> 5\n", 5, "in a SEQ connection"),
    (SEQ_HEAD + "I 0 0 5\n", 5, "in a SEQ connection"),
    (SEQ_HEAD + "hello\n", 5, "'hello'"),
    (SEQ_HEAD + "w 1 1\n> 5\n", 5, "second 'w'"),
    (SEQ_HEAD + "> 5\nm 500 500\n", 6, "after an ADU"),
    (SEQ_HEAD + "m 20 500\n> 5\n", 5, "below 88"),
    (SEQ_HEAD + "m 500\n> 5\n", 5, "right is 'm"),
    ("SEQ 0 1 1 1\nl 0 2\n> 5\n", 2, "loss ratios from 0 to 1"),
    ("SEQ 0 1 1 1\nl 0 nan\n> 5\n", 2, "loss ratios"),
    ("SEQ 0 1 1 1\nl 0\n> 5\n", 2, "loss ratios"),
    ("SEQ 0 1 1 1\nr\n> 5\n", 2, "right is 'r"),
    (SEQ_HEAD, 1, "without ADUs"),
    (SEQ_HEAD + "t 5\n", 1, "without ADUs"),
    (SEQ_HEAD + "> 5\n" + SEQ_HEAD, 6, "without ADUs"),
    ("SEQ 0 3 1 1\n> 5\nt 1\n< 5\n", 1, "announces 3 epochs, 1 follow"),
    ("CONC 0 2 1 1 1\nc> 5\nc< 5\n", 1, "announces 2 initiator and 1 acceptor"),
    ("CONC 0 1 0 1 1\n> 5\n", 2, "in a CONC connection"),
    ("CONC 0 1 0 1 1\nt> 1\nt> 2\nc> 5\n", 3, "without a 'c>'"),
    ("S 0 1 1 1\n> 5\n", 2, "in an S or C connection"),
    ("S 0 1 1 1\nI 0 5\n", 2, "I <send wait us> <receive wait us> <bytes>"),
    ("S 0 1 1 1\nI 3 4 5\n", 2, "both set"),
    ("S 0 1 1 1\nI 0 0 5\nA 3 0 5\n", 3, "use the receive wait"),
    ("S 0 2 1 1\nI 0 0 5\nI 0 3 5\n", 3, "use the send wait"),
    ("C 0 2 0 1 1\nI 0 0 5\nI 0 3 5\n", 3, "use the send wait"),
    ("S 0 2 1 1\nI 0 0 5\nI 3 0 0\nI 3 0 0\n", 4, "second FIN"),
    ("S 0 2 1 1\nI 0 0 5\nI 3 0 0\nA 0 3 5\n", 4, "after a FIN"),
    ("C 0 2 0 1 1\nI 0 0 5\nI 3 0 0\nI 0 0 5\n", 4, "after a FIN"),
    ("SEQ 0 1 1 1\n" + "> " + "5" * 5000 + "\n", 2, "longer than"),
    ("SEQ 0 1 1 1\n> \u0665\n", 2, "is not an integer"),
]


@pytest.mark.parametrize("text, line, message", MALFORMED)
def test_malformed(tmp_path, text, line, message):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(VectorError) as caught:
        list(read_vectors(path))
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_epoch_check_can_be_waived(tmp_path):
    (tmp_path / "t").write_text("SEQ 0 3 1 1\n> 5\n")
    assert len(list(read_vectors(tmp_path / "t", check_epochs=False))) == 1


def test_the_connections_before_a_defect_are_delivered(tmp_path):
    (tmp_path / "t").write_text("SEQ 0 1 1 1\n> 5\nSEQ 1 1 1 1\n> 5\nrubbish\n")
    stream = read_vectors(tmp_path / "t")
    assert next(stream).start_us == 0
    with pytest.raises(VectorError):
        next(stream)


def test_truncated_and_damaged_gzip(tmp_path):
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as stream:
        stream.write(b"SEQ 0 1 1 1\n> 5\n" * 200)
    whole = buffer.getvalue()
    for damaged in (whole[:-12], whole[:20], whole[:15] + b"\xff\xff" + whole[17:],
                    b"\x1f\x8bgarbage!"):
        (tmp_path / "t").write_bytes(damaged)
        with pytest.raises(VectorError, match="damaged gzip"):
            list(read_vectors(tmp_path / "t"))


def packed(path, line, times):
    """A gzip file of one line many times over."""
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for _ in range(0, times, 1 << 16):
            stream.write(line * min(times, 1 << 16))
    return path


@pytest.mark.parametrize("line", [b"\n", b"# nothing\n", b"SEQ 0 1 1 1\n> 5\n"])
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, line):
    bomb = packed(tmp_path / "bomb.gz", line, (10 << 20) // len(line))
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(VectorError,
                       match="unpacks to more than 100 times its size; if that is meant, say with --most-bytes"):
        for _ in read_vectors(bomb):
            pass
    with pytest.raises(VectorError,
                       match="more than 1000000 bytes uncompressed; if that is meant, allow it with most_size"):
        for _ in read_vectors(bomb, limits=Limits(1_000_000, option="most_size")):
            pass


def test_limits_can_be_raised(tmp_path):
    (tmp_path / "t").write_bytes(b"SEQ 0 1 1 1\n> 5\n" * 1000)
    with pytest.raises(VectorError, match="t:2001: more than 15999 bytes; if that is meant"):
        list(read_vectors(tmp_path / "t", limits=Limits(15_999)))
    assert len(list(read_vectors(tmp_path / "t", limits=Limits(16_000)))) == 1000


def test_a_connection_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_ADUS", 1000)
    (tmp_path / "t").write_bytes(b"SEQ 7 1 1 1\n" + b"> 5\n" * 1001)
    with pytest.raises(VectorError, match="t:1: more than 1000 ADUs in one connection"):
        list(read_vectors(tmp_path / "t"))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    try:
        list(read_vectors(tmp_path / "t"))
    except VectorError as error:
        assert error.line >= 1


@given(st.lists(st.sampled_from(
    ["SEQ 0 1 1 1", "S 0 1 1 1", "CONC 0 1 1 1 1", "C 0 1 1 1 1", "> 5", "< 5", "t 5", "c> 5",
     "c< 5", "t> 5", "t< 5", "I 0 0 5", "A 0 0 5", "A 5 0 0", "I 0 5 0", "w 1 1", "r 5", "#",
     "m 500 500", "l 0 0.5", ""]), max_size=14))
@settings(max_examples=200)
def test_what_is_read_can_be_written_and_replayed(tmp_path, lines):
    (tmp_path / "t").write_text("\n".join(lines))
    try:
        trace = list(read_vectors(tmp_path / "t", check_epochs=False))
    except VectorError:
        return
    write_vectors(tmp_path / "u", trace, ALTERNATE)
    assert list(read_vectors(tmp_path / "u")) == trace
    for vector in trace:
        programs(vector)

# SPDX-License-Identifier: GPL-2.0-only
"""Sequence numbers of captured segments."""
import gzip
import struct

import pytest

from analysis.figures import tcptrace as figure
from analysis.packets import tcptrace
from analysis.packets.captures import Segment, Sequence, segments, sequences
from analysis.read.runs import AnalysisError
from testbed.core import pcap_files


def added(*given):
    """given: (sequence number, payload in bytes)"""
    one = Sequence()
    for number, (seq, size) in enumerate(given):
        one.add(Segment(number, "a", "b", seq % 2**32, 0, size, False, False))
    return one


@pytest.mark.parametrize("first", [0, 1000, 2**32 - 150, 2**31 - 150])
def test_new_bytes_repetitions_and_gaps_wherever_numbers_begin(first):
    one = added((first, 100), (first + 100, 100), (first + 100, 100), (first + 150, 100), (first + 300, 50), (first, 0))
    assert (one.segments, one.payload_bytes, one.new_bytes, one.sent_again, one.gap_bytes) == (6, 450, 300, 1, 50)
    assert (one.first_us, one.last_us) == (0, 5)


def test_syn_and_fin_are_numbers_without_bytes():
    one = Sequence()
    for seq, size, syn, fin in ((7, 0, True, False), (8, 10, False, False), (18, 0, False, True)):
        one.add(Segment(0, "a", "b", seq, 0, size, syn, fin))
    assert (one.new_bytes, one.gap_bytes, one.sent_again) == (10, 0, 0)


@pytest.mark.parametrize("content", [b"", b"no capture at all, but long enough for a header", gzip.compress(b"short")],
                         ids=["empty", "something else", "too short"])
def test_what_is_no_capture_is_named(tmp_path, content):
    (tmp_path / "x.pcap.gz").write_bytes(content)
    with pytest.raises(AnalysisError, match="x.pcap.gz: neither pcap nor pcapng"):
        list(segments(tmp_path / "x.pcap.gz"))


def test_of_two_connections_that_data_are_on_is_drawn(monkeypatch, tmp_path):
    """iperf3 opens another one to the same port first."""
    here, there = "10.0.1.1", "10.0.1.2:5201"
    monkeypatch.setattr(tcptrace, "connections", lambda capture: [
        tcptrace.Connection(1, f"{here}:41000", there, ("a", "b"), 31),
        tcptrace.Connection(2, there, f"{here}:30000", ("c", "d"), 2079),
        tcptrace.Connection(3, "10.0.1.9:7", there, ("e", "f"), 9999)])
    assert figure._ends(tmp_path, here, None, there) == (f"{here}:30000", there)
    assert figure._ends(tmp_path, here, 41000, there) == (f"{here}:41000", there)
    assert figure._ends(tmp_path, here, None, "10.0.1.2:80") is None


def capture(tmp_path, *given):
    """given: (time in us, source, sequence number, ACK, flags, payload, identification, timestamp)"""
    frames = []
    for t_us, source, seq, ack, flags, size, ident, stamp in given:
        tcp = struct.pack("!HHIIBBHHHBBBBII", source, 3 - source, seq, ack, 8 << 4, flags, 500, 0, 0, 1, 1, 8, 10,
                          stamp, 0)
        addresses = bytes([10, 0, 0, source, 10, 0, 0, 3 - source])
        # a segment that is too long for the header's field says 0
        total = 52 + size if size < 2**16 else 0
        head = struct.pack("!BBHHHBBH", 0x45, 0, total, ident, 0x4000, 64, 6, 0)
        frames.append(pcap_files.Packet(t_us * 1000, 66 + size, bytes(12) + b"\x08\x00" + head + addresses + tcp))
    path = tmp_path / "capture-n1-eth0.pcap.gz"
    with gzip.open(path, "wb") as file:
        pcap_files.write(file, "pcap", frames, 96, "n1-eth0")
    return path


@pytest.mark.parametrize("idents", [range(7, 99), [0] * 99], ids=["counted", "none"])
def test_what_a_link_doubled_was_not_sent_again(tmp_path, idents):
    """A round trip of 10 ms. The last segment is sent again, too; a duplicate ACK is no copy, but its copy is if
    identifications tell."""
    sent = [(0, 1, 99, 0, 2, 0), (10_000, 2, 49, 100, 18, 0), (10_001, 1, 100, 50, 16, 0), (12_000, 1, 100, 50, 16, 70),
            (30_000, 2, 50, 170, 16, 0), (30_100, 2, 50, 170, 16, 0), (31_000, 1, 170, 50, 16, 30)]
    sent = [(*one, ident, 5) for one, ident in zip(sent, idents)]
    again = [(231_000, 1, 170, 50, 16, 30, idents[7], 205)]
    one, other = sequences(segments(capture(tmp_path, *(
        (t_us + late_us, *rest) for t_us, *rest in [*sent, *again] for late_us in (0, 600))))).values()
    counted = bool(idents[0])
    assert (one.new_bytes, one.payload_bytes, one.sent_again, one.gap_bytes) == (100, 130, 1, 0)
    assert (one.copies, other.copies) == ((5, 3) if counted else (4, 1))
    assert (one.segments, other.segments) == ((5, 3) if counted else (6, 5))


def test_a_segment_of_which_the_header_does_not_say_the_length(tmp_path):
    path = capture(tmp_path, (0, 1, 0, 0, 16, 100_000, 1, 0), (1, 1, 100_000, 0, 16, 5, 2, 0))
    way, = sequences(segments(path)).values()
    assert (way.new_bytes, way.gap_bytes, way.sent_again) == (100_005, 0, 0)


def test_data_in_a_syn_are_of_the_stream(tmp_path):
    way, = sequences(segments(capture(tmp_path, (0, 1, 0, 0, 2, 100, 1, 0), (9, 1, 101, 0, 16, 5, 2, 0)))).values()
    assert (way.new_bytes, way.gap_bytes, way.sent_again) == (105, 0, 0)

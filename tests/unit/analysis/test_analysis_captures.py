# SPDX-License-Identifier: GPL-2.0-only
"""Sequence numbers of captured segments."""
import gzip

import pytest

from analysis import tcptrace
from analysis.captures import Segment, Sequence, segments
from analysis.figures import tcptrace as figure
from analysis.runs import AnalysisError


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
    with pytest.raises(AnalysisError, match="x.pcap.gz: no capture that can be read"):
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

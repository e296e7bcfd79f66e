# SPDX-License-Identifier: GPL-2.0-only
"""`testbed tmix from-pcap`: connections written down segment by segment, and files that are no good."""
import gzip
import struct
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from analysis import packets
from analysis.read.runs import AnalysisError
from testbed import cli
from tests.unit.tmix.made_captures import ACK, FIN, RST, ethernet, opening, pcap, pcapng, read, segment, six
from traffic.tmix.reader import read_vectors
from traffic.tmix.vectors import CONC, SEQ

#: from the place of the capture to the initiator and back, and to the acceptor and back
TO_I, TO_A = 10_000, 20_000
#: the connection is established at the initiator's ACK, 30 ms after the SYN
UP = TO_I + TO_A


def seq(**how):
    """Request of 600 bytes 2 ms after the establishment, answer of 2000 after 7 ms, a request 50 ms later, FIN."""
    at = UP + 2_000
    answer = at + TO_A + 7_000
    last = answer + 1_000 + TO_I + 50_000
    return [*opening(**how), (at, segment(0, 0, 600, 0, **how)),
            (answer, segment(1, 0, 1460, 600, **how)), (answer + 1_000, segment(1, 1460, 540, 600, **how)),
            (last, segment(0, 600, 10, 2000, **how)),
            (last + TO_A, segment(1, 2000, 0, 610, **how)),
            (last + 3_000 + TO_A, segment(1, 2000, 0, 610, FIN | ACK, **how)),
            (last + 3_000 + TO_A + TO_I, segment(0, 610, 0, 2001, FIN | ACK, **how))]


SEQ_ADUS = [(0, 2_000, 600), (1, 7_000, 2000), (0, 50_000, 10), (1, 3_000, 0)]


@pytest.mark.parametrize("how", [{}, six({})], ids=["IPv4", "IPv6"])
def test_a_sequential_connection(tmp_path, how):
    (one,), counts = read(tmp_path, pcap(seq(**how)))
    assert (one.kind, [tuple(adu) for adu in one.adus]) == (SEQ, SEQ_ADUS)
    assert (one.start_us, one.min_rtt_us, one.loss, one.mss) == (0, 30_000, (0, 0), None)
    assert one.windows == (64_000, 65_000)
    assert {name: count for name, count in counts.items() if count} == {
        "TCP segments": 10, "sequential (SEQ)": 1, "data segments": 4}


@pytest.mark.parametrize("content", [
    pcap(seq(), order=">"), pcap(seq(), magic=0xA1B23C4D), pcap(seq(), frame=lambda packet: packet, link=101),
    pcap(seq(), frame=lambda packet: ethernet(packet)[:12] + b"\x81\x00\x00\x05" + ethernet(packet)[12:]),
    pcap(seq(), frame=lambda packet: bytes(14) + b"\x08\x00" + packet, link=113),
    pcap(seq(), frame=lambda packet: b"\x08\x00" + bytes(18) + packet, link=276),
    pcapng(seq()), pcapng(seq(), order=">"), pcapng(seq(), resolution=9), gzip.compress(pcapng(seq()))],
    ids=["big-endian", "nanoseconds", "raw", "vlan", "cooked", "cooked-2", "pcapng", "pcapng-big-endian", "pcapng-ns",
         "gzip"])
def test_kinds_of_captures(tmp_path, content):
    (one,), _ = read(tmp_path, content)
    assert [tuple(adu) for adu in one.adus] == SEQ_ADUS


def test_units_of_binary_fractions(tmp_path):
    (one,), _ = read(tmp_path, pcapng(seq(), resolution=0x80 | 20))
    assert [adu.wait_us for adu in one.adus] == pytest.approx([2_000, 7_000, 50_000, 3_000], abs=3)


def test_the_acceptor_begins_and_streams(tmp_path):
    at = UP + TO_A + 4_000
    timed = [*opening(), (at, segment(1, 0, 100, 0)), (at + TO_I, segment(0, 0, 0, 100)),
             (at + 700_000, segment(1, 100, 50, 0)), (at + 700_000 + TO_I, segment(0, 0, 0, 150)),
             (at + 900_000, segment(1, 150, 50, 0))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert [tuple(adu) for adu in one.adus] == [(1, 4_000, 100), (1, 700_000, 100)] and counts["without FIN"] == 1
    (one,), _ = read(tmp_path, pcap(timed), quiet_ns=100_000_000)
    assert [adu.size_bytes for adu in one.adus] == [100, 50, 50]


def test_silence_with_something_under_way_is_no_pause(tmp_path):
    at = UP
    timed = [*opening(), (at, segment(0, 0, 1000, 0)), (at + 900_000, segment(0, 0, 1000, 0)),
             (at + 900_000 + TO_A, segment(1, 0, 0, 1000)), (at + 901_000 + TO_A, segment(0, 1000, 500, 0))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert [adu.size_bytes for adu in one.adus] == [1500]
    assert counts["data segments sent again"] == 1 and one.loss == (pytest.approx(1 / 3, abs=1e-6), 0)


def test_both_speak_at_once(tmp_path):
    timed = [*opening(), (UP + 1_000, segment(0, 0, 1000, 0)), (UP + 2_000, segment(1, 0, 3000, 0)),
             (UP + 12_000, segment(0, 1000, 0, 3000)), (UP + 22_000, segment(1, 3000, 0, 1000)),
             (UP + 801_000, segment(0, 1000, 10, 3000)), (UP + 802_000, segment(0, 1010, 0, 3000, FIN | ACK))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert one.kind == CONC and counts["concurrent (CONC)"] == 1
    # the acceptor's was there before it could know of the establishment: no wait
    assert [tuple(adu) for adu in one.adus] == [(0, 1_000, 1000), (1, 0, 3000), (0, 800_000, 10), (0, 1_000, 0)]


def test_losses_and_reordering_do_not_change_sizes(tmp_path):
    timed = [*opening(), (UP, segment(0, 0, 100, 0)),
             (UP + TO_A, segment(1, 0, 1000, 100)),
             (UP + 21_000, segment(1, 2000, 1000, 100)), (UP + 21_100, segment(1, 1000, 1000, 100)),    # overtaken
             (UP + 22_000, segment(1, 4000, 1000, 100)), (UP + 62_000, segment(1, 3000, 1000, 100)),    # lost before
             (UP + 63_000, segment(1, 5000, 1000, 100)), (UP + 99_000, segment(1, 5000, 1000, 100)),    # lost behind
             (UP + 99_000 + TO_I + 1_000, segment(0, 100, 5, 6000))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert [tuple(adu) for adu in one.adus] == [(0, 0, 100), (1, 0, 6000), (0, 1_000, 5)]
    assert (counts["data segments sent again"], counts["data segments out of order"]) == (2, 1)
    assert one.loss == (0, round(2 / 7, 6)) and counts["bytes that the capture lacks"] == 0


def test_what_the_capture_lacks_is_told(tmp_path):
    timed = [*opening(), (UP, segment(0, 0, 100, 0)), (UP + 40_000, segment(1, 0, 50, 5000))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert [adu.size_bytes for adu in one.adus] == [5000, 50] and counts["bytes that the capture lacks"] == 4900


def test_what_is_left_out_is_counted(tmp_path):
    def ends(port):
        return {"ends": (("10.0.0.1", port), ("10.0.0.2", 80))}
    timed = [*seq(), *opening(**ends(1)), opening(**ends(2))[0], *seq(**ends(3))[3:],
             *opening(**ends(4)), (UP, segment(0, 0, 7, 0, **ends(4))), (UP, segment(0, 7, 0, 0, RST, **ends(4))),
             *(one for one in seq(**ends(5)) if one[1][15] == 1)]
    found, counts = read(tmp_path, pcap(timed))
    assert len(found) == 2 and counts["reset"] == 1 and counts["without FIN"] == 0
    assert {name: count for name, count in counts.items() if name.startswith("left out") and count} == {
        "left out: without data": 1, "left out: never established": 1, "left out: without SYN": 1,
        "left out: only one way is there": 1}


def test_ports_that_are_used_again(tmp_path):
    second = [(t_us + 2_000_000, packet) for t_us, packet in seq(isn=(1, 2))]
    found, _ = read(tmp_path, pcap([*seq(), *second]))
    assert [one.start_us for one in found] == [0, 2_000_000]
    assert all([tuple(adu) for adu in one.adus] == SEQ_ADUS for one in found)


def test_packet_sizes_and_half_closing(tmp_path):
    timed = [*opening(mss=(536, 1440)), (UP, segment(0, 0, 100, 0, FIN | ACK)), (UP + TO_A, segment(1, 0, 9, 101))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert one.mss == (1440, 536) and [tuple(adu) for adu in one.adus] == [(0, 0, 100), (1, 0, 9), (0, 0, 0)]
    assert counts["closed by one side before the other had sent all"] == 1


def test_the_command(tmp_path, capsys):
    (tmp_path / "one.pcap").write_bytes(pcap(seq()))
    output = tmp_path / "one.cvec.gz"
    assert cli.main(["tmix", "from-pcap", str(tmp_path / "one.pcap"), "--output", str(output)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{output}: 1 connections\n") and "  data segments: 4\n" in said
    one, = read_vectors(output)
    assert [tuple(adu) for adu in one.adus] == SEQ_ADUS
    before = output.read_bytes()
    assert cli.main(["tmix", "from-pcap", str(tmp_path / "one.pcap"), "--output", str(output)]) == 0
    assert output.read_bytes() == before


WHOLE = pcap(seq())


@pytest.mark.parametrize("content, said", [
    (b"", "neither pcap nor pcapng"), (b"\x7fELF" * 20, "neither pcap nor pcapng"),
    (WHOLE[:10], "middle of its header"),
    (WHOLE[:30], "middle of packet 1"), (WHOLE[:-3], "middle of packet 10"),
    (WHOLE[:24] + struct.pack("<IIII", 0, 0, 2**31, 0), "packet 1 has 2147483648 bytes"),
    (pcap(seq(), link=189), "link type 189"), (pcapng(seq())[:-6], "ends in the middle of block"),
    (pcapng(seq())[:40], "ends in the middle of block 2"), (pcapng(seq())[:4] + bytes(40), "no byte order"),
    (pcapng(seq()).replace(b"\x1c\x00\x00\x00", b"\x1d\x00\x00\x00", 1), "block 1 has 29 bytes"),
    (gzip.compress(WHOLE)[:-20], "cut off"), (b"\x1f\x8bnothing", "cut off, or not what gzip made"),
    (pcap([(0, bytes(60))]), "no connection whose beginning and data are there"),
    (pcapng([*seq(), *((t_us + 2**45, packet) for t_us, packet in seq(isn=(1, 2)))]), "cannot be right"),
    (pcap(opening()), "no connection whose beginning and data are there")],
    ids=lambda value: "" if isinstance(value, bytes) else value)        # bytes would be the name of a test
def test_files_that_are_no_good(tmp_path, capsys, content, said):
    path = tmp_path / "some.pcap"
    path.write_bytes(content)
    assert cli.main(["tmix", "from-pcap", str(path), "--output", str(tmp_path / "out")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and said in lines[0] and str(path) in lines[0]
    assert not (tmp_path / "out").exists()


def test_headers_that_were_not_kept_or_are_impossible(tmp_path):
    packet = segment(0, 0, 5, 0)
    broken = packet[:32] + b"\x10" + packet[33:]
    fragment, udp = packet[:6] + b"\x20\x00" + packet[8:], packet[:9] + b"\x11" + packet[10:]
    for one, name in ((packet[:30], "packets whose headers were not kept"), (fragment, "fragments"),
                      (broken, "packets with impossible headers"), (udp, "other packets")):
        assert read(tmp_path, pcap([(0, one)]))[1][name] == 1


@pytest.mark.parametrize("quiet", ["fast", "0 ms", "5 Mbit/s", "5 parsecs"])
def test_quiet_times(tmp_path, capsys, quiet):
    (tmp_path / "one.pcap").write_bytes(WHOLE)
    assert cli.main(["tmix", "from-pcap", str(tmp_path / "one.pcap"), "--output", str(tmp_path / "out"),
                     "--quiet-time", quiet]) == 2
    assert "--quiet-time" in capsys.readouterr().err


@pytest.mark.parametrize("content", [WHOLE, pcapng(seq(**six({})))], ids=["pcap", "pcapng"])
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8))
def test_bytes_that_were_changed(tmp_path_factory, content, changes):
    """Vectors that can be written, or one clear error."""
    data = bytearray(content)
    for place, byte in changes:
        data[place % len(data)] = byte
    folder = tmp_path_factory.mktemp("changed")
    (folder / "some").write_bytes(data)
    code = cli.main(["tmix", "from-pcap", str(folder / "some"), "--output", str(folder / "out")])
    assert code == (0 if (folder / "out").exists() else 2)
    if not code:
        assert list(read_vectors(folder / "out"))


def test_a_reader_that_is_given_a_folder(tmp_path):
    with pytest.raises(AnalysisError, match="Is a directory"):
        list(packets.tcp_packets(tmp_path, Counter()))


def test_a_capture_is_not_replaced_by_its_vectors(tmp_path, capsys):
    (tmp_path / "one.pcap").write_bytes(WHOLE)
    (tmp_path / "link").symlink_to(tmp_path / "one.pcap")
    assert cli.main(["tmix", "from-pcap", str(tmp_path / "one.pcap"), "--output", str(tmp_path / "link")]) == 2
    assert "is the capture itself" in capsys.readouterr().err and (tmp_path / "one.pcap").read_bytes() == WHOLE

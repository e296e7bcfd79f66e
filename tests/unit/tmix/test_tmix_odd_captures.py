# SPDX-License-Identifier: GPL-2.0-only
"""`testbed tmix from-pcap`: keep-alives, packets that are there twice, data in SYNs, lengths of 0, blocks of pcapng.

The captures are a client's: 0.1 ms to it and back, 10 ms to the server and back.
"""
import struct

import pytest

from testbed import cli
from tests.unit.tmix.made_captures import (ACK, FIN, SYN, block, copied, ethernet, opening, pcap, pcapng, read, segment,
                                           six)

BOTH = pytest.mark.parametrize("how", [{}, six({})], ids=["IPv4", "IPv6"])
MS = 1000
UP = 10_100


def opened(**how):
    return opening(to_initiator_us=50, to_acceptor_us=5000, **how)


def exchange(idents=lambda number: 0, **how):
    """A request of 300 bytes, an answer of 13,032 after 20 ms, FIN; idents: of IPv4, of each packet."""
    parts = [(UP + 100, (0, 0, 300, 0)), (UP + 10_100, (1, 0, 0, 300)), *(
        (UP + 30_100 + 100 * number, (1, 4344 * number, 4344, 300)) for number in range(3)),
        (UP + 30_400, (0, 300, 0, 13_032)), (UP + 130_100, (1, 13_032, 0, 300, FIN | ACK)),
        (UP + 130_200, (0, 300, 0, 13_033, FIN | ACK)), (UP + 140_200, (1, 13_033, 0, 301))]
    whole = [*opened(**how), *((t_us, segment(*what, **how)) for t_us, what in parts)]
    if whole[0][1][0] >> 4 == 6:
        return whole
    return [(t_us, packet[:4] + struct.pack("!H", idents(number)) + packet[6:])
            for number, (t_us, packet) in enumerate(whole)]


EXCHANGE = [(0, 100, 300), (1, 20_000, 13_032), (1, 99_800, 0)]


def adus(one):
    return [tuple(adu) for adu in one.adus]


def assert_exchange(tmp_path, content, again=(0, 0), lacks=0):
    """Returns the account."""
    (one,), counts = read(tmp_path, content)
    assert adus(one) == EXCHANGE and one.min_rtt_us == 10_100 and one.loss == again
    assert counts["bytes that the capture lacks"] == lacks and counts["data segments"] >= 4
    return counts


# -- keep-alives ------------------------------------------------------------------------------------

def idle(side, size, request=100, response=200, **how):
    """Two exchanges 6 s apart, and each second a keep-alive of a side."""
    timed = [*opened(**how), (UP + 100, segment(0, 0, request, 0, **how)),
             (UP + 10_200, segment(1, 0, response, request, **how)),
             (UP + 10_300, segment(0, request, 0, response, **how))]
    for second in range(1, 6):
        at = second * 1000 * MS + 2 * UP
        timed += [(at, segment(side, (request, response)[side] - 1, size, (response, request)[side], **how)),
                  (at + (100 if side else 10_000), segment(1 - side, (response, request)[side], 0,
                                                           (request, response)[side], **how))]
    at = 6000 * MS
    return [*timed, (at, segment(0, request, 100, response, **how)),
            (at + 10_100, segment(1, response, 200, request + 100, **how)),
            (at + 10_200, segment(0, request + 100, 0, response + 200, FIN | ACK, **how))]


@BOTH
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("sizes", [(100, 200), (1, 1)])
def test_a_byte_of_a_keep_alive_is_none_of_the_stream(tmp_path, how, side, sizes):
    (without,), _ = read(tmp_path, pcap(idle(side, 0, *sizes, **how)))
    (one,), counts = read(tmp_path, pcap(idle(side, 1, *sizes, **how)))
    assert adus(one) == adus(without) == [(0, 100, sizes[0]), (1, 100, sizes[1]), (0, 6000 * MS - UP - 10_300, 100),
                                          (1, 100, 200), (0, 0, 0)]
    assert one.loss == without.loss == (0, 0) and counts["data segments sent again"] == 0
    assert counts["keep-alives and window probes with a byte"] == 5 and counts["data segments"] == 4


def test_keep_alives_while_the_other_end_thinks_and_within_an_answer(tmp_path):
    def timed(size):
        asks = [(2000 * MS, segment(0, 299, size, 0)), (2000 * MS + 10_000, segment(1, 0, 0, 300)),
                (4000 * MS, segment(1, 499, size, 300)), (4000 * MS + 100, segment(0, 300, 0, 500))]
        return sorted([*opened(), (UP, segment(0, 0, 300, 0)), (UP + 10_000, segment(1, 0, 0, 300)),
                       (3000 * MS, segment(1, 0, 500, 300)), (3000 * MS + 100, segment(0, 300, 0, 500)),
                       (5000 * MS, segment(1, 500, 500, 300)), (5000 * MS + 100, segment(0, 300, 7, 1000)), *asks])
    (one,), _ = read(tmp_path, pcap(timed(1)))
    assert adus(one) == [(0, 0, 300), (1, 3000 * MS - UP - 10_000, 500), (1, 2000 * MS, 500), (0, 0, 7)]
    assert one.loss == (0, 0) and adus(one) == adus(read(tmp_path, pcap(timed(0)))[0][0])


def test_keep_alives_before_data_and_behind_a_fin(tmp_path):
    timed = [*opened(), (2000 * MS, segment(0, -1, 1, 0)), (2010 * MS, segment(1, 0, 0, 0)),
             (3000 * MS, segment(0, 0, 300, 0, FIN | ACK)), (3010 * MS, segment(1, 0, 0, 301)),
             (5000 * MS, segment(0, 300, 1, 0)), (5010 * MS, segment(1, 0, 0, 301)),
             (6000 * MS, segment(1, 0, 50, 301))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert adus(one) == [(0, 3000 * MS - UP, 300), (1, 2990 * MS, 50), (0, 0, 0)]
    assert one.loss == (0, 0) and counts["bytes that the capture lacks"] == 0


def test_a_last_byte_that_is_sent_again_is_no_keep_alive(tmp_path):
    """The ACK is lost behind the capture; an end in a segment of one byte is sent again after 300 ms. And a byte alone
    that the other end lacks."""
    timed = [*opened(), (UP, segment(0, 0, 1, 0)), (UP + 10_000, segment(1, 0, 0, 1)),
             (UP + 300_000, segment(0, 0, 1, 0))]
    (one,), _ = read(tmp_path, pcap(timed))
    assert one.loss == (0.5, 0)
    timed = [*opened(), (UP, segment(0, 0, 100, 0)), (UP + 10_000, segment(1, 0, 0, 99)),
             (UP + 5000 * MS, segment(0, 99, 1, 0))]
    (one,), _ = read(tmp_path, pcap(timed))
    assert one.loss == (0.5, 0)


def test_probes_of_a_closed_window_are_not_sent_again_for_losses(tmp_path):
    """A byte at the end of the window, until it is taken; the answer waits since then."""
    shut = {"window": 0}
    timed = [*opened(), (UP, segment(0, 0, 1000, 0)), (UP + 10_000, segment(1, 0, 0, 1000, **shut))]
    for number in range(3):
        timed += [(UP + (number + 1) * 100_000, segment(0, 1000, 1, 0)),
                  (UP + (number + 1) * 100_000 + 10_000, segment(1, 0, 0, 1000, **shut))]
    timed += [(UP + 400_000, segment(0, 1000, 1, 0)), (UP + 410_000, segment(1, 0, 0, 1001)),
              (UP + 415_000, segment(1, 0, 9, 1001))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert adus(one) == [(0, 0, 1001), (1, 5000, 9)] and one.loss == (0, 0)
    assert counts["keep-alives and window probes with a byte"] == 3 and counts["data segments"] == 3


# -- packets that are there twice --------------------------------------------------------------------

def routed(packet):
    """With another TTL, and marked."""
    return packet[:1] + b"\3" + packet[2:8] + b"\x3f" + packet[9:] if packet[0] >> 4 == 4 else \
        packet[:7] + b"\x3f" + packet[8:]


COUNTED = {"as counters": lambda number: 1000 + number, "always 0": lambda number: 0, "always 1": lambda number: 1}


@pytest.mark.parametrize("change", [lambda packet: packet, routed], ids=["same", "routed"])
@pytest.mark.parametrize("idents", [*COUNTED, "IPv6"])
@pytest.mark.parametrize("after_us", [0, 1, 900])
def test_copies_are_not_sent_again(tmp_path, idents, change, after_us):
    timed = exchange(**six({})) if idents == "IPv6" else exchange(COUNTED[idents])
    counts = assert_exchange(tmp_path, pcap(copied(timed, after_us, change)))
    # ACKs without data are told only by identifications that count
    assert counts["TCP segments"] == 24
    assert counts["of these captured twice"] == (12 if idents == "as counters" else 8)


def test_copies_with_tags_and_of_one_way(tmp_path):
    tag, number = b"\x81\x00\x00\x05", iter(range(100))

    def frame(packet):
        whole = ethernet(packet)
        return whole[:12] + tag + whole[12:] if next(number) % 2 else whole
    assert_exchange(tmp_path, pcap(copied(exchange()), frame=frame))
    for side in (0, 1):
        timed = exchange()
        assert_exchange(tmp_path, pcap(sorted([*timed, *(
            (t_us + 1, packet) for t_us, packet in timed if packet[15] == side + 1)], key=lambda one: one[0])))


def test_copies_behind_a_queue_are_told_by_identification(tmp_path):
    """Captured before and behind a queue of 70 ms, which is longer than the round trip."""
    counts = assert_exchange(tmp_path, pcap(copied(exchange(COUNTED["as counters"]), 70_000)))
    assert counts["data segments sent again"] == 0


def stamped(ticks_per_ms, **how):
    """A request each 5 ms, with timestamps."""
    def option(t_us):
        return struct.pack("!BBBBII", 1, 1, 8, 10, (2**32 - 3 + int(t_us * ticks_per_ms / 1000)) % 2**32, 9)
    times = [UP + 5000 * number for number in range(40)]
    return [(0, segment(0, 0, 0, 0, SYN, options=option(0), **how)), (10_000, segment(1, 0, 0, 0, SYN | ACK, **how)),
            *((t_us, segment(0, 10 * number, 10, 0, options=option(t_us), **how)) for number, t_us in enumerate(times))]


@BOTH
def test_copies_are_told_by_a_clock_that_ticked(tmp_path, how):
    (one,), _ = read(tmp_path, pcap(copied(stamped(1, **how), 70_000)))
    assert one.loss == (0, 0)
    # a clock of 10 Hz, and one that stands still, do not tell
    for ticks_per_ms in (0.01, 0):
        (one,), _ = read(tmp_path, pcap(copied(stamped(ticks_per_ms, **how), 70_000)))
        assert one.loss == (0.5, 0)


@pytest.mark.parametrize("idents", [*COUNTED, "IPv6"])
@pytest.mark.parametrize("after_us", [10_200, 300_000, 1000 * MS])
def test_what_is_sent_again_is_no_copy(tmp_path, idents, after_us):
    """The first segment of the answer, after a round trip or a timeout; with the same identification where the sender
    does not count."""
    timed = exchange(**six({})) if idents == "IPv6" else exchange(COUNTED[idents])
    packet = timed[5][1] if idents != "as counters" else timed[5][1][:4] + b"\x77\x77" + timed[5][1][6:]
    timed = sorted([*timed, (timed[5][0] + after_us, packet)], key=lambda one: one[0])
    (one,), counts = read(tmp_path, pcap(timed))
    assert one.loss == (0, 0.25) and counts["of these captured twice"] == 0


def test_a_SYN_that_is_sent_again_is_no_copy(tmp_path):
    timed = exchange()
    (one,), counts = read(tmp_path, pcap([timed[0], *((t_us + 1000 * MS, packet) for t_us, packet in timed)]))
    assert adus(one) == EXCHANGE and counts["of these captured twice"] == 0


# -- data in a SYN -----------------------------------------------------------------------------------

def fast_open(taken, more=(), again=(), **how):
    """100 bytes in the SYN, of which the server takes some, and the rest once more; an answer of 1000 after 30 ms."""
    rest = [(UP, segment(0, taken, 100 - taken, 0, **how))] if taken < 100 else []
    since = UP + 10_000 if rest else 10_000
    return sorted([(0, segment(0, 0, 100, 0, SYN, **how)), *again, (10_000, segment(1, 0, 0, taken, SYN | ACK, **how)),
                   (UP, segment(0, taken, 0, 0, **how)), *rest, (since + 30_000, segment(1, 0, 1000, 100, **how)),
                   (since + 30_100, segment(0, 100, 0, 1000, **how)), *more,
                   (since + 40_000, segment(1, 1000, 0, 100, FIN | ACK, **how))], key=lambda one: one[0])


@BOTH
@pytest.mark.parametrize("taken, refused", [(100, 0), (60, 0), (0, 1)])
def test_data_in_a_SYN(tmp_path, how, taken, refused):
    (one,), counts = read(tmp_path, pcap(fast_open(taken, **how)))
    assert adus(one) == [(0, 0, 100), (1, 30_000, 1000), (1, 10_000, 0)]
    assert one.loss == (0, 0) and one.min_rtt_us == 10_100
    assert counts["bytes that the capture lacks"] == 0 and counts["SYNs whose data were not taken"] == refused
    assert counts["data segments"] == 2 + (taken == 60)


@BOTH
def test_copies_of_a_SYN_with_data(tmp_path, how):
    (one,), _ = read(tmp_path, pcap(copied(fast_open(100, **how))))
    assert adus(one) == [(0, 0, 100), (1, 30_000, 1000), (1, 10_000, 0)] and one.loss == (0, 0)


@pytest.mark.parametrize("size, loss", [(100, 0.5), (0, 0)])
def test_a_SYN_that_is_sent_again_with_its_data_and_without(tmp_path, size, loss):
    timed = [(0, segment(0, 0, 100, 0, SYN)), *(
        (t_us + 1000 * MS, packet) for t_us, packet in fast_open(100)[1:])]
    (one,), counts = read(tmp_path, pcap([timed[0], (1000 * MS, segment(0, 0, size, 0, SYN)), *timed[1:]]))
    # which SYN is answered, and with it the round trip to the server, is not known
    since = 1040_000 if size == 0 else 40_000
    assert adus(one)[:2] == [(0, 0, 100), (1, since, 1000)] and one.loss == (loss, 0)
    assert counts["bytes that the capture lacks"] == 0


def test_data_in_a_SYN_that_are_acknowledged_later(tmp_path):
    """A server that keeps them until the handshake is over."""
    timed = [(0, segment(0, 0, 100, 0, SYN)), (10_000, segment(1, 0, 0, 0, SYN | ACK)), (UP, segment(0, 100, 0, 0)),
             (UP + 10_000, segment(1, 0, 0, 100)), (UP + 30_000, segment(1, 0, 9, 100))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert adus(one)[0] == (0, 0, 100) and counts["bytes that the capture lacks"] == 0 and one.loss == (0, 0)


@BOTH
def test_data_in_a_SYN_ACK(tmp_path, how):
    """The server's first 50 bytes are in it, and 500 follow at once."""
    timed = [(0, segment(0, 0, 100, 0, SYN, **how)), (10_000, segment(1, 0, 50, 100, SYN | ACK, **how)),
             (10_050, segment(1, 50, 500, 100, **how)), (UP + 50, segment(0, 100, 0, 550, **how)),
             (UP + 5050, segment(0, 100, 7, 550, **how))]
    (one,), counts = read(tmp_path, pcap(timed))
    assert adus(one) == [(0, 0, 100), (1, 0, 550), (0, 5000, 7)]
    assert one.loss == (0, 0) and counts["bytes that the capture lacks"] == 0 and counts["data segments"] == 4


def test_a_pause_after_data_in_a_SYN(tmp_path):
    timed = fast_open(100)[:3] + [(6000 * MS, segment(0, 100, 5, 0)), (6010 * MS, segment(1, 0, 5, 105))]
    (one,), _ = read(tmp_path, pcap(timed))
    assert adus(one) == [(0, 0, 100), (0, 6000 * MS, 5), (1, 0, 5)]


# -- lengths that offload leaves 0 --------------------------------------------------------------------

def unsaid(packet):
    """Full, and without its length in the header of IP; large ones only, as offload does."""
    if packet[0] >> 4 == 4:
        size = struct.unpack_from("!H", packet, 2)[0]
        packet += bytes(size - len(packet))
        return packet[:2] + b"\0\0" + packet[4:] if size > 1500 else packet
    size = struct.unpack_from("!H", packet, 4)[0]
    packet += bytes(40 + size - len(packet))
    return packet[:4] + b"\0\0" + packet[6:] if size > 1500 else packet


def jumbo(packet):
    """The hop-by-hop header's option says the length."""
    size, = struct.unpack_from("!H", packet, 4)
    return packet[:4] + b"\0\0" + packet[6:42] + b"\xc2\4" + struct.pack("!I", size) + packet[48:] \
        if size > 1500 else packet


@pytest.mark.parametrize("change, how", [(unsaid, {}), (unsaid, six({})), (jumbo, six({}))],
                         ids=["IPv4", "IPv6", "jumbo"])
@pytest.mark.parametrize("snap", [None, 96])
def test_a_length_of_0_is_the_frames(tmp_path, change, how, snap):
    timed = [(t_us, change(packet)) for t_us, packet in exchange(**how)]
    assert timed != exchange(**how)
    counts = assert_exchange(tmp_path, pcap(timed, snap=snap))
    assert counts["packets with impossible headers"] == 0 and counts["TCP segments"] == 12


def test_more_than_16_bits_of_length(tmp_path):
    for packet, frame in ((segment(0, 0, 0, 0), None), (segment(0, 0, 0, 0, **six({})), None)):
        at = 2 if packet[0] >> 4 == 4 else 4
        timed = [*opened(), (UP, packet[:at] + b"\0\0" + packet[at + 2:] + bytes(150_000))]
        if packet[0] >> 4 == 6:
            timed[:3] = opened(**six({}))
        (one,), _ = read(tmp_path, pcap([*timed, (UP + 10_000, segment(1, 0, 5, 150_000, **(
            six({}) if at == 4 else {})))]))
        assert adus(one) == [(0, 0, 150_000), (1, 0, 5)]


@pytest.mark.parametrize("tag", [b"", b"\x81\x00\x00\x05"], ids=["", "vlan"])
def test_padding_of_short_frames_is_no_data(tmp_path, tag):
    """An ACK of 54 bytes in a frame of 60, whether its header says so or not."""
    def frame(packet):
        whole = ethernet(packet)
        return (whole[:12] + tag + whole[12:]).ljust(60, b"\0")
    bare = segment(0, 300, 0, 0)
    for packet in (bare, bare[:2] + b"\0\0" + bare[4:]):
        counts = assert_exchange(tmp_path, pcap(sorted([*exchange(), (UP + 20_000, packet)]), frame=frame))
        assert counts["data segments"] == 4


@pytest.mark.parametrize("size", [0, 19, 2**32 - 1])
def test_impossible_jumbograms(tmp_path, size):
    packet = segment(0, 0, 5, 0, **six({}))
    packet = packet[:4] + b"\0\0" + packet[6:42] + b"\xc2\4" + struct.pack("!I", size) + packet[48:]
    _, counts = read(tmp_path, pcap([(0, packet)]))
    assert counts["packets with impossible headers"] == 1
    assert read(tmp_path, pcap([(0, packet)], snap=56))[1]["packets whose headers were not kept"] == 1


# -- blocks of pcapng ---------------------------------------------------------------------------------

@pytest.mark.parametrize("content", [
    pcapng(exchange(), kinds=kinds, order=order, resolution=resolution)
    for kinds in ((2,), (2, 6)) for order, resolution in (("<", None), (">", None), ("<", 9), (">", 0x80 | 20))])
def test_obsolete_packet_blocks(tmp_path, content):
    (one,), counts = read(tmp_path, content)
    assert [(side, pytest.approx(wait_us, abs=3), size) for side, wait_us, size in EXCHANGE] == adus(one)
    assert counts["TCP segments"] == 12


def test_interfaces_with_clocks_of_their_own(tmp_path):
    """Two interfaces: microseconds, and nanoseconds with an offset of 7 s; each has what one end sent."""
    timed = exchange()
    content = pcapng([])
    content += block(1, struct.pack("<HHIHHBxxxHHqHH", 1, 0, 96, 9, 1, 9, 14, 8, 7, 0, 0))
    for number, (t_us, packet) in enumerate(timed):
        data, which = ethernet(packet), packet[15] - 1
        time = (t_us + 7 * 10**6 - 7 * 10**6) * 1000 if which else t_us + 7 * 10**6
        head = struct.pack("<HHIIII", which, 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        content += block(2, head + data) if number % 2 else block(6, struct.pack("<I", which) + head[4:] + data)
    assert_exchange(tmp_path, content)


WHOLE = pcapng(exchange(), kinds=(2,))


@pytest.mark.parametrize("content, said", [
    (pcapng(exchange(), kinds=(3,)), "block 3 is a Simple Packet Block, which has no time"),
    (pcapng(exchange(), kinds=(3,), order=">"), "block 3 is a Simple Packet Block, which has no time"),
    (pcapng(exchange(), kinds=(6, 2, 3)), "block 5 is a Simple Packet Block, which has no time"),
    (WHOLE[:-7], "ends in the middle of block 14"),
    (pcapng([]) + block(2, bytes(16)), "block 3, a packet, has 28 bytes, at least 32 expected"),
    (pcapng([]) + block(6, bytes(16)), "block 3, a packet, has 28 bytes, at least 32 expected"),
    (pcapng([]) + block(2, struct.pack("<HHIIII", 1, 0, 0, 0, 0, 0)), "of no interface"),
    (pcapng([]) + block(2, struct.pack("<HHIIII", 0, 0, 0, 0, 2**32 - 1, 60) + bytes(60)), "longer than its block"),
    (pcapng([]) + block(1, b"\1\0\0\0"), "block 3, an interface, has 16 bytes, at least 20 expected"),
    (pcapng([*exchange()[:9], *((t_us + 2**54, packet) for t_us, packet in exchange()[9:])]),
     "that no vector can hold")],
    ids=lambda value: "" if isinstance(value, bytes) else value)
def test_blocks_that_are_no_good(tmp_path, capsys, content, said):
    path = tmp_path / "some.pcapng"
    path.write_bytes(content)
    assert cli.main(["tmix", "from-pcap", str(path), "--output", str(tmp_path / "out")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and said in lines[0] and str(path) in lines[0]
    assert not (tmp_path / "out").exists()

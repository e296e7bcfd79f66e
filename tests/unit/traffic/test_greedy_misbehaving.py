# SPDX-License-Identifier: GPL-2.0-only
"""Receivers that misbehave: what they answer to which segment."""
import ctypes
import socket
import struct

import pytest

from traffic.greedy import ends, misbehaving
from traffic.io.payload import PERIOD, Pattern, phase

ISN, PORT, PEER_PORT, SIZE = 2**32 - 2000, 6000, 33000, 1000
STAMPS = struct.pack("!BBBBII", 1, 1, 8, 10, 777, 0)
FIN, SYN, RST, ACK = 1, 2, 4, 16
PATTERN = Pattern()


class Raw:
    """A raw socket that keeps what is sent."""
    family = socket.AF_INET

    def __init__(self):
        self.sent = []

    def send(self, packet):
        self.sent.append(packet)


class Receiving:
    """A receiver that is connected, and what it answered to the last segment."""

    def __init__(self, how, connected=True, **more):
        order = {"flow": 3, "address": "10.0.1.1", "peer": "10.0.2.1", "port": PORT, "receiver": how, **more}
        self.end, self.raw = ends.End(order, "receive"), Raw()
        self.counts = ends.Counts([{"send": [], "receive": [order]}])
        self.receiver = misbehaving._Receiver(self.raw, self.end, self.counts, PATTERN)
        if connected:
            self.segment(-1, flags=SYN, options=struct.pack("!BBH", 2, 4, 1460) + bytes([4, 2, 1, 1]) + STAMPS)

    def segment(self, position, size=0, flags=ACK, options=STAMPS, port=PEER_PORT, content=None):
        place = (phase(3) + max(position, 0)) % PERIOD
        data = bytes(PATTERN.view[place:place + size]) if content is None else content
        header = struct.pack("!HHIIBBHHH", port, PORT, (ISN + 1 + position) % 2**32, 1, (20 + len(options)) // 4 << 4,
                             flags, 100, 0, 0)
        memory = bytearray(bytes(20) + header + options + data)
        before = len(self.raw.sent)
        self.receiver.take(memory, 20, len(memory), ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        return [self.position(packet) for packet in self.raw.sent[before:]]

    @staticmethod
    def position(packet):
        return (struct.unpack_from("!I", packet, 8)[0] - ISN - 1 + 2**31) % 2**32 - 2**31

    def sack(self):
        """Blocks in the last answer, as positions."""
        packet = self.raw.sent[-1]
        found = dict(misbehaving._options(bytearray(packet[20:(packet[12] >> 4) * 4])))
        edges = [(edge - ISN - 1) % 2**32 for edge, in struct.iter_unpack("!I", found.get(5, b""))]
        return list(zip(edges[::2], edges[1::2]))


def test_what_arrives_in_order_is_acknowledged_in_parts():
    one = Receiving({"kind": "divided", "parts": 4})
    assert one.segment(0, SIZE) == [250, 500, 750, 1000]
    # across the end of the sequence numbers
    assert one.segment(1000, SIZE) == [1250, 1500, 1750, 2000]
    assert one.segment(2000, 7) == [2001, 2003, 2005, 2007]
    assert one.end.tally.account() == {"checked_bytes": 2007, "unchecked_bytes": 0, "wrong_pieces": 0,
                                       "first_wrong": None}


def test_what_is_missing_is_reported_and_not_acknowledged():
    one = Receiving({"kind": "divided", "parts": 2})
    one.segment(0, SIZE)
    assert (one.segment(2000, SIZE), one.sack()) == ([1000], [(2000, 3000)])
    assert (one.segment(4000, SIZE), one.sack()) == ([1000], [(4000, 5000), (2000, 3000)])
    assert (one.segment(3000, SIZE), one.sack()) == ([1000], [(2000, 5000)])
    # the rest is acknowledged at once, in as many parts
    assert (one.segment(1000, SIZE), one.sack()) == ([3000, 5000], [])
    # nothing counts twice
    assert (one.segment(1000, SIZE), one.end.tally.checked_bytes) == ([5000], 5000)


def test_without_sack_nothing_is_reported():
    one = Receiving({"kind": "divided", "parts": 1}, connected=False)
    one.segment(-1, flags=SYN, options=b"")
    assert (one.segment(1000, SIZE, options=b""), one.sack(), len(one.raw.sent[-1])) == ([0], [], 20)


def test_an_optimistic_receiver_conceals_what_is_missing():
    one = Receiving({"kind": "optimistic", "ahead": 0})
    assert one.segment(0, SIZE) == [1000] and one.segment(3000, SIZE) == [4000]
    assert one.segment(1000, SIZE) == [4000] and one.sack() == []
    assert one.end.tally.checked_bytes == 2000


def test_it_acknowledges_ahead():
    one = Receiving({"kind": "optimistic", "ahead": 3})
    assert one.segment(0, SIZE) == [1000, 4000] and one.segment(1000, 500) == [1500, 4500]


def test_the_answer_to_a_request():
    one = Receiving({"kind": "divided", "parts": 4}, window_bytes=20_000)
    answer, = one.raw.sent
    sport, dport, number, acked, words, flags, window, _, _ = struct.unpack_from("!HHIIBBHHH", answer)
    assert (sport, dport, number, acked, flags, window) == (PORT, PEER_PORT, 0, ISN + 1, SYN | ACK, 20_000)
    options = dict(misbehaving._options(bytearray(answer[20:])))
    assert options[3] == bytes([8]) and options[4] == b"" and struct.unpack_from("!II", options[8])[1] == 777
    one.segment(0, SIZE)
    assert struct.unpack_from("!H", one.raw.sent[-1], 14) == (20_000 >> 8,)


@pytest.mark.parametrize("position", [0, 1000])
def test_every_answer_has_the_right_checksum(position):
    one = Receiving({"kind": "divided", "parts": 3})
    one.segment(position, SIZE)
    for packet in one.raw.sent:
        pseudo = socket.inet_aton("10.0.1.1") + socket.inet_aton("10.0.2.1") + struct.pack("!HH", 6, len(packet))
        total = sum(word for word, in struct.iter_unpack("!H", pseudo + packet))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        assert total == 0xffff


def test_other_bytes_are_noticed():
    one = Receiving({"kind": "divided", "parts": 1})
    one.segment(0, SIZE)
    one.segment(1000, content=bytes(SIZE))
    assert (one.end.tally.wrong_pieces, one.end.tally.first_wrong) == (1, [0, 1000])


@pytest.mark.parametrize("how", [{"kind": "divided", "parts": 4}, {"kind": "optimistic", "ahead": 3}])
def test_the_end(how):
    one = Receiving(how)
    one.segment(0, SIZE)
    assert one.segment(1000, flags=ACK | FIN) == [1001] and one.raw.sent[-1][13] == ACK | FIN
    at_us = one.counts.account({"send": [], "receive": [{"flow": 3}]})["delivered_us"]
    assert list(at_us) == [3]
    # once more, as the answer was lost
    assert one.segment(1000, flags=ACK | FIN) == [1001]


def test_an_end_before_what_is_missing_is_none():
    one = Receiving({"kind": "divided", "parts": 4})
    assert one.segment(1000, SIZE, flags=ACK | FIN) == [0] and one.raw.sent[-1][13] == ACK


def test_segments_of_others_are_none():
    one = Receiving({"kind": "divided", "parts": 4})
    assert one.segment(0, SIZE, port=PEER_PORT + 1) == [] and one.segment(0, flags=RST) == []
    assert Receiving({"kind": "divided", "parts": 4}, connected=False).segment(0, SIZE) == []

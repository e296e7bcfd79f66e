# SPDX-License-Identifier: GPL-2.0-only
"""Packets with CE: which are kept, whose they are, how they are summed up; and what queues count themselves."""
import ipaddress
import struct

import pandas as pd
import pytest

from testbed.probes import _netlink, _packets, ce_marks
from testbed.probes._owners import Owners
from testbed.probes._packets import outgoing, outgoing_marked
from tests.unit.testbed.probe_contexts import context
from traffic.workload.records import Flow

FLOWS = [{"flow": 1, "src": "10.0.5.1", "dst": "10.0.2.1", "dport": 5000},
         {"flow": 2, "src": "fd00::1", "dst": "fd00::2", "dport": 5001},
         {"flow": 3, "src": "10.0.6.1", "dst": "10.0.1.1", "dport": 5002}]
OUTGOING, OTHERS = 4, 0


def ipv4(tos, src="10.0.5.1", dst="10.0.2.1", sport=40000, dport=5000, options=b""):
    header = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, tos, 1500, 0, 0, 64, 6, 0)
    return bytes(12) + b"\x08\x00" + header + ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed \
        + options + struct.pack("!HH", sport, dport) + bytes(20)


def ipv6(traffic_class, src="fd00::1", dst="fd00::2", sport=40000, dport=5001):
    return bytes(12) + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28 | traffic_class << 20, 1460, 6, 64) \
        + ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + struct.pack("!HH", sport, dport)


def kept(program, frame, kind=OUTGOING):
    """How much of a frame a filter of classic BPF keeps, carried out instruction by instruction."""
    at = register = 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x28:
            register = kind if operand == 0xFFFFF004 else int.from_bytes(frame[operand:operand + 2], "big")
        elif code == 0x30:
            register = frame[operand]
        elif code == 0x54:
            register &= operand
        else:
            assert code == 0x15
            at += if_true if register == operand else if_false


@pytest.mark.parametrize("frame, marked", [
    *((ipv4(tos), tos & 3 == 3) for tos in (0, 1, 2, 3, 0xB8, 0xBB)),
    *((ipv6(value), value & 3 == 3) for value in (0, 1, 2, 3, 0xB8, 0xBB)),
    (bytes(12) + b"\x08\x06" + b"\xff" * 40, False)])
def test_packets_that_leave_with_ce_are_kept_and_no_others(frame, marked):
    assert kept(outgoing_marked(78), frame) == 78 * marked
    assert kept(outgoing_marked(78), frame, OTHERS) == kept(outgoing(96), frame, OTHERS) == 0
    assert kept(outgoing(96), frame) == 96


@pytest.mark.parametrize("frame, owner", [
    (ipv4(3), (1, 0)), (ipv4(3, options=bytes(8)), (1, 0)), (ipv6(3), (2, 0)),
    (ipv4(3, src="10.0.2.1", sport=5000, dst="10.0.5.1", dport=40000), (1, 1)),
    (ipv6(3, src="fd00::2", sport=5001, dst="fd00::1", dport=5), (2, 1)),
    # a server at the sender, a client with any port
    (ipv4(3, src="10.0.6.1", sport=5002, dst="10.0.1.1", dport=40000), (3, 0)),
    (ipv4(3, src="10.0.1.1", sport=40000, dst="10.0.6.1", dport=5002), (3, 1)),
    (ipv4(3, dport=5001), (0, 0)), (ipv4(3, dst="10.0.3.1"), (0, 0))])
def test_a_packet_is_of_the_flow_to_whose_port_or_from_whose_port_it_goes(frame, owner):
    assert Owners([Flow(one) for one in FLOWS]).of(ce_marks._ends(frame)) == owner


def test_packets_are_summed_up_by_interval_link_flow_and_way(tmp_path):
    links = [{"name": "b", "device": "r1-eth1", "queue": "codel", "queue_options": {"ecn": True}},
             {"name": "a", "device": "r1-eth2", "queue": "codel", "queue_options": {"ecn": True}},
             {"name": "c", "device": "r1-eth3", "queue": "codel", "queue_options": {}}]
    packets = {"r1-eth1": [(1_000_000, ipv4(3)), (99_999_000, ipv4(3)), (100_000_000, ipv4(3))],
               "r1-eth2": [(5_000, ipv4(3)), (7_000, ipv4(3, dport=9)),
                           (9_000, ipv4(3, src="10.0.2.1", sport=5000, dst="10.0.5.1"))]}
    for device, found in packets.items():
        (tmp_path / f"ce_marks-{device}").write_bytes(b"".join(
            _packets._RECORD.pack(2_000 + time_ns, 1514, len(frame)) + frame for time_ns, frame in found))
    (tmp_path / "ce_marks.ahead").write_text("1500")
    ce_marks.collect(tmp_path, tmp_path, context(ce_marks, {"links": links}, FLOWS, 500))
    table = pd.read_csv(tmp_path / "ce_marks.csv.gz")
    assert table.to_dict("split")["data"] == [
        [0, "b", 1, 0, 2, 3028], [0, "a", 0, 0, 1, 1514], [0, "a", 1, 0, 1, 1514], [0, "a", 1, 1, 1, 1514],
        [100_000, "b", 1, 0, 1, 1514]]


def nested(kind, *payloads):
    data = b"".join(payloads)
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


class Answers:
    """A socket on which the kernel tells of one qdisc, whose own statistics are these."""

    def __init__(self, own):
        statistics = nested(7, nested(1, bytes(12)), nested(3, bytes(20)), nested(4, own))
        self._message = struct.pack("=IHHII", 36 + len(statistics), 36, 0, 1, 0) + bytes(20) + statistics

    def send(self, request):
        pass

    def recv_into(self, buffer):
        buffer[:len(self._message)] = self._message
        return len(self._message)


def test_marks_are_where_each_kind_of_queue_has_them():
    """CAKE has them in each tin: TCA_CAKE_STATS_TIN_STATS, a number, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS."""
    numbers = struct.pack("=12I", *range(100, 112))
    assert {kind: _netlink.Qdisc(1, shared=Answers(numbers)).marks(kind) for kind in (
            "red", "choke", "codel", "fq_codel", "pie", "fq_pie", "dualpi2")} == {
        "red": 103, "choke": 103, "codel": 106, "fq_codel": 103, "pie": 109, "fq_pie": 104, "dualpi2": 106}
    tins = [nested(number, nested(4, struct.pack("=I", 1000)), nested(8, struct.pack("=I", marked)))
            for number, marked in ((1, 5), (2, 0), (3, 37))]
    cake = nested(3, struct.pack("=I", 7)) + nested(10, *tins)
    assert _netlink.Qdisc(1, shared=Answers(cake)).marks("cake") == 42

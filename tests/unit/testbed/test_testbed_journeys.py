# SPDX-License-Identifier: GPL-2.0-only
"""Segments followed from host to host: which are kept, which is which, what arrived of them and when."""
import ipaddress
import struct

import pandas as pd
import pytest

from testbed.probes import _packets, journeys
from testbed.probes._packets import tcp
from tests.unit.testbed.probe_contexts import context
from tests.unit.testbed.test_testbed_ce_marks import OTHERS, OUTGOING, kept

FLOWS = [{"flow": 1, "transport": "tcp", "src": "10.0.0.1", "dst": "10.0.0.2", "dport": 6000},
         {"flow": 2, "transport": "tcp", "src": "fd00::1", "dst": "fd00::2", "dport": 6001},
         {"flow": 3, "transport": "udp", "src": "10.0.0.1", "dst": "10.0.0.2", "dport": 6002}]
NETWORK = {"nodes": [{"name": "n1", "role": "host", "addresses": ["10.0.0.1", "fd00::1"]},
                     {"name": "n2", "role": "host", "addresses": ["10.0.0.2", "fd00::2"]},
                     {"name": "r1", "role": "router", "addresses": []}],
           "links": [{"from": "n1", "to": "r1", "device": "n1-eth0"}, {"from": "r1", "to": "n1", "device": "r1-eth0"},
                     {"from": "n2", "to": "r1", "device": "n2-eth0"}]}
STAMP = bytes([1, 1, 8, 10])


def segment(seq, data, dport=6000, stamp=7):
    return struct.pack("!HHIIBBHHH", 40000, dport, seq, 0, 8 << 4, 16, 100, 0, 0) + STAMP + struct.pack("!II", stamp, 0)


def ipv4(number, seq, data=1000, src="10.0.0.1", dst="10.0.0.2", dport=6000, protocol=6, fragment=0):
    return struct.pack("!BBHHHBBH", 0x45, 0, 52 + data, number, fragment, 64, protocol, 0) \
        + ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + segment(seq, data, dport)


def ipv6(seq, stamp, data=1000, protocol=6):
    return struct.pack("!IHBB", 6 << 28, 32 + data, protocol, 64) + ipaddress.ip_address("fd00::1").packed \
        + ipaddress.ip_address("fd00::2").packed + segment(seq, data, 6001, stamp)


@pytest.mark.parametrize("packet, wanted", [
    (ipv4(1, 1), True), (ipv6(1, 1), True), (ipv4(1, 1, protocol=17), False), (ipv6(1, 1, protocol=17), False),
    (ipv4(1, 1, fragment=0x4000), True), (ipv4(1, 1, fragment=185), False), (b"\x08\x06" + bytes(40), False)])
def test_segments_of_tcp_are_kept_and_nothing_else(packet, wanted):
    assert kept(tcp(100, leaving=False), packet, OTHERS) == kept(tcp(100, leaving=False), packet) == 100 * wanted
    assert kept(tcp(100, leaving=True), packet, OUTGOING) == 100 * wanted
    assert kept(tcp(100, leaving=True), packet, OTHERS) == 0


def followed(folder, sent, arrived, **settings):
    """The table of packets [(ms, packet)] that left n1 and arrived at n2."""
    for name, packets in (("n1-eth0-n1", sent), ("wn1-eth0-n1", []), ("n2-eth0-n2", []), ("wn2-eth0-n2", arrived)):
        (folder / f"journeys-{name}").write_bytes(b"".join(
            _packets._RECORD.pack(2_000 + round(ms * 1e6), 1066, len(packet)) + packet for ms, packet in packets))
    (folder / "journeys.ahead").write_text("1500")
    journeys.collect(folder, folder, context(journeys, NETWORK, FLOWS, 500, **settings))
    return pd.read_csv(folder / "journeys.csv.gz").to_dict("split")["data"]


def test_a_segment_that_is_sent_again_is_another_one(tmp_path):
    """The first of two copies is lost; what was sent after the end, before the beginning, or is of UDP's port does not
    count, nor do acknowledgements."""
    sent = [(-1, ipv4(1, 0)), (0, ipv4(2, 1)), (10, ipv4(3, 1)), (150, ipv4(4, 1001)), (151, ipv4(5, 2001, data=0)),
            (160, ipv4(6, 1, dport=6002)), (1000, ipv4(7, 2001))]
    arrived = [(ms + 20, packet) for ms, packet in sent if ms]
    assert followed(tmp_path, sent, arrived) == [
        [0, 1, 0, 2, 2104, 1, 1052, 20_000, 20_000, 20_000], [100_000, 1, 0, 1, 1052, 1, 1052, 20_000, 20_000, 20_000]]


def test_without_a_number_the_time_stamp_tells_segments_apart(tmp_path):
    sent = [(0, ipv6(1, 7)), (5, ipv6(1, 12)), (6, ipv6(1, 12))]
    assert followed(tmp_path, sent, [(9, sent[1][1]), (11, sent[2][1])], interval_us=1_000_000) == [
        [0, 2, 0, 3, 3 * 1072, 2, 2 * 1072, 4500, 4000, 5000]]


def test_nothing_that_arrives_is_no_delay(tmp_path):
    row, = followed(tmp_path, [(0, ipv4(2, 1))], [])
    assert row[:7] == [0, 1, 0, 1, 1052, 0, 0] and all(pd.isna(value) for value in row[7:])
    assert followed(tmp_path, [], []) == []

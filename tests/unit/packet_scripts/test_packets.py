# SPDX-License-Identifier: GPL-2.0-only
"""Packets of scripts as bytes and back: numbers, options, checksums, and what differs."""
import dataclasses

import pytest
from scapy.layers.inet import IP, TCP, UDP

from testbed.packet_scripts import options, packets, parser
from testbed.packet_scripts.packets import Connection, Ends

ENDS = Ends("192.168.0.1", 8080, "192.0.2.1", 40001)
SIX = Ends("fd3d:a0b:17d6::1", 8080, "fd3d:fa7b:d17d::1", 40001)


def packet(text):
    one, = parser.parse(f"+0 {text}", "a.pkt").events
    return one.what


def connection(ends=ENDS, local=1_000_000, remote=0):
    made = Connection(ends)
    made.local_start, made.remote_start = local, remote
    return made


def from_kernel(text, there):
    """The bytes of a segment that the kernel sends, with the other side's addresses turned round."""
    turned = Ends(there.ends.remote_ip, there.ends.remote_port, there.ends.local_ip, there.ends.local_port)
    other = Connection(turned)
    other.local_start, other.remote_start = there.remote_start, there.local_start
    return packets.composed(packet(text.replace(">", "<", 1)), other)


def test_a_segment_arrives_with_numbers_of_the_connection():
    what = packet("< [ce] P. 1:1001(1000) ack 501 win 7 <nop,nop,sack 601:701>")
    data = IP(packets.composed(what, connection(remote=50)))
    tcp = data[TCP]
    assert (data.src, data.dst, tcp.sport, tcp.dport) == ("192.0.2.1", "192.168.0.1", 40001, 8080)
    assert (tcp.seq, tcp.ack, tcp.window, str(tcp.flags), data.tos) == (51, 1_000_501, 7, "PA", 3)
    assert tcp.options[2] == ("SAck", (1_000_601, 1_000_701)) and len(tcp.payload) == 1000


@pytest.mark.parametrize("ends", [ENDS, SIX])
def test_checksums_are_right(ends):
    data = packets.composed(packet("< P. 1:1001(1000) ack 1 win 7 <nop,nop,TS val 1 ecr 2>"), connection(ends))
    again = IP(data) if ends is ENDS else packets.IPv6(data)
    there = again[TCP].chksum
    del again[TCP].chksum
    assert type(again)(bytes(again))[TCP].chksum == there


@pytest.mark.parametrize("text", [
    "> . 1:1(0) ack 1", "> P. 1:1001(1000) ack 501 <nop,nop,TS val 5 ecr 7>", "> R 5:5(0)",
    "> SE. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>", "> WA. 1:1(0) ack 1 <ECN e1b 1 ceb 2000 e0b 1,nop>",
    "> U. 1:2(1) ack 1 urg 1", "> . 1:1(0) ack 1 <nop,nop,sack 11:21 31:41>",
    "> S 0:0(0) <mss 1000,nop,nop,FO 0102,nop,nop>"])
def test_what_the_kernel_sends_is_read_as_it_is_written(text):
    there = connection(local=7, remote=0)
    there.script_local_start = 0
    syn = " S" in text
    there.local_start = 0 if syn else 7
    seen = packets.parsed(from_kernel(text, there))
    read = packets.scripted(seen, there)
    wanted = packet(text)
    assert packets.differences(wanted, read, 0) == []
    window = dataclasses.replace(read.transport, window=None)
    assert packets.words(dataclasses.replace(read, ip=wanted.ip, transport=window)) == packets.words(wanted)


@pytest.mark.parametrize("wanted, seen, differ", [
    ("> . 1:1(0) ack 2", "> . 1:1(0) ack 1", ["ack"]), ("> P. 1:2(1) ack 1", "> . 1:2(1) ack 1", ["flags"]),
    ("> . 1:2(1) ack 1", "> . 2:3(1) ack 1", ["sequence number"]), ("> . 1:2(1) ack 1", "> . 1:3(2) ack 1", ["length"]),
    ("> . 1:1(0) ack 1 win 5", "> . 1:1(0) ack 1 win 6", ["win"]), ("> . 1:1(0) ack 1", "> . 1:1(0) ack 1 win 6", []),
    ("> [ect0] . 1:1(0) ack 1", "> [ce] . 1:1(0) ack 1", ["ECN"]), ("> . 1:1(0) ack 1", "> [ce] . 1:1(0) ack 1", []),
    ("> . 1:1(0) ack 1 <nop,nop,nop,nop>", "> . 1:1(0) ack 1", ["options"]),
    ("> . 1:1(0) ack 1 <...>", "> . 1:1(0) ack 1", []),
    ("> . 1:1(0) ack 1", "> . 1:1(0) ack 1 <nop,nop,nop,nop>", ["options"]),
    ("> F. 1:1(0) ack 2", "> . 2:2(0) ack 1", ["flags", "sequence number", "ack"])])
def test_differences(wanted, seen, differ):
    there = connection()
    read = packets.scripted(packets.parsed(from_kernel(seen, there)), there)
    assert packets.differences(packet(wanted), read, 0) == differ


@pytest.mark.parametrize("off, differ", [(None, []), (2, []), (1, ["options"])])
def test_timestamps_are_as_near_as_they_should_be(off, differ):
    one, other = (packet(f"> . 1:1(0) ack 1 <nop,nop,TS val {value} ecr 9>") for value in (100, 102))
    assert packets.differences(one, other, off) == differ


def test_timestamps_of_a_script_stand_for_those_of_the_kernel():
    there = connection()
    there.note_stamp(100, 777_000)
    there.note_stamp(250, 777_149)
    assert [there.echo(stamp) for stamp in (100, 250, 110, 0)] == [777_000, 777_149, 777_010, 0]
    assert there.script_stamp(777_005) == 105


@pytest.mark.parametrize("header", [b"\x02", b"\x02\x01", b"\x05\x0a\x00", b"\x01\x08\x0b\x00"])
def test_options_that_do_not_end(header):
    with pytest.raises(options.BadOptions):
        options.decoded(header, int)


def test_datagrams_and_icmp():
    udp = IP(packets.composed(packet("< udp (5)"), connection()))
    assert (udp[UDP].sport, udp[UDP].dport, bytes(udp[UDP].payload)) == (40001, 8080, bytes(5))
    what = packet("< icmp unreachable frag_needed mtu 1200 [1:1001(1000)]")
    about = IP(packets.composed(what, connection()))
    assert (about["ICMP"].type, about["ICMP"].code, about["ICMP"].nexthopmtu) == (3, 4, 1200)
    quoted = IP(bytes(about["ICMP"].payload))
    tcp = quoted[TCP]
    assert (quoted.src, tcp.sport, tcp.dport, tcp.seq) == ("192.168.0.1", 8080, 40001, 1_000_001)


def test_what_no_socket_sent_is_not_seen():
    assert packets.parsed(bytes(IP(src="192.168.0.1", dst="224.0.0.22", proto=2))) is None
    assert packets.parsed(b"") is None

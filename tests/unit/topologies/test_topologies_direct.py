# SPDX-License-Identifier: GPL-2.0-only
"""Lines of ip and tc as messages: what the programs of Debian 12 (iproute2 6.1) send for them, noted with strace."""
import socket

import pytest

from topologies import direct

_NUMBERS = {"n1-eth0": 2, "w1": 3}
#: program, line, kind of message, flags beside request and acknowledgement, what follows the header
_SENT = [
    ("ip", "addr add 10.0.1.1/24 dev n1-eth0", 20, 0x600, "0218000002000000080002000a000101080001000a000101"),
    ("ip", "neigh replace 10.0.1.2 lladdr 00:00:00:00:00:05 nud permanent dev n1-eth0", 28, 0x500,
     "020000000200000080000000080001000a0001020a0002000000000000050000"),
    ("ip", "route add 10.0.5.0/24 via 10.0.1.2 dev n1-eth0 initcwnd 2", 24, 0x600,
     "02180000fe03000100000000080001000a000500080005000a00010208000400020000000c00080008000b0002000000"),
    ("tc", "qdisc add dev n1-eth0 parent 1:1 handle 10: pfifo limit 50", 36, 0x600,
     "00000000020000000000100001000100000000000a000100706669666f0000000800020032000000"),
    ("tc", "qdisc add dev n1-eth0 handle ffff: ingress", 36, 0x600,
     "00000000020000000000fffff1ffffff000000000c000100696e677265737300"),
    ("tc", "filter add dev n1-eth0 parent ffff: protocol all matchall action mirred egress redirect dev w1", 44, 0x600,
     "0000000002000000000000000000ffff000300000d0001006d61746368616c6c000000003c00020038000200340001000b0001006d697272"
     "65640000240002802000020000000000000000000400000000000000000000000100000003000000"),
    ("tc", "qdisc add dev w1 root handle 2: netem limit 1000 delay 10000us rate 10000000bit loss 0.1%", 36, 0x600,
     "000000000300000000000200ffffffff000000000a0001006e6574656d000000300002005a620200e8030000378941000000000000000000"
     "0000000014000600d0121300000000000000000000000000"),
]


def _plain(message):
    """A message without the flag of nesting, which the kernel takes with and without."""
    return message.replace(b"\x02\x80", b"\x02\x00")


@pytest.mark.parametrize("program, line, kind, flags, sent", _SENT)
def test_a_line_is_the_message_that_the_program_sends(program, line, kind, flags, sent):
    (made_kind, made_flags, body), = direct.orders(program, [line])
    assert (made_kind, made_flags) == (kind, flags)
    assert _plain(body(_NUMBERS.__getitem__)) == _plain(bytes.fromhex(sent))


def test_a_bucket_is_that_of_the_program_but_for_a_table_that_only_other_link_layers_need():
    (_, _, body), = direct.orders("tc", ["qdisc add dev n1-eth0 root handle 1: tbf rate 10000000bit burst 1600 "
                                         "limit 2147483647"])
    made = body(_NUMBERS.__getitem__)
    # TCA_TBF_PARMS: bytes per second, limit, bucket in units of 64 ns; TCA_TBF_BURST
    assert bytes.fromhex("d0121300") in made and bytes.fromhex("ffffff7f204e000000000000") in made
    assert made.endswith(bytes.fromhex("0800060040060000"))


@pytest.mark.parametrize("program, line", [
    ("tc", "qdisc add dev n1-eth0 parent 1:1 handle 10: fq_codel limit 1000"),
    ("tc", "qdisc add dev w1 root handle 2: netem limit 1000 delay 10002.5us 2.5us rate 10000000bit"),
    ("tc", "qdisc add dev w1 root handle 2: netem limit 1000 delay 10us rate 10000000bit duplicate 1%"),
    ("tc", "qdisc add dev w1 parent 2:1 handle 3: netem limit 1000 slot 100us 100us"),
    ("ip", "route add default via 10.0.1.2 dev n1-eth0 ssthresh lock 20"),
    ("ip", "link add br0 type bridge stp_state 0"),
    ("ip", "link set n1-eth0 master br0"),
    ("bridge", "fdb replace 00:00:00:00:00:05 dev n1-eth0 master static")])
def test_what_is_not_known_is_left_to_the_program(program, line):
    known = {"ip": "link set lo up", "tc": "qdisc add dev n1-eth0 handle ffff: ingress"}.get(program, line)
    assert direct.orders(program, [known, line]) is None


def test_ipv6_has_addresses_of_its_own_family():
    (_, _, body), (_, _, route) = direct.orders("ip", [
        "addr add fd00:0:0:1::1/64 dev n1-eth0 nodad", "route add default via fd00:0:0:1::2 dev n1-eth0"])
    made = body(_NUMBERS.__getitem__)
    assert made[:3] == bytes([socket.AF_INET6, 64, 2])          # IFA_F_NODAD
    assert made.count(socket.inet_pton(socket.AF_INET6, "fd00:0:0:1::1")) == 2
    assert route(_NUMBERS.__getitem__)[:2] == bytes([socket.AF_INET6, 0])


def test_sockets_are_opened_where_the_program_would_open_them():
    """Noted with strace, and by what the kernel draws: ip opens one to ask for a device that it does not know."""
    lines = ["link set lo up", "link add w1 numtxqueues 1 numrxqueues 1 type ifb", "link set w1 up",
             "addr add 10.0.1.1/24 dev n1-eth0", "link set n1-eth0 up",
             "neigh replace 10.0.1.2 lladdr 00:00:00:00:00:05 nud permanent dev n1-eth0", "link set n1-eth1 up",
             "link add w2 type ifb", "link set w2 up", "link set w2 gso_max_segs 1",
             "route add default via 10.0.1.2 dev n1-eth0"]
    assert list(direct.sockets_before("ip", lines)) == [1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1]
    assert set(direct.sockets_before("tc", ["qdisc add dev n1-eth0 handle ffff: ingress"])) == {0}


def test_the_kernel_s_refusal_names_the_line():
    lines = ["link set no-such-device up"]
    with pytest.raises(RuntimeError, match="ip: .*link set no-such-device up"):
        direct.tell("ip", lines, direct.orders("ip", lines))

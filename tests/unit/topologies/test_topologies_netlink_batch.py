# SPDX-License-Identifier: GPL-2.0-only
"""Lines of ip and tc as messages: what the programs of Debian 12 (iproute2 6.1) send for them, noted with strace."""
import errno
import socket
import struct

import pytest

from topologies.linux import netlink_batch
from topologies.linux.rtnetlink import HEADER, attribute, raise_error

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
    (made_kind, made_flags, body), = netlink_batch.orders(program, [line])
    assert (made_kind, made_flags) == (kind, flags)
    assert _plain(body(_NUMBERS.__getitem__)) == _plain(bytes.fromhex(sent))


def test_a_bucket_is_that_of_the_program_but_for_a_table_that_only_other_link_layers_need():
    (_, _, body), = netlink_batch.orders("tc", ["qdisc add dev n1-eth0 root handle 1: tbf rate 10000000bit burst 1600 "
                                         "limit 2147483647"])
    made = body(_NUMBERS.__getitem__)
    # TCA_TBF_PARMS: bytes per second, limit, bucket in units of 64 ns; TCA_TBF_BURST
    assert bytes.fromhex("d0121300") in made and bytes.fromhex("ffffff7f204e000000000000") in made
    assert made.endswith(bytes.fromhex("0800060040060000"))


def test_a_shaper_is_that_of_the_program_but_for_tables_that_only_other_link_layers_need():
    lines = ["qdisc add dev n1-eth0 root handle 3: htb default 1",
             "class add dev n1-eth0 parent 3: classid 3:1 htb rate 10000000bit ceil 10000000bit burst 1600 cburst 1600 "
             "quantum 1514"]
    (kind, _, qdisc), (class_kind, _, one) = netlink_batch.orders("tc", lines)
    assert (kind, class_kind) == (36, 40)
    # TCA_HTB_INIT: version 3, rate2quantum 10, default class 1
    assert qdisc(_NUMBERS.__getitem__).endswith(bytes.fromhex("03000000" "0a000000" "01000000" "00000000" "00000000"))
    # TCA_HTB_PARMS: twice the rate, twice a bucket of 1280 us in units of 64 ns, quantum
    made = one(_NUMBERS.__getitem__)
    assert made.count(bytes.fromhex("d0121300")) == 2 and made.endswith(struct.pack("=IIIII", 20000, 20000, 1514, 0, 0))


@pytest.mark.parametrize("program, line", [
    ("tc", "class add dev n1-eth0 parent 3: classid 3:1 htb rate 10bit ceil 20bit burst 1 cburst 1 quantum 1514"),
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
    assert netlink_batch.orders(program, [known, line]) is None


def test_ipv6_has_addresses_of_its_own_family():
    (_, _, body), (_, _, route) = netlink_batch.orders("ip", [
        "addr add fd00:0:0:1::1/64 dev n1-eth0 nodad", "route add default via fd00:0:0:1::2 dev n1-eth0"])
    made = body(_NUMBERS.__getitem__)
    assert made[:3] == bytes([socket.AF_INET6, 64, 2])          # IFA_F_NODAD
    assert made.count(socket.inet_pton(socket.AF_INET6, "fd00:0:0:1::1")) == 2
    assert route(_NUMBERS.__getitem__)[:2] == bytes([socket.AF_INET6, 0])


def test_the_kernel_s_refusal_names_the_line():
    lines = ["link set no-such-device up"]
    with pytest.raises(RuntimeError, match="^ip link set no-such-device up: netlink: .+"):
        netlink_batch.tell("ip", lines, netlink_batch.orders("ip", lines))
    lines = ["addr add 10.0.1.1/24 dev no-such-device"]
    with pytest.raises(RuntimeError, match="^ip addr add 10.0.1.1/24 dev no-such-device: there is no device no-such-d"):
        netlink_batch.tell("ip", lines, netlink_batch.orders("ip", lines))


def refusal(number, code=errno.EINVAL, words="", capped=False, body=b"12345678901"):
    """NLMSG_ERROR for the message of this number, with what was sent, and with the kernel's words."""
    header = HEADER.pack(HEADER.size + len(body), 36, 5, number, 0)
    content = struct.pack("=i", -code) + header + (b"" if capped else body + bytes(-len(body) % 4))
    if words:
        # NLMSGERR_ATTR_OFFS comes before NLMSGERR_ATTR_MSG
        content += attribute(2, struct.pack("=I", 16)) + attribute(1, words.encode() + b"\0")
    flags = (0x200 if words else 0) | (0x100 if capped else 0)
    return HEADER.pack(HEADER.size + len(content), 2, flags, number, 0) + content


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("words", ["", "Specified qdisc kind is unknown"])
def test_a_refusal_has_the_words_of_the_kernel_where_there_are_any(words, capped):
    with pytest.raises(OSError) as problem:
        raise_error(refusal(1, words=words, capped=capped))
    assert problem.value.errno == errno.EINVAL
    assert problem.value.strerror == "netlink: Invalid argument" + (f": {words}" if words else "")
    raise_error(refusal(1, code=0, words="only a warning", capped=capped))


@pytest.mark.parametrize("size", range(HEADER.size + 4, len(refusal(1, words="cut"))))
def test_a_refusal_that_is_cut_still_has_its_number(size):
    with pytest.raises(OSError, match="netlink: Invalid argument"):
        raise_error(refusal(1, words="cut")[:size])


class Refusing:
    """A socket of netlink at whose other end a message is refused."""

    def __init__(self, number, words):
        self.answers, self.options = [refusal(number, words=words)], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def setsockopt(self, *option):
        self.options.append(option)

    def send(self, data):
        pass

    def recv(self, size):
        return self.answers.pop(0)


def test_of_many_lines_the_refused_one_is_named_with_the_words_of_the_kernel(monkeypatch):
    lines = ["qdisc add dev lo handle ffff: ingress", "qdisc add dev lo root handle 1: pfifo limit 5",
             "qdisc add dev lo parent 1:1 handle 10: pfifo limit 50"]
    made = Refusing(1, "Exclusivity flag on, cannot modify")
    monkeypatch.setattr(netlink_batch.socket, "socket", lambda *_kind: made)
    with pytest.raises(RuntimeError) as problem:
        netlink_batch.tell("tc", lines, netlink_batch.orders("tc", lines))
    assert str(problem.value) == f"tc {lines[1]}: netlink: Invalid argument: Exclusivity flag on, cannot modify"
    assert made.options == [(270, 11, 1)]           # SOL_NETLINK, NETLINK_EXT_ACK

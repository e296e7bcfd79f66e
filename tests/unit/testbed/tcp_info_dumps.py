# SPDX-License-Identifier: GPL-2.0-only
"""What the probe tcp_info records inside: dumps of sockets, made by hand."""
import struct

from testbed.probes import _netlink, tcp_info

INFO_BYTES = 248      # before Linux 6.7: 240, without the number of timeouts


def tcp_info_struct(**values):
    """struct tcp_info with the given fields set."""
    data = bytearray(INFO_BYTES)
    for name, value in values.items():
        offset, code = tcp_info._FIELDS[name]
        struct.pack_into("=" + code, data, offset, value)
    return bytes(data)


def attribute(kind, data):
    return (struct.pack("=HH", 4 + len(data), kind) + data).ljust((len(data) + 7) & ~3, b"\0")


def socket_message(src, sport, dst, dport, *attributes, state=1, queues=(0, 0)):
    """struct nlmsghdr, struct inet_diag_msg (72 bytes), attributes."""

    def address(text):
        return bytes(map(int, text.split("."))).ljust(16, b"\0")

    body = struct.pack("=BBBB", 2, state, 0, 0) + struct.pack(">HH", sport, dport) + address(src) + address(dst)
    body = body.ljust(56, b"\0") + struct.pack("=II", *queues)         # idiag_rqueue, idiag_wqueue
    body = body.ljust(72, b"\0") + b"".join(attributes)
    return _netlink.HEADER.pack(16 + len(body), 20, 2, 1, 0) + body


def record(t_us, host, *messages):
    dump = b"".join(messages)
    return struct.pack("=qHHI", t_us, host, 0, len(dump)) + dump

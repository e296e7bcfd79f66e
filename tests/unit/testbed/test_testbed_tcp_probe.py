# SPDX-License-Identifier: GPL-2.0-only
"""tcp_probe: events of both kinds, packed byte by byte, become rows of two tables."""
import socket
import struct

import pandas as pd
import pytest

from testbed.probes import tcp_probe
from tests.unit.testbed import ring_pages as ring
from tests.unit.testbed.probe_contexts import context

T0 = 7_000_000_000
PROBE_ID, RETRANSMIT_ID = 1250, 1260

#: fields as the guest kernel's tracefs shows them (6.12): name, offset, size, signed
_PROBE = (
    ("__u8 saddr[sizeof(struct sockaddr_in6)]", 8, 28, 0),
    ("__u8 daddr[sizeof(struct sockaddr_in6)]", 36, 28, 0),
    ("__u16 sport", 64, 2, 0),
    ("__u16 dport", 66, 2, 0),
    ("__u16 family", 68, 2, 0),
    ("__u32 mark", 72, 4, 0),
    ("__u16 data_len", 76, 2, 0),
    ("__u32 snd_nxt", 80, 4, 0),
    ("__u32 snd_una", 84, 4, 0),
    ("__u32 snd_cwnd", 88, 4, 0),
    ("__u32 ssthresh", 92, 4, 0),
    ("__u32 snd_wnd", 96, 4, 0),
    ("__u32 srtt", 100, 4, 0),
    ("__u32 rcv_wnd", 104, 4, 0),
    ("__u64 sock_cookie", 112, 8, 0),
)
_RETRANSMIT = (
    ("const void * skbaddr", 8, 8, 0),
    ("const void * skaddr", 16, 8, 0),
    ("int state", 24, 4, 1),
    ("__u16 sport", 28, 2, 0),
    ("__u16 dport", 30, 2, 0),
    ("__u16 family", 32, 2, 0),
    ("__u8 saddr[4]", 34, 4, 0),
    ("__u8 daddr[4]", 38, 4, 0),
    ("__u8 saddr_v6[16]", 42, 16, 0),
    ("__u8 daddr_v6[16]", 58, 16, 0),
)


def format_file(number, fields):
    lines = [
        f"\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};" for name, offset, size, signed in fields
    ]
    return f"name: x\nID: {number}\nformat:\n" + "\n".join(lines) + "\n"


def sockaddr(address, port):
    """struct sockaddr_in."""
    return struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(address) + bytes(20)


def received(src, sport, dst, dport, **values):
    data = bytearray(120)
    data[:2], data[8:36], data[36:64] = struct.pack("<H", PROBE_ID), sockaddr(src, sport), sockaddr(dst, dport)
    for name, offset, size, _ in _PROBE:
        key = name.split()[-1]
        if key in values:
            data[offset : offset + size] = values[key].to_bytes(size, "little")
    return bytes(data)


def sent_again(src, sport, dst, dport):
    return (
        struct.pack("<H6xQQiHHH", RETRANSMIT_ID, 0xAA, 0xBB, 1, sport, dport, 2)
        + socket.inet_aton(src)
        + socket.inet_aton(dst)
        + bytes(34)
    )


@pytest.fixture
def collect(tmp_path):
    """collect(pages) -> (table of received segments, table of retransmissions)."""

    def collected(*pages):
        (tmp_path / "tcp-tcp_probe.format").write_text(format_file(PROBE_ID, _PROBE))
        (tmp_path / "tcp-tcp_retransmit_skb.format").write_text(format_file(RETRANSMIT_ID, _RETRANSMIT))
        (tmp_path / "tcp_probe.cpu0.pages").write_bytes(b"".join(pages))
        tcp_probe.collect(tmp_path, tmp_path, context(tcp_probe, t0_ns=T0))
        return pd.read_csv(tmp_path / "tcp_probe.csv.gz"), pd.read_csv(tmp_path / "retransmissions.csv.gz")

    return collected


ENDS = ("10.0.5.1", 40001, "10.0.2.1", 6000)


def test_a_segment_received(collect):
    values = {
        "mark": 1,
        "data_len": 1448,
        "snd_nxt": 2**32 - 1,
        "snd_una": 5,
        "snd_cwnd": 10,
        "ssthresh": 2**31 - 1,
        "snd_wnd": 65535,
        "srtt": 100_000,
        "rcv_wnd": 64256,
        "sock_cookie": 2**40,
    }
    segments, again = collect(ring.page(T0, ring.event(1_500, received(*ENDS, **values))))
    (row,) = segments.to_dict("records")
    assert row == {
        "t_us": 1,
        "src": "10.0.5.1:40001",
        "dst": "10.0.2.1:6000",
        **{k: v for k, v in values.items() if k != "srtt"},
        "srtt_us": 100_000,
    }
    assert list(segments) == [
        "t_us",
        "src",
        "dst",
        "mark",
        "data_len",
        "snd_nxt",
        "snd_una",
        "snd_cwnd",
        "ssthresh",
        "snd_wnd",
        "srtt_us",
        "rcv_wnd",
        "sock_cookie",
    ]
    assert again.empty and list(again) == ["t_us", "src", "dst"]


def test_a_segment_sent_again(collect):
    segments, again = collect(
        ring.page(
            T0,
            ring.event(2_000_000, sent_again(*ENDS)),
            ring.event(7_000, sent_again("192.168.0.9", 1, "10.0.2.1", 65535)),
        )
    )
    assert segments.empty
    assert again.values.tolist() == [
        [2000, "10.0.5.1:40001", "10.0.2.1:6000"],
        [2007, "192.168.0.9:1", "10.0.2.1:65535"],
    ]


def test_both_kinds_mixed_and_other_events_between(collect):
    pages = [
        ring.page(
            T0 + 10_000 * n,
            ring.event(0, received(*ENDS, snd_una=n)),
            ring.event(1_000, ring.other()),
            ring.event(1_000, sent_again(*ENDS)),
        )
        for n in range(5)
    ]
    segments, again = collect(*pages)
    assert segments["snd_una"].tolist() == [0, 1, 2, 3, 4] and segments["t_us"].tolist() == [0, 10, 20, 30, 40]
    assert again["t_us"].tolist() == [2, 12, 22, 32, 42]


def test_what_is_outside_of_the_experiment_is_left_out(collect):
    segments, again = collect(
        ring.page(
            T0 - 1,
            ring.event(0, received(*ENDS)),
            ring.event(0, sent_again(*ENDS)),
            ring.event(1, received(*ENDS)),
            ring.event(999_999_999, sent_again(*ENDS)),
            ring.event(1, received(*ENDS)),
            ring.event(0, sent_again(*ENDS)),
        )
    )
    assert segments["t_us"].tolist() == [0] and again["t_us"].tolist() == [999_999]


def test_no_event_at_all_leaves_tables_with_names(collect):
    for pages in ((), (ring.page(T0),)):
        segments, again = collect(*pages)
        assert segments.empty and again.empty and "snd_cwnd" in segments and list(again) == ["t_us", "src", "dst"]

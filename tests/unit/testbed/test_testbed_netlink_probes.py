# SPDX-License-Identifier: GPL-2.0-only
"""queue and tcp_info: the half that turns what was recorded into tables."""
import struct

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from testbed import probes
from testbed.core import raw_tables
from testbed.probes import _netlink, queue, tcp_info
from tests.unit.testbed.no_network import NoNetwork
from tests.unit.testbed.probe_contexts import context
from tests.unit.testbed.tcp_info_dumps import INFO_BYTES, attribute, record, socket_message, tcp_info_struct
from topologies.links.records import Network

NETWORK = {
    "nodes": [{"name": "n1", "role": "host"}, {"name": "r1", "role": "router"}, {"name": "n2", "role": "host"}],
    "links": [
        {"name": "edge", "bottleneck": False},
        {"name": "there", "bottleneck": True},
        {"name": "back", "bottleneck": True},
    ],
}


def test_probes_are_found_by_listing():
    assert {"queue", "sojourn", "tcp_info"} <= set(probes.names())
    assert not any(name.startswith("_") for name in probes.names())
    for name in probes.names():
        module = probes.load(name)
        assert callable(module.Sampler) and callable(module.collect) and module.__doc__
    with pytest.raises(ValueError, match="no probe 'nosuch'; there are: .*queue"):
        probes.load("nosuch")


def test_queue_samples_become_a_table_with_link_names(tmp_path):
    rows = [
        (0, 0, 0, 0, 0, 0, 0),
        (0, 1, 0, 0, 0, 0, 0),
        (10_000, 0, 2**40, 2**33, 7, 1514 * 850, 850),
        (10_000, 1, 66, 1, 0, 0, 0),
    ]
    np.array(rows, dtype="<i8").tofile(tmp_path / "queue.bin")
    (tmp_path / "edge_queue.bin").touch()
    queue.collect(tmp_path, tmp_path, context(queue, NETWORK))
    table = pd.read_csv(tmp_path / "queue.csv.gz")
    assert list(table) == ["t_us", "link", "sent_bytes", "sent_packets", "drops", "backlog_bytes", "backlog_packets"]
    assert [tuple(r) for r in table.itertuples(index=False)] == [
        (t, ["there", "back"][link], *rest) for t, link, *rest in rows
    ]


def test_queue_counts_from_its_start_and_past_the_wrap_of_the_drop_counter(tmp_path, monkeypatch):
    """Bottlenecks at every sample, the others every second one; one socket for each node."""
    readings = {1: [(50, 5, 0, 9, 1), (60, 6, 0, 0, 0), (80, 8, 1, 3028, 2)],
                2: [(1000, 10, 2**32 - 3, 0, 0), (1100, 11, 2**32 - 1, 0, 0), (1200, 12, 3, 1514, 1),
                    (1300, 13, 3, 0, 0)],
                3: [(0, 0, 0, 0, 0)] * 4}
    shares = {}

    class Qdisc:
        def __init__(self, ifindex, shared):
            self.ifindex, self.socket, shares[ifindex] = ifindex, shared or object(), shared

        def read(self):
            return readings[self.ifindex].pop(0)

        def close(self):
            pass
    monkeypatch.setattr(queue, "Qdisc", Qdisc)
    links = [{**link, "ifindex": number, "from": node} for number, (link, node) in
             enumerate(zip(NETWORK["links"], ("n1", "r1", "r1")), start=1)]
    sampler = queue.Sampler(queue.Options(interval_us=5, edge_interval_us=10), NoNetwork(), Network({"links": links}),
                            tmp_path)
    assert sampler.interval_us == 5
    sampler.open()
    assert {number for number, shared in shares.items() if shared} == {3}
    for t_us in (0, 5, 10):
        sampler.sample(t_us)
    assert sampler.close() == {} and not any(readings.values())
    queue.collect(tmp_path, tmp_path, context(queue, NETWORK))
    columns = ["t_us", "link", "sent_bytes", "sent_packets", "drops", "backlog_bytes", "backlog_packets"]
    table = pd.read_csv(tmp_path / "queue.csv.gz")
    assert table[table["link"] == "there"].values.tolist() == [
        [0, "there", 100, 1, 2, 0, 0], [5, "there", 200, 2, 6, 1514, 1], [10, "there", 300, 3, 6, 0, 0]]
    edges = pd.read_csv(tmp_path / "edge_queue.csv.gz")
    assert list(edges) == columns
    assert edges.values.tolist() == [[0, "edge", 10, 1, 0, 0, 0], [10, "edge", 30, 3, 1, 3028, 2]]


# -- inet_diag ------------------------------------------------------------------------------

def collect(folder, *records, name="tcp_info"):
    (folder / "tcp_info.bin").write_bytes(b"".join(records))
    settings = {{"socket_buffers": "buffers", "bbr_info": "bbr"}[name]: True} if name != "tcp_info" else {}
    tcp_info.collect(folder, folder, context(tcp_info, NETWORK, **settings))
    assert (folder / "socket_buffers.csv.gz").exists() == (name == "socket_buffers")
    assert (folder / "bbr_info.csv.gz").exists() == (name == "bbr_info")
    return pd.read_csv(folder / f"{name}.csv.gz", keep_default_na=False)


def test_the_offsets_are_those_of_struct_tcp_info():
    """Spelled out once more, from include/uapi/linux/tcp.h, member by member."""
    members = (
        "B state ca_state retransmits probes backoff options wscale limited, "
        "I rto_us ato snd_mss_ mss unacked sacked lost retrans fackets last_data_sent last_ack_sent last_data_recv "
        "last_ack_recv pmtu rcv_ssthresh srtt_us rttvar_us ssthresh cwnd advmss reordering rcv_rtt "
        "rcv_space total_retrans, "
        "Q pacing_rate max_pacing_rate bytes_acked bytes_received, I segs_out segs_in notsent "
        "min_rtt_us data_in data_out, "
        "Q delivery_rate busy_us rwnd_limited_us sndbuf_limited_us, I delivered delivered_ce, Q "
        "bytes_sent bytes_retrans, I dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash, H timeouts"
    )
    offset, found = 0, {}
    for group in members.split(", "):
        code, *names = group.split()
        for name in names:
            found[name] = (offset, code)
            offset += struct.calcsize(code)
    found["mss"] = found["snd_mss_"]
    assert tcp_info._FIELDS == {name: found[name] for name in tcp_info._FIELDS}


def test_one_socket(tmp_path):
    info = tcp_info_struct(
        cwnd=10,
        ssthresh=0x7FFFFFFF,
        srtt_us=30_000,
        min_rtt_us=29_000,
        total_retrans=3,
        delivery_rate=125_000,
        pacing_rate=250_000,
        bytes_acked=2**40,
        busy_us=5_000_000,
        mss=1448,
        ca_state=4,
    )
    table = collect(
        tmp_path,
        record(
            1_000_000,
            1,
            socket_message(
                "10.0.1.2", 5000, "10.0.2.1", 40001, attribute(4, b"cubic\0"), attribute(2, info), state=8
            ),
        ),
    )
    assert list(table) == raw_tables.TABLES["tcp_info"].names()
    (row,) = table.to_dict("records")
    expected = {
        "t_us": 1_000_000,
        "node": "n2",
        "src": "10.0.1.2",
        "sport": 5000,
        "dst": "10.0.2.1",
        "dport": 40001,
        "state": "CLOSE-WAIT",
        "cca": "cubic",
        "ca_state": 4,
        "cwnd": 10,
        "ssthresh": 0x7FFFFFFF,
        "srtt_us": 30_000,
        "min_rtt_us": 29_000,
        "total_retrans": 3,
        "delivery_rate_bps": 1_000_000,
        "pacing_rate_bps": 2_000_000,
        "bytes_acked": 2**40,
        "busy_us": 5_000_000,
        "mss": 1448,
    }
    assert row == {**dict.fromkeys(raw_tables.TABLES["tcp_info"].columns, 0), **expected}


@pytest.mark.parametrize("cut, timeouts", [(248, 2), (240, "")], ids=["6.12", "6.1"])
def test_buffers_of_a_socket(tmp_path, cut, timeouts):
    """20 segments sent, 5 of them acknowledged selectively, 3 lost of which 2 were sent again: 20 - 8 + 2 in flight."""
    info = tcp_info_struct(unacked=20, sacked=5, lost=3, retrans=2, bytes_acked=10_000, bytes_received=700, timeouts=2)
    message = socket_message("10.0.1.2", 5000, "10.0.2.1", 40001, attribute(2, info[:cut]), queues=(200, 30_000))
    table = collect(tmp_path, record(7, 0, message), name="socket_buffers")
    assert list(table) == raw_tables.TABLES["socket_buffers"].names()
    assert table.values.tolist() == [[7, "n1", "10.0.1.2", 5000, "10.0.2.1", 40001, 14, 40_000, 500, timeouts]]


def test_what_a_bbr_says_of_itself(tmp_path):
    """struct tcp_bbr_info: 2^32 + 5 bytes per second, 40 ms, gains of 2.89 and 2; sockets without it are left out."""
    info = attribute(2, tcp_info_struct(cwnd=9))
    says = attribute(16, struct.pack("<5I", 5, 1, 40_000, 739, 512))
    table = collect(tmp_path, record(7, 0, socket_message("10.0.1.2", 5000, "10.0.2.1", 40001, info + says),
                                     socket_message("10.0.1.2", 5001, "10.0.2.1", 40001, info),
                                     socket_message("10.0.1.2", 5002, "10.0.2.1", 40001, info + attribute(16, b"x"))),
                    name="bbr_info")
    assert table.values.tolist() == [
        [7, "n1", "10.0.1.2", 5000, "10.0.2.1", 40001, 8 * (2**32 + 5), 40_000, 739 / 256, 2.0]]


def test_many_messages_are_ordered_by_time_and_socket(tmp_path):
    def socket(port):
        return socket_message(
            "10.0.1.2", port, "10.0.2.1", 80, attribute(2, tcp_info_struct(cwnd=port)), attribute(4, b"bbr\0")
        )

    table = collect(
        tmp_path, record(5, 1, socket(3), socket(1)), record(5, 0, socket(2)), record(5, 0), record(2, 0, socket(9))
    )
    assert table[["t_us", "node", "sport", "cwnd"]].values.tolist() == [
        [2, "n1", 9, 9],
        [5, "n1", 2, 2],
        [5, "n2", 1, 1],
        [5, "n2", 3, 3],
    ]


@pytest.mark.parametrize("limited, flag", [(0b000, 0), (0b001, 1), (0b110, 0), (0b111, 1)])
def test_only_the_lowest_bit_says_that_the_application_was_the_limit(tmp_path, limited, flag):
    info = attribute(2, tcp_info_struct(limited=limited))
    table = collect(tmp_path, record(0, 0, socket_message("10.0.1.2", 1, "10.0.2.1", 80, info)))
    assert table["app_limited"].tolist() == [flag]


def test_odd_messages(tmp_path):
    """No tcp_info: not a connection. A kernel with a shorter structure: zeros. Unlimited pacing: empty."""
    unlimited = tcp_info_struct(pacing_rate=2**64 - 1, bytes_sent=77)
    table = collect(
        tmp_path,
        record(
            0,
            0,
            socket_message("1.2.3.4", 1, "5.6.7.8", 2, attribute(4, b"reno\0")),
            socket_message("1.2.3.4", 2, "5.6.7.8", 2, attribute(99, b"abc"), attribute(2, unlimited[:160])),
            socket_message("1.2.3.4", 3, "5.6.7.8", 2, attribute(2, unlimited), state=11),
        ),
    )
    assert table[["sport", "pacing_rate_bps", "bytes_sent", "delivery_rate_bps", "state", "cca"]].values.tolist() == [
        [2, "", 0, 0, "ESTAB", ""],
        [3, "", 77, 0, "CLOSING", ""],
    ]


def test_no_sockets_at_all(tmp_path):
    table = collect(tmp_path)
    assert len(table) == 0 and list(table) == raw_tables.TABLES["tcp_info"].names()


def test_a_long_run_is_decoded_in_pieces(tmp_path, monkeypatch):
    """Each with whole instants, and the same bytes as in one go."""
    dumps = [record(t, host, *(socket_message("10.0.1.2", port, "10.0.2.1", 80, attribute(
        2, tcp_info_struct(cwnd=port, pacing_rate=t or 2**64 - 1)), attribute(4, b"bbr\0")) for port in ports))
             for t in range(0, 50, 10) for host, ports in ((1, (9, 3, 7)), (0, ()), (0, (5, 4)))]
    collect(tmp_path, *dumps, name="socket_buffers")
    whole = {name: (tmp_path / f"{name}.csv.gz").read_bytes() for name in ("tcp_info", "socket_buffers")}
    monkeypatch.setattr(tcp_info, "_AT_ONCE_BYTES", sum(map(len, dumps[:3])) + 1)
    pieces = list(tcp_info._pieces(tmp_path / "tcp_info.bin"))
    instant = sum(map(len, dumps[:3]))
    assert pieces == [(0, 2 * instant), (2 * instant, 4 * instant), (4 * instant, 5 * instant)]
    collect(tmp_path, *dumps, name="socket_buffers")
    assert whole == {name: (tmp_path / f"{name}.csv.gz").read_bytes() for name in whole}


_SOCKETS = st.lists(
    st.fixed_dictionaries(
        {
            "t_us": st.integers(0, 5),
            "host": st.integers(0, 1),
            "port": st.integers(1, 65535),
            "state": st.sampled_from(sorted(tcp_info._STATES)),
            "cca": st.sampled_from(["bbr", "cubic", "reno", "westwood"]),
            "known": st.sampled_from([160, 216, INFO_BYTES]),
            "order": st.booleans(),
            "values": st.fixed_dictionaries(
                {
                    "cwnd": st.integers(0, 2**32 - 1),
                    "bytes_acked": st.integers(0, 2**62),
                    "ca_state": st.integers(0, 255),
                    "bytes_sent": st.integers(0, 2**62),
                    "delivery_rate": st.integers(0, 2**50),
                    "srtt_us": st.integers(0, 2**32 - 1),
                }
            ),
        }
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=30, database=None, suppress_health_check=list(HealthCheck))
@given(_SOCKETS)
def test_any_sockets_are_read_back(tmp_path, sockets):
    records, expected = [], []
    for number, socket in enumerate(sockets):
        info, cca = attribute(2, tcp_info_struct(**socket["values"])[: socket["known"]]), attribute(
            4, socket["cca"].encode() + b"\0"
        )
        extra = attribute(5, b"x" * (number % 3))
        records.append(
            record(
                socket["t_us"],
                socket["host"],
                socket_message(
                    "10.0.1.2",
                    socket["port"],
                    f"10.255.0.{number}",
                    80,
                    *((info, cca) if socket["order"] else (extra, cca, info)),
                    state=socket["state"],
                ),
            )
        )
        values = {
            name: value
            if sum((tcp_info._FIELDS[name][0], struct.calcsize(tcp_info._FIELDS[name][1]))) <= socket["known"]
            else 0
            for name, value in socket["values"].items()
        }
        expected.append(
            (
                socket["t_us"],
                ("n1", "n2")[socket["host"]],
                socket["port"],
                f"10.255.0.{number}",
                tcp_info._STATES[socket["state"]],
                socket["cca"],
                values["cwnd"],
                values["bytes_acked"],
                values["ca_state"],
                values["bytes_sent"],
                values["delivery_rate"] * 8,
                values["srtt_us"],
            )
        )
    table = collect(tmp_path, *records)
    columns = [
        "t_us",
        "node",
        "sport",
        "dst",
        "state",
        "cca",
        "cwnd",
        "bytes_acked",
        "ca_state",
        "bytes_sent",
        "delivery_rate_bps",
        "srtt_us",
    ]
    assert [tuple(row) for row in table[columns].itertuples(index=False)] == sorted(expected, key=lambda row: row[:4])


@settings(deadline=None, max_examples=100, database=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.binary(max_size=40)), max_size=8), st.binary(max_size=3))
def test_attributes_are_read_back_whatever_their_length(given_attributes, rest):
    data = b"head" + b"".join(attribute(kind, payload) for kind, payload in given_attributes) + rest
    found = [(kind, data[at : at + size]) for kind, at, size in _netlink.attributes(data, 4, len(data))]
    assert found == given_attributes


@settings(deadline=None, max_examples=100, database=None)
@given(st.binary(max_size=60))
def test_attributes_of_rubbish_stay_within_it(data):
    for _, at, size in _netlink.attributes(data, 0, len(data)):
        assert 0 <= at and size >= 0 and at + size <= len(data)


def test_statistics_of_a_root_qdisc(tmp_path):
    """Qdisc finds its counters in the attributes and prefers the 64-bit packet counter."""

    class Socket:
        def __init__(self, reply):
            self.reply = reply

        def send(self, request):
            assert len(request) == 36

        def recv_into(self, buffer):
            buffer[: len(self.reply)] = self.reply
            return len(self.reply)

    def qdisc(reply):
        made = _netlink.Qdisc.__new__(_netlink.Qdisc)
        made.socket, made._request, made._buffer, made._layout = Socket(reply), bytes(36), bytearray(16384), None
        return made

    def reply(*attributes):
        body = bytes(20) + b"".join(attributes)
        return _netlink.HEADER.pack(16 + len(body), 36, 0, 1, 0) + body

    basic, queue_stats = attribute(1, struct.pack("=QI4x", 2**40, 12)), attribute(
        3, struct.pack("=IIIII", 850, 99, 7, 1, 2)
    )
    kind = attribute(1, b"tbf\0")
    assert qdisc(reply(kind, attribute(7, basic + queue_stats))).read() == (2**40, 12, 7, 99, 850)
    assert (
        qdisc(reply(kind, attribute(7, basic + attribute(8, struct.pack("=Q", 2**33)) + queue_stats))).read()[1]
        == 2**33
    )
    with pytest.raises(OSError, match="no statistics"):
        qdisc(reply(kind)).read()
    with pytest.raises(OSError, match="No such device"):
        qdisc(_netlink.HEADER.pack(36, _netlink.NLMSG_ERROR, 0, 1, 0) + struct.pack("=i", -19) + bytes(16)).read()

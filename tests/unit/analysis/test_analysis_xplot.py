# SPDX-License-Identifier: GPL-2.0-only
"""Files of captured packets in both formats, tcptrace on them, and its xplot files drawn."""
import gzip
import html
import io
import re
import socket
import struct

import dpkt
import numpy as np
import pandas as pd
import pytest

from analysis.packets import captures, tcptrace, xplot
from analysis.read import zooms
from analysis.read.runs import AnalysisError
from testbed.core import pcap_files
from testbed.core.pcap_files import Packet

A, B = ("10.0.0.1", 1000), ("10.0.0.2", 2000)
SYN, ACK = 2, 16


def segment(time_ms, src, dst, seq, ack, flags, size):
    tcp = struct.pack("!HHIIBBHHH", src[1], dst[1], seq, ack, 5 << 4, flags, 65535, 0, 0)
    addresses = (socket.inet_aton(end[0]) for end in (src, dst))
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + size, 0, 0, 64, 6, 0, *addresses)
    return Packet(time_ms * 1_000_000 + 7, 54 + size, bytes(12) + b"\x08\0" + ip + tcp, src == A)


def transfer():
    """Forty segments of 1000 bytes, 10 ms apart, round trip 40 ms; the eleventh comes again after 0.16 s."""
    packets = [segment(0, A, B, 100, 0, SYN, 0), segment(40, B, A, 500, 101, SYN | ACK, 0),
               segment(40, A, B, 101, 501, ACK, 0)]
    for number in range(40):
        packets.append(segment(50 + 10 * number, A, B, 101 + 1000 * number, 501, ACK, 1000))
        if number != 10:
            acked = number + 1 if number < 10 or number > 20 else 10
            packets.append(segment(90 + 10 * number, B, A, 501, 101 + 1000 * acked, ACK, 0))
    packets.append(segment(270, A, B, 101 + 10_000, 501, ACK, 1000))
    return sorted(packets, key=lambda packet: packet.time_ns)


@pytest.fixture(params=pcap_files.FORMATS)
def capture(request, tmp_path):
    path = tmp_path / f"capture-n1-eth0.{request.param}.gz"
    with gzip.open(path, "wb") as file:
        pcap_files.write(file, request.param, transfer(), 96, "n1-eth0")
    return path


def test_others_read_what_is_written(capture):
    """dpkt has its own readers of both formats."""
    content = gzip.decompress(capture.read_bytes())
    reader = dpkt.pcapng.Reader if "pcapng" in capture.name else dpkt.pcap.Reader
    found = list(reader(io.BytesIO(content)))
    # of nanoseconds dpkt's reader of pcapng keeps what a float holds
    assert [data for _, data in found] == [packet.data for packet in transfer()]
    assert [float(time_s) for time_s, _ in found] == pytest.approx([one.time_ns / 1e9 for one in transfer()], abs=1e-6)


def test_both_formats_say_the_same(tmp_path):
    paths = []
    for kind in pcap_files.FORMATS:
        paths.append(tmp_path / f"x.{kind}.gz")
        with gzip.open(paths[-1], "wb") as file:
            pcap_files.write(file, kind, transfer(), 96, "n1-eth0")
    assert pcap_files.as_pcap(paths[0]) == pcap_files.as_pcap(paths[1])
    ng = gzip.decompress(paths[1].read_bytes())
    # which way each packet went: option 2 of a block, of four bytes
    ways = [int.from_bytes(ng[at + 4:at + 8], "little") for at in range(len(ng)) if ng[at:at + 4] == b"\2\0\4\0"]
    assert ways == [2 if packet.leaves else 1 for packet in transfer()]
    assert b"n1-eth0" in ng


@pytest.mark.parametrize("spoil, why", [
    (lambda ng: ng[:-3], "ends in the middle of block 5"), (lambda ng: b"\0" + ng[1:], "neither pcap nor pcapng"),
    (lambda ng: ng[:8] + ng[11:7:-1] + ng[12:], "block 1 has .* bytes: damaged"),
    (lambda ng: ng + b"\6\0\0\0", "ends in the middle of block 6"),
    (lambda ng: ng[:-9] + b"\0\0\0\0\0" + ng[-4:], ""), (lambda ng: b"", "neither pcap nor pcapng")])
def test_a_damaged_pcapng_is_named(tmp_path, spoil, why):
    with gzip.open(tmp_path / "x.pcapng.gz", "wb") as file:
        pcap_files.write(file, "pcapng", transfer()[:3], 96, "n1-eth0")
    whole = gzip.decompress((tmp_path / "x.pcapng.gz").read_bytes())
    (tmp_path / "x.pcapng.gz").write_bytes(gzip.compress(spoil(whole)))
    if why:
        with pytest.raises(AnalysisError, match=f"x.pcapng.gz: {why}"):
            list(captures.segments(tmp_path / "x.pcapng.gz"))
    else:
        assert len(list(captures.segments(tmp_path / "x.pcapng.gz"))) == 3


def test_a_packet_longer_than_its_block(tmp_path):
    with gzip.open(tmp_path / "x.pcapng.gz", "wb") as file:
        pcap_files.write(file, "pcapng", transfer()[:1], 96, "n1-eth0")
    content = bytearray(gzip.decompress((tmp_path / "x.pcapng.gz").read_bytes()))
    at = content.index(struct.pack("<II", 54, 54))
    content[at:at + 4] = struct.pack("<I", 9999)
    (tmp_path / "x.pcapng.gz").write_bytes(gzip.compress(bytes(content)))
    with pytest.raises(ValueError, match="longer than its block"):
        pcap_files.as_pcap(tmp_path / "x.pcapng.gz")


def test_tcptraces_graphs(capture, tmp_path):
    one, = tcptrace.connections(capture)
    assert (one.one, one.other) == ("10.0.0.1:1000", "10.0.0.2:2000")
    assert re.search("unique bytes sent: +40000 ", tcptrace.text(capture))
    made = tcptrace.graphs(capture, one.one, one.other, tmp_path / "out", "a-")
    assert {name: path.name for name, path in made.items()} == {
        "time-sequence": "a-time-sequence.xpl", "throughput": "a-throughput.xpl", "rtt": "a-rtt.xpl"}
    sequence = xplot.read(made["time-sequence"])
    assert sequence.title == "10.0.0.1:1000 > 10.0.0.2:2000 (time sequence graph)"
    sent, again = (sequence.of(("line",), shade, 4) for shade in ("white", "red"))
    assert len(sent) == 40 and sent[0].tolist() == pytest.approx([0.05, 101, 0.05, 1101], abs=1e-5)
    assert again.tolist() == [pytest.approx([0.27, 10_101, 0.27, 11_101], abs=1e-5)]
    rtts = xplot.read(made["rtt"]).of(("dot",), "red", 2)
    assert set(rtts[:, 1]) <= {39, 40} and len(rtts) > 20
    speed = xplot.read(made["throughput"]).of(("dot",), "yellow", 2)
    # in the middle of a line tcptrace writes over itself
    assert len(speed) >= 39 and speed[len(speed) // 2, 1] == pytest.approx(100_000, rel=0.01)
    with pytest.raises(AnalysisError, match="tcptrace sees no connection of 10.0.0.1:1 and"):
        tcptrace.graphs(capture, "10.0.0.1:1", one.other, tmp_path)


def test_a_graph_is_drawn(capture, tmp_path):
    made = tcptrace.graphs(capture, "10.0.0.1:1000", "10.0.0.2:2000", tmp_path)
    for name, path in made.items():
        meanings = tcptrace.MEANINGS[name]
        assert xplot.draw(xplot.read(path).only(tcptrace.KINDS[name], meanings), tmp_path, name, meanings)
        svg = (tmp_path / f"{name}.svg").read_text()
        assert "10.0.0.1:1000 > 10.0.0.2:2000" in html.unescape(svg) and next(iter(meanings.values())) in svg
    data = pd.read_csv(tmp_path / "time-sequence.csv")
    assert data["graph line red 1"].dropna().tolist() == [10_101]
    assert data["graph line red 3"].dropna().tolist() == [1000]
    assert not xplot.draw(xplot.Graph(), tmp_path, "nothing", {})


@pytest.mark.parametrize("text, why", [("dot 1", "'dot 1' is no line"), ("dot 1 2 pinkish", "no colour 'pinkish'"),
                                       ("dot 1 x", "is no line"), ("hello", "'hello' is no line"),
                                       ("line 1 2 3 4 red 5", "is no line")])
def test_what_is_no_xplot_file_is_named(tmp_path, text, why):
    (tmp_path / "x.xpl").write_text(f"timeval double\ntitle\nhello\n{text}\ngo\n")
    with pytest.raises(AnalysisError, match=f"x.xpl:4: .*{why}"):
        xplot.read(tmp_path / "x.xpl")
    with pytest.raises(AnalysisError, match="no.xpl: No such file"):
        xplot.read(tmp_path / "no.xpl")


def test_without_tcptrace(capture, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tcptrace.MissingProgram, match="apt-get install tcptrace"):
        tcptrace.text(capture)


def test_of_many_points_the_extremes_stay():
    x = np.arange(100_000.0)
    y = np.sin(x / 5000)
    y[77_777] = 9
    kept = zooms.thinned(x, y, bins=100)
    assert len(kept) <= 400 and {0, 77_777, 99_999} <= set(kept) and y[kept].min() == y.min()
    assert zooms.thinned(x[:400], y[:400], bins=100).tolist() == list(range(400))


def test_the_part_around_the_first_loss():
    assert zooms.around(10e6, 100_000, 60e6) == (8.5e6, 13.5e6)
    assert zooms.around(1e6, 100_000, 2e6) == (0, 2e6)
    assert zooms.around(None, 100_000, 60e6) == (0, 12e6)

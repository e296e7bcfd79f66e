# SPDX-License-Identifier: GPL-2.0-only
"""Bytes on the wire, with the headers that somebody counts, by hand."""
import numpy as np
import pytest

from traffic.tmix.batch import from_vectors
from traffic.tmix.load import pieces
from traffic.tmix.vectors import CONC, SEQ, Adu, Vector
from traffic.tmix.wire import L2, OVERHEADS, SUITE, packet_payload_bytes, packets, wire_bytes


def batch_of(*adus, mss=None, kind=SEQ):
    return from_vectors([Vector(0, kind, (0, 0), tuple(Adu(*adu) for adu in adus), mss=mss)]).with_explicit_fins()


def totals(batch, name):
    return wire_bytes(batch, OVERHEADS[name]).sum(axis=1).tolist()


def test_payload_of_each_side():
    mss = np.array([[-1, -1], [1460, 1460], [496, 496], [496, 1460], [-1, 496], [9000, 1461]])
    assert packet_payload_bytes(mss).tolist() == [[1448, 1448], [1448, 1448], [484, 484], [484, 1448], [1448, 484],
                                                  [1448, 1448]]
    assert packet_payload_bytes(mss[:4:3], SUITE).tolist() == [[1460, 1460], [496, 1460]]


@pytest.mark.parametrize("name, header, syn", [("ip", 52, 60), ("l2", 66, 74), ("wire", 90, 98)])
def test_headers_of_a_request_and_a_response(name, header, syn):
    # 300 bytes: 1 packet, 1 ACK; 14480 bytes: 10 packets of 1448, 5 ACKs; the acceptor closes
    batch = batch_of((0, 0, 300), (1, 0, 14480))
    assert totals(batch, name) == [syn + header + (300 + header) + 5 * header + header,
                                   syn + header + (14480 + 10 * header) + 2 * header]


def test_the_suite_counts_packets_of_1500_bytes_and_an_acknowledgement_for_each():
    # 14600 bytes are ten packets of 1460: ten times 1500 bytes, ten ACKs of 40; no opening, no closing
    assert totals(batch_of((0, 0, 300), (1, 0, 14600)), "suite") == [300 + 40 + 10 * 40, 40 + 10 * 1500]
    # packets of 536 bytes
    assert totals(batch_of((0, 0, 4960), mss=(496, 496)), "suite") == [10 * 536, 10 * 40]


def test_each_side_has_its_own_packet_size():
    batch = batch_of((0, 0, 4840), (1, 0, 14480), mss=(496, 1460))
    assert packets(batch).tolist() == [10, 10, 0]
    assert packets(batch_of((0, 0, 4840), (1, 0, 14480), mss=(1460, 496))).tolist() == [4, 30, 0]
    # 5 ACKs each way; the acceptor closes
    assert totals(batch, "l2") == [74 + 66 + 4840 + 660 + 5 * 66 + 66, 74 + 14480 + 660 + 5 * 66 + 2 * 66]


def test_who_closes():
    batch = batch_of((0, 0, 100), (1, 0, 100), (0, 5, 0), (1, 9, 0), kind=CONC)
    # the initiator has its FIN first: FIN and last ACK
    assert totals(batch, "ip") == [60 + 52 + 152 + 52 + 2 * 52, 60 + 152 + 52 + 52]


def test_pieces_counted_again_keep_their_times():
    batch = batch_of((0, 0, 300), (1, 0, 14480))
    wire = pieces(batch, 100_000, 1e7)
    assert (wire.wire_bytes == wire_bytes(batch)).all() and wire.recounted(batch, L2) is wire
    again = wire.recounted(batch, SUITE)
    assert (again.wire_bytes == wire_bytes(batch, SUITE)).all() and again.end_us is wire.end_us

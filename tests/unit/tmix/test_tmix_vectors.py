# SPDX-License-Identifier: GPL-2.0-only
"""Programs of hand-written connections, computed by hand."""

import pytest
from hypothesis import given

from tests.unit.tmix.tmix_strategies import vectors
from traffic.tmix.batch import from_vectors
from traffic.tmix.compile import compile_plan
from traffic.tmix.reader import read_vectors
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, SEQ, Adu, Vector, check, epochs, programs


def test_programs_of_a_request_response_connection(data):
    first = next(read_vectors(data / "original.txt"))
    assert programs(first) == (
        [(0, 0, 826), (1213, 90000, 100)],
        [(826, 534, 1213), (926, 250, 3000), (926, 872, 0)])


def test_the_last_sender_closes_after_a_second_when_the_trace_is_silent(data):
    second = list(read_vectors(data / "original.txt"))[1]
    assert programs(second) == (
        [(49, 5000, 20)],
        [(0, 0, 49), (20, 300, 1024), (20, 1000000, 1536), (20, 2000000, 2048),
         (20, 1000000, 0)])


def test_concurrent_sides_wait_for_themselves_only(data):
    third = list(read_vectors(data / "original.txt"))[2]
    assert programs(third) == (
        [(0, 0, 396), (0, 6250, 10), (0, 777, 0)],
        [(0, 0, 190), (0, 505, 46), (0, 888, 0)])


def test_a_concurrent_connection_without_fin_is_closed_by_who_sent_last():
    vector = Vector(0, CONC, (1, 1), (Adu(INITIATOR, 0, 5), Adu(ACCEPTOR, 3, 6),
                                      Adu(INITIATOR, 4, 7)))
    assert programs(vector) == ([(0, 0, 5), (0, 4, 7), (0, 1000000, 0)], [(0, 3, 6)])


def test_a_closer_who_did_not_send_last_waits_for_the_last_byte():
    vector = Vector(0, SEQ, (1, 1), (Adu(INITIATOR, 0, 5), Adu(ACCEPTOR, 3, 6),
                                     Adu(INITIATOR, 9, 0)))
    assert programs(vector) == ([(0, 0, 5), (6, 9, 0)], [(5, 3, 6)])


@pytest.mark.parametrize("sides, count", [
    ("ia", 1), ("i", 1), ("a", 1), ("iaaa", 3), ("aia", 2), ("iaiiai", 4), ("iaiaia", 3)])
def test_epochs_as_unc_counts_them(sides, count):
    assert epochs([Adu("ia".index(side), 0, 1) for side in sides]) == count


@pytest.mark.parametrize("adus", [
    [], [(0, 5, 0)], [(0, 0, 1), (0, 0, 0), (1, 0, 2)], [(2, 0, 1)], [(0, -1, 1)],
    [(0, 0, -1)], [(0, 0, 1), (1, 0, 0), (0, 0, 0)], [(0, 0, 1), (0, 0, 0), (0, 0, 0)],
    [(0, 0, 1 << 37)], [(0, 1 << 45, 1)]])
def test_check_refuses(adus):
    with pytest.raises(ValueError):
        check(Vector(0, SEQ, (0, 0), tuple(Adu(*adu) for adu in adus)))


@given(vectors(any_closer=True))
def test_programs_ask_for_every_byte_and_close(vector):
    sides = programs(vector)
    sent = [sum(adu.size_bytes for adu in vector.adus if adu.side == side) for side in (0, 1)]
    for side, ops in enumerate(sides):
        assert sum(op.size_bytes for op in ops) == sent[side]
        needs = [op.need_bytes for op in ops]
        assert needs == sorted(needs) and all(need <= sent[1 - side] for need in needs)
        assert all(op.size_bytes for op in ops[:-1])
    assert any(ops and ops[-1].size_bytes == 0 for ops in sides)


@given(vectors(any_closer=True), vectors(any_closer=True))
def test_compiled_plan_is_the_programs(one, other):
    batch = from_vectors([one, other])
    columns = compile_plan(batch)
    for place, conn in enumerate(columns["conn_id"]):
        for name, ops in zip(("init", "acc"), programs((one, other)[conn])):
            rows = slice(*columns[f"{name}_first"][place:place + 2])
            assert list(zip(columns[f"{name}_need"][rows], columns[f"{name}_wait_us"][rows],
                            columns[f"{name}_bytes"][rows])) == ops

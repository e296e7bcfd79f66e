# SPDX-License-Identifier: GPL-2.0-only
"""Replays of made-up plans over an imitation of io_uring and TCP, in which nothing depends on chance or on time.

Whether the ring notes instants itself (chains) or the program is woken for each must make no difference.
"""
import random

import pytest

from tests.unit.replay import imitated_core
from tests.unit.replay.imitated_replay import replay
from tests.unit.replay.imitated_ring import ImitatedRing
from traffic.replay.records import ACCEPTOR, FINISHED, INITIATOR, NEVER, UNFINISHED
from traffic.tmix.vectors import CONC, SEQ, Adu, Vector, check, programs

SIZES = (1, 7, 300, 1448, 2048, 2049, 5000, 60_000)
LARGE_SIZES = (262_144, 262_145, 600_000)       # about what one operation can take
FIRST_PORT = 1024


def a_size(rng):
    return rng.choice(SIZES if rng.random() < .9 else LARGE_SIZES)


def a_wait_us(rng):
    return rng.choice((0, 0, 1, 100, 1000, 20_000, 70_000))


def of_a_vector(rng):
    """Programs as they come of connection vectors."""
    side, alternates, adus = rng.choice((0, 0, 0, 1)), rng.random() < .6, []
    for _ in range(rng.choice((1, 2, 2, 3, 4, 6, 9, 16))):
        adus.append(Adu(side, a_wait_us(rng), a_size(rng)))
        if alternates or rng.random() < .5:
            side = 1 - side
    adus += [Adu(fin, a_wait_us(rng), 0) for fin in rng.choice(((), (), (0,), (1,), (0, 1)))]
    vector = Vector(0, rng.choice((SEQ, SEQ, SEQ, CONC)), (0, 0), tuple(adus))
    check(vector)
    return tuple([tuple(op) for op in ops] for ops in programs(vector))


def of_chance(rng):
    """Programs that need any numbers of bytes, also such as no data unit ends at. No vector has them: what a write
    waits for may come before the write that precedes it is over, and then their bytes mix."""
    sizes = [[a_size(rng) for _ in range(rng.randrange(6))] for _ in range(2)]
    return tuple(_ops(rng, own, peer) for own, peer in (sizes, sizes[::-1]))


def _ops(rng, own, peer):
    marks = [sum(peer[:n]) for n in range(len(peer) + 1)]
    near = [*marks, *(mark + 1 for mark in marks[:-1]), *(mark - 1 for mark in marks[1:])]
    needs = sorted(rng.choice(marks if rng.random() < .7 else near) for _ in own)
    ops = [(need, a_wait_us(rng), size) for need, size in zip(needs, own)]
    if rng.random() < .6:
        ops.append((rng.choice([mark for mark in marks if not needs or mark >= needs[-1]]), a_wait_us(rng), 0))
    return ops


def a_scenario(seed, make):
    """Connections, and how they are replayed."""
    rng = random.Random(seed)
    connections, start_us = [], 0
    for _ in range(rng.choice((1, 1, 2, 4, 30))):
        start_us += rng.choice((0, 1, 100, 5000, 30_000))
        connections.append((start_us, *make(rng)))
    how = {"duration_us": rng.choice((50_000, 200_000, 700_000, 30_000_000, 30_000_000, 30_000_000)),
           "delay_ns": rng.choice((0, 5_000_000, 50_000_000)),
           "rate_bps": rng.choice((1_000_000, 10_000_000, 1_000_000_000)),
           "send_buffer_bytes": rng.choice((20_000, 300_000, 1_000_000)),
           "writers_first": rng.random() < .5, "entries": rng.choice((64, 4096))}
    return rng, connections, how


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("make", [of_a_vector, of_chance])
@pytest.mark.parametrize("seed", range(25))
def test_chains_make_no_difference(monkeypatch, tmp_path, library, seed, make, asks):
    _, connections, how = a_scenario(seed, make)
    woken, problems = replay(monkeypatch, tmp_path, library, connections, chains=False, **how)
    assert problems == []
    chained, problems = replay(monkeypatch, tmp_path, library, connections, asks=asks, **how)
    assert problems == []
    handed_over = [end.pop("chains") for end in (*woken.values(), *chained.values())]
    assert chained == woken
    assert handed_over[:2] == [0, 0]
    assert make is of_chance or [end["wrong_pieces"] for end in chained.values()] == [0, 0]


@pytest.mark.parametrize("make", [of_a_vector, of_chance])
@pytest.mark.parametrize("seed", range(100, 130))
def test_connections_that_break_harm_no_other(monkeypatch, tmp_path, library, seed, make):
    """What is broken may be noted differently, the others may not."""
    rng, connections, how = a_scenario(seed, make)
    ports = range(FIRST_PORT, FIRST_PORT + len(connections))
    harm = {"taken_ports": {port for port in ports if rng.random() < .1},
            "refused_ports": {port for port in ports if rng.random() < .1},
            "resets": [(rng.randrange(600_000), rng.choice(ports), rng.choice((INITIATOR, ACCEPTOR)))
                       for _ in range(rng.choice((1, 2, 5)))]}
    ends = []
    for chains in (False, True):
        noted, problems = replay(monkeypatch, tmp_path, library, connections, chains=chains, **how, **harm)
        assert problems == []
        ends.append(noted)
    broken = harm["taken_ports"] | harm["refused_ports"] | {port for _, port, _ in harm["resets"]}
    whole = [port - FIRST_PORT for port in ports if port not in broken]
    for role in (INITIATOR, ACCEPTOR):
        for column in ("start_us", "connected_us", "end_us", "status", "read_bytes"):
            woken, chained = ([noted[role][column][i] for i in whole] for noted in ends)
            assert chained == woken, (role, column)
    if make is of_a_vector:
        assert ends[1][INITIATOR]["wrong_pieces"] == ends[1][ACCEPTOR]["wrong_pieces"] == 0


@pytest.mark.parametrize("chains", [True, False])
def test_told_to_stop(monkeypatch, tmp_path, library, chains):
    """The instants before count, those after do not."""
    connections = [(1000 * i, [(0, 0, 300)], [(300, 100_000, 5000), (300, 100_000, 0)]) for i in range(8)]
    ends, problems = replay(monkeypatch, tmp_path, library, connections, 30_000_000, chains=chains, stop_us=150_000)
    assert problems == []
    # the round trip of connecting, the request's way, 100 ms: answered at 115 ms and a little, not ended by 150 ms
    assert ends[ACCEPTOR]["status"] == [UNFINISHED] * 8 == ends[INITIATOR]["status"]
    assert all(115_000 <= at < 130_000 for at in ends[ACCEPTOR]["sent_us"][::2])
    assert ends[ACCEPTOR]["sent_us"][1::2] == [NEVER] * 8
    assert ends[INITIATOR]["read_bytes"] == [5000] * 8
    assert ends[INITIATOR]["ccas"] == ends[ACCEPTOR]["ccas"] == {"cubic": 8}


@pytest.mark.parametrize("writers_first", [True, False])
def test_a_write_that_breaks_while_the_end_is_awaited(monkeypatch, tmp_path, library, writers_first):
    """The ring closes the socket, as the RST is an end; the write, of whose end nobody asked to be told, says that it
    failed. Closed once more, the descriptor could be another connection's by then."""
    connections = [(1000 * i, [(0, 0, 300), (200_000, 0, 0)], [(0, 0, 200_000)]) for i in range(3)]
    ends, problems = replay(monkeypatch, tmp_path, library, connections, 5_000_000, send_buffer_bytes=20_000,
                            writers_first=writers_first, resets=[(100_000, FIRST_PORT, ACCEPTOR)])
    assert problems == []
    assert [ends[ACCEPTOR]["status"][0] < 0, *ends[ACCEPTOR]["status"][1:]] == [True, FINISHED, FINISHED]


REQUEST = [(0, [(0, 0, 300), (5000, 0, 0)], [(300, 0, 5000)])]


def test_a_request_is_all_chains(monkeypatch, tmp_path, library):
    ends, problems = replay(monkeypatch, tmp_path, library, REQUEST, 1_000_000)
    assert problems == [] and [(end["chains"], end["status"]) for end in ends.values()] == [(1, [FINISHED])] * 2


@pytest.mark.parametrize("file, honest, spoilt, problem", [
    ("chained.c", "push(&flow->loop->blocks, flow->block);",
     "push(&flow->loop->blocks, flow->block);\n\tpush(&flow->loop->blocks, flow->block);", "block was given back tw"),
    # a socket that is closed before what it has to write
    ("ring.h", "ring_put(ring, OP_SEND,", "ring_put(ring, OP_CLOSE, flags, fd, 0, 0, 0, 0, number);\n"
     "\tring_put(ring, OP_SEND,", "is closed"),
    # a chain for which nobody makes room
    ("ring.h", "if (ring->waiting + operations > ring->shared->entries)", "if (0 * operations)", "no room"),
    # a buffer that is given back while it is read into
    ("flow.c", "return buffer;", "push(&flow->loop->buffers, (intptr_t)buffer);\n\treturn buffer;", "under way"),
])
def test_the_imitation_is_not_blind(monkeypatch, tmp_path, file, honest, spoilt, problem):
    library = imitated_core.build(tmp_path / "spoilt", {file: (honest, spoilt)})
    connections = [(0, *programs_) for _, *programs_ in REQUEST * 40]
    assert any(problem in found for found in replay(
        monkeypatch, tmp_path, library, connections, 1_000_000, entries=64)[1])


def test_instants_that_are_not_noted_are_missed(monkeypatch, tmp_path, library):
    woken, _ = replay(monkeypatch, tmp_path, library, REQUEST, 1_000_000, chains=False)
    monkeypatch.setattr(ImitatedRing, "_do_note", lambda ring, operation, address: ring._complete(operation, 8))
    chained, _ = replay(monkeypatch, tmp_path, library, REQUEST, 1_000_000)
    assert chained[ACCEPTOR]["delivered_us"] != woken[ACCEPTOR]["delivered_us"]

# SPDX-License-Identifier: GPL-2.0-only
"""Which stretches of a connection's program are handed over in one chain."""
import collections
import ctypes

import pytest

from traffic.io.sockets import SEND_BUFFER_BYTES as MOST
from traffic.replay.core_loop import _End

# as in traffic/replay/core/core.h
END, CONNECTED, MOST_STEPS, NOWHERE = 0, -1, 4, 1 << 61
Place = collections.namedtuple("Place", "op last_op read mark sent peer_op peer_last expected closes eof_is_last")


@pytest.fixture
def chain(library):
    """chain(own, peer, begins, sent) -> (steps of a chain from the beginning of a connection, each as (what, answers,
    closes); the place after them).

    own, peer: ops (need, bytes) of both sides; begins: with the connect.
    """
    chain_of = ctypes.PyDLL(library).chain_of

    def of(own, peer, begins=True, sent=0):
        columns = [(ctypes.c_int64 * max(1, len(ops)))(*(op[column] for op in ops))
                   for ops in (own, peer) for column in (0, 1)]
        end = _End(**{name: ctypes.addressof(column) for name, column in zip(
            ("own_need", "own_bytes", "peer_need", "peer_bytes"), columns)})
        expected, writes = (sum(size for _, size in ops) for ops in (peer, own))
        eof_is_last = bool(peer) and not peer[-1][1] and peer[-1][0] >= writes
        place = (ctypes.c_int64 * 10)(0, len(own), 0, peer[0][1] if expected else NOWHERE, sent, 0, len(peer), expected,
                                      bool(own) and not own[-1][1], eof_is_last)
        steps = (ctypes.c_int64 * (3 * (MOST_STEPS + 1)))()
        count = chain_of(ctypes.byref(end), place, int(begins), steps)
        return [(*steps[3 * i:3 * i + 2], bool(steps[3 * i + 2])) for i in range(count)], Place(*place)
    return of


REQUEST, ANSWER = (0, 300), (300, 5000)


@pytest.mark.parametrize("own, peer, begins, expected", [
    # the initiator asks, the acceptor answers and closes: at neither end anybody is woken but for the accept
    ([REQUEST], [ANSWER, (300, 0)], True, [(CONNECTED, 1, False), (5000, 0, False), (END, 0, True)]),
    ([ANSWER, (300, 0)], [REQUEST], False, [(300, 2, True)]),
    # the initiator closes when it has the answer
    ([REQUEST, (5000, 0)], [ANSWER], True, [(CONNECTED, 1, False), (5000, 1, True)]),
    ([ANSWER], [REQUEST, (5000, 0)], False, [(300, 1, False), (END, 0, True)]),
    # two questions
    ([REQUEST, (5000, 7)], [ANSWER, (307, 9), (307, 0)], True,
     [(CONNECTED, 1, False), (5000, 1, False), (9, 0, False), (END, 0, True)]),
    # two data units in a row, nothing in between
    ([REQUEST], [ANSWER, (300, 10), (300, 0)], True,
     [(CONNECTED, 1, False), (5000, 0, False), (10, 0, False), (END, 0, True)]),
    # the acceptor begins
    ([(5000, 300)], [(0, 5000), (300, 0)], True, [(CONNECTED, 0, False), (5000, 1, False), (END, 0, True)]),
    # nothing but a connection, closed by this end or the other
    ([(0, 0)], [], True, [(CONNECTED, 1, True)]),
    ([], [(0, 0)], True, [(CONNECTED, 0, False), (END, 0, True)]),
])
def test_what_is_settled_is_handed_over(chain, own, peer, begins, expected):
    assert chain(own, peer, begins)[0] == expected


@pytest.mark.parametrize("own, peer, begins", [
    # both sides begin: what comes may come before what is sent is out
    ([REQUEST, (0, 10)], [(0, 5000), (300, 0)], True),
    ([REQUEST], [(0, 5000), (300, 0)], True),
    # two writes in a row
    ([REQUEST, (0, 10)], [(310, 5000), (310, 0)], True),
    # more than one operation
    ([(0, MOST + 1)], [(MOST + 1, 10), (MOST + 1, 0)], True),
    ([(MOST + 1, 10)], [(0, MOST + 1), (10, 0)], False),
    # a half-closed connection: what follows FIN is read afterwards
    ([(0, 0)], [(0, 10)], True),
    # the peer may close before it has read all
    ([(300, 5000)], [REQUEST, (0, 0)], False),
])
def test_what_is_not_settled_is_not(chain, own, peer, begins):
    assert chain(own, peer, begins)[0] == []


def test_what_waits_in_the_ring_from_before_goes_first(chain):
    """300 bytes were handed over already, and the peer's data do not need them."""
    own, peer = [(10, 20), (10, 0)], [(0, 10)]
    assert chain(own, peer, False)[0] == [(10, 2, True)]
    assert chain(own, peer, False, sent=300)[0] == []


def test_a_chain_has_so_many_steps_and_goes_on_with_a_read(chain):
    own = [(10 * i, 10) for i in range(10)]
    peer = [(10 * (i + 1), 10) for i in range(10)]
    steps, place = chain([*own, (100, 0)], peer)
    assert len(steps) == MOST_STEPS and steps[-1] == (10, 1, False)
    assert (place.read, place.mark, place.op, place.sent, place.peer_op) == (30, 40, 4, 40, 3)


def test_an_end_that_finds_no_room_in_a_chain_is_waited_for(chain):
    peer = [(0, 10)] * (MOST_STEPS - 1) + [(0, 0)]
    steps, place = chain([], peer)
    assert len(steps) == MOST_STEPS and not steps[-1][2] and place.mark == NOWHERE

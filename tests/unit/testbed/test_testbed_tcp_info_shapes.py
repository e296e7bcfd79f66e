# SPDX-License-Identifier: GPL-2.0-only
"""Which attributes a message of a dump has, without walking through all of them."""
from hypothesis import given, settings, strategies as st

from testbed.probes import _netlink, tcp_info
from tests.unit.testbed.tcp_info_dumps import attribute


@settings(deadline=None, max_examples=100, database=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 70)), max_size=5), max_size=12),
       st.binary(max_size=9), st.randoms(use_true_random=False))
def test_shapes_of_messages_are_those_of_a_walk(messages, rest, rng):
    """Also where different attributes make the same size, and rubbish ends them."""
    shapes, body = tcp_info._Shapes(), tcp_info.HEADER.size + tcp_info._MESSAGE_BYTES
    for given_attributes in [*messages, *messages]:
        message = rng.randbytes(body) + b"".join(
            attribute(kind, rng.randbytes(length)) for kind, length in given_attributes) + rest
        raw = b"12345678" + message
        walked = tuple((kind, at - 8, length) for kind, at, length in _netlink.attributes(raw, 8 + body, len(raw)))
        assert shapes.of(raw, 8, len(message)) == walked


def test_a_damaged_file_has_no_end_of_shapes():
    shapes, body = tcp_info._Shapes(), bytes(tcp_info.HEADER.size + tcp_info._MESSAGE_BYTES)
    for kind in range(200):
        message = body + attribute(kind, b"1234")
        assert shapes.of(message, 0, len(message)) == ((kind, len(body) + 4, 4),)
    assert [len(known) for known in shapes._known.values()] == [tcp_info._MOST_SHAPES]

# SPDX-License-Identifier: GPL-2.0-only
"""For how long a socket has been as it is at the end."""
import pandas as pd
import pytest

from testbed.checks import stalled

SOCKET = ["node", "src", "sport", "dst", "dport"]
ENDS = {"a": ("n1", "10.0.0.1", 5000, "10.0.0.2", 80), "b": ("n1", "10.0.0.1", 5001, "10.0.0.2", 80)}


def samples(rows):
    """rows: (t_us, which of ENDS, unacked, bytes_acked)"""
    return pd.DataFrame([(t_us, *ENDS[end], unacked, acked) for t_us, end, unacked, acked in rows],
                        columns=["t_us", *SOCKET, "unacked", "bytes_acked"])


def unchanged(rows):
    table = samples(rows)
    last = table[table["t_us"] == 400].set_index(SOCKET)
    return dict(stalled._unchanged_us(table, last, 400))


@pytest.mark.parametrize("rows, us", [
    ([(100, "a", 1, 7), (200, "a", 1, 7), (300, "a", 1, 7), (400, "a", 1, 7)], 300),
    ([(100, "a", 1, 6), (200, "a", 1, 7), (300, "a", 1, 7), (400, "a", 1, 7)], 200),       # something was acknowledged
    ([(100, "a", 1, 7), (200, "a", 0, 7), (300, "a", 1, 7), (400, "a", 1, 7)], 100),       # it did not wait
    ([(100, "a", 1, 7), (200, "b", 1, 7), (300, "a", 1, 7), (400, "a", 1, 7)], 100),       # it was not there
    ([(100, "a", 3, 7), (200, "a", 1, 7), (300, "a", 2, 7), (400, "a", 1, 7)], 300),       # it waited for more or less
    ([(300, "b", 1, 7), (400, "a", 1, 7)], 0),
])
def test_since_when_a_socket_is_as_it_is(rows, us):
    assert unchanged(rows)[ENDS["a"]] == us
    assert unchanged(rows[::-1]) == unchanged(rows)


def test_sockets_are_told_apart():
    rows = [(t_us, end, 1, 7 if end == "a" or t_us > 200 else 6) for end in "ba" for t_us in (100, 200, 300, 400)]
    assert unchanged(rows) == {ENDS["a"]: 300, ENDS["b"]: 100}
    assert list(unchanged(rows)) == sorted(ENDS.values())
    assert unchanged([(300, "a", 1, 7), (400, "b", 1, 7)]) == {ENDS["b"]: 0}


def test_no_sockets():
    assert unchanged([(100, "a", 1, 7), (300, "b", 1, 7)]) == {}

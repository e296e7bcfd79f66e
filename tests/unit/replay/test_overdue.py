# SPDX-License-Identifier: GPL-2.0-only
"""Units that a program should have sent: when they were due, by hand."""
import numpy as np
import pytest

from traffic.replay.overdue import LIMIT_US, overdue
from traffic.replay.records import NEVER

#: two connections: a request of 100 bytes and, 30 ms after an answer of 500, another one; a single unit after 20 ms
FIRST, PEER_FIRST = np.array([0, 2, 3]), np.array([0, 2, 2])
OPS = {"need": np.array([0, 500, 0]), "wait_us": np.array([0, 30_000, 20_000]), "bytes": np.array([100, 60, 7])}
PEER_BYTES = np.array([300, 200])


def late(sent_us, arrived_us, read_us, began_us=(1000, 2000), alive=(True, True), end_us=LIMIT_US + 100_000):
    return overdue(FIRST, OPS, np.array(sent_us), np.array(arrived_us), PEER_FIRST, PEER_BYTES, np.array(read_us),
                   np.array(began_us), np.array(alive), end_us)


def test_the_answer_came_and_the_think_time_is_over():
    sent, arrived = [1000, NEVER, 22_000], [5000, NEVER, 30_000]
    # read at 69,999 us, due 30 ms later: 1 us more than five seconds before the end
    assert late(sent, arrived, [60_000, 69_999]) == [0]
    assert late(sent, arrived, [60_000, 70_000]) == []
    # not all of the answer is there, or nobody knows
    assert late(sent, arrived, [60_000, NEVER]) == []
    # the think time begins when what was sent before has arrived, at the latest
    assert late(sent, [70_000, NEVER, 30_000], [60_000, 60_000]) == []
    assert late(sent, [NEVER, NEVER, 30_000], [60_000, 60_000]) == []


def test_a_first_unit_is_due_when_its_connection_stands():
    sent, arrived, read = [1000, 90_000, NEVER], [5000, 95_000, NEVER], [10_000, 20_000]
    assert late(sent, arrived, read) == [1]
    assert late(sent, arrived, read, began_us=(1000, 80_000)) == []
    assert late(sent, arrived, read, began_us=(1000, NEVER)) == []
    assert late(sent, arrived, read, alive=(True, False)) == []


@pytest.mark.parametrize("end_us", [0, LIMIT_US])
def test_nothing_is_overdue_early(end_us):
    assert late([NEVER] * 3, [NEVER] * 3, [NEVER] * 2, end_us=end_us) == []

# SPDX-License-Identifier: GPL-2.0-only
"""What connections carry: every place and every stream can be told from the others."""
import ctypes

import pytest
from hypothesis import given, strategies as st

from traffic.io import payload


@pytest.fixture(scope="module")
def pattern():
    return payload.Pattern(1 << 18)


def address_of(data):
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def test_no_eight_bytes_come_twice_within_a_period():
    twice = payload.sequence() * 2
    assert len({twice[at:at + 8] for at in range(payload.PERIOD)}) == payload.PERIOD


def test_the_period_is_a_prime():
    assert all(payload.PERIOD % n for n in range(2, 256))


def test_memory_repeats_the_sequence(pattern):
    whole = payload.sequence() * 6
    assert bytes(pattern.view) == whole[:payload.PERIOD + (1 << 18)]


def test_streams_have_phases_of_their_own():
    phases = {payload.phase(1, connection, backwards) for connection in range(30_000) for backwards in (False, True)}
    assert len(phases) == 60_000
    assert payload.phase(1) != payload.phase(2)


def test_what_came_as_it_was_sent(pattern):
    place = 65_000
    came = bytearray(pattern.view[place:place + 100_000])
    assert not pattern.wrong(address_of(came), len(came), place)


@given(st.integers(0, payload.PERIOD - 1), st.integers(16, 5000), st.data())
def test_what_was_lost_doubled_swapped_or_changed_shows(pattern, place, size, data):
    sent = bytes(pattern.view[place:place + size])
    at = data.draw(st.integers(0, size - 9))
    changed = bytes([sent[at] ^ data.draw(st.integers(1, 255))])
    for came in (sent[:at] + changed + sent[at + 1:],                                       # one byte is another
                 sent[:at] + bytes(pattern.view[place + at + 1:place + size + 1]),          # one byte was lost
                 sent[:at + 8] + sent[at:size - 8]):                                        # eight came twice
        assert len(came) == size
        assert pattern.wrong(address_of(bytearray(came)), size, place)


def test_a_tally_names_the_first_wrong_piece():
    tally = payload.Tally()
    assert tally.account() == {"checked_bytes": 0, "unchecked_bytes": 0, "wrong_pieces": 0, "first_wrong": None}
    tally.note_wrong(7, 1448)
    tally.note_wrong(8, 0)
    assert (tally.wrong_pieces, tally.first_wrong) == (2, [7, 1448])


def test_phases_of_neighbours_are_a_step_apart():
    for connection, backwards in ((0, False), (7, True), (40_000, False)):
        found = payload.phase(3, connection, backwards)
        assert found == (payload.phase(3) + connection * payload.STEP + backwards * payload.BACKWARDS) % payload.PERIOD

# SPDX-License-Identifier: GPL-2.0-only
"""How a ring waits for what its receivers read."""
import ctypes
import os
import socket
import time

import pytest

from traffic.greedy import ring


def test_how_long_a_read_that_is_over_may_wait_for_others():
    """For 1/32 of what the quickest of late ones took, 1 to 50 ms; the unhurried first ones of all tell nothing."""
    pace = ring.Pace(8)
    for _ in range(2):
        pace.took(640_000_000)
        assert pace.patience_ns() == 0                      # fewer than a quarter of the receivers
    pace.took(640_000_000)
    assert pace.patience_ns() == 20_000_000
    pace.took(320_000_000)
    assert pace.patience_ns() == 10_000_000
    for _ in range(4):
        assert pace.patience_ns() == 10_000_000             # it is remembered until as many others took longer
        pace.took(5_000_000_000)
    pace.took(5_000_000_000)
    assert pace.patience_ns() == 50_000_000
    pace.took(31_999_999)
    assert pace.patience_ns() == 0


def test_a_ring_can_wait_for_more(request):
    """Until a time has passed, and then for the first that completes."""
    try:
        made = ring.make_ring(9)
    except OSError as problem:
        pytest.skip(f"this kernel has no io_uring, or not all that is needed of it: {problem}")
    if not made._can_wait_for_more:
        pytest.skip("this kernel's io_uring ends its wait at the first completion")

    pairs = {ms: socket.socketpair() for ms in (1, 50, 900)}
    request.addfinalizer(lambda: [end.close() for pair in pairs.values() for end in pair])
    buffer = ctypes.create_string_buffer(1)

    def together(*after_ms, longest_us):
        """Numbers of reads that are found to be over, look by look, when bytes come at these times."""
        for ms in after_ms:
            made.receive(pairs[ms][0].fileno(), ctypes.addressof(buffer), 1, 0, ms)
        if not os.fork():       # a ring's wait lets no other thread of its process run
            since_ms = 0
            for ms in after_ms:
                time.sleep((ms - since_ms) / 1000)
                os.write(pairs[ms][1].fileno(), b"x")
                since_ms = ms
            os._exit(0)
        made.wait_for_more(longest_us)
        found = []
        while not found or after_ms[-1] not in found[-1]:
            found.append([number for number, _ in made.submit_and_wait()])
        os.wait()
        return found
    assert together(1, 50, 900, longest_us=500_000) == [[1, 50], [900]]
    assert together(50, longest_us=1000) == [[50]]
    assert together(1, 900, longest_us=0) == [[1], [900]]
    # but an instant that was asked for ends every wait
    made.after(1_000_000, 0, 7)
    assert together(900, longest_us=500_000) == [[7], [900]]

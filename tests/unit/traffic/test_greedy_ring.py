# SPDX-License-Identifier: GPL-2.0-only
"""How a ring waits for what its receivers read, and how it ends."""
import ctypes
import os
import signal
import socket
import time

import pytest

from traffic import payload, uring
from traffic.greedy import ends, ring, ring_ends


@pytest.fixture(scope="module", autouse=True)
def there_is_one():
    try:
        ring.make_ring(9).close()
    except OSError as problem:
        pytest.skip(f"this kernel has no io_uring, or not all that is needed of it: {problem}")


@pytest.fixture(autouse=True)
def nothing_hangs():
    def late(*_):
        raise TimeoutError("not over after 20 s")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def receiving():
    """receiving(*flows) -> RingFlows that receive flows with these orders besides."""
    def make(*flows):
        orders = [{"flow": number, "address": "127.0.0.1", "port": 0, "cca": None, "start_us": 0, "stop_us": 10, **flow}
                  for number, flow in enumerate(flows, 1)]
        all_ends = [ends.End(order, "receive") for order in orders]
        return ring.RingFlows(ring.make_ring(len(flows)), all_ends, [None] * len(flows),
                              ends.Counts([{"send": [], "receive": orders}]), payload.Pattern())
    return make


@pytest.fixture
def sending():
    """sending(port) -> RingFlows that send a flow there."""
    def make(port):
        order = {"flow": 3, "address": "127.0.0.1", "port": port, "cca": None, "start_us": 0, "stop_us": 10}
        return ring.RingFlows(ring.make_ring(1), [ends.End(order, "send")], [],
                              ends.Counts([{"send": [order], "receive": []}]), payload.Pattern())
    return make


@pytest.mark.parametrize("listens, words", [(False, "flow 3: Connection refused"),
                                            (True, "flow 3: (?!Operation canceled|Connection)")])
def test_what_fails_before_the_first_write_is_said_instead_of_it(sending, listens, words):
    """The kernel of the host may not have what is asked between connection and write."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flows = sending(listener.getsockname()[1] if listens else port_of_nobody())
        if listens and flows.answers.asks:
            pytest.skip("this kernel can do all of it")
        flows.answers.asks = True
        sender, = flows._ends
        sender.start()
        with pytest.raises(OSError, match=words):
            while True:
                flows._take_completions()
    assert flows.under_way == 0


def port_of_nobody():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_how_long_a_read_that_is_over_may_wait_for_others():
    """For 1/32 of what the quickest of late ones took, 1 to 50 ms."""
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


@pytest.mark.parametrize("flow, waits", [({}, True), ({"bytes": 5}, False), ({"stop_us": 9}, False)])
def test_no_read_waits_where_the_instant_of_the_last_byte_is_noted(receiving, flow, waits):
    assert receiving({}, flow).may_wait(10) is waits


def test_when_reads_begin_to_wait(receiving):
    flows = receiving({})
    flows.pace.took(640_000_000)
    now_ns = time.monotonic_ns()
    soon_ns, late_ns = now_ns + 15_000_000, now_ns + 3_600_000_000_000
    flows.now_ns, flows.connected_ns = now_ns, now_ns - 1_000_000_001
    assert flows._patience_ns(late_ns) == 20_000_000
    assert flows._patience_ns(soon_ns) == 0                 # the end must not come late
    flows.connected_ns += 1
    assert flows._patience_ns(late_ns) == 0


@pytest.mark.parametrize("there", [b"", b"some"])
def test_a_read_that_has_only_just_begun_is_over_at_the_end(receiving, there):
    """It is not found by what ends all reads in the same go, as it waits for its low-water mark to be set."""
    flows = receiving({})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer, mine = socket.create_connection(listener.getsockname()), listener.accept()[0]
    with peer:
        peer.sendall(there)
        receiver, = flows._ends
        shared = receiver.shared
        shared.fd, shared.n_reads, shared.window, shared.looks_after = mine.detach(), 1, 640_000, 5
        receiver._read()
        assert shared.low_water == receiver._low_water.value == 20_000
        flows._end()
    assert flows.under_way == 0 and receiver.end.tally.checked_bytes == len(there)
    os.close(receiver.shared.fd)


def test_a_low_water_mark_that_is_refused_is_said(receiving):
    flows = receiving({})
    receiver, = flows._ends
    shared = receiver.shared
    shared.fd, shared.n_reads, shared.window, shared.looks_after = os.open("/dev/null", os.O_RDWR), 1, 6400, 5
    flows.answers.asks = True
    receiver._read()
    with pytest.raises(OSError, match="flow 1: (?!Operation canceled)"):
        flows._take_completions()
    os.close(receiver.shared.fd)


def test_what_a_connection_brings_about_overwrites_nothing(receiving):
    """The ring may be full of what other ends have put into it."""
    flows = receiving({})
    flows.answers.asks = True
    entries = flows.ring._entries
    for number in range(entries):
        flows.ring.set_option(-1, 1, 1, ctypes.c_int(), 0, number << 8)
    receiver, = flows._ends
    fd = os.open("/dev/null", os.O_RDWR)
    receiver.completed(ring_ends.ACCEPT, fd)
    flows.ring.submit()
    found = {number for number, _ in flows.ring.submit_and_wait()}
    assert found >= {number << 8 for number in range(entries)}
    os.close(fd)


def test_completions_are_found_once_and_in_order_wherever_they_lie():
    made = uring.Ring(4)            # with places for 32 completions
    number = 0
    for count in (3, 31, 32, 1, 32, 20, 20):
        asked = list(range(number, number + count))
        for number in asked:
            made.make_room(1)
            made.set_option(-1, 1, 1, ctypes.c_int(), 0, number)        # refused at once
        made.submit()
        found = made.submit_and_wait() if count else []
        assert [one for one, _ in found] == asked and {result for _, result in found} == {-9}
        number += 1
    made.close()


def test_a_ring_can_wait_for_more(request):
    """Until a time has passed, and then for the first that completes."""
    made = ring.make_ring(9)
    if not made._can_wait_for_more:
        pytest.skip("this kernel's io_uring ends its wait at the first completion")
    pairs = {ms: socket.socketpair() for ms in (1, 50, 900)}
    request.addfinalizer(lambda: [end.close() for pair in pairs.values() for end in pair])
    buffer = ctypes.create_string_buffer(1)

    def send(after_ms):
        since_ms = 0
        for ms in after_ms:
            time.sleep((ms - since_ms) / 1000)
            os.write(pairs[ms][1].fileno(), b"x")
            since_ms = ms

    def together(*after_ms, longest_us):
        """Numbers of reads that are found to be over, look by look, when bytes come at these times."""
        for ms in after_ms:
            made.receive(pairs[ms][0].fileno(), ctypes.addressof(buffer), 1, 0, ms)
        if not os.fork():       # a ring's wait lets no other thread of its process run
            try:
                send(after_ms)
            finally:
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
    assert together(50, longest_us=500_000) == [[7], [50]]

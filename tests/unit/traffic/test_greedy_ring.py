# SPDX-License-Identifier: GPL-2.0-only
"""How a ring reads, and how it ends."""
import os
import signal
import socket

import pytest

from traffic.greedy import ends, ring, ring_ends
from traffic.io import payload, uring


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


@pytest.mark.parametrize("there", [b"", b"some"])
def test_a_read_that_has_only_just_begun_is_over_at_the_end(receiving, there):
    """It may not be found by what ends all reads in the same go."""
    flows = receiving({})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer, mine = socket.create_connection(listener.getsockname()), listener.accept()[0]
    with peer:
        peer.sendall(there)
        receiver, = flows._ends
        receiver._fd = mine.detach()
        receiver._read()
        flows._end()
    assert flows.under_way == 0 and receiver.end.tally.checked_bytes == len(there)
    os.close(receiver._fd)


def test_a_read_that_fails_is_said(receiving):
    flows = receiving({})
    receiver, = flows._ends
    receiver._fd = os.open("/dev/null", os.O_RDWR)
    receiver._read()
    with pytest.raises(OSError, match="flow 1: (?!Operation canceled)"):
        flows._take_completions()
    os.close(receiver._fd)


def test_what_a_connection_brings_about_overwrites_nothing(receiving):
    """The ring may be full of what other ends have put into it."""
    flows = receiving({})
    flows.answers.asks = True
    entries = flows.ring._entries
    for number in range(entries):
        flows.ring.close_socket(-1, 0, number << 8)
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
            made.close_socket(-1, 0, number)        # refused at once
        made.submit()
        found = made.submit_and_wait() if count else []
        assert [one for one, _ in found] == asked and {result for _, result in found} == {-9}
        number += 1
    made.close()

# SPDX-License-Identifier: GPL-2.0-only
"""Which socket options a connection's vector asks for, at which end and when."""
from array import array

import pytest

from traffic.io.sockets import IPPROTO_TCP, SO_RCVBUF, SOL_SOCKET, TCP_MAXSEG, TCP_WINDOW_CLAMP
from traffic.replay import connection
from traffic.replay.options import Options
from traffic.replay.plan import Plan


def options(initiates, mss_init=(), mss_acc=(), windows=((), ())):
    plan = Plan({}, [])
    plan.mss_init, plan.mss_acc = array("q", mss_init), array("q", mss_acc)
    plan.window_init, plan.window_acc = (array("q", side) for side in windows)
    return Options(plan, initiates)


def maxseg(value):
    return IPPROTO_TCP, TCP_MAXSEG, value


@pytest.mark.parametrize("init, acc, first, late", [
    (0, 0, [], None), (496, 496, [maxseg(496)], None), (32768, 0, [], None), (1460, 1460, [maxseg(1460)], None),
    # what it announces bounds the peer, what it has when the SYN-ACK comes bounds itself; 0: nothing does
    (496, 0, [], maxseg(496)), (0, 496, [maxseg(496)], maxseg(0)), (32768, 496, [maxseg(496)], maxseg(0)),
    (1000, 500, [maxseg(500)], maxseg(1000)), (88, 1459, [maxseg(1459)], maxseg(88))])
def test_packet_sizes_are_set_by_the_initiator(init, acc, first, late):
    initiator, acceptor = (options(initiates, [init], [acc]) for initiates in (True, False))
    assert initiator.at_first(0) == first and initiator.after_syn(0) == late
    assert acceptor.at_first(0) == [] and acceptor.after_syn(0) is None


def test_windows_of_each_side():
    windows = [65535, 0, 1 << 32], [8000, 0, 1]
    for initiates, own in ((True, windows[0]), (False, windows[1])):
        found = options(initiates, [0] * 3, [0] * 3, windows)
        assert found.at_first(0) == [(SOL_SOCKET, SO_RCVBUF, 2 * own[0]), (IPPROTO_TCP, TCP_WINDOW_CLAMP, own[0])]
        assert found.at_first(1) == [] and [bool(found.window_again(n)) for n in range(3)] == [True, False, True]
    # as much as an int and the kernel take
    assert [value for *_, value in options(True, [0] * 3, [0] * 3, windows).at_first(2)] == [1 << 30, 1 << 30]
    assert options(True, [0], [0]).at_first(0) == [] and not options(True, [0], [0]).limit_windows


def test_the_second_packet_size_is_set_between_syn_and_answer(monkeypatch):
    """With epoll: right behind connect(), before anything else can happen."""
    calls = []
    for name, result in (("tcp_socket", 7), ("set_option", 0), ("bind", 0), ("connect", -115)):
        monkeypatch.setattr(connection, name, lambda *words, name=name, result=result: calls.append(
            (name, *words)) or result)

    class End:
        options = options(True, [1000], [500])
        own_first = peer_first = [0, 0]
        own_bytes = peer_bytes = []
        phase = backwards = 0
        shares_ports, cca, local_ip, peer_ip, port = False, None, bytes(4), bytes(4), 5
        socket_options = [("SO_MAX_PACING_RATE", 1, 47, 1_000_000)]
        records = type("Records", (), {"start_us": [0], "status": [0]})

        @staticmethod
        def port_of(index):
            return 9

    class Loop:
        epoll = type("Epoll", (), {"add": staticmethod(lambda *words: calls.append(("add",)))})
    connection.Connection(Loop, End, 0, 3).connect(0)
    assert [(call[0], call[-1]) for call in calls] == [
        ("tcp_socket", 2), ("set_option", 500), ("set_option", 1_000_000), ("bind", 9), ("connect", 5),
        ("set_option", 1000), ("add", "add")]

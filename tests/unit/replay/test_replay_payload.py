# SPDX-License-Identifier: GPL-2.0-only
"""What the ends of a replay find in what they get, and which congestion control their sockets use."""
import pytest

from traffic.io.sockets import SEND_BUFFER_BYTES
from traffic.replay.records import ACCEPTOR, INITIATOR

KEPT_BYTES = 2048        # traffic/replay/core/core.h
#: sizes around those of buffers and of the pattern, in both directions
CONNECTIONS = [(1000 * number, [(0, 0, size), (2 * size, 0, 0)], [(size, 0, 2 * size)])
               for number, size in enumerate((1, 4096, 4097, 32768, 65521, 200_000, 700_000))]
SENT = sum(init[0][2] for _, init, _ in CONNECTIONS)
SYSTEM_CCA = open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip()


def test_what_arrives_is_compared(replay):
    """With epoll all of it, with io_uring the end of every read."""
    replay.run(CONNECTIONS, 500_000)
    acceptor, initiator = replay.accounts[ACCEPTOR], replay.accounts[INITIATOR]
    for account, end, got in ((acceptor, "receiver", SENT), (initiator, "sender", 2 * SENT)):
        found, = account["ends"]
        assert found["read_bytes"] == got and found["end"] == end
        assert found["checked_bytes"] + found["unchecked_bytes"] == got
        if replay.events["events"] == "epoll":
            assert not found["unchecked_bytes"]
        else:
            factor = 1 if end == "receiver" else 2
            ends = [min(factor * init[0][2] % SEND_BUFFER_BYTES or SEND_BUFFER_BYTES, KEPT_BYTES)
                    for _, init, _ in CONNECTIONS]
            parts = sum((factor * init[0][2] - 1) // SEND_BUFFER_BYTES for _, init, _ in CONNECTIONS)
            assert found["checked_bytes"] == sum(ends) + parts * KEPT_BYTES
        assert (found["wrong_pieces"], found["first_wrong"]) == (0, None)
        assert found["ccas"] == {SYSTEM_CCA: len(CONNECTIONS)}


def test_the_bytes_of_another_flow_are_wrong(replay, monkeypatch):
    """The acceptor takes the flow for number 2: everything that it gets and sends is wrong."""
    write_job = replay.job

    def job(role, duration_us, **more):
        return write_job(role, duration_us, **more, flow=2 if role == ACCEPTOR else 1)
    monkeypatch.setattr(replay, "job", job)
    replay.run(CONNECTIONS, 500_000)
    for role in (ACCEPTOR, INITIATOR):
        found, = replay.accounts[role]["ends"]
        # one byte may be right by chance
        assert found["wrong_pieces"] >= len(CONNECTIONS) - 1
        assert found["first_wrong"][1] == 0


@pytest.mark.parametrize("cca", ["reno", "cubic"])
def test_both_ends_say_what_they_use(replay, cca):
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as f:
        if cca not in f.read().split():
            cca = SYSTEM_CCA
    replay.run(CONNECTIONS[:2], 200_000, cca=cca)
    assert [replay.accounts[role]["ends"][0]["ccas"] for role in (ACCEPTOR, INITIATOR)] == [{cca: 2}] * 2


def test_connections_that_never_were_use_nothing(replay):
    replay.run([(0, [(0, 0, 1), (0, 0, 0)], [])], 50_000, roles=(INITIATOR,))
    assert replay.accounts[INITIATOR]["ends"][0]["ccas"] == {}

# SPDX-License-Identifier: GPL-2.0-only
"""Replays over loopback, in real time."""

import json
import random
import signal
import subprocess
import time

import pytest

from tests.unit.replay.plans import COMMAND, make_plan
from traffic.replay.records import FINISHED, INITIATOR, NEVER, NOT_STARTED, UNFINISHED

MB = 1_000_000


def finished(init, acc):
    return (init["status"] == FINISHED).all() and (acc["status"] == FINISHED).all()


def test_request_and_response(replay):
    """SEQ: what the other side sends is awaited, each wait is kept, the FIN comes last."""
    init, acc = replay.run([(10_000, [(0, 0, 300)],
                             [(300, 20_000, 5000), (300, 30_000, 0)])], 200_000)
    assert finished(init, acc)
    assert (acc["read_bytes"][0], init["read_bytes"][0]) == (300, 5000)
    start, connected = init["start_us"][0], init["connected_us"][0]
    late = replay.late_us
    assert 10_000 <= start <= connected + late and connected <= init["sent_us"][0]
    requested = acc["delivered_us"][0]
    assert requested + late >= init["sent_us"][0]
    # The wait is counted from that instant, known here to the microsecond only
    assert acc["sent_us"][0] >= requested + 20_000 - 1
    assert init["delivered_us"][0] + late >= acc["sent_us"][0]
    assert acc["sent_us"][1] >= acc["sent_us"][0] + 30_000 - 1
    assert init["end_us"][0] + late >= acc["sent_us"][1]
    assert init["end_us"][0] < 150_000      # and not at the end of the experiment
    assert replay.collect() == {
        "connections": 1, "status": {"finished": 1}, "adus_asked": 2, "adus_delivered": 2,
        "bytes_asked": 5300, "bytes_delivered": 5300, "mismatches": [], "overdue": []}


def test_epochs(replay):
    """Ten exchanges; every ADU is sent after the one it answers."""
    sizes = [(100 + 37 * i, 3000 * (i + 1)) for i in range(10)]
    ask = answer = 0
    init_ops, acc_ops = [], []
    for request, response in sizes:
        init_ops.append((answer, 1000, request))
        ask += request
        acc_ops.append((ask, 500, response))
        answer += response
    init_ops.append((answer, 1000, 0))
    init, acc = replay.run([(0, init_ops, acc_ops)], 300_000)
    assert finished(init, acc)
    assert (acc["read_bytes"][0], init["read_bytes"][0]) == (ask, answer)
    for i in range(10):
        assert acc["sent_us"][i] >= acc["delivered_us"][i] + 500 - 1
        assert init["sent_us"][i + 1] >= init["delivered_us"][i] + 1000 - 1


def test_concurrent_sides(replay):
    """CONC: each side waits after its own sending only; the acceptor begins by itself."""
    init, acc = replay.run([(0, [(0, 0, 1000), (0, 40_000, 2000), (0, 10_000, 0)],
                             [(0, 5000, 700), (0, 10_000, 800), (0, 90_000, 900)])],
                           300_000)
    assert finished(init, acc)
    assert (acc["read_bytes"][0], init["read_bytes"][0]) == (3000, 2400)
    for side, waits in ((init, (40_000, 10_000)), (acc, (10_000, 90_000))):
        for i, wait_us in enumerate(waits):
            assert side["sent_us"][i + 1] >= side["sent_us"][i] + wait_us - 1
    # The initiator's FIN closes one direction only: the acceptor went on
    assert acc["sent_us"][2] + replay.late_us > init["sent_us"][2]
    assert init["end_us"][0] + replay.late_us >= init["delivered_us"][2]


@pytest.mark.parametrize("fins", ["initiator", "acceptor", "both"])
def test_who_closes(replay, fins):
    init_ops, acc_ops = [(0, 0, 500)], [(500, 0, 40_000)]
    if fins != "acceptor":
        init_ops.append((40_000, 5000, 0))
    if fins != "initiator":
        acc_ops.append((500, 5000, 0))
    init, acc = replay.run([(0, init_ops, acc_ops)], 150_000)
    assert finished(init, acc)
    assert max(init["end_us"][0], acc["end_us"][0]) < 100_000


def test_large_in_both_directions(replay):
    """More than the buffers of both sockets hold, both ways at once."""
    init, acc = replay.run([(0, [(0, 0, 20 * MB), (0, 0, 7), (0, 0, 0)],
                             [(0, 0, 30 * MB + 1), (0, 0, 3)])], 3 * MB)
    assert finished(init, acc)
    assert (acc["read_bytes"][0], init["read_bytes"][0]) == (20 * MB + 7, 30 * MB + 4)
    assert (acc["delivered_us"] >= 0)[:2].all() and (init["delivered_us"] >= 0).all()


def test_many_connections(replay):
    """500 at once, of all kinds; every byte arrives and no wait is cut short."""
    rng = random.Random(7)
    connections = []
    for i in range(500):
        ask = answer = 0
        init_ops, acc_ops = [], []
        for _ in range(rng.randint(1, 4)):
            init_ops.append((answer, rng.randint(0, 20_000), rng.randint(1, 4000)))
            ask += init_ops[-1][2]
            acc_ops.append((ask, rng.randint(0, 20_000), rng.randint(1, 60_000)))
            answer += acc_ops[-1][2]
        acc_ops.append((ask, 100_000, 0))
        connections.append((i * 200, init_ops, acc_ops, rng.choice((0, 536))))
    init, acc = replay.run(connections, 4 * MB)
    assert finished(init, acc)
    account = replay.collect()
    assert account["mismatches"] == [] and account["status"] == {"finished": 500}
    assert account["adus_delivered"] == account["adus_asked"]
    assert (init["start_us"] >= [start for start, *_ in connections]).all()
    assert replay.accounts["acceptor"]["strays"] == 0


def test_ports_are_reused(replay):
    """More connections than ports: the acceptor takes the latest that has begun."""
    connections = [(20_000 * i, [(0, 0, 100 + i), (200 + i, 0, 0)], [(100 + i, 0, 200 + i)])
                   for i in range(12)]
    init, acc = replay.run(connections, 400_000, ports=[2000, 5])
    # Whoever closes first keeps the port for a minute (TIME_WAIT): the second round fails
    failed = init["status"] < 0
    assert not failed[:5].any() and (init["status"][~failed] == FINISHED).all()
    assert (acc["read_bytes"][~failed] == [100 + i for i in range(12) if not failed[i]]).all()
    assert (acc["status"][failed] == NOT_STARTED).all()


def test_unfinished_at_the_end(replay):
    """What is alive at the end is unfinished, with what it did; what had no turn did not start."""
    init, acc = replay.run([(0, [(0, 0, 100)], [(100, 0, 50_000), (100, 10 * MB, 0)]),
                            (0, [(0, 0, 100)], [(100, 10 * MB, 50_000), (100, 0, 0)]),
                            (10 * MB, [(0, 0, 100), (0, 0, 0)], [])], 100_000)
    assert init["status"].tolist() == [UNFINISHED, UNFINISHED, NOT_STARTED]
    assert acc["status"].tolist() == [UNFINISHED, UNFINISHED, NOT_STARTED]
    assert init["read_bytes"].tolist() == [50_000, 0, 0]
    assert init["start_us"][2] == NEVER and (init["end_us"] == NEVER).all()
    assert (acc["sent_us"] != NEVER).tolist() == [True, False, False, False]
    assert replay.collect()["status"] == {"unfinished": 3}


def test_partial_reads_count(replay):
    """An ADU cut by the end counts with the bytes that came."""
    init, acc = replay.run([(0, [(0, 0, 5)], [(5, 0, 1 << 35), (5, 0, 0)])], 200_000)
    assert init["status"][0] == acc["status"][0] == UNFINISHED
    assert 0 < init["read_bytes"][0] < 1 << 35
    assert init["delivered_us"][0] == NEVER


def test_refused(replay):
    init, _ = replay.run([(1000, [(0, 0, 100), (0, 0, 0)], [])], 100_000, roles=[INITIATOR])
    assert init["status"][0] == -111        # ECONNREFUSED
    assert init["start_us"][0] >= 1000 and init["connected_us"][0] == NEVER
    assert init["end_us"][0] >= init["start_us"][0]


def test_reset(replay):
    """The peer process dies: its connections fail, whatever they were doing."""
    make_plan(replay.folder / "plan", [
        (0, [(0, 0, 100)], [(100, 10 * MB, 1000), (100, 0, 0)]),
        (0, [(0, 100_000, 100)], [(100, 0, 1000), (100, 0, 0)]),
        (0, [(0, 0, 100)], [(100, 0, 1 << 35), (100, 0, 0)])])
    processes = replay.start(("acceptor", "initiator"), 400_000)
    time.sleep(0.1)
    processes.pop("acceptor").kill()
    replay.end(processes)
    assert (replay.records(INITIATOR)["status"] < 0).all()


def test_writes_that_break_in_the_middle(replay):
    """Their connections fail, and nothing is noted of what the plan has behind them.

    What the kernels take without a reader is something below 2 MB: of some connections it ends in the last part of
    the write, whose end nobody waits for.
    """
    sizes, later = range(1_400_000, 2_400_000, 50_000), 5
    make_plan(replay.folder / "plan", [*((0, [(0, 0, size)], [(size, 0, 10), (size, 0, 0)], 536) for size in sizes),
                                       *[(MB, [(0, 0, 100)] * 4, [])] * later])
    processes = replay.start(("acceptor", "initiator"), 600_000)
    processes["acceptor"].send_signal(signal.SIGSTOP)
    time.sleep(0.4)
    processes.pop("acceptor").kill()
    replay.end(processes)
    records = replay.records(INITIATOR)
    assert (records["status"][:len(sizes)] < 0).all()
    assert (records["status"][len(sizes):] == NOT_STARTED).all()
    assert (records["sent_us"][:len(sizes)] < 300_000).all() and (records["sent_us"][len(sizes):] == NEVER).all()


def test_sigterm(replay):
    """Stops early and still writes its records."""
    make_plan(replay.folder / "plan", [(0, [(0, 0, 100)], [(100, 20 * MB, 100), (100, 0, 0)])])
    processes = replay.start(("acceptor", "initiator"), 30 * MB)
    time.sleep(0.15)
    for role in ("acceptor", "initiator"):
        processes[role].send_signal(signal.SIGTERM)
        replay.end({role: processes[role]})
    assert all(account["stopped_early"] for account in replay.accounts.values())
    records = replay.records("acceptor")
    assert records["status"][0] == UNFINISHED and records["read_bytes"][0] == 100
    assert replay.records(INITIATOR)["status"][0] == -32      # its peer left (EPIPE)


@pytest.mark.parametrize("job, message", [
    ("{", "Expecting property name"), ({"node": "n1"}, "duration_us"),
    ({"node": "n1", "duration_us": 1, "out_dir": ".", "endpoints": [{"source": 0}]}, "'role'"),
    ({"node": "n1", "duration_us": 1, "out_dir": ".", "endpoints": [
        {"source": 0, "role": "initiator", "plan": "/none", "local": "127.0.0.1",
         "peer": "127.0.0.1", "port": 9}]}, "/none")])
def test_bad_jobs(tmp_path, job, message):
    """One line on stderr and a non-zero exit."""
    path = tmp_path / "job.json"
    path.write_text(job if isinstance(job, str) else json.dumps(job))
    done = subprocess.run([*COMMAND, str(path)], capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and done.stdout == ""
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_congestion_controls_and_segment_sizes_are_noted(replay):
    connections = [(2000 * i, [(0, 0, 300), (60_000, 1000, 20)], [(300, 500, 60_000), (320, 1000, 0)], 536 * (i % 2))
                   for i in range(40)]
    init, acc = replay.run(connections, 600_000)
    assert finished(init, acc) and replay.collect()["mismatches"] == []
    for account in replay.accounts.values():
        end, = account["ends"]
        assert end["wrong_pieces"] == 0 and sum(end["ccas"].values()) == 40


def test_a_signal_ends_a_replay_that_waits(replay):
    """Also where no line of Python is interpreted meanwhile."""
    make_plan(replay.folder / "plan", [])
    processes = replay.start(("acceptor",), 30 * MB)      # longer than `end` waits
    time.sleep(0.15)
    processes["acceptor"].send_signal(signal.SIGTERM)
    replay.end(processes)
    assert replay.accounts["acceptor"]["stopped_early"]


@pytest.mark.parametrize("busy", [True, False])
def test_an_interrupt_ends_a_replay(replay, busy):
    """As it ends any program in Python, wherever it is; the records are there."""
    make_plan(replay.folder / "plan", [(500 * i, [(0, 0, 300)], [(300, 0, 500), (300, 0, 0)])
                                       for i in range(20_000 * busy)])
    # where tests run in the background SIGINT may be ignored, which programs inherit
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        processes = replay.start(("acceptor", "initiator"), 30 * MB)
    finally:
        signal.signal(signal.SIGINT, before)
    time.sleep(0.2)
    for role, process in processes.items():
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert process.returncode and "done" not in out and "\nKeyboardInterrupt" in err
        assert len(replay.records(role)["status"]) == 20_000 * busy

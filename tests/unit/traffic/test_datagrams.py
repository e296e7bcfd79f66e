# SPDX-License-Identifier: GPL-2.0-only
"""UDP flows: when packets leave, and the program that sends and counts them, over loopback."""
import itertools
import json
import socket
import statistics
import struct
import subprocess
import sys
import time
import types

import hypothesis
import hypothesis.strategies as st
import pytest

from testbed import PROJECT_DIR
from traffic.datagrams import arrivals, convoy, program as udp
from traffic.datagrams.batch import HEADER
from traffic.datagrams.departures import departures_ns

ORDER = {"start_us": 1000, "stop_us": 3000, "gap_ns": 300_000}


def test_equal_gaps_are_counted_from_the_beginning_of_each_burst():
    assert list(departures_ns(ORDER)) == [1_000_000 + i * 300_000 for i in range(7)]
    assert list(departures_ns({**ORDER, "bursts_us": [[0, 1], [1000, 1600], [2000, 2601]]})) == [
        0, 1_000_000, 1_300_000, 2_000_000, 2_300_000, 2_600_000]


def test_gaps_of_a_poisson_process_are_exponential_and_a_matter_of_the_seed():
    order = {"start_us": 0, "stop_us": 100_000_000, "gap_ns": 1_000_000, "gaps": "exponential", "seed": "3/0"}
    found = list(departures_ns(order))
    assert found == list(departures_ns(order)) != list(departures_ns({**order, "seed": "3/1"}))
    gaps = [b - a for a, b in itertools.pairwise([0, *found])]
    # of 100,000 with mean and standard deviation 1 ms: within four standard errors
    assert len(gaps) == pytest.approx(100_000, abs=4 * 316)
    assert statistics.mean(gaps) == pytest.approx(1e6, rel=4 / 316)
    assert statistics.stdev(gaps) == pytest.approx(1e6, rel=0.02)
    assert found[-1] < 100_000_000_000


def test_gaps_with_a_spread_are_even_around_their_mean():
    found = list(departures_ns({"start_us": 0, "stop_us": 10_000_000, "gap_ns": 1_000_000, "gaps": "uniform",
                                "spread": 0.5, "seed": "1"}))
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert found[0] == 0 and len(found) == pytest.approx(10_000, abs=4 * 29)
    assert 500_000 <= min(gaps) < 501_000 and 1_499_000 < max(gaps) <= 1_500_001


def run(folder, job, between=lambda: None):
    (folder / "job.json").write_text(json.dumps({**job, "output": str(folder / "out.json")}))
    started = subprocess.Popen([sys.executable, "-S", "-m", "traffic.datagrams.program", str(folder / "job.json")],
                               cwd=PROJECT_DIR, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout.readline() == "ready\n"
    started.stdin.write(f"start {time.monotonic_ns()}\n")
    started.stdin.flush()
    between()
    output, words = started.communicate(timeout=30)
    assert started.returncode == 0, words
    assert json.loads(output.removeprefix("done "))["packets"] == json.loads((folder / "out.json").read_text())
    return json.loads((folder / "out.json").read_text())


def delays(counts):
    """Takes the delays out of the counts of a flow: they are those of this machine. In their order."""
    return [counts.pop(f"delay_{name}_us") for name in ("min", "p50", "p95", "p99", "max", "mean")]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_packets_are_sent_at_their_time_and_counted(tmp_path):
    flow = {"flow": 7, "address": "127.0.0.1", "port": free_port(), "payload_bytes": 972}
    counts = run(tmp_path, {"send": [{**flow, "start_us": 100_000, "stop_us": 600_000, "gap_ns": 1_000_001}],
                            "receive": [{**flow, "packets_per_s": 1000}], "drained_us": 700_000})
    *increasing, mean = delays(counts["7"])
    assert 0 <= increasing[0] and increasing == sorted(increasing) and increasing[0] <= mean <= increasing[-1] + 1
    assert counts == {"7": {"sent_packets": 500, "sent_bytes": 500_000, "received_packets": 500,
                            "received_bytes": 500_000,
                            "reordered_packets": 0, "duplicate_packets": 0, "socket_dropped_packets": 0}}


#: runs the program, and tells which namespaces its only thread enters
SEVERAL_HOSTS = """
import os
from topologies.linux import namespace
from traffic.datagrams import program
namespace.enter = lambda descriptor: os.write(2, f"{descriptor} ".encode())
program.main()
"""


def test_hosts_in_one_program_have_their_sockets_in_their_namespaces_and_an_account_each(tmp_path):
    flows = [{"flow": flow, "address": "127.0.0.1", "port": free_port(), "payload_bytes": 100} for flow in (1, 2)]
    sends = [{**flow, "start_us": 100_000, "stop_us": 300_000, "gap_ns": gap_ns}
             for flow, gap_ns in zip(flows, (1_000_001, 3_000_001))]
    receives = [{**flow, "packets_per_s": 1000} for flow in flows]
    words = []
    for node, descriptor, send, receive in (("n1", 11, sends[:1], receives[1:]), ("n2", 12, sends[1:], []),
                                            ("n3", 13, [], receives[:1])):
        (tmp_path / f"{node}.json").write_text(json.dumps({
            "send": send, "receive": receive, "drained_us": 500_000, "output": str(tmp_path / f"{node}.out")}))
        words += [node, str(descriptor), str(tmp_path / f"{node}.json")]
    done = subprocess.run([sys.executable, "-c", SEVERAL_HOSTS, *words], cwd=PROJECT_DIR, text=True, timeout=30,
                          capture_output=True, input=f"start {time.monotonic_ns()}\n", check=False)
    # receivers are made before the word to start, senders after it
    assert (done.returncode, done.stderr) == (0, "11 13 11 12 ")
    accounts = json.loads(done.stdout.partition("done ")[2])
    assert list(accounts) == ["n1", "n2", "n3"]
    for node, account in accounts.items():
        assert account["packets"] == json.loads((tmp_path / f"{node}.out").read_text())
    counts = {node: account["packets"] for node, account in accounts.items()}
    assert counts["n1"]["1"] == {"sent_packets": 200, "sent_bytes": 200 * 128}
    assert counts["n2"] == {"2": {"sent_packets": 67, "sent_bytes": 67 * 128}}
    assert (counts["n3"]["1"]["received_packets"], counts["n1"]["2"]["received_packets"]) == (200, 67)


def test_a_socket_that_cannot_be_is_named_with_its_flow_and_host(tmp_path):
    words = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        for node, flows in (("n1", []), ("n2", [5])):
            (tmp_path / f"{node}.json").write_text(json.dumps({"send": [], "receive": [
                {"flow": flow, "address": "127.0.0.1", "port": taken.getsockname()[1], "payload_bytes": 100,
                 "packets_per_s": 10} for flow in flows], "drained_us": 1, "output": str(tmp_path / "out")}))
            words += [node, "11", str(tmp_path / f"{node}.json")]
        done = subprocess.run([sys.executable, "-c", SEVERAL_HOSTS, *words], cwd=PROJECT_DIR, text=True, timeout=30,
                              capture_output=True, input="", check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["11 flow 5, receiver on n2: OSError: [Errno 98] Address already in use"]


@pytest.fixture(params=["one by one", "convoy"])
def sends(request):
    """What sends packets of at most 70,000 bytes."""
    if request.param == "one by one":
        return convoy.OneByOne(70_000)
    try:
        return convoy.Convoy(70_000)
    except OSError as problem:
        pytest.skip(f"no io_uring here: {problem}")


@pytest.fixture
def arriving():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        yield receiver


def connected(port):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(("127.0.0.1", port))
    return sender


def test_packets_leave_at_their_instants_in_their_order(sends, arriving):
    begin_ns = time.monotonic_ns()
    with connected(arriving.getsockname()[1]) as sender:
        for first in range(0, 3 * convoy.MOST, convoy.MOST):        # what was sent before is not in the way
            sends.send([(begin_ns + 1_000_000 * number, sender.fileno(), 60 + number % 40, HEADER.pack(number, 7))
                        for number in range(first, first + convoy.MOST)])
            assert time.monotonic_ns() >= begin_ns + 1_000_000 * (first + convoy.MOST - 1)
    taken = [arriving.recv(200) for _ in range(3 * convoy.MOST)]
    assert [HEADER.unpack_from(packet) for packet in taken] == [(number, 7) for number in range(3 * convoy.MOST)]
    assert [len(packet) for packet in taken] == [60 + number % 40 for number in range(3 * convoy.MOST)]


def stamp_of_next(arriving):
    """When the next packet arrived, by the wall clock."""
    _, ((_, _, stamp),), _, _ = arriving.recvmsg(100, 100)
    seconds, nanoseconds = struct.unpack("=qq", stamp)
    return seconds * 10**9 + nanoseconds


def wait_for_stamps(arriving):
    """Linux begins to stamp packets a while after it was first asked to; until then they have the time of reading."""
    with connected(arriving.getsockname()[1]) as sender:
        while True:
            sender.send(b"x")
            time.sleep(0.02)
            read_ns = time.time_ns()
            if stamp_of_next(arriving) < read_ns:
                return


def test_no_packet_waits_for_the_next_and_none_leaves_early(sends, arriving):
    """Half a second apart, so that the busiest machine sends the first before the last is due."""
    arriving.setsockopt(socket.SOL_SOCKET, 35, 1)               # SO_TIMESTAMPNS
    wait_for_stamps(arriving)
    ahead_ns = time.time_ns() - time.monotonic_ns()
    begin_ns = time.monotonic_ns()
    due_ns = [begin_ns + 500_000_000 * number for number in range(4)]
    with connected(arriving.getsockname()[1]) as sender:
        sends.send([(due, sender.fileno(), 60, HEADER.pack(number, 0)) for number, due in enumerate(due_ns)])
    arrived_ns = [stamp_of_next(arriving) - ahead_ns for _ in due_ns]
    # to within what the two clocks were read apart, and the wall clock was set by meanwhile
    apart_ns = 10_000_000 + abs(time.time_ns() - time.monotonic_ns() - ahead_ns)
    assert all(arrived > due - apart_ns for arrived, due in zip(arrived_ns, due_ns))
    assert arrived_ns[0] < due_ns[-1]


def test_no_packet_waits_for_a_look_at_the_receivers_nor_a_look_for_packets(tmp_path, monkeypatch):
    """What a program does in which order: packets of two flows, 7 and 11 ms apart, and a look each 100 ms."""
    done = []
    address = {"address": "127.0.0.1", "payload_bytes": 60, "start_us": 1000, "stop_us": 2_000_000}
    job = {"send": [{"flow": flow, "port": free_port(), "gap_ns": gap_ms * 1_000_000, **address}
                    for flow, gap_ms in ((1, 7), (2, 11))],
           "receive": [{"flow": 3, "address": "127.0.0.1", "port": free_port(), "payload_bytes": 60,
                        "packets_per_s": 1}], "drained_us": 2_500_000, "output": str(tmp_path / "out")}
    monkeypatch.setattr(udp.program, "read_hosts", lambda: [udp.program.Host(job)])
    monkeypatch.setattr(udp.program, "wait_for_start", lambda: 0)
    monkeypatch.setattr(udp.program, "done", lambda account: None)
    monkeypatch.setattr(convoy, "make", lambda _: types.SimpleNamespace(
        send=lambda packets: done.extend(packet[0] for packet in packets)))
    monkeypatch.setattr(convoy, "sleep_until", lambda instant_ns: done.append(-instant_ns))
    udp.main()
    looks = [-instant for instant in done if instant < 0]
    assert looks == list(range(100_000_000, 2_500_000_001, 100_000_000))
    assert [abs(instant) for instant in done] == sorted(map(abs, done))
    assert len(done) - len(looks) == sum(-(-1_999_000_000 // (gap * 1_000_000)) for gap in (7, 11))


def test_a_sender_whose_receiver_has_gone_sends_on(sends, arriving):
    """As on a wall clock whose machine is late: the receiver's host answers that there is no such port."""
    with connected(free_port()) as gone, connected(arriving.getsockname()[1]) as sender:
        packets = [(0, (sender if number % 3 == 1 else gone).fileno(), 50, HEADER.pack(number, 0))
                   for number in range(20)]
        sends.send(packets)
        sends.send(packets[:1])
    arriving.setblocking(False)
    assert [HEADER.unpack(arriving.recv(50)[:HEADER.size])[0] for _ in range(7)] == list(range(1, 20, 3))
    with pytest.raises(BlockingIOError):
        arriving.recv(50)


def test_what_a_socket_refuses_is_an_error(sends, arriving):
    with connected(arriving.getsockname()[1]) as sender, pytest.raises(OSError, match="(?i)message too long"):
        sender.setsockopt(socket.IPPROTO_IP, 10, 2)             # IP_MTU_DISCOVER: no fragments
        sends.send([(0, sender.fileno(), 70_000, bytes(HEADER.size))])


def test_losses_duplicates_and_late_packets_are_told_apart(tmp_path):
    port = free_port()

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in (0, 1, 1, 4, 3, 3, 700):
                sender.sendto(number.to_bytes(8, "big") + bytes(92), ("127.0.0.1", port))
    flow = {"flow": 1, "address": "127.0.0.1", "port": port, "payload_bytes": 100, "packets_per_s": 1000}
    counts = run(tmp_path, {"send": [], "receive": [flow], "drained_us": 300_000}, send)
    delays(counts["1"])
    assert counts == {"1": {"received_packets": 5, "received_bytes": 5 * 128, "reordered_packets": 1,
                            "duplicate_packets": 2, "socket_dropped_packets": 0}}


def test_packets_that_find_no_room_are_counted(tmp_path):
    port = free_port()

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in range(2000):
                sender.sendto(number.to_bytes(8, "big") + bytes(992), ("127.0.0.1", port))
    flow = {"flow": 1, "address": "127.0.0.1", "port": port, "payload_bytes": 1000, "packets_per_s": 1}
    counts = run(tmp_path, {"send": [], "receive": [flow], "drained_us": 300_000}, send)["1"]
    assert counts["socket_dropped_packets"] > 0
    assert counts["received_packets"] + counts["socket_dropped_packets"] == 2000


@hypothesis.given(st.lists(st.integers(0, 60), max_size=80))
def test_numbers_that_are_missing(numbers):
    """As a set would have them, however packets are lost, doubled and out of order."""
    gaps, missing, following = arrivals.Gaps(), set(), 0
    for number in numbers:
        if number >= following:
            gaps.append(following, number)
            missing |= set(range(following, number))
            following = number + 1
        else:
            assert gaps.fill(number) == (number in missing)
            missing.discard(number)
    assert [gaps.fill(number) for number in range(61)] == [number in missing for number in range(61)]

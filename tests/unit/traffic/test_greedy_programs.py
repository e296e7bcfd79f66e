# SPDX-License-Identifier: GPL-2.0-only
"""Programs of greedy flows: congestion controls, iperf3's arguments and failures, sockets."""
import errno
import json
import os
import socket
import struct
import subprocess
import sys
import time

import pytest

from testbed import PROJECT_DIR
from traffic.greedy import ends, flows, iperf3
from traffic.io import payload

FLOW = {"flow": 2, "address": "10.0.2.1", "port": 6001, "source_port": 30001, "start_us": 300_000, "cca": None}


@pytest.mark.parametrize("stop_us, seconds", [(300_001, 1), (1_300_000, 1), (1_300_001, 2), (10_000_000, 10)])
def test_clients_last_until_their_stop(stop_us, seconds):
    arguments = ["-c", "10.0.2.1", "-p", "6001", "--cport", "30001", "-t", str(seconds)]
    assert iperf3.client_arguments({**FLOW, "stop_us": stop_us}) == arguments
    assert iperf3.client_arguments({**FLOW, "stop_us": stop_us, "cca": "bic"}) == arguments     # -C comes too late


@pytest.fixture
def children(tmp_path, monkeypatch):
    """Function: script of a stand-in for iperf3 -> Children that run it."""
    made = []

    def of(script):
        path = tmp_path / "iperf3"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(iperf3, "PROGRAM", str(path))
        made.append(iperf3.Children(str(tmp_path), None))
        return made[-1]
    yield of
    for one in made:
        one.kill()


def test_output_of_iperf3_is_kept_and_its_sums_are_told(children, tmp_path):
    running = children("""echo '{"end": {"sum_sent": {"bytes": 5, "seconds": 1.5}, "title": "'$*'"}}'""")
    running.start(2, "client", ["-t", "9"])
    running.watch()
    assert not running.running and running.transferred("client", "sum_sent") == {2: 5}
    assert running.counted_us() == {2: 1_500_000}
    assert json.loads((tmp_path / "iperf3-flow2.json").read_text())["end"]["title"] == "-4 -J -t 9"
    assert running.transferred("server", "sum_received") == {}


def test_a_receiver_counts_its_own_time(children):
    running = children("""echo '{"end": {"sum_received": {"bytes": 7, "seconds": 1.75}}}'""")
    running.start(2, "server", [])
    running.watch()
    assert running.transferred("server", "sum_received") == {2: 7} and running.counted_us() == {2: 1_750_000}


@pytest.mark.parametrize("script, words", [
    ("""echo '{"end": {}, "error": "unable to connect: refused"}'; exit 1""",
     "iperf3 server of flow 3: unable to connect: refused; exit status 1"),
    ("""echo '{"end": {}, "error": "unable to connect"}'""", "iperf3 server of flow 3: unable to connect"),
    ("""echo 'warning: not that' >&2; echo '{"end": {}}'""", "iperf3 server of flow 3: warning: not that"),
    ("""echo 'bad option' >&2; exit 3""", "iperf3 server of flow 3: bad option; exit status 3"),
    ("""echo '{"half'; exit 0""", """iperf3 server of flow 3: {"half; exit status 0"""),
    ("kill -9 $$", "iperf3 server of flow 3: killed by SIGKILL"), ("exit 0", "iperf3 server of flow 3: exit status 0")])
def test_failures_of_iperf3_have_its_own_words(children, script, words):
    running = children(script)
    running.start(3, "server", [])
    with pytest.raises(iperf3.ChildFailed) as problem:
        running.watch()
    assert str(problem.value) == words


def test_children_are_watched_for_a_time_and_killed(children):
    running = children("exec sleep 60")
    running.start(1, "client", [])
    (pid, flow, role), = running.running.values()
    running.watch(0.01)
    assert (flow, role) == (1, "client") and len(running.running) == 1
    running.kill()
    assert not running.running and not os.path.exists(f"/proc/{pid}")


def test_a_server_that_ends_at_once_is_noticed(children):
    running = children("""echo '{"end": {}}'""")
    running.start(1, "server", [])
    with pytest.raises(iperf3.ChildFailed, match="ended before it was used"):
        iperf3._wait_until_listening({1}, running)


class Options:
    """A socket that notes what it is asked to be."""

    def __init__(self):
        self.asked = []

    def setsockopt(self, *option):
        self.asked.append(option)


@pytest.mark.parametrize("first, syn", [(0, 2**32 - 1), (2, 1), (2**32 - 1, 2**32 - 2)])
def test_sequence_number_of_the_syn_is_the_one_before(first, syn):
    asked = Options()
    ends._choose_sequence(asked, first)
    assert [(option, struct.unpack("=i" if option == 19 else "=I", value)[0]) for level, option,
            value in asked.asked] == [
        (19, 1), (20, 2), (21, syn), (19, -1)]


def test_congestion_control_is_named_when_there_is_none():
    with socket.socket() as unused, pytest.raises(OSError, match="congestion control 'nonesuch' of flow 2"):
        ends._set_cca(unused, {**FLOW, "cca": "nonesuch"})


@pytest.fixture(params=[True, False], ids=["ring", "threads"])
def ring(request):
    """Whether flows are driven by an io_uring, where there is one, or by threads."""
    return request.param


def started_flows(tmp_path, send, receive, duration_us, ring):
    """The sockets program with the ends of these flows, which waits to be told when to start."""
    (tmp_path / "job.json").write_text(json.dumps({
        "send": send, "receive": [{"start_us": 0, "stop_us": duration_us, **flow} for flow in receive],
        "duration_us": duration_us, "ring": ring}))
    started = subprocess.Popen([sys.executable, "-m", "traffic.greedy.flows", str(tmp_path / "job.json")],
                               cwd=PROJECT_DIR, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert started.stdout.readline() == "ready\n"
    return started


def receiving_flows(tmp_path, flow, duration_us, ring):
    """The sockets program that has the receiver of a flow, after its start."""
    started = started_flows(tmp_path, [], [flow], duration_us, ring)
    started.stdin.write(f"start {time.monotonic_ns()}\n")
    started.stdin.flush()
    return started


def run_flows(tmp_path, send, receive, duration_us, ring):
    """(exit status, last line, stderr) of the sockets program that has both ends of a flow."""
    started = started_flows(tmp_path, send, receive, duration_us, ring)
    output, words = started.communicate(f"start {time.monotonic_ns()}\n", timeout=30)
    return started.returncode, output.strip(), words


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


#: the sockets program, whose threads say which namespaces they enter instead of doing it: not everybody may
SEVERAL_HOSTS = """
import os, threading
from topologies.linux import namespace
from traffic.greedy import flows
def enter(descriptor):
    if descriptor == 99:
        raise OSError(1, "setns: Operation not permitted")
    os.write(2, f"{threading.current_thread().name} {descriptor}\\n".encode())
namespace.enter = enter
flows.main()
"""


def run_hosts(tmp_path, *hosts, duration_us=300_000):
    """(exit status, what it says after it was ready, stderr) of one program of several hosts.

    hosts: (name, descriptor, senders' orders, receivers' orders)
    """
    words = []
    for node, descriptor, send, receive in hosts:
        (tmp_path / f"{node}.json").write_text(json.dumps({
            "send": send, "receive": receive, "duration_us": duration_us, "ring": False, "wakeup_cost_us": 0}))
        words += [node, str(descriptor), str(tmp_path / f"{node}.json")]
    done = subprocess.run([sys.executable, "-c", SEVERAL_HOSTS, *words], cwd=PROJECT_DIR, text=True, timeout=30,
                          capture_output=True, input=f"start {time.monotonic_ns()}\n", check=False)
    return done.returncode, done.stdout.removeprefix("ready\n"), done.stderr


def test_hosts_in_one_program_have_their_sockets_in_their_namespaces_and_an_account_each(tmp_path):
    first, second = ({"flow": flow, "address": "127.0.0.1", "port": free_port(), "cca": cca, "bytes": 1000 * flow,
                      "peer": "127.0.0.1"} for flow, cca in ((3, None), (4, "reno")))
    when = {"start_us": 0, "stop_us": 1_000_000}        # time for a machine that does other things
    status, line, words = run_hosts(tmp_path, ("n1", 11, [], [first]), ("n2", 12, [{**first, **when}], [second]),
                                    ("n3", 13, [{**second, **when}], []), duration_us=1_000_000)
    assert status == 0, words
    # listeners are made before the threads
    assert sorted(words.splitlines()) == ["MainThread 11", "MainThread 12", "flow 3, sender on n2 12",
                                          "flow 4, sender on n3 13"]
    accounts = json.loads(line.removeprefix("done "))
    assert [(node, one["sent_bytes"], one["received_bytes"], list(one["delivered_us"])) for node, one in
            accounts.items()] == [("n1", {}, {"3": 3000}, ["3"]), ("n2", {"3": 3000}, {"4": 4000}, ["4"]),
                                  ("n3", {"4": 4000}, {}, [])]
    found = [[(end["flow"], end["end"], end["checked_bytes"], end["wrong_pieces"]) for end in one["ends"]]
             for one in accounts.values()]
    assert found == [[(3, "receiver", 3000, 0)], [(3, "sender", 0, 0), (4, "receiver", 4000, 0)], [(4, "sender", 0, 0)]]
    assert accounts["n3"]["ends"][0]["ccas"] == {"reno": 1}


def test_a_failure_in_one_program_of_several_hosts_names_the_flow_and_the_host(tmp_path):
    flow = {"flow": 7, "address": "127.0.0.1", "port": free_port(), "cca": None}
    sender = {**flow, "start_us": 0, "stop_us": 5_000_000}
    status, line, words = run_hosts(tmp_path, ("n1", 11, [], []), ("n2", 12, [sender], []), duration_us=5_000_000)
    assert (status, line) == (1, "")
    assert words.splitlines()[-1] == ("flow 7, sender on n2: ConnectionRefusedError: "
                                      f"[Errno {errno.ECONNREFUSED}] Connection refused")
    with socket.create_server(("127.0.0.1", flow["port"])):
        status, line, words = run_hosts(tmp_path, ("n1", 11, [], []), ("n2", 12, [], [flow]))
    assert (status, line, words.splitlines()[-1]) == (1, "", "flow 7, receiver on n2: Address already in use")
    status, line, words = run_hosts(tmp_path, ("n1", 11, [], []), ("n2", 99, [], [flow]))
    assert (status, line, words) == (1, "", "flow 7, receiver on n2: setns: Operation not permitted\n")


def test_a_connection_from_another_host_than_the_senders_is_a_failure(tmp_path):
    """A socket that was made in a wrong namespace has a wrong address, too."""
    flow = {"flow": 7, "address": "127.0.0.1", "port": free_port(), "cca": None}
    sender = {**flow, "start_us": 0, "stop_us": 5_000_000}
    status, line, words = run_hosts(tmp_path, ("n1", 11, [], [{**flow, "peer": "127.0.0.9"}]),
                                    ("n2", 12, [sender], []), duration_us=5_000_000)
    assert (status, line) == (1, "")
    assert words.splitlines()[-1] == ("flow 7, receiver on n1: ConnectionError: a connection from 127.0.0.1, "
                                      "not from 127.0.0.9")


def test_one_program_of_several_hosts_ends_at_sigterm(tmp_path):
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": None, "peer": "127.0.0.1"}
    job = {"duration_us": 60_000_000, "ring": False, "wakeup_cost_us": 0}
    (tmp_path / "n1.json").write_text(json.dumps({**job, "send": [], "receive": [flow]}))
    (tmp_path / "n2.json").write_text(json.dumps({**job, "receive": [], "send": [
        {**flow, "start_us": 0, "stop_us": 60_000_000}]}))
    words = ["n1", "11", str(tmp_path / "n1.json"), "n2", "12", str(tmp_path / "n2.json")]
    with subprocess.Popen([sys.executable, "-c", SEVERAL_HOSTS, *words], cwd=PROJECT_DIR, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout.readline() == "ready\n"
        started.stdin.write(f"start {time.monotonic_ns()}\n")
        started.stdin.flush()
        # both listener and sender have been in their namespaces: the flow has begun
        assert [started.stderr.readline() for _ in range(2)] == ["MainThread 11\n", "flow 1, sender on n2 12\n"]
        started.terminate()
        output, said = started.communicate(timeout=30)
    assert (started.returncode, output, said) == (0, "", "")
    assert socket.create_server(("127.0.0.1", flow["port"])).close() is None


def test_a_number_of_bytes_is_sent_and_its_arrival_noted(tmp_path, ring):
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "bytes": 3_000_001, "cca": None}
    status, line, words = run_flows(tmp_path, [{**flow, "start_us": 1000, "stop_us": 600_000}], [flow], 600_000, ring)
    assert status == 0, words
    account = json.loads(line.removeprefix("done "))
    assert account["sent_bytes"] == account["received_bytes"] == {"1": 3_000_001}
    assert 1000 <= account["delivered_us"]["1"] < 600_000


def test_a_flow_that_cannot_connect_ends_the_program(tmp_path, ring):
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "start_us": 0, "stop_us": 5_000_000, "cca": None}
    status, line, words = run_flows(tmp_path, [flow], [], 5_000_000, ring)
    assert status == 1 and line == "" and "ConnectionRefusedError" in words


def test_a_flow_stops_before_the_end(tmp_path, ring):
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": "reno"}
    started = time.monotonic()
    status, line, words = run_flows(tmp_path, [{**flow, "start_us": 0, "stop_us": 50_000}], [flow], 500_000, ring)
    account = json.loads(line.removeprefix("done "))
    assert status == 0 and time.monotonic() - started > 0.5, words
    assert account["sent_bytes"]["1"] == account["received_bytes"]["1"] > 0


def test_a_receiver_of_less_than_it_waits_for_compares_that(tmp_path):
    """It waits for a full buffer: over a channel that starves a flow gets less."""
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": "reno"}
    pace = {"bytes": 100, "gap_ns": 100_000_000}
    status, line, words = run_flows(tmp_path, [{**flow, "start_us": 0, "stop_us": 400_000, "pace": pace}], [flow],
                                    270_000, ring=False)
    assert status == 0, words
    account = json.loads(line.removeprefix("done "))
    assert 0 < account["sent_bytes"]["1"] == account["received_bytes"]["1"] <= 300 and account["delivered_us"] == {}
    assert [end["checked_bytes"] for end in account["ends"]] == [0, account["sent_bytes"]["1"]]
    assert not any(end["wrong_pieces"] for end in account["ends"])


def test_what_a_receiver_did_not_wait_for_counts_at_the_end(tmp_path):
    """A ring's read is cut short at the end; what it had got is counted and compared."""
    flow, size = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": None}, 100_001
    if flows._ring({"send": [], "receive": [flow], "ring": True}) is None:
        pytest.skip("this kernel has no io_uring, or not all that is needed of it")
    started = receiving_flows(tmp_path, flow, 1_000_000, ring=True)
    place = payload.phase(1)
    with socket.create_connection(("127.0.0.1", flow["port"])) as sender:
        sender.sendall(payload.Pattern().view[place:place + size])
        output, words = started.communicate(timeout=30)
    assert started.returncode == 0, words
    account = json.loads(output.removeprefix("done "))
    receiver, = account["ends"]
    assert account["received_bytes"] == {"1": size} and receiver["checked_bytes"] == size
    assert not receiver["wrong_pieces"] and account["delivered_us"] == {}


def test_a_flow_that_goes_on_until_the_end(tmp_path, ring):
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": "reno"}
    status, line, words = run_flows(tmp_path, [{**flow, "start_us": 0, "stop_us": 300_000}], [flow], 300_000, ring)
    assert status == 0, words
    account = json.loads(line.removeprefix("done "))
    sender, receiver = account["ends"]
    assert 1 << 20 < receiver["checked_bytes"] == account["received_bytes"]["1"]
    assert receiver["ccas"] == sender["ccas"] == {"reno": 1} and not receiver["wrong_pieces"]


def test_a_reset_is_no_end_of_a_flow(tmp_path, ring):
    """A sender that lingers for no time resets its connection after some data."""
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": None}
    started = receiving_flows(tmp_path, flow, 5_000_000, ring)
    with socket.create_connection(("127.0.0.1", flow["port"])) as sender:
        sender.sendall(bytes(100_000))
        time.sleep(0.2)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    output, words = started.communicate(timeout=30)
    assert started.returncode == 1 and output == "" and "ConnectionResetError" in words


def test_where_the_kernel_has_no_ring_there_are_threads(monkeypatch):
    made = []

    def make_ring(flow_ends):
        made.append(flow_ends)
        if len(made) > 1:
            raise OSError(errno.ENOSYS, "no io_uring")
        return "a ring"
    monkeypatch.setattr("traffic.greedy.ring.make_ring", make_ring)
    job = {"send": [{}], "receive": 2 * [{}]}
    assert flows._ring({**job, "ring": False}) is None and not made
    assert flows._ring({**job, "ring": True}) == "a ring" and flows._ring({**job, "ring": True}) is None
    assert made == [3, 3]


def unread_bytes(port):
    """What lies unread in the connections of a port here."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if int(row[1].partition(":")[2], 16) == port
               and row[3] == "01")


def wait_until_read(port):
    deadline_s = time.monotonic() + 20
    while unread_bytes(port) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return not unread_bytes(port)


@pytest.mark.parametrize("more", [{}, {"bytes": 1_000_000}, {"window_bytes": 20_000}])
def test_receivers_read_at_once(tmp_path, ring, more):
    """However little has come: a receiver that does not read acknowledges it 40 ms later."""
    flow = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": None, **more}
    if ring and flows._ring({"send": [], "receive": [flow], "ring": True}) is None:
        pytest.skip("this kernel has no io_uring, or not all that is needed of it")
    started = receiving_flows(tmp_path, flow, 2_000_000, ring)
    place = payload.phase(1)
    with socket.create_connection(("127.0.0.1", flow["port"])) as sender:
        for size in (1, 1448, 100, 20_000):
            sender.sendall(payload.Pattern().view[place:place + size])
            place += size
            assert wait_until_read(flow["port"])
        output, words = started.communicate(timeout=30)
    assert started.returncode == 0, words
    assert json.loads(output.removeprefix("done "))["received_bytes"] == {"1": 21_549}


def test_a_receiver_that_got_nothing_has_nothing_delivered(tmp_path):
    listening = {"flow": 1, "address": "127.0.0.1", "port": free_port(), "cca": None}
    idle = {**listening, "start_us": 0, "stop_us": 250_000, "pace": {"bytes": 0, "gap_ns": 50_000_000}}
    never = {**listening, "flow": 2, "port": free_port()}
    status, line, words = run_flows(tmp_path, [idle], [listening, never], 100_000, ring=False)
    assert status == 0, words
    account = json.loads(line.removeprefix("done "))
    assert account["received_bytes"] == {"1": 0, "2": 0} and account["delivered_us"] == {}


def test_with_the_preload_a_select_that_must_not_wait_waits_when_it_finds_nothing_again(tmp_path):
    """iperf3 asks so again and again where a byte of its control connection was lost."""
    from traffic.greedy import scenario
    library = tmp_path / scenario._compile(str(tmp_path))
    script = ("import os, select, time; r, w = os.pipe(); t = time.monotonic(); "
              "found = [select.select([r], [], [], 0)[0] for _ in range(102)]; print(time.monotonic() - t); "
              "os.write(w, b'x'); found += [select.select([r], [], [], 0)[0]]; print(*map(len, found), sep='')")
    out = subprocess.run([sys.executable, "-c", script], env={**os.environ, "LD_PRELOAD": str(library)},
                         capture_output=True, text=True, check=True).stdout.split()
    assert float(out[0]) >= 0.1 and out[1] == "0" * 102 + "1"

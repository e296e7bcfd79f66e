# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: greedy flows of a ring that are refused, never answered, or never read."""
import json
import os
import socket
import subprocess
import sys
import time

_FLOW = {"flow": 3, "address": "127.0.0.1", "cca": "reno"}


def _flows(port, receives=False, **more):
    """[exit status, its account, its last words besides, states of sockets to its port in between] of the program
    of one flow, for half a second of virtual time."""
    from traffic.io.clock import now_ns
    flow = {**_FLOW, "port": port, "start_us": 0, "stop_us": 500_000, **more}
    job = {"send": [flow], "receive": [flow] if receives else [], "duration_us": 500_000, "ring": True}
    fd = os.memfd_create("job", 0)                          # the file system is the host's and cannot be written
    os.write(fd, json.dumps(job).encode())
    with subprocess.Popen([sys.executable, "-m", "traffic.greedy.flows", f"/proc/self/fd/{fd}"], text=True,
                          env={**os.environ, "PYTHONPATH": ":".join(sys.path[:2])}, pass_fds=[fd],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        os.close(fd)
        assert program.stdout.readline() == "ready\n"
        program.stdin.write(f"start {now_ns()}\n")
        program.stdin.flush()
        time.sleep(0.3)
        states = _states_of_sockets_to(port)
        output, words = program.communicate()
    return [program.returncode, json.loads(output.removeprefix("done ") or "null"), (words.splitlines() or [""])[-1],
            states]


def _states_of_sockets_to(port):
    """include/net/tcp_states.h"""
    with open("/proc/net/tcp") as table:
        found = [fields[3] for fields in map(str.split, table) if fields[2].endswith(f":{port:04X}")]
    return sorted(int(state, 16) for state in found)


def main():
    from traffic.greedy.ring import make_ring
    from traffic.io.uring import may_ask
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with socket.socket() as unconnected:
        chained = may_ask(make_ring(1), unconnected.fileno(), 1)
    unread, ways = {}, [("stopped", {"stop_us": 200_000}), ("ended", {})]
    # a backlog of none takes one connection and drops the SYNs of others
    with socket.create_server(("127.0.0.1", 6000), backlog=0) as full, socket.create_connection(full.getsockname()):
        unanswered = {f"unanswered and {name}": _flows(6000, **more) for name, more in ways}
    # a program that is late finds both instants due
    for name, more in [*ways, ("stopped at its start", {"start_us": 100_000, "stop_us": 100_000})]:
        with socket.create_server(("127.0.0.1", 0)) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread[f"unread and {name}"] = _flows(slow.getsockname()[1], maxseg=1000, **more)
    return {"chained": chained, "refused": _flows(6001), "read": _flows(6003, True), **unanswered, **unread}


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from guest_script import answer
    answer(main)

# SPDX-License-Identifier: GPL-2.0-only
"""Replays plans over real TCP sockets: one process for all that a node does.

    python3 -I -S traffic/replay/program.py JOB.json

The job: {"node": "n1", "duration_us": 1000000, "out_dir": "/run/out", "endpoints": [...]},
each endpoint {"source": 0, "role": "initiator"|"acceptor", "plan": path, "local": ip,
"peer": ip, "port": the acceptor's port, and optionally "ports": [first, count] of the initiator, "cca": what
its connections have to choose, "options": [[name, level, number, value], ...] that their sockets set before the SYN}.
With "wakeup_cost_us" the process sleeps that long whenever something wakes it, before it looks at what it is: what the
wake-up of a process costs where computing takes no time. "clock" is
a file that, read, has CLOCK_MONOTONIC in ns (8 bytes): with one, io_uring notes instants without waking anybody.

It opens its listeners, prints `ready`, reads `start <t0>` (CLOCK_MONOTONIC, ns) from stdin,
replays until t0 + duration or SIGTERM, writes out_dir/<name of the plan>.<role>.records
(see `records`) and prints `done {"account": ...}`. A defect is one line on stderr and exit 1.
"""

from __future__ import annotations

import gc
import json
import os
import sys

from _signal import SIG_BLOCK, SIGTERM, pthread_sigmask, signal

if not __package__:     # run as a file; -I leaves its folder out of the search path
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__)))))

from traffic.io import process_memory as memory
from traffic.io.clock import DEVICE
from traffic.io.sockets import exact_timers, raise_descriptor_limit
from traffic.replay.endpoint import End, JobError
from traffic.replay.plan import PlanError
from traffic.replay.records import records_name

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from traffic.replay.core_loop import CoreLoop
    from traffic.replay.eventloop import EventLoop


def read_job(path: str) -> tuple[str, int, str, list[End], str, int, str]:
    """The job's `node`, `duration_us`, `out_dir`, its `End`s, how to wait, what a wake-up costs in us, and the clock.

    Raises JobError, PlanError, OSError.
    """
    with open(path, encoding="utf-8") as file:
        try:
            job = json.load(file)
            node, duration_us, out_dir = job["node"], int(job["duration_us"]), job["out_dir"]
            entries = list(job["endpoints"])
            how, wakeup_cost_us = job.get("events", "auto"), int(job.get("wakeup_cost_us", 0))
            clock = str(job.get("clock", DEVICE))
        except (ValueError, KeyError, TypeError) as error:
            raise JobError(f"{path}: {error!r}") from error
    if wakeup_cost_us < 0:
        raise JobError(f"{path}: wakeup_cost_us is {wakeup_cost_us}")
    if duration_us <= 0:
        raise JobError(f"{path}: duration_us is {duration_us}")
    ends = [End(entry, node) for entry in entries]
    share_ports(ends)
    if how not in ("auto", "io_uring", "epoll"):
        raise JobError(f"{path}: events {how!r}; auto, io_uring or epoll")
    return node, duration_us, out_dir, ends, how, wakeup_cost_us, clock


def make_loop(ends: list[End], how: str, clock: str, wakeup_cost_us: int = 0) -> CoreLoop | EventLoop:
    """The loop that replays the ends: by io_uring if the library is there and the kernel has what it takes.

    clock: a file to read it from. Raises OSError, ImportError.
    """
    if how != "epoll":
        from traffic.replay import core_loop
        path = core_loop.library()
        if path is None and how == "io_uring":
            raise ImportError(f"{core_loop.LIBRARY} is missing, which io_uring takes")
        try:
            if path:
                return core_loop.CoreLoop(ends, clock, path, wakeup_cost_us)
        except OSError:
            if how == "io_uring":
                raise
    from traffic.replay.eventloop import EventLoop
    return EventLoop(ends, wakeup_cost_us)


def share_ports(ends: list[End]) -> None:
    """Mark initiators whose port ranges overlap at one address: they need SO_REUSEADDR."""
    initiators = [end for end in ends if end.initiates]
    for i, one in enumerate(initiators):
        for other in initiators[:i]:
            if (one.local == other.local and one.first_port < other.first_port + other.ports
                    and other.first_port < one.first_port + one.ports):
                one.shares_ports = other.shares_ports = True


def replay(path: str) -> None:
    """Do the job in a file, talking to the starter on stdin and stdout; see above."""
    node, duration_us, out_dir, ends, how, wakeup_cost_us, clock = read_job(path)
    raise_descriptor_limit()
    exact_timers()
    loop = make_loop(ends, how, clock, wakeup_cost_us)
    memory.as_usual()
    print("ready", flush=True)
    word, _, t0_ns = sys.stdin.readline().partition(" ")
    if word != "start" or not t0_ns.strip().isdigit():
        raise JobError("no 'start <t0_ns>' on stdin")

    def stop(_number: int, _frame: object) -> None:
        loop.stopping = True

    signal(SIGTERM, stop)
    # Delivered while waiting only, so that none is lost between a check and the wait
    pthread_sigmask(SIG_BLOCK, [SIGTERM])
    # Nothing here makes reference cycles; collections would only cost time
    gc.disable()
    try:
        loop.run(int(t0_ns), 1000 * duration_us)
    finally:
        loop.close()
        for end in ends:
            end.records.write(os.path.join(out_dir, records_name(end.name, end.role)))
    account = {"node": node, "stopped_early": loop.stopping, "strays": loop.strays, "chains": loop.chains,
               "ends": [end.account() for end in ends]}
    print("done", json.dumps(account), flush=True)


#: what is imported when it is known which of them replays
ALSO = ("traffic.replay.core_loop", "traffic.replay.eventloop")


def main() -> int:
    """Entry point; returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: replay.py JOB.json", file=sys.stderr)
        return 2
    try:
        replay(sys.argv[1])
    except (JobError, PlanError, OSError, ImportError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

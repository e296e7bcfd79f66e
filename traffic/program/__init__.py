# SPDX-License-Identifier: GPL-2.0-only
"""What traffic programs of few flows have in common: orders, the word to start, the account at the end."""
from __future__ import annotations

import json
import signal
import sys
import time

from traffic.io import process_memory as memory
from traffic.io.clock import now_ns

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LISTEN = "0A"                          # TCP_LISTEN in /proc/net/tcp


def read_job() -> Any:
    """The job of the program, from the file named on the command line. SIGTERM ends it from here on, cleaning up."""
    _end_at_sigterm()
    with open(sys.argv[1]) as f:
        return json.load(f)


def _end_at_sigterm() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


class Host:
    """A node that a program serves: its name, its orders, its network namespace (None: the program's own)."""

    def __init__(self, job: Any, node: str = "", descriptor: int | None = None) -> None:
        self.job, self.node, self._descriptor = job, node, descriptor

    def enter(self) -> None:
        """From here on the calling thread is in its namespace: sockets that it makes stay there."""
        if self._descriptor is not None:
            from topologies.linux.namespace import enter
            enter(self._descriptor)

    def name(self, what: str) -> str:
        """What a part of the program is called in errors."""
        return f"{what} on {self.node}" if self.node else what


def read_hosts() -> list[Host]:
    """As read_job, for a program that may serve several nodes: NODE DESCRIPTOR JOB of each."""
    words = sys.argv[1:]
    if len(words) == 1:
        return [Host(read_job())]
    _end_at_sigterm()
    hosts = []
    for node, descriptor, path in zip(words[::3], words[1::3], words[2::3]):
        with open(path) as f:
            hosts.append(Host(json.load(f), node, int(descriptor)))
    return hosts


def wait_for_start() -> int:
    """Say that everything is ready; returns when the experiment begins, in ns of CLOCK_MONOTONIC."""
    memory.as_usual()
    print("ready", flush=True)
    word, t0_ns = sys.stdin.readline().split()
    if word != "start":
        sys.exit(f"expected start, got {word!r}")
    return int(t0_ns)


def bound_ports(transport: str) -> set[int]:
    """The ports on which somebody listens (TCP) or that somebody has (UDP) in this network namespace."""
    rows: list[list[str]] = []
    for name in (transport, f"{transport}6"):
        try:
            with open(f"/proc/self/net/{name}") as file:
                rows += [line.split() for line in file.readlines()[1:]]
        except FileNotFoundError:               # a kernel without IPv6
            continue
    return {int(row[1].rpartition(":")[2], 16) for row in rows if transport == "udp" or row[3] == _LISTEN}


def done(account: Mapping[str, object]) -> None:
    """The last word: what was sent and received."""
    print("done", json.dumps(account), flush=True)


def sleep_until(deadline_ns: int) -> None:
    """Sleep until an instant of CLOCK_MONOTONIC, if it is yet to come."""
    time.sleep(max(0, deadline_ns - now_ns()) / 1e9)

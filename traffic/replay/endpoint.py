# SPDX-License-Identifier: GPL-2.0-only
"""One end of a source on this node: its plan seen from this side, its records, its ports.

Which connection of the plan an incoming one is, the acceptor learns from its port: the
initiator binds connection i to `first + i mod count` (`ports`, 1024 and 60000 by default), and
the acceptor takes the latest i with that port whose start is not after now. A port still in
use from `count` connections ago makes bind() fail with EADDRINUSE, which is recorded
for the later connection; the acceptor does not see it. core/loop.c knows these ports, too.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from traffic.io import payload
from traffic.io.sockets import (SO_REUSEADDR, SOL_SOCKET, bind, cca_of, choose_cca, family_of, ip_bytes, listen,
                                refused_option, set_option, tcp_socket)
from traffic.replay.options import Options
from traffic.replay.plan import read_plan
from traffic.replay.records import INITIATOR, ROLES, Records, status_text

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from array import array
    from typing import NotRequired, TypedDict

    class Entry(TypedDict):
        """An element of a job's `endpoints`; ports: the first source port, and their number."""
        flow: NotRequired[int]
        source: int
        role: str
        plan: str
        local: str
        peer: str
        port: int
        ports: NotRequired[tuple[int, int]]
        cca: NotRequired[str | None]
        options: NotRequired[list[tuple[str, int, int, int]]]

DEFAULT_PORTS = (1024, 60000)
BACKLOG = 4096          # the kernel takes the smaller of this and net.core.somaxconn


class JobError(ValueError):
    """A job that cannot be done as written."""


class End:
    """Plan columns as `own_*` and `peer_*`, records and addresses of one end of a source.

    cca: the congestion control that its sockets have to choose, None if the host's default is right; socket_options:
    what else they set before their SYN, (name, level, number, value).
    """

    own_first: array[int]
    own_need: array[int]
    own_wait_us: array[int]
    own_bytes: array[int]
    peer_first: array[int]
    peer_need: array[int]
    peer_wait_us: array[int]
    peer_bytes: array[int]

    def __init__(self, entry: Entry, node: str) -> None:
        """`entry`: an element of the job's `endpoints`. Raises JobError, PlanError, OSError."""
        try:
            self.source, self.role = entry["source"], entry["role"]
            self.local, self.peer, self.port = entry["local"], entry["peer"], entry["port"]
            path, self.cca, self.flow = entry["plan"], entry.get("cca"), int(entry.get("flow", 0))
            self.socket_options = [(str(name), int(level), int(number), int(value))
                                   for name, level, number, value in entry.get("options", ())]
            self.name = os.path.splitext(os.path.basename(path))[0]         # of its records
            self.local_ip, self.peer_ip = ip_bytes(self.local), ip_bytes(self.peer)
            self.first_port, self.ports = entry.get("ports", DEFAULT_PORTS)
        except (KeyError, TypeError, ValueError) as error:
            raise JobError(f"endpoint {entry!r}: {error!r}") from error
        if self.role not in ROLES:
            raise JobError(f"endpoint of source {self.source}: role {self.role!r} is none of "
                           f"{', '.join(ROLES)}")
        if not (1 <= self.first_port and 1 <= self.ports
                and self.first_port + self.ports <= 65536):
            raise JobError(f"endpoint of source {self.source}: ports from {self.first_port}, "
                           f"{self.ports} of them")
        if type(self.port) is not int or not 1 <= self.port <= 65535:
            raise JobError(f"endpoint of source {self.source}: port {self.port!r}")
        self.initiates = self.role == INITIATOR
        plan = read_plan(path)
        sides = ("init", "acc") if self.initiates else ("acc", "init")
        for name, side in zip(("own", "peer"), sides):
            for column in ("first", "need", "wait_us", "bytes"):
                setattr(self, f"{name}_{column}", getattr(plan, f"{side}_{column}"))
        self.start_us = plan.start_us
        self._conn_ids = plan.conn_id
        self.tally = payload.Tally()
        # of what connection 0 sends from here; and from there to that of what it receives
        self.phase = payload.phase(self.flow, 0, not self.initiates)
        self.backwards = payload.BACKWARDS if self.initiates else -payload.BACKWARDS
        self._ccas: dict[bytes, int] = {}
        self.options = Options(plan, self.initiates)
        self.wraps = len(plan) > self.ports
        self.shares_ports = self.wraps  # several sockets to one port number
        self.records = Records.empty({
            "source": self.source, "role": self.role, "node": node, "local": self.local,
            "peer": self.peer, "port": self.port, "ports": [self.first_port, self.ports],
            "connections": len(plan), "own_ops": len(self.own_bytes),
            "peer_ops": len(self.peer_bytes)})

    def port_of(self, index: int) -> int:
        """The initiator's port of a connection."""
        return int(self.first_port + index % self.ports)

    def index_of(self, port: int, now_us: int) -> int | None:
        """The connection that comes from a port at `now_us`; None if there is none."""
        offset = port - self.first_port
        begun = bisect_right(self.start_us, now_us) if self.wraps else len(self.start_us)
        if not 0 <= offset < self.ports or offset >= begun:
            return None
        return int(begun - 1 - (begun - 1 - offset) % self.ports)

    def note_cca(self, fd: int) -> None:
        """Count the congestion control of a connection that is established."""
        self.note_name(cca_of(fd))

    def note_name(self, name: bytes, connections: int = 1) -> None:
        """The same, with what the socket said."""
        self._ccas[name] = self._ccas.get(name, 0) + connections

    def account(self) -> dict[str, object]:
        """Counts of this end for the account on stdout."""
        records = self.records
        counts: dict[str, int] = {}
        for status in records.status:
            text = status_text(status)
            counts[text] = counts.get(text, 0) + 1
        late_us = 0
        if self.initiates:
            late_us = max((started - planned for started, planned
                           in zip(records.start_us, self.start_us) if started >= 0), default=0)
        wrong = self.tally.first_wrong
        if wrong:
            wrong = [self._conn_ids[wrong[0]], wrong[1]]
        return {"flow": self.flow, "end": "sender" if self.initiates else "receiver",
                "source": self.source, "role": self.role, "status": counts,
                "read_bytes": sum(records.read_bytes), "latest_start_us": late_us,
                "ccas": {name.decode("ascii", "replace"): count for name, count in sorted(self._ccas.items())},
                **self.tally.account(), "first_wrong": wrong}


def listener(end: End, nonblocking: bool) -> int:
    """The descriptor of a socket that listens at an acceptor's address. Raises OSError."""
    fd = tcp_socket(family_of(end.local_ip), nonblocking)
    error = fd if fd < 0 else (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1)
                               or (choose_cca(fd, end.cca) if end.cca else 0))
    for name, level, number, value in end.socket_options if error >= 0 else ():
        if (refused := set_option(fd, level, number, value)) < 0:
            raise OSError(-refused, refused_option(name, value, f"source {end.source}", -refused))
    error = error if error < 0 else bind(fd, end.local_ip, end.port) or listen(fd, BACKLOG)
    if error < 0:
        raise OSError(-error, f"listening at {end.local} port {end.port}: {os.strerror(-error)}")
    return fd

# SPDX-License-Identifier: GPL-2.0-only
"""The iperf3 servers and clients of one node.

    python -m traffic.greedy.iperf3 JOB.json

job: {"send": [{flow, address, port, source_port, start_us, stop_us, cca}], "receive": [{flow, address,
      port, cca, window_bytes}], "folder": where their JSON goes, "preload": library or null, "nagle": whether their
      control connections have Nagle's algorithm}
`cca` is null where the host's default is right; only a preloaded iperf3 can have another. `window_bytes`, which only a
preloaded one knows, is there where no more may be in flight.
Prints "ready" when all servers listen, reads "start <t0 ns>", ends when the last iperf3 has ended
with "done {bytes per flow}", or with iperf3's own words if one fails. The account's `counted_us` says over how long
a sender counted what it wrote, or a receiver what it read, as they say themselves. Its `ends` say of each flow which
congestion control iperf3 reports and, where it is preloaded, which one its data connection was born with, and what the
receiver found in the payload.
"""
from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Collection

from testbed.core import ip
from traffic import program
from traffic.io.clock import now_ns

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Literal, NotRequired, TypedDict

    class _Order(TypedDict):
        """An element of a job's `send` or `receive`; a receiver has no times and no source port."""
        flow: int
        address: str
        port: int
        cca: str | None
        window_bytes: NotRequired[int]
        source_port: int
        start_us: int
        stop_us: int

    class _Sums(TypedDict):
        bytes: int
        seconds: float

    class _End(TypedDict, total=False):
        """`end` of what iperf3 says, as far as it is read."""
        sum_sent: _Sums
        sum_received: _Sums
        sender_tcp_congestion: str
        receiver_tcp_congestion: str

    class _Output(TypedDict, total=False):
        """What iperf3 says, as far as it is read."""
        end: _End
        error: str

PROGRAM = "/usr/bin/iperf3"
_PATIENCE_MS = 86_400_000   # the longest it takes
_PAYLOAD = ".payload"       # what the preload library found goes beside an iperf3's JSON


def main() -> None:
    job = program.read_job()
    children = Children(job["folder"], job["preload"], job["nagle"])
    try:
        for flow in job["receive"]:
            children.start(flow["flow"], "server", server_arguments(flow), flow["cca"],
                           flow.get("window_bytes"))
        _wait_until_listening({flow["port"] for flow in job["receive"]}, children)
        _reserve_ports([flow["source_port"] for flow in job["send"]])
        t0_ns = program.wait_for_start()
        for flow in sorted(job["send"], key=lambda flow: int(flow["start_us"])):
            start_ns = t0_ns + flow["start_us"] * 1000
            while (left_ns := start_ns - now_ns()) > 0:
                children.watch(left_ns / 1e9)
            children.start(flow["flow"], "client", client_arguments(flow), flow["cca"])
        while children.running:
            children.watch()
    except ChildFailed as problem:
        sys.exit(str(problem))
    finally:
        children.kill()
    program.done({"sent_bytes": children.transferred("client", "sum_sent"),
                  "received_bytes": children.transferred("server", "sum_received"),
                  "counted_us": children.counted_us(), "ends": children.ends()})


class ChildFailed(Exception):
    """An iperf3 ended badly; the message has its own words."""


class Children:
    """The iperf3 processes of this node. All are started by the main thread: preloaded, they end when it does."""

    def __init__(self, folder: str, preload: str | None, nagle: bool = False) -> None:
        self._folder = folder
        self._environment = {**os.environ, **({"LD_PRELOAD": preload} if preload else {}),
                             **({"TESTBED_NAGLE": "yes"} if nagle else {})}
        # file descriptor of a process -> (its id, flow, role)
        self.running: dict[int, tuple[int, int, str]] = {}
        # (flow, role) -> the sums in its JSON
        self._ended: dict[tuple[int, str], _End] = {}

    def start(self, flow: int, role: str, arguments: list[str], cca: str | None = None,
              window_bytes: int | None = None) -> None:
        """Start iperf3; its output goes to a file of its own. cca: that its sockets have from the first, if not the
        host's default. Its option -C comes too late: it changes a connection that is there, and was begun by another.
        window_bytes: the most that is in flight to it.
        """
        open_output = (os.POSIX_SPAWN_OPEN, 1, self._path(flow, role), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        environment = {**self._environment, "TESTBED_PAYLOAD": self._path(flow, role) + _PAYLOAD}
        if cca:
            environment["TESTBED_CCA"] = cca
        if window_bytes:
            environment["TESTBED_WINDOW"] = str(window_bytes)
        pid = os.posix_spawn(PROGRAM, ["iperf3", "-4", "-J", *arguments], environment, file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), open_output, (os.POSIX_SPAWN_DUP2, 1, 2)])
        self.running[os.pidfd_open(pid)] = pid, flow, role

    def watch(self, timeout_s: float | None = None) -> None:
        """Return when a child has ended, or after `timeout_s`. ChildFailed if it ended badly."""
        ended, _, _ = select.select(self.running, [], [], timeout_s)
        for fd in ended:
            status = self._wait(fd)
            _, flow, role = self.running.pop(fd)
            self._ended[flow, role] = self._check(flow, role, status)["end"]

    def _wait(self, fd: int) -> int:
        _, status = os.waitpid(self.running[fd][0], 0)
        os.close(fd)
        return os.waitstatus_to_exitcode(status)

    def _check(self, flow: int, role: str, status: int) -> _Output:
        """The JSON of an iperf3 that has ended; ChildFailed unless it is all there is, and names no error."""
        with open(self._path(flow, role), errors="replace") as f:
            complaint, brace, rest = f.read().partition("{")
        try:
            output: _Output = json.loads(brace + rest)
        except ValueError:
            complaint, output = (complaint + brace + rest)[-1000:], {}
        found = [complaint.strip(), output.get("error")]
        if status < 0:
            found.append(f"killed by {signal.Signals(-status).name}")
        elif status or not output:
            found.append(f"exit status {status}")
        words = "; ".join(word for word in found if word)
        if words:
            raise ChildFailed(f"iperf3 {role} of flow {flow}: {words}")
        return output

    def transferred(self, role: str, which: Literal["sum_sent", "sum_received"]) -> dict[int, int]:
        """{flow: bytes} of the given sum of the children's output."""
        return {flow: sums[which]["bytes"] for (flow, of), sums in sorted(self._ended.items()) if of == role}

    def counted_us(self) -> dict[int, int]:
        """{flow: over how long its end at this node counted}"""
        return {flow: round((sums["sum_sent"] if role == "client" else sums["sum_received"])["seconds"] * 1e6)
                for (flow, role), sums in sorted(self._ended.items())}

    def ends(self) -> list[dict[str, object]]:
        """What the children's ends of the flows used and found, for the account."""
        return [self._end(flow, role, output) for (flow, role), output in sorted(self._ended.items())]

    def _end(self, flow: int, role: str, output: _End) -> dict[str, object]:
        name, cca = (("sender", output.get("sender_tcp_congestion")) if role == "client" else
                     ("receiver", output.get("receiver_tcp_congestion")))
        found: dict[str, object] = {"flow": flow, "end": name, "ccas": {} if cca is None else {cca: 1}}
        try:
            with open(self._path(flow, role) + _PAYLOAD) as f:
                compared, wrong, first, *born = f.read().split()
        except FileNotFoundError:               # not preloaded
            return {**found, "checked_bytes": 0, "unchecked_bytes": output["sum_received"]["bytes"]
                    if role == "server" and "sum_received" in output else 0, "wrong_pieces": 0, "first_wrong": None}
        return {**found, "born": dict.fromkeys(born, 1), "checked_bytes": int(compared), "unchecked_bytes": 0,
                "wrong_pieces": int(wrong), "first_wrong": [0, int(first)] if int(wrong) else None}

    def kill(self) -> None:
        """End those that still run."""
        for fd, (pid, _, _) in self.running.items():
            os.kill(pid, signal.SIGKILL)
            self._wait(fd)
        self.running.clear()

    def _path(self, flow: int, role: str) -> str:
        return f"{self._folder}/{output_name(flow, role)}"


def output_name(flow: int, role: str) -> str:
    """File name of an iperf3's JSON: that of the client (the sender) is the flow's."""
    return f"iperf3-flow{flow}.json" if role == "client" else f"iperf3-flow{flow}-{role}.json"


def server_arguments(flow: _Order) -> list[str]:
    """Arguments of the server of a flow. It serves once, and waits for data however long a retransmission takes."""
    return ["-s", "-1", *_family(flow), "-B", flow["address"], "-p", str(flow["port"]),
            "--rcv-timeout", str(_PATIENCE_MS)]


def _family(flow: _Order) -> list[str]:
    """A server that is not told so takes an IPv6 address for one of IPv4."""
    return ["-6"] if ip.version_of(flow["address"]) == 6 else []


def client_arguments(flow: _Order) -> list[str]:
    """Arguments of the client of a flow. Its time is in whole seconds: it lasts until its stop or up to 1 s longer."""
    seconds = -(-(flow["stop_us"] - flow["start_us"]) // 1_000_000)
    return ["-c", flow["address"], *_family(flow), "-p", str(flow["port"]), "--cport", str(flow["source_port"]),
            "-t", str(seconds)]


def _wait_until_listening(ports: set[int], children: Children) -> None:
    while not ports <= program.bound_ports("tcp"):
        children.watch(0.001)
        if len(children.running) < len(ports):
            raise ChildFailed("an iperf3 server ended before it was used")


def _reserve_ports(ports: Collection[int]) -> None:
    """Keep the flows' source ports from being given to other connections, such as iperf3's control connections."""
    if ports:
        with open("/proc/sys/net/ipv4/ip_local_reserved_ports", "r+") as f:
            there = f.read().strip()            # of another component on this host
            f.seek(0)
            f.write(",".join([*filter(None, [there]), f"{min(ports)}-{max(ports)}"]))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only
"""Sender and receiver of greedy flows as plain sockets, one process per node, or for many nodes with few flows each.

    python -m traffic.greedy.flows JOB.json
    python -m traffic.greedy.flows NODE DESCRIPTOR JOB.json NODE DESCRIPTOR JOB.json ...

job: {"send": [{flow, address, port, start_us, stop_us, cca}], "receive": [{flow, address, port, peer, start_us,
stop_us, cca}], "duration_us", "ring"}; a flow may have `bytes` (to send exactly that many), `maxseg` (largest segment,
with time stamps) and `window_bytes` (the most that the receiver lets be in flight), and at the sender `sequence_start`
and `bursts_us` [[from, to], ...]: it sends then only, over the same connection; `pace` {bytes, gap_ns}: so much at
a time, at instants so far apart; `phases` [[from_us, to_us, bytes, gap_ns], ...]: then only, at such a pace or, without
bytes, all it can; and at the receiver `receiver` {kind, parts or ahead}: how it misbehaves (misbehaving.py). `cca` is
null where the host's default is right. `options` [[name, level, number, value], ...] are set before the SYN. With
"wakeup_cost_us" every read and write that returns costs that much time before the program goes on.
With "ring" one io_uring drives all ends (orders.py decides that); without, and where the kernel has none, each end has
a thread, as it has in a program of several nodes: a socket stays in the namespace in which its thread made it.
Only threads know flows that rest, have a pace or a receiver that misbehaves, and what a wake-up costs.
Prints "ready", reads "start <t0 ns>", ends at t0 + duration with "done {bytes per flow}". The account's `ends` say of
each flow which congestion control the socket here uses and, at the receiver, what it found in the payload.
"""

from __future__ import annotations

import socket
import sys
from functools import partial

from traffic import program
from traffic.greedy import ends, misbehaving
from traffic.io.payload import Pattern
from traffic.io.sockets import raise_descriptor_limit

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable

    from traffic.io.uring import Ring

#: what is imported when it is known which of them drives the flows
ALSO = ("topologies.linux.namespace", "traffic.greedy.ring", "traffic.greedy.ring_ends",
        "traffic.greedy.threads")


def main() -> None:
    hosts = program.read_hosts()
    raise_descriptor_limit()
    pattern = Pattern()
    ring = _ring(hosts[0].job) if len(hosts) == 1 else None
    listeners = [_listen(host, flow) for host in hosts for flow in host.job["receive"]]
    counts = ends.Counts([host.job for host in hosts])
    orders = [(host, flow, role) for role in ("send", "receive") for host in hosts for flow in host.job[role]]
    all_ends: list[ends.End]
    run: Callable[[int, int], None]
    if ring:
        from traffic.greedy.ring import RingFlows
        all_ends = [ends.End(flow, role) for _, flow, role in orders]
        run = RingFlows(ring, all_ends, listeners, counts, pattern).run
    else:
        from traffic.greedy import threads
        threaded = [threads.End(flow, role, host) for host, flow, role in orders]
        all_ends = [*threaded]
        run = partial(threads.run, threaded, listeners, counts, pattern)
    counts.t0_ns = program.wait_for_start()
    run(counts.t0_ns, counts.t0_ns + hosts[0].job["duration_us"] * 1000)
    for listener in listeners:
        listener.detach()       # closed with the program: one by one Python asks three things of each
    found: dict[str, dict[str, object]] = {host.node: {**counts.account(host.job), "ends": [
        end.account() for (of, _, _), end in zip(orders, all_ends) if of is host]} for host in hosts}
    if len(hosts) > 1:
        program.done(found)
    else:
        program.done(found[hosts[0].node])


def _listen(host: program.Host, flow: ends.Order) -> socket.socket:
    """The listener of a flow, in its host's namespace."""
    try:
        host.enter()
        listener = ends.listen(flow)
        return misbehaving.listen(listener, flow) if "receiver" in flow else listener
    except OSError as problem:
        sys.exit(f"{host.name(ends.name(flow, 'receive'))}: {problem.strerror}")


def _ring(job: ends.Job) -> Ring | None:
    """A traffic.io.uring.Ring, where the job wants one and the kernel has it; else None."""
    if not job["ring"]:
        return None
    from traffic.greedy.ring import make_ring
    try:
        return make_ring(len(job["send"]) + len(job["receive"]))
    except OSError:
        return None


if __name__ == "__main__":
    main()

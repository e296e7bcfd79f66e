# SPDX-License-Identifier: GPL-2.0-only
"""One end of a flow of media.

    python3 -m traffic.nada.program JOB.json

job: {"role": "send" or "receive", "address", "port", "payload_bytes", "frame_bytes", "start_us", "stop_us",
"drained_us", "least_bps", "most_bps", "output"}. A packet begins with its number and with the instant at which it left,
in ns of experiment time. A report has the instant of the packet that came last, how long that waited for the report,
and what `control.Observer` reports.
"""
from __future__ import annotations

import json
import select
import socket
import struct

from testbed.core import ip
from traffic import program
from traffic.datagrams.arrivals import Arrivals, socket_drops
from traffic.datagrams.batch import HEADER
from traffic.io.clock import now_ns
from traffic.nada import control

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

_REPORT = struct.Struct("!QQdd?")
_DELTA_NS = int(control.DELTA_MS * 1e6)


def _readable(of: socket.socket, until_ns: int) -> bool:
    """Wait until a packet is there (True) or an instant is reached."""
    return bool(select.select([of], [], [], max(0, until_ns - now_ns()) / 1e9)[0])


def send(job: Any, datagrams: socket.socket, t0_ns: int) -> dict[str, float]:
    """Packets at the rate that reports lead to. Without reports the rate stays."""
    rate = control.Rate(job["least_bps"], job["most_bps"])
    start_ns, stop_ns = (t0_ns + job[name] * 1000 for name in ("start_us", "stop_us"))
    datagrams.connect((job["address"], job["port"]))
    payload, packets, last_ns = bytearray(job["payload_bytes"]), 0, None
    program.sleep_until(start_ns)
    while (now := now_ns()) < stop_ns:
        due_ns = now if last_ns is None else last_ns + round(job["frame_bytes"] * 8e9 / rate.bps)
        if _readable(datagrams, min(due_ns, stop_ns)):
            try:
                left_ns, waited_ns, *report = _REPORT.unpack(datagrams.recv(_REPORT.size))
            except ConnectionRefusedError:      # the receiver has ended: on a machine that is late
                continue
            now = now_ns()
            rate.update((now - t0_ns) / 1e6, (now - t0_ns - left_ns - waited_ns) / 1e6, *report)
        elif due_ns < stop_ns:
            last_ns = now_ns() if last_ns is None else max(due_ns, now_ns())
            HEADER.pack_into(payload, 0, packets, last_ns - t0_ns)
            datagrams.send(payload)
            packets += 1
    return {"sent_packets": packets, "sent_bytes": packets * (job["frame_bytes"] - ip.ETHERNET_BYTES)}


def receive(job: Any, datagrams: socket.socket, t0_ns: int) -> dict[str, float]:
    """Counts packets, and reports every DELTA from the first one on until the sender stops."""
    observer = control.Observer()
    arrivals = Arrivals(ip.udp_header_bytes(job["address"]))
    stop_ns, end_ns = (t0_ns + job[name] * 1000 for name in ("stop_us", "drained_us"))
    report_ns, sender, left_ns, came_ns = None, ("", 0), 0, 0
    while now_ns() < end_ns:
        if _readable(datagrams, end_ns if report_ns is None else report_ns):
            packet, sender = datagrams.recvfrom(job["payload_bytes"])
            came_ns = now_ns()
            number, left_ns = HEADER.unpack_from(packet)
            delay_ns = came_ns - t0_ns - left_ns
            arrivals.count(len(packet), number, delay_ns)
            observer.note((came_ns - t0_ns) / 1e6, number, delay_ns / 1e6, job["frame_bytes"])
            report_ns = report_ns or came_ns + _DELTA_NS
        elif report_ns is not None:
            now = now_ns()
            datagrams.sendto(_REPORT.pack(left_ns, now - came_ns, *observer.report((now - t0_ns) / 1e6)), sender)
            report_ns = report_ns + _DELTA_NS if report_ns + _DELTA_NS < stop_ns else end_ns
    return {**arrivals.counts(), "socket_dropped_packets": socket_drops(datagrams)}


def main() -> None:
    job = program.read_job()
    with socket.socket(ip.family(job["address"]), socket.SOCK_DGRAM) as datagrams:
        if job["role"] == "receive":
            datagrams.bind((job["address"], job["port"]))
        counts = (receive if job["role"] == "receive" else send)(job, datagrams, program.wait_for_start())
    with open(job["output"], "w") as file:
        json.dump(counts, file)
    program.done({"packets": counts})


if __name__ == "__main__":
    main()

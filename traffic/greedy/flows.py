# SPDX-License-Identifier: GPL-2.0-only
"""Sender and receiver of greedy flows, one process per node.

    python -m traffic.greedy.flows JOB.json

job: {"send": [{flow, address, port, start_us}], "receive": [{flow, address, port}], "duration_us"}
Prints "ready", reads "start <t0 ns>", ends at t0 + duration with "done {bytes per flow}".
"""
import json
import signal
import socket
import sys
import threading
import time

_WRITE_BYTES = 1 << 20
# Wake the receiver for half a megabyte at a time: it must not cost a system call per packet.
# Linux caps this at half the receive buffer, so that it cannot stall a flow.
_LOW_WATER_BYTES = 1 << 19


def _receive(listener, counts, flow):
    connection, _ = listener.accept()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER_BYTES)
    buffer = bytearray(_WRITE_BYTES)
    while received := connection.recv_into(buffer):
        counts[flow] += received


def _send(flow, start_ns, end_ns, counts):
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    data = bytes(_WRITE_BYTES)
    with socket.create_connection((flow["address"], flow["port"])) as connection:
        while (left_ns := end_ns - time.monotonic_ns()) > 0:
            connection.settimeout(left_ns / 1e9)
            try:
                counts[flow["flow"]] += connection.send(data)
            except TimeoutError:
                return


def main():
    with open(sys.argv[1]) as f:
        job = json.load(f)
    received = {flow["flow"]: 0 for flow in job["receive"]}
    sent = {flow["flow"]: 0 for flow in job["send"]}
    listeners = [(socket.create_server((flow["address"], flow["port"])), flow["flow"]) for flow in job["receive"]]
    print("ready", flush=True)
    word, t0_ns = sys.stdin.readline().split()
    if word != "start":
        sys.exit(f"expected start, got {word!r}")
    t0_ns = int(t0_ns)
    end_ns = t0_ns + job["duration_us"] * 1000
    threads = [threading.Thread(target=_receive, args=(listener, received, flow), daemon=True)
               for listener, flow in listeners]
    threads += [threading.Thread(target=_send, args=(flow, t0_ns + flow["start_us"] * 1000, end_ns, sent), daemon=True)
                for flow in job["send"]]
    for thread in threads:
        thread.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(max(0, end_ns - time.monotonic_ns()) / 1e9)
    print("done", json.dumps({"sent_bytes": sent, "received_bytes": received}), flush=True)


if __name__ == "__main__":
    main()

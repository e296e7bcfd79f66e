# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: a network of the testbed's, and packets of UDP and TCP whose instants are noted.

Argument: a JSON file with the network.
"""
import ctypes
import json
import os
import re
import socket
import struct
import sys
import threading
import time

_libc = ctypes.CDLL(None, use_errno=True)
_SO_TIMESTAMPNS, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 35, 32, 33
_TRACE = "/sys/kernel/tracing"


def one_way(network, sizes, gap_us):
    """Datagrams of these sizes of frames from n2 to n1, a gap after each: which arrived, how long each took from
    send() to n1's stack, and when that was, in us since the first was sent."""
    target = next(node["addresses"][0] for node in network.description["nodes"] if node["name"] == "n1")
    with network.in_namespace("n1"):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind((target, 9))
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 24)
    with network.in_namespace("n2"):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 1 << 24)
    sent_ns = []
    for number, size in enumerate(sizes):
        sent_ns.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
        sender.sendto(struct.pack("I", number) + bytes(size - 42 - 4), (target, 9))
        if gap_us:
            time.sleep(gap_us / 1e6)
    time.sleep(1)
    receiver.setblocking(False)
    order, delays_us, arrived_us = [], [], []
    try:
        while True:
            data, ancillary, _, _ = receiver.recvmsg(2000, 200)
            seconds, ns = struct.unpack("qq", ancillary[0][2][:16])
            order.append(struct.unpack_from("I", data)[0])
            arrived_us.append((seconds * 10**9 + ns - sent_ns[0]) / 1000)
            delays_us.append(arrived_us[-1] - (sent_ns[order[-1]] - sent_ns[0]) / 1000)
    except BlockingIOError:
        return {"order": order, "delays_us": delays_us, "arrived_us": arrived_us}


def transfer(network, size):
    """A TCP transfer from n2 to n1: lengths of what TCP handed over, and TCP segments that n1's stack saw."""
    _libc.mount(b"tracefs", _TRACE.encode(), b"tracefs", 0, None)
    with open(f"{_TRACE}/events/net/net_dev_queue/enable", "w") as switch:
        switch.write("1")
    target = next(node["addresses"][0] for node in network.description["nodes"] if node["name"] == "n1")
    with network.in_namespace("n1"):
        listener = socket.socket()
        listener.bind((target, 99))
        listener.listen()
    with network.in_namespace("n2"):
        sender = socket.socket()

    def receive():
        connection, _ = listener.accept()
        while connection.recv(1 << 20):
            pass
    thread = threading.Thread(target=receive)
    thread.start()
    sender.connect((target, 99))
    sender.sendall(bytes(size))
    sender.close()
    thread.join()
    time.sleep(1)
    with open(f"{_TRACE}/trace") as trace:
        lengths = [int(length) for device, length in re.findall(r"net_dev_queue: dev=(\S+) .*len=(\d+)", trace.read())
                   if device == "n2-eth0"]
    with network.in_namespace("n1"), open("/proc/thread-self/net/snmp") as snmp:
        names, values = (line.split() for line in snmp if line.startswith("Tcp:"))
    return {"lengths": lengths, "segments_seen": int(values[names.index("InSegs")])}


def main(path):
    from topologies.links import records
    from topologies.linux.network import Network
    with open(path) as f:
        network = records.Network(json.load(f))
    with Network(network, {node.name: {} for node in network.nodes}) as built:
        time.sleep(0.1)
        one_way(built, [1514], 0)               # the kernel's clock is coarse until its first timers have fired
        return {"apart": one_way(built, [1514] * 4 + [100] * 4, 10_000), "together": one_way(built, [1514] * 8, 0),
                "many": one_way(built, [1514] * 500, 500), "transfer": transfer(built, 1_000_000)}


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    from guest_script import answer
    answer(main)

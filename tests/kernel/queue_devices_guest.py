# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: the devices of testbed/probes/queues (argument: the module), closed with something unread."""
import os
import socket
import struct
import subprocess
import sys
import time


def main(module):
    from testbed.guest.congestion_controls import load_module
    load_module(module, {})
    for words in ("ip link add q0 type veth peer name q1", "ip link set q1 up", "ip addr add 10.9.9.1/24 dev q0",
                  "tc qdisc add dev q0 root tbf rate 10mbit burst 2000 limit 10000", "ip link set q0 up",
                  "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:01 dev q0"):
        subprocess.run(words.split(), check=True)
    index = socket.if_nametoindex("q0")
    # zero, interval, measure_from, until; devices, bins, rows, may_deny, codepoints, unused; bins from 0 ns on
    order = struct.pack("=QQQQIIIIIIQI", time.monotonic_ns(), 10**7, 0, 10**12, 1, 1, 100, 0, 1, 0, 0, index)
    return {name: [_read(name, begin, True), _read(name, begin, False), _read(name, b"", True)]
            for name, begin in (("queue_log", struct.pack("=I", index)), ("queue_sojourn", order))}


def _read(name, begin, reads):
    """How many bytes there are to be read after three packets of a device that was begun with these, or only opened."""
    device = os.open(f"/dev/{name}", os.O_RDWR)
    try:
        if begin:
            os.write(device, begin)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                for _ in range(3):
                    sock.sendto(b"x", ("10.9.9.2", 9))
                    time.sleep(0.02)
        return len(os.read(device, 4096)) if reads else None
    finally:
        os.close(device)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    from guest_script import answer
    answer(main)

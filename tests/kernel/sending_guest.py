# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: what programs hand to the kernel, how it takes it (kernel/patches/speed/0017, 0018)."""
import ctypes
import mmap
import os
import socket
import subprocess
import sys

_FLOWS, _BUFFER_BYTES, _READ_BYTES = 100, 65536, 50_000


def _free_kb():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemFree:"))


def _sent(registered):
    """[whether it was registered, kB that what waits in sockets takes, whether what arrived is right]"""
    from traffic.io.payload import Pattern, phase
    from traffic.io.uring import Ring
    ring, pattern = Ring(4 * _FLOWS), Pattern()
    can = registered and ring.send_from(pattern.address, pattern.size)
    listener = socket.create_server(("127.0.0.1", 0), backlog=_FLOWS)
    senders = [socket.create_connection(listener.getsockname()) for _ in range(_FLOWS)]
    receivers = [listener.accept()[0] for _ in range(_FLOWS)]
    for sender in senders:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    before_kb = _free_kb()
    for flow, sender in enumerate(senders):
        ring.send(sender.fileno(), pattern.address + phase(flow), 1 << 20, 0, flow)
    ring.after(100_000_000, 0, _FLOWS)
    assert [number for number, _ in ring.submit_and_wait()] == [_FLOWS]         # no sender is through
    taken_kb, right = before_kb - _free_kb(), True
    buffer = bytearray(_READ_BYTES)
    for flow, receiver in enumerate(receivers):
        with memoryview(buffer) as whole:
            at = 0
            while at < _READ_BYTES:
                at += receiver.recv_into(whole[at:])
        right = right and buffer == pattern.view[phase(flow):phase(flow) + _READ_BYTES]
    for one in (*senders, *receivers, listener):
        one.close()
    ring.close()
    return [can, taken_kb, right]


def _texts():
    """What becomes of paths that end before, at and behind the end of a page of memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.access.argtypes = [ctypes.c_void_p, ctypes.c_int]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc.mprotect(first + 2 * mmap.PAGESIZE, mmap.PAGESIZE, 0)
    path = b"/proc/self/status\0"

    def asked(at, text):
        memory[at:at + len(text)] = text
        return ctypes.get_errno() if libc.access(first + at, os.F_OK) else 0
    end = 2 * mmap.PAGESIZE
    return {"inside": asked(100, path), "across": asked(mmap.PAGESIZE - 5, path),
            "up to the end": asked(end - len(path), path), "no end": asked(end - len(path) + 1, path[:-1]),
            "none": asked(end - len(path), b"/proc/self/nothing"[:len(path) - 1] + b"\0"),
            "too long": asked(0, b"/" * 4096 + b"\0"), "longest": asked(0, b"/" * 4095 + b"\0")}


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return {"registered": _sent(True), "copied": _sent(False), "texts": _texts()}


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    from guest_script import answer
    answer(main)

# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: floating-point work in processes that take turns and get signals."""
import ctypes
import os
import signal

_libc = ctypes.CDLL(None)


def work(seed):
    """A sum that changes if a register of another process leaks into it."""
    value, total = float(seed), 0.0
    for number in range(3000):
        value = value * 1.0000001 + 1 / (number + seed)
        total += value ** 0.5
        os.sched_yield()
        if number % 100 == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
    return total


def run():
    """hex of every process's sum, in the order of their seeds."""
    signal.signal(signal.SIGUSR1, lambda *_: sum(0.1 * n for n in range(50)))
    children = []
    for seed in range(1, 5):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, work(seed).hex().encode())
            os._exit(0)
        os.close(write)
        children.append(read)
    return [os.read(read, 100).decode() for read in children]


if __name__ == "__main__":
    try:
        os.write(2, ("sums " + " ".join(run()) + "\n").encode())
    finally:
        _libc.reboot(0x4321FEDC)

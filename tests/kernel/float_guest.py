# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: floating-point work in processes and threads that take turns, get signals, begin and end."""
import ctypes
import os
import signal
import sys
import threading

_libc, _libm = ctypes.CDLL(None), ctypes.CDLL("libm.so.6")
_libm.rint.argtypes, _libm.rint.restype = [ctypes.c_double], ctypes.c_double
#: fenv.h on x86: to nearest, down, up, to zero; and what each makes of 2.5 and -2.5. They stand in a control register,
#: which is part of the state, and stays what it is from one system call to the next
ROUNDINGS = {0x000: (2.0, -2.0), 0x400: (2.0, -3.0), 0x800: (3.0, -2.0), 0xC00: (2.0, -2.0)}


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


def rounds(mode, times):
    """Have a rounding of one's own, and give way again and again: how often it was another one afterwards."""
    _libm.fesetround(mode)
    wrong = 0
    for _ in range(times):
        os.sched_yield()
        wrong += (_libm.fegetround(), _libm.rint(2.5), _libm.rint(-2.5)) != (mode, *ROUNDINGS[mode])
    return wrong


def roundings():
    """Wrong roundings of threads that share an address space, of programs' parents, of children and of what is left
    of a process whose other threads have ended."""
    wrong = []

    def thread(mode, times):
        wrong.append(rounds(mode, times))
    threads = [threading.Thread(target=thread, args=(mode, times)) for mode in ROUNDINGS for times in (20, 300)]
    _libm.fesetround(0x800)
    for one in threads:
        one.start()
    for _ in range(3):
        os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
        wrong.append(_libm.fegetround() != 0x800)
        child = os.fork()
        if not child:
            # a child has what its parent had, and what it changes is its own
            os._exit((_libm.fegetround() != 0x800) + rounds(0x400, 20))
        wrong.append(os.waitpid(child, 0)[1] != 0)
    for one in threads:
        one.join()
    wrong.append(_libm.fegetround() != 0x800)
    _libm.fesetround(0)
    return sum(wrong)


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
        sys.setswitchinterval(1e-6)
        os.write(2, ("sums " + " ".join(run()) + f"\nwrong {roundings()}\n").encode())
    finally:
        _libc.reboot(0x4321FEDC)

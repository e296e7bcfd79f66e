# SPDX-License-Identifier: GPL-2.0-only
"""float_guest.py in a kernel, and what it should find."""
import signal
import subprocess

from tests.kernel import float_guest


def expected_sums():
    """What its processes compute, here."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        return [float_guest.work(seed).hex() for seed in range(1, 5)]
    finally:
        signal.signal(signal.SIGUSR1, before)


def found(built, folder, *words):
    """(what they compute in a guest, how many roundings were wrong there).

    folder: an empty one; words: more for the kernel's command line.
    """
    done = subprocess.run(
        ["setarch", "-R", str(built.program), "mem=128M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
         "time-travel=inf-cpu", "quiet", *words, "con=null", "con0=null,fd:2", f"uml_dir={folder}", "umid=float",
         "init=/usr/bin/python3", "--", "-I", "-S", float_guest.__file__],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    lines = {line.split()[0]: line.split()[1:] for line in (done.stdout + done.stderr).splitlines() if line.strip()}
    assert {"sums", "wrong"} <= lines.keys(), done.stdout + done.stderr
    return lines["sums"], int(lines["wrong"][0])

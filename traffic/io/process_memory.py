# SPDX-License-Identifier: GPL-2.0-only
"""Memory of a program that has started."""
import ctypes


def as_usual() -> None:
    """From here on memory comes when it is touched, whatever made the program start faster (testbed/guest/preload.c):
    a thread's stack is 8 MB, of which next to nothing is."""
    ctypes.CDLL(None).munlockall()

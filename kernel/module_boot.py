# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest that loads one module on trial: say what it registers, then switch off.

    module_boot.py FILE.ko         (a file beside this one)
"""
import ctypes
import os
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_INIT_MODULE = 175
_AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"


def _available() -> list[str]:
    with open(_AVAILABLE, encoding="ascii", errors="replace") as f:
        return f.read().split()


try:
    # while /proc is still the host's: this file was named by way of it
    with open(os.path.join(os.path.dirname(__file__), sys.argv[1]), "rb") as module:
        image = module.read()
    _libc.mount(b"proc", b"/proc", b"proc", 0, None)
    before = _available()
    os.write(2, b"loading\n")
    if _libc.syscall(_INIT_MODULE, image, ctypes.c_ulong(len(image)), b""):
        os.write(2, f"refused {os.strerror(ctypes.get_errno())}\n".encode())
    else:
        os.write(2, f"registered {' '.join(n for n in _available() if n not in before)}\n".encode())
finally:
    _libc.reboot(0x4321FEDC)

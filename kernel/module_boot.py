# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest that loads modules on trial: say what each registers, then switch off.

    module_boot.py FILE.ko...      (files beside this one, in the order in which they are loaded)
"""
import ctypes
import os
import sys
import traceback

_libc = ctypes.CDLL(None, use_errno=True)
_INIT_MODULE = 175
_AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"


def _available() -> list[str]:
    with open(_AVAILABLE, encoding="ascii", errors="replace") as f:
        return f.read().split()


def _load(name: str, image: bytes) -> bool:
    before = _available()
    os.write(2, f"loading {name}\n".encode())
    if _libc.syscall(_INIT_MODULE, image, ctypes.c_ulong(len(image)), b""):
        os.write(2, f"refused {os.strerror(ctypes.get_errno())}\n".encode())
        return False
    os.write(2, f"registered {' '.join(n for n in _available() if n not in before)}\n".encode())
    return True


try:
    images = {}
    for given in (word for word in sys.argv[1:] if word.endswith(".ko")):      # behind them are words of the kernel's
        # while /proc is still the host's: this file was named by way of it
        with open(os.path.join(os.path.dirname(__file__), given), "rb") as module:
            images[given] = module.read()
    _libc.mount(b"proc", b"/proc", b"proc", 0, None)
    for given, content in images.items():
        if not _load(given, content):
            break
except Exception:
    traceback.print_exc()           # before the kernel is gone, and what it printed with it
finally:
    _libc.reboot(0x4321FEDC)

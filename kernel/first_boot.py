# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a freshly built kernel's first boot: say what it is, then switch off."""
import ctypes
import os
import traceback

_libc = ctypes.CDLL(None, use_errno=True)
try:
    _libc.mount(b"proc", b"/proc", b"proc", 0, None)
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as f:
        available = f.read().strip()
    features = ""
    try:
        with open("/proc/sys/net/ipv4/tcp_ecn", "w", encoding="ascii") as f:
            f.write("3")
        features = " accecn"
    except OSError:
        pass                        # the kernel's TCP knows 0 to 2
    os.write(2, f"release {os.uname().release}\ncongestion controls {available}\nfeatures{features}\n".encode())
except Exception:
    traceback.print_exc()           # before the kernel is gone, and what it printed with it
finally:
    _libc.reboot(0x4321FEDC)

# SPDX-License-Identifier: GPL-2.0-only
"""Entering a node's network namespace, and the few things done directly inside it."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


def _setns(fd):
    if _libc.setns(fd, _CLONE_NEWNET):
        errno = ctypes.get_errno()
        raise OSError(errno, f"setns: {os.strerror(errno)}")


@contextlib.contextmanager
def netns_of(pid):
    """Run the block in the network namespace of process `pid`.

    Sockets opened and processes started in the block stay in that namespace;
    /proc/sys/net in the block is the namespace's own.
    """
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(there)
        os.close(home)


def write_sysctl(name, value):
    """Set a sysctl (dotted name) of the current namespace and read it back.

    Returns the value read, as text. Raises OSError when it cannot be written.
    """
    path = "/proc/sys/" + name.replace(".", "/")
    with open(path, "w") as f:
        f.write(str(value))
    with open(path) as f:
        return " ".join(f.read().split())


# ethtool's per-feature commands (include/uapi/linux/ethtool.h): name -> (get, set)
_OFFLOADS = {"tso": (0x1e, 0x1f), "gso": (0x23, 0x24), "gro": (0x2b, 0x2c)}
_SIOCETHTOOL = 0x8946


def _ethtool(sock, device, command, value):
    """One ETHTOOL_G/S<feature> call; returns the value in struct ethtool_value."""
    data = ctypes.create_string_buffer(struct.pack("II", command, value))
    request = struct.pack("16sP8x", device.encode(), ctypes.addressof(data))
    fcntl.ioctl(sock, _SIOCETHTOOL, request)
    return struct.unpack("II", data.raw[:8])[1]


def disable_offloads(device):
    """Turn TSO, GSO and GRO of a device off; returns {feature: still on?} as read back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, command in _OFFLOADS.values():
            _ethtool(sock, device, command, 0)
        return {name: bool(_ethtool(sock, device, command, 0))
                for name, (command, _) in _OFFLOADS.items()}

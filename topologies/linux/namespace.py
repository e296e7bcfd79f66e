# SPDX-License-Identifier: GPL-2.0-only
"""Entering a node's network namespace, and the few things done directly inside it."""
import _thread
import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Collection, Iterator

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
#: of a setting that are read at a time; the kernel clears one more
_SETTING_BYTES = 4095


def enter(fd: int) -> None:
    """Let the calling thread be in the network namespace that a descriptor is of."""
    if _libc.setns(fd, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def open_namespace(pid: int) -> int:
    """A descriptor of the network namespace of process `pid`."""
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def netns_of(pid: int) -> Iterator[None]:
    """Run the block in the network namespace of process `pid`.

    Sockets opened and processes started in the block stay in that namespace;
    /proc/sys/net in the block is the namespace's own.
    """
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = open_namespace(pid)
    try:
        enter(there)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(there)
        os.close(home)


class Namespaces:
    """The network namespaces that one thread goes to and comes back from again and again: each is opened once."""

    def __init__(self) -> None:
        self._here = self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._of: dict[int, int] = {}

    @contextlib.contextmanager
    def inside(self, pid: int) -> Iterator[None]:
        """As netns_of."""
        if pid not in self._of:
            self._of[pid] = open_namespace(pid)
        before, there = self._here, self._of[pid]
        enter(there)
        self._here = there
        try:
            yield
        finally:
            enter(before)
            self._here = before

    def close(self) -> None:
        """Let them go: an open descriptor keeps a namespace."""
        for fd in self._of.values():
            os.close(fd)
        self._of = {}
        if self._home >= 0:
            os.close(self._home)
        self._here = self._home = -1


class Keeper:
    """A network namespace of its own, there until `release`: that of a thread, whose id is `tid`.

    OSError if there cannot be one.
    """

    def __init__(self) -> None:
        self._stay, ready = threading.Lock(), threading.Lock()
        self._problem: OSError | None = None
        self.tid = 0
        self._stay.acquire()
        ready.acquire()
        _thread.start_new_thread(self._keep, (ready,))
        ready.acquire()
        if self._problem:
            raise self._problem

    def _keep(self, ready: threading.Lock) -> None:
        self.tid = threading.get_native_id()
        if _libc.unshare(_CLONE_NEWNET):
            number = ctypes.get_errno()
            self._problem = OSError(number, f"unshare: {os.strerror(number)}")
        ready.release()
        if not self._problem:
            self._stay.acquire()

    def release(self) -> None:
        """Let the namespace go, unless somebody else is in it."""
        if self._stay.locked():
            self._stay.release()


def sysctl_path(name: str) -> str:
    """The file of a sysctl (dotted name)."""
    return "/proc/sys/" + name.replace(".", "/")


def write_sysctl(name: str, value: object) -> str:
    """Set a sysctl (dotted name) of the current namespace and read it back.

    Returns the value read, as text. ValueError if there is no such setting or the kernel refuses the value.
    """
    try:
        # four system calls, where Python's files take sixteen: a network of eight nodes has 240 settings
        fd = _open_setting(sysctl_path(name))
    except FileNotFoundError:
        raise ValueError(f"{name}: the kernel knows no such setting") from None
    except IsADirectoryError:
        raise ValueError(f"{name}: a group of settings, not one") from None
    except OSError as problem:
        raise _refused(name, value, problem) from None
    try:
        try:
            data = str(value).encode()
            if os.write(fd, data) < len(data):
                raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        except OSError as problem:
            raise _refused(name, value, problem) from None
        try:
            return _content(fd)
        except OSError:
            raise ValueError(f"{name}: a setting that cannot be read back") from None
    finally:
        os.close(fd)


def read_sysctl(name: str) -> str:
    """A sysctl (dotted name) of the current namespace, as text; in words why it cannot be read."""
    try:
        fd = os.open(sysctl_path(name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        return f"not readable: {problem.strerror}"
    try:
        return _content(fd)
    except OSError as problem:
        return f"not readable: {problem.strerror}"
    finally:
        os.close(fd)


def _content(fd: int) -> str:
    """What a setting's file has, with single spaces."""
    found = piece = os.pread(fd, _SETTING_BYTES, 0)
    while len(piece) == _SETTING_BYTES:
        piece = os.pread(fd, _SETTING_BYTES, len(found))
        found += piece
    return " ".join(found.decode().split())


def _open_setting(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:                     # one that is only written
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def _refused(name: str, value: object, problem: OSError) -> ValueError:
    return ValueError(f"{name}: the kernel refuses {str(value)!r} ({problem.strerror})")


# ethtool's per-feature commands (include/uapi/linux/ethtool.h): name -> (get, set)
_OFFLOADS = {"tso": (0x1e, 0x1f), "gso": (0x23, 0x24), "gro": (0x2b, 0x2c)}
_SIOCETHTOOL = 0x8946


def _ethtool(sock: socket.socket, device: str, command: int, value: int) -> int:
    """One ETHTOOL_G/S<feature> call; returns the value in struct ethtool_value."""
    data = ctypes.create_string_buffer(struct.pack("II", command, value))
    request = struct.pack("16sP8x", device.encode(), ctypes.addressof(data))
    fcntl.ioctl(sock, _SIOCETHTOOL, request)
    _, answer = struct.unpack("II", data.raw[:8])
    return int(answer)


def set_offloads(device: str, wanted: Collection[str] = (), may_lack: bool = False) -> dict[str, bool]:
    """Turn TSO, GSO and GRO of a device off, those that are wanted on; returns {feature: on?} as read back.

    may_lack: what a device has no switch for is as it is.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name, (_, command) in _OFFLOADS.items():
            try:
                _ethtool(sock, device, command, int(name in wanted))
            except OSError as problem:
                if not may_lack or problem.errno != errno.EOPNOTSUPP:
                    raise
    return get_offloads(device)


def get_offloads(device: str) -> dict[str, bool]:
    """{feature: on?} of TSO, GSO and GRO of a device of the current namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return {name: bool(_ethtool(sock, device, command, 0)) for name, (command, _) in _OFFLOADS.items()}

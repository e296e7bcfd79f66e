# SPDX-License-Identifier: GPL-2.0-only
"""System calls on plain file descriptors, one call each: what programs that drive many connections make.

Inside a guest kernel a system call costs as much as some hundred lines of Python, and the
`socket` module makes more of them than meets the eye (`socket(fileno=...)` asks three
getsockopt questions, `accept()` goes through it, `epoll.poll()` rounds to milliseconds).
Every function here returns what the call returns, or the negative errno.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from errno import EINTR

from _socket import inet_pton  # `socket` takes time to import

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

AF_INET, AF_INET6 = 2, 10
SOCK_STREAM: Final = 1
SOCK_NONBLOCK = os.O_NONBLOCK
SOCK_CLOEXEC = os.O_CLOEXEC
SOL_SOCKET = 1
SO_REUSEADDR = 2
SO_ERROR = 4
SO_RCVBUF = 8
IPPROTO_TCP = 6
TCP_MAXSEG = 2
TCP_WINDOW_CLAMP = 10
TCP_CONGESTION = 13
TCP_CA_NAME_MAX: Final = 16
SHUT_WR: Final = 1
MSG_NOSIGNAL: Final = 0x4000
PR_SET_TIMERSLACK = 29

EPOLLIN = 0x001
EPOLLOUT = 0x004
EPOLLERR = 0x008
EPOLLHUP = 0x010
EPOLLRDHUP = 0x2000
EPOLLET = 1 << 31
EPOLL_CTL_ADD = 1
EPOLL_CTL_MOD = 3

# struct epoll_event is packed on x86-64 only
_EVENT = struct.Struct("<IQ" if os.uname().machine == "x86_64" else "<I4xQ")
SOCKADDR_IN = struct.Struct("=H2s4s8x")   # family, port and address in network byte order
SOCKADDR_IN6 = struct.Struct("=H2s4x16s4x")     # the same, without flow label and scope
MAX_EVENTS = 256
# The most that is written or read at once
SEND_BUFFER_BYTES: Final = 1 << 18

# PyDLL keeps the interpreter lock: there is only one thread
_libc = ctypes.PyDLL(None, use_errno=True)
_errno = ctypes.get_errno


def _function(name: str, *argtypes: type) -> ctypes._NamedFuncPointer:
    function: ctypes._NamedFuncPointer = getattr(_libc, name)
    function.argtypes = argtypes
    return function


_int, _long, _size, _pointer = ctypes.c_int, ctypes.c_long, ctypes.c_size_t, ctypes.c_void_p
_socket = _function("socket", _int, _int, _int)
_bind = _function("bind", _int, _pointer, _int)
_connect = _function("connect", _int, _pointer, _int)
_listen = _function("listen", _int, _int)
_accept4 = _function("accept4", _int, _pointer, _pointer, _int)
_setsockopt = _function("setsockopt", _int, _int, _int, _pointer, _int)
_getsockopt = _function("getsockopt", _int, _int, _int, _pointer, _pointer)
_send = _function("send", _int, _pointer, _size, _int)
_recv = _function("recv", _int, _pointer, _size, _int)
_shutdown = _function("shutdown", _int, _int)
_close = _function("close", _int)
_epoll_create1 = _function("epoll_create1", _int)
_epoll_ctl = _function("epoll_ctl", _int, _int, _int, _pointer)
_epoll_pwait2 = _function("epoll_pwait2", _int, _pointer, _int, _pointer, _pointer)
_prctl = _function("prctl", _int, _long, _long, _long, _long)
_send.restype = _recv.restype = ctypes.c_ssize_t

# Arguments that live in memory, each allocated once
_option = ctypes.c_int()
_option_at = ctypes.addressof(_option)
_option_size = ctypes.c_int(ctypes.sizeof(_option))
_address = ctypes.create_string_buffer(SOCKADDR_IN6.size)
_address_at = ctypes.addressof(_address)
_address_size = ctypes.c_int(SOCKADDR_IN6.size)
_address_size_at = ctypes.addressof(_address_size)
_event = ctypes.create_string_buffer(_EVENT.size)
_event_at = ctypes.addressof(_event)
_name = ctypes.create_string_buffer(TCP_CA_NAME_MAX)
_name_at = ctypes.addressof(_name)
_name_size = ctypes.c_int()
_name_size_at = ctypes.addressof(_name_size)
_pack_event = _EVENT.pack_into


def _check(result: int, what: str) -> int:
    """The result of a call that fails only for lack of resources. Raises OSError."""
    if result < 0:
        raise OSError(_errno(), f"{what}: {os.strerror(_errno())}")
    return result


def ip_bytes(ip: str) -> bytes:
    """The 4 bytes of an IPv4 address, the 16 of an IPv6 address. Raises ValueError."""
    try:
        return inet_pton(AF_INET6 if ":" in ip else AF_INET, ip)
    except OSError:
        raise ValueError(f"not an IP address: {ip!r}") from None


def family_of(ip: bytes) -> int:
    """Of sockets for an address."""
    return AF_INET if len(ip) == 4 else AF_INET6


def pack_endpoint(buffer: ctypes.Array[ctypes.c_char] | bytearray, place: int, ip: bytes, port: int) -> int:
    """Write the struct sockaddr of an endpoint; its size."""
    if len(ip) == 4:
        SOCKADDR_IN.pack_into(buffer, place, AF_INET, port.to_bytes(2, "big"), ip)
        return 16
    SOCKADDR_IN6.pack_into(buffer, place, AF_INET6, port.to_bytes(2, "big"), ip)
    return 28


def tcp_socket(family: int, nonblocking: bool = True) -> int:
    """A new TCP socket."""
    fd: int = _socket(family, SOCK_STREAM | SOCK_CLOEXEC | (SOCK_NONBLOCK if nonblocking else 0), 0)
    return fd if fd >= 0 else -_errno()


def bind(fd: int, ip: bytes, port: int) -> int:
    """Bind to an address."""
    return 0 if _bind(fd, _address_at, pack_endpoint(_address, 0, ip, port)) == 0 else -_errno()


def connect(fd: int, ip: bytes, port: int) -> int:
    """Begin to connect; -EINPROGRESS is the usual answer."""
    return 0 if _connect(fd, _address_at, pack_endpoint(_address, 0, ip, port)) == 0 else -_errno()


def listen(fd: int, backlog: int) -> int:
    """Accept connections from now on."""
    return 0 if _listen(fd, backlog) == 0 else -_errno()


def accept(fd: int) -> tuple[int, int]:
    """(descriptor of the next connection, port of its peer); non-blocking."""
    _address_size.value = SOCKADDR_IN6.size
    new = _accept4(fd, _address_at, _address_size_at, SOCK_NONBLOCK | SOCK_CLOEXEC)
    if new < 0:
        return -_errno(), 0
    raw = _address.raw
    return new, raw[2] << 8 | raw[3]


def set_option(fd: int, level: int, name: int, value: int) -> int:
    """Set an integer socket option."""
    _option.value = value
    return 0 if _setsockopt(fd, level, name, _option_at, 4) == 0 else -_errno()


def refused_option(name: str, value: int, whose: str, error: int | None) -> str:
    """What is said of a socket option of a variant that the kernel refuses."""
    return f"socket option {name} = {value} of {whose}: {os.strerror(error or 0)}"


def choose_cca(fd: int, name: str) -> int:
    """Choose the congestion control of a socket, or of what a listener accepts."""
    value = ctypes.create_string_buffer(name.encode())
    return 0 if _setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ctypes.addressof(value), len(value)) == 0 else -_errno()


def socket_error(fd: int) -> int:
    """The pending error of a socket (a positive errno, 0 for none), which it clears."""
    if _getsockopt(fd, SOL_SOCKET, SO_ERROR, _option_at, ctypes.addressof(_option_size)) < 0:
        return _errno()
    return _option.value


def cca_of(fd: int) -> bytes:
    """The congestion control that a socket uses now; b"" if it does not say."""
    _name_size.value = TCP_CA_NAME_MAX
    return _name.value if _getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, _name_at, _name_size_at) == 0 else b""


def send(fd: int, address: int, size: int) -> int:
    """Write up to `size` bytes from an address."""
    sent: int = _send(fd, address, size, MSG_NOSIGNAL)
    return sent if sent >= 0 else -_errno()


def receive(fd: int, address: int, size: int) -> int:
    """Read up to `size` bytes to an address."""
    taken: int = _recv(fd, address, size, 0)
    return taken if taken >= 0 else -_errno()


def shutdown(fd: int) -> int:
    """Send FIN, go on receiving."""
    return 0 if _shutdown(fd, SHUT_WR) == 0 else -_errno()


def close(fd: int) -> None:
    """Close a descriptor. It is gone whatever happens, so there is nothing to return."""
    _close(fd)


def exact_timers() -> None:
    """Let sleeps end on time instead of up to 50 us late (the default timer slack)."""
    _check(_prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0), "PR_SET_TIMERSLACK")


def raise_descriptor_limit() -> None:
    """Allow as many open descriptors as this process may; root in a guest may more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/proc/sys/fs/nr_open", encoding="ascii") as file:
        most = max(hard, int(file.read()))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except ValueError:      # without CAP_SYS_RESOURCE the hard limit stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Epoll:
    """An epoll set whose events carry a number of the caller's, and a ns timeout."""

    def __init__(self) -> None:
        self._fd = _check(_epoll_create1(os.O_CLOEXEC), "epoll_create1")
        self._events = bytearray(MAX_EVENTS * _EVENT.size)
        self._view = memoryview(self._events)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._events))
        self._timeout = (ctypes.c_int64 * 2)()
        self._timeout_at = ctypes.addressof(self._timeout)
        # No signal is blocked while waiting, whatever the caller blocks otherwise
        self._signals = ctypes.create_string_buffer(128)
        self._signals_at = ctypes.addressof(self._signals)

    def add(self, fd: int, events: int, number: int) -> None:
        """Report `events` of a descriptor as (events, number)."""
        _pack_event(_event, 0, events, number)
        _check(_epoll_ctl(self._fd, EPOLL_CTL_ADD, fd, _event_at), "EPOLL_CTL_ADD")

    def modify(self, fd: int, events: int, number: int) -> None:
        """Report other events of a descriptor."""
        _pack_event(_event, 0, events, number)
        _check(_epoll_ctl(self._fd, EPOLL_CTL_MOD, fd, _event_at), "EPOLL_CTL_MOD")

    def wait(self, timeout_ns: int) -> Iterable[tuple[int, ...]]:
        """Iterator over (events, number) of what happened within `timeout_ns`.

        Empty after the time or a signal.
        """
        timeout = self._timeout
        timeout[0], timeout[1] = divmod(timeout_ns, 1_000_000_000)
        n = _epoll_pwait2(self._fd, self._at, MAX_EVENTS, self._timeout_at, self._signals_at)
        if n > 0:
            events: Iterable[tuple[int, ...]] = _EVENT.iter_unpack(self._view[:n * _EVENT.size])
            return events
        if n < 0 and _errno() != EINTR:
            _check(n, "epoll_pwait2")
        return ()

    def close(self) -> None:
        """Give the descriptor back."""
        close(self._fd)


if sys.byteorder != "little":
    raise ImportError("the layout of events and addresses is that of little-endian machines")

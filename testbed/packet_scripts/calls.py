# SPDX-License-Identifier: GPL-2.0-only
"""System calls of scripts: arguments for C's library, and what came back against what the script says.

`...` stands for what is usual at its place: zeros to send, a buffer to receive into, the script's addresses. A method
`call_NAME` is the system call NAME; there is nothing else to add one.
"""
from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from testbed.packet_scripts.constants import value_of
from testbed.packet_scripts.language import (Anything, Call, Either, Expression, Field, Function, Number, Options,
                                             Sequence as List, Structure, Symbol, Text)

_libc = ctypes.CDLL(None, use_errno=True)
_MSG_FASTOPEN = 0x20000000
_TCP_MD5SIG = 14
_MOST_BYTES = 64 << 20


class CallError(ValueError):
    """A call that cannot be made; the message says which argument is wrong, and what would be right."""


class Prepared(NamedTuple):
    """A call with its arguments. check: what differs, of what came back besides the result."""
    name: str
    run: Callable[[], int]
    check: Callable[[int], list[str]]
    #: whether the result is a new file descriptor
    opens: bool = False


class _Vector(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Message(ctypes.Structure):
    """struct msghdr"""
    _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_uint32), ("vectors", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


class _Polled(ctypes.Structure):
    """struct pollfd"""
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class _Event(ctypes.Structure):
    """struct epoll_event"""
    _pack_ = 1
    _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]


def _nothing(result: int) -> list[str]:
    return []


class Calls:
    """The system calls of one script, and its file descriptors: those of the script -> those of this process."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.fds: dict[int, int] = {}
        #: CLOCK_REALTIME at the beginning of the script
        self.start_real_ns = 0

    def prepare(self, call: Call) -> Prepared:
        """CallError"""
        prepared: Prepared = getattr(self, f"call_{call.name}")(_Arguments(self, call))
        return prepared

    def live(self, fd: int, name: str) -> int:
        """The file descriptor that a script calls `fd`; one that it does not know is no open one."""
        return self.fds.get(fd, -1) if fd >= 0 else fd

    # --- sockets

    def call_socket(self, given: _Arguments) -> Prepared:
        given.count(3)
        family = self._family() if given.anything(0) else given.number(0)
        return given.done(family, given.number(1), given.number(2), opens=True)

    def call_bind(self, given: _Arguments) -> Prepared:
        given.count(3)
        return given.done(given.fd(0), *self._address(given, 1, self._options.local_ip, self._options.bind_port))

    def call_connect(self, given: _Arguments) -> Prepared:
        given.count(3)
        return given.done(given.fd(0), *self._remote(given, 1))

    def call_listen(self, given: _Arguments) -> Prepared:
        given.count(2)
        return given.done(given.fd(0), given.number(1))

    def call_accept(self, given: _Arguments) -> Prepared:
        given.count(3)
        return given.done(given.fd(0), None, None, opens=True)

    def call_accept4(self, given: _Arguments) -> Prepared:
        given.count(4)
        return given.done(given.fd(0), None, None, given.number(3), opens=True)

    def call_shutdown(self, given: _Arguments) -> Prepared:
        given.count(2)
        return given.done(given.fd(0), given.number(1))

    def call_close(self, given: _Arguments) -> Prepared:
        given.count(1)
        return given.done(given.fd(0))

    def call_setsockopt(self, given: _Arguments) -> Prepared:
        given.count(5)
        size = given.number(4)
        if given.null(3):
            return given.done(given.fd(0), given.number(1), given.number(2), None, size)
        if given.number(1) == socket.SOL_TCP and given.number(2) == _TCP_MD5SIG:
            value = self._md5_key(given)
            size = len(value)
        else:
            value = given.packed(3, size)
        return given.done(given.fd(0), given.number(1), given.number(2), ctypes.create_string_buffer(value, len(value)
                          + 1), size)

    def call_getsockopt(self, given: _Arguments) -> Prepared:
        given.count(5)
        wanted = None if given.anything(3) else given.packed(3, 4)
        length = 256 if given.anything(4) else given.only_number(4)
        value, size = ctypes.create_string_buffer(max(length, 256)), ctypes.c_uint32(length)

        def check(result: int) -> list[str]:
            seen = value.raw[:size.value]
            if isinstance(given.at(3), Text):
                seen = seen.rstrip(b"\0")
            if result < 0 or wanted is None or wanted == seen:
                return []
            return [f"value {_shown(seen)}, expected {_shown(wanted)}"]
        return given.done(given.fd(0), given.number(1), given.number(2), value, ctypes.byref(size), check=check)

    # --- data out

    def call_write(self, given: _Arguments) -> Prepared:
        given.count(3)
        return given.done(given.fd(0), given.data(1, 2), given.size(2))

    def call_send(self, given: _Arguments) -> Prepared:
        given.count(3, 4)
        return given.done(given.fd(0), given.data(1, 2), given.size(2), given.number(3) if given.has(3) else 0)

    def call_sendto(self, given: _Arguments) -> Prepared:
        given.count(6)
        flags = given.number(3)
        address: tuple[object, object] = (None, 0)
        if flags & _MSG_FASTOPEN or self._is_datagram(given.fd(0)) or isinstance(given.at(4), Structure):
            address = self._remote(given, 4)
        return given.done(given.fd(0), given.data(1, 2), given.size(2), flags, *address)

    def call_sendmsg(self, given: _Arguments) -> Prepared:
        given.count(3)
        flags = given.number(2)
        message = self._message(given, 1, fill=True)
        if flags & _MSG_FASTOPEN or self._is_datagram(given.fd(0)):
            address, size = self._remote(None, 0)
            message.name, message.name_size = ctypes.cast(address, ctypes.c_void_p), size
            given.keep(address)
        return given.done(given.fd(0), ctypes.byref(message), flags)

    def call_writev(self, given: _Arguments) -> Prepared:
        given.count(3)
        vectors, count = self._vectors(given, given.items(1), fill=True)
        return given.done(given.fd(0), vectors, min(count, given.number(2)))

    def call_sendfile(self, given: _Arguments) -> Prepared:
        given.count(4)
        place = None if given.null(2) else ctypes.byref(ctypes.c_longlong(given.only_number(2)))
        return given.done(given.fd(0), given.fd(1), place, given.size(3))

    def call_splice(self, given: _Arguments) -> Prepared:
        given.count(6)
        return given.done(given.fd(0), None, given.fd(2), None, given.size(4), given.number(5))

    # --- data in

    def call_read(self, given: _Arguments) -> Prepared:
        given.count(3)
        buffer, check = given.buffer(1, 2)
        return given.done(given.fd(0), buffer, given.size(2), check=check)

    def call_recv(self, given: _Arguments) -> Prepared:
        given.count(4)
        buffer, check = given.buffer(1, 2)
        return given.done(given.fd(0), buffer, given.size(2), given.number(3), check=check)

    def call_recvfrom(self, given: _Arguments) -> Prepared:
        given.count(6)
        buffer, check = given.buffer(1, 2)
        return given.done(given.fd(0), buffer, given.size(2), given.number(3), None, None, check=check)

    def call_readv(self, given: _Arguments) -> Prepared:
        given.count(3)
        vectors, count = self._vectors(given, given.items(1), fill=False)
        return given.done(given.fd(0), vectors, min(count, given.number(2)))

    def call_recvmsg(self, given: _Arguments) -> Prepared:
        given.count(3)
        message = self._message(given, 1, fill=False)
        fields = {field.name: field.value for field in given.fields(1)}
        wanted = fields.get("msg_control", Anything())
        flags = fields.get("msg_flags", Anything())

        def check(result: int) -> list[str]:
            if result < 0:
                return []
            found = []
            if not isinstance(flags, Anything) and message.flags != self.value(flags):
                found.append(f"msg_flags {message.flags:#x}, expected {self.value(flags):#x}")
            if isinstance(wanted, List):
                found += self._control_differences(wanted.items, _control(message))
            return found
        return given.done(given.fd(0), ctypes.byref(message), given.number(2), check=check)

    # --- waiting, and files

    def call_poll(self, given: _Arguments) -> Prepared:
        given.count(3)
        fields = [{field.name: field.value for field in given.fields_of(item)} for item in given.items(0)]
        array = (_Polled * len(fields))()
        for one, wanted in zip(array, fields):
            one.fd, one.events = self.live(self.field(wanted, "fd"), "poll"), self.field(wanted, "events")

        def check(result: int) -> list[str]:
            return [f"revents {one.revents:#x} of fd {self.field(wanted, 'fd')}, expected "
                    f"{self.field(wanted, 'revents'):#x}" for one, wanted in zip(array, fields)
                    if "revents" in wanted and one.revents != self.field(wanted, "revents")]
        return given.done(array, min(len(fields), given.number(1)), given.number(2), check=check)

    def call_epoll_create(self, given: _Arguments) -> Prepared:
        given.count(1)
        return given.done(given.number(0), opens=True)

    def call_epoll_create1(self, given: _Arguments) -> Prepared:
        given.count(1)
        return given.done(given.number(0), opens=True)

    def call_epoll_ctl(self, given: _Arguments) -> Prepared:
        given.count(4)
        event = None if given.null(3) else self._epoll_event(given.fields(3))
        return given.done(given.fd(0), given.number(1), given.fd(2), event and ctypes.byref(event))

    def call_epoll_wait(self, given: _Arguments) -> Prepared:
        given.count(4)
        wanted = [self._epoll_event(given.fields_of(item))
                  for item in (given.items(1) if isinstance(given.at(1), List) else [given.at(1)])]
        most = given.number(2)
        if not 1 <= most <= 1024:
            given.wrong(2, "a number of events from 1 to 1024")
        array = (_Event * most)()

        def check(result: int) -> list[str]:
            return [f"events {there.events:#x} of fd {there.data}, expected {one.events:#x} of fd {one.data}"
                    for one, there in zip(wanted, array[:max(0, result)])
                    if (one.events, one.data) != (there.events, there.data)]
        return given.done(given.fd(0), array, most, given.number(3), check=check)

    def call_fcntl(self, given: _Arguments) -> Prepared:
        given.count(2, 3)
        return given.done(given.fd(0), given.number(1), given.number(2) if given.has(2) else 0)

    def call_ioctl(self, given: _Arguments) -> Prepared:
        given.count(2, 3)
        if not given.has(2) or given.null(2):
            return given.done(given.fd(0), given.number(1), None)
        value = ctypes.c_int()

        def check(result: int) -> list[str]:
            wanted = None if given.anything(2) else given.only_number(2)
            return [f"value {value.value}, expected {wanted}"] if result >= 0 and wanted not in (None, value.value) \
                else []
        return given.done(given.fd(0), ctypes.c_ulong(given.number(1)), ctypes.byref(value), check=check)

    def call_open(self, given: _Arguments) -> Prepared:
        given.count(2, 3)
        path = given.at(0)
        if not isinstance(path, Text):
            given.wrong(0, 'the name of a file, such as "/tmp/file"')
        return given.done(path.value, given.number(1), given.number(2) if given.has(2) else 0o600, opens=True)

    def call_pipe(self, given: _Arguments) -> Prepared:
        given.count(1)
        names = [self.value(item) for item in given.items(0)]
        if len(names) != 2:
            given.wrong(0, "two numbers of file descriptors, such as [5, 6]")
        ends = (ctypes.c_int * 2)()

        def check(result: int) -> list[str]:
            if result >= 0:
                self.fds |= zip(names, ends)
            return []
        return given.done(ends, check=check)

    # --- values

    def value(self, expression: Expression) -> int:
        """CallError if it is no number."""
        if isinstance(expression, Number):
            return expression.value
        if isinstance(expression, Symbol):
            found = value_of(expression.name, self._options.ip_version)
            if found is None:
                raise CallError(f"a number expected, not {expression.name}")
            return found
        if isinstance(expression, Either):
            total = 0
            for part in expression.parts:
                total |= self.value(part)
            return total
        if isinstance(expression, Function) and len(expression.arguments) == 1:
            argument = expression.arguments[0]
            if expression.name in ("htons", "ntohs"):
                return socket.htons(self.value(argument) & 0xFFFF)
            if expression.name in ("htonl", "ntohl"):
                return socket.htonl(self.value(argument) & 0xFFFFFFFF)
        raise CallError(f"a number expected, not {_kind(expression)}")

    def field(self, fields: dict[str, Expression], name: str) -> int:
        if name not in fields:
            raise CallError(f"a field {name}= expected")
        return self.value(fields[name])

    def _family(self) -> int:
        return socket.AF_INET if self._options.ip_version == "ipv4" else socket.AF_INET6

    def _remote(self, given: _Arguments | None, place: int) -> tuple[Any, int]:
        return self._address(given, place, self._options.remote_ip, self._options.connect_port)

    def _address(self, given: _Arguments | None, place: int, ip: str, port: int) -> tuple[Any, int]:
        """A sockaddr and its size: what is written at `place`, or the usual one."""
        said = given.at(place) if given else Anything()
        if isinstance(said, Symbol):
            if said.name == "NULL":
                return None, 0
            return ctypes.create_string_buffer(struct.pack("=H14x", self.value(said)), 16), 16
        family = self._family()
        if isinstance(said, Structure):
            fields = {field.name: field.value for field in said.fields}
            family = self.field(fields, "sa_family")
            name = "sin6_port" if family == socket.AF_INET6 else "sin_port"
            port = socket.ntohs(self.field(fields, name)) if name in fields else port
            address = fields.get("sin6_addr" if family == socket.AF_INET6 else "sin_addr")
            if isinstance(address, Function) and isinstance(address.arguments[-1], Text):
                ip = address.arguments[-1].value.decode("ascii", "replace")
            elif address is not None:
                ip = socket.inet_ntoa(struct.pack("!I", self.value(address)))
        elif not isinstance(said, Anything):
            raise CallError(f"argument {place + 1}: ... or an address in braces expected, not {_kind(said)}")
        data = _sockaddr(family, ip, port)
        return ctypes.create_string_buffer(data, len(data)), len(data)

    def _md5_key(self, given: _Arguments) -> bytes:
        """struct tcp_md5sig for the other side of the script."""
        fields = {field.name: field.value for field in given.fields(3)}
        key = fields.get("tcpm_key")
        if not isinstance(key, Text) or not 1 <= len(key.value) <= 80:
            given.wrong(3, '{tcpm_key="..."} with a key of 1 to 80 bytes')
        address = _sockaddr(self._family(), self._options.remote_ip, 0)
        return address.ljust(128, b"\0") + struct.pack("=BBHi80s", 0, 0, len(key.value), 0, key.value)

    def _is_datagram(self, fd: int) -> bool:
        try:
            with socket.socket(fileno=os.dup(fd)) as there:
                return there.type == socket.SOCK_DGRAM
        except OSError:
            return False

    def _vectors(self, given: _Arguments, items: Sequence[Expression], fill: bool) -> tuple[Any, int]:
        if len(items) > 1024:
            raise CallError("at most 1024 parts of a message expected")
        array = (_Vector * max(1, len(items)))()
        for one, item in zip(array, items):
            values = [field.value for field in given.fields_of(item)]
            if len(values) != 2:
                raise CallError("a part of a message such as {..., 1000} expected")
            size = self.value(values[1])
            if not 0 <= size <= _MOST_BYTES:
                raise CallError(f"a size up to {_MOST_BYTES} expected, not {size}")
            content = values[0].value if isinstance(values[0], Text) and fill else b""
            buffer = ctypes.create_string_buffer(content[:size], max(size, 1))
            one.base, one.size = ctypes.cast(buffer, ctypes.c_void_p), size
            given.keep(buffer)
        given.keep(array)
        return array, len(items)

    def _message(self, given: _Arguments, place: int, fill: bool) -> _Message:
        fields = {field.name: field.value for field in given.fields(place)}
        parts = fields.get("msg_iov", List(()))
        if not isinstance(parts, List):
            given.wrong(place, "msg_iov(N)=[{..., SIZE}]")
        vectors, count = self._vectors(given, parts.items, fill)
        message = _Message(vectors=ctypes.cast(vectors, ctypes.c_void_p), count=count)
        if not fill and "msg_control" in fields:
            control = ctypes.create_string_buffer(4096)
            message.control, message.control_size = ctypes.cast(control, ctypes.c_void_p), 4096
            given.keep(control)
        given.keep(message)
        return message

    def _epoll_event(self, fields: Sequence[Field]) -> _Event:
        named = {field.name: field.value for field in fields}
        data = next((self.field(named, name) for name in ("fd", "ptr", "u32", "u64") if name in named), 0)
        return _Event(self.field(named, "events"), data)

    # --- control messages

    def _control_differences(self, wanted: Sequence[Expression], seen: list[tuple[int, int, bytes]]) -> list[str]:
        if len(wanted) != len(seen):
            return [f"{len(seen)} control messages, expected {len(wanted)}"]
        found = []
        for number, (item, (level, kind, data)) in enumerate(zip(wanted, seen), 1):
            if not isinstance(item, Structure):
                raise CallError(f"a control message in braces expected, not {_kind(item)}")
            fields = {field.name: field.value for field in item.fields}
            for name, value in (("cmsg_level", level), ("cmsg_type", kind)):
                if name in fields and self.value(fields[name]) != value:
                    found.append(f"{name} {value} of control message {number}, expected {self.value(fields[name])}")
            content = fields.get("cmsg_data", Anything())
            if isinstance(content, Structure):
                values = self._of_control(level, kind, data)
                for field in content.fields:
                    there = values.get(field.name)
                    if field.name == "scm_nsec":
                        continue                        # with its seconds
                    wants = self.value(field.value)
                    if field.name == "scm_sec":
                        parts = {part.name: part.value for part in content.fields}
                        wants = wants * 10**9 + (self.value(parts["scm_nsec"]) if "scm_nsec" in parts else 0)
                        if there is not None and abs(there // 1000 * 1000 - wants) <= self._options.tolerance_us * 1000:
                            continue
                    if there != wants:
                        found.append(f"{field.name.replace('scm_sec', 'timestamp in ns')} {there} of control message "
                                     f"{number}, expected {wants}")
            elif not isinstance(content, Anything):
                there, = struct.unpack_from("=i", data.ljust(4, b"\0"))
                if there != self.value(content):
                    found.append(f"cmsg_data {there} of control message {number}, expected {self.value(content)}")
        return found

    def _of_control(self, level: int, kind: int, data: bytes) -> dict[str, int]:
        """Fields of struct scm_timestamping, or of struct sock_extended_err."""
        if level == socket.SOL_SOCKET and len(data) >= 16:
            seconds, ns = struct.unpack_from("=qq", data)
            return {"scm_sec": seconds * 10**9 + ns - self.start_real_ns}
        if len(data) >= 16:
            names = ("ee_errno", "ee_origin", "ee_type", "ee_code", "ee_pad", "ee_info", "ee_data")
            return dict(zip(names, struct.unpack_from("=IBBBBII", data)))
        return {}


def names() -> list[str]:
    """Names of the system calls that there are."""
    return sorted(name.removeprefix("call_") for name in vars(Calls) if name.startswith("call_"))


def _control(message: _Message) -> list[tuple[int, int, bytes]]:
    """(level, type, data) of what a message brought with it."""
    found: list[tuple[int, int, bytes]] = []
    if not message.control:
        return found
    raw = ctypes.string_at(message.control, message.control_size)
    place = 0
    while place + 16 <= len(raw):
        size, level, kind = struct.unpack_from("=Qii", raw, place)
        if size < 16:
            break
        found.append((level, kind, raw[place + 16:place + size]))
        place += (size + 7) // 8 * 8
    return found


def _sockaddr(family: int, ip: str, port: int) -> bytes:
    """struct sockaddr_in or sockaddr_in6; an address of IPv4 in one of IPv6 is a mapped one. CallError"""
    try:
        if family == socket.AF_INET6:
            six = ip if ":" in ip else f"::ffff:{ip}"
            return struct.pack("=H", family) + struct.pack("!HI16sI", port, 0, socket.inet_pton(family, six), 0)
        return struct.pack("=H", family) + struct.pack("!H4s8x", port, socket.inet_aton(ip))
    except OSError:
        raise CallError(f"{ip!r}: an address of the script's version of IP expected") from None


def _shown(value: bytes) -> str:
    return str(int.from_bytes(value, "little", signed=True)) if 0 < len(value) <= 8 else value.hex(" ") or "nothing"


def _kind(expression: Expression) -> str:
    return {Anything: "...", Text: "a text", List: "a list", Structure: "braces"}.get(
        type(expression), getattr(expression, "name", "") or type(expression).__name__.lower())


class _Arguments:
    """The arguments of one call."""

    def __init__(self, calls: Calls, call: Call) -> None:
        self._calls, self._call, self._kept = calls, call, list[object]()

    def count(self, least: int, most: int | None = None) -> None:
        most = most or least
        there = len(self._call.arguments)
        if not least <= there <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise CallError(f"{self._call.name}: {wanted} arguments expected, not {there}")

    def wrong(self, place: int, what: str) -> NoReturn:
        raise CallError(f"{self._call.name}: argument {place + 1}: {what} expected, not {_kind(self.at(place))}")

    def at(self, place: int) -> Expression:
        return self._call.arguments[place]

    def has(self, place: int) -> bool:
        return place < len(self._call.arguments)

    def anything(self, place: int) -> bool:
        return isinstance(self.at(place), Anything)

    def null(self, place: int) -> bool:
        said = self.at(place)
        return isinstance(said, Symbol) and said.name == "NULL"

    def number(self, place: int) -> int:
        try:
            return self._calls.value(self.at(place))
        except CallError as problem:
            raise CallError(f"{self._call.name}: argument {place + 1}: {problem}") from None

    def size(self, place: int) -> ctypes.c_size_t:
        return ctypes.c_size_t(self.number(place))

    def fd(self, place: int) -> int:
        return self._calls.live(self.number(place), self._call.name)

    def items(self, place: int) -> tuple[Expression, ...]:
        said = self.at(place)
        if not isinstance(said, List):
            self.wrong(place, "a list in []")
        return said.items

    def only_number(self, place: int) -> int:
        """The number in a list of one, or by itself."""
        said = self.at(place)
        if isinstance(said, List) and len(said.items) == 1:
            return self._calls.value(said.items[0])
        return self.number(place)

    def fields(self, place: int) -> tuple[Field, ...]:
        return self.fields_of(self.at(place))

    def fields_of(self, expression: Expression) -> tuple[Field, ...]:
        if not isinstance(expression, Structure):
            raise CallError(f"{self._call.name}: fields in braces expected, not {_kind(expression)}")
        return expression.fields

    def packed(self, place: int, size: int) -> bytes:
        """The value of an option of a socket."""
        said = self.at(place)
        if isinstance(said, Text):
            return said.value
        if isinstance(said, List):
            values = [self._calls.value(item) for item in said.items]
        elif isinstance(said, Structure):
            # struct linger has two ints, struct timeval two longs
            values = [self._calls.value(field.value) for field in said.fields]
        else:
            values = [self.number(place)]
        width = {1: 1, 2: 2, 8: 8}.get(size, 4) if len(values) == 1 else 8 if size == 8 * len(values) else 4
        return b"".join((value % (1 << 8 * width)).to_bytes(width, "little") for value in values)

    def data(self, place: int, size_place: int) -> Any:
        """What is sent: as written, or zeros."""
        if self.null(place):
            return None
        size, said = self.number(size_place), self.at(place)
        if not 0 <= size <= _MOST_BYTES:
            raise CallError(f"{self._call.name}: argument {size_place + 1}: a size up to {_MOST_BYTES} expected, not "
                            f"{size}")
        if not isinstance(said, (Anything, Text)):
            self.wrong(place, "... or a text")
        return ctypes.create_string_buffer(said.value[:size] if isinstance(said, Text) else b"", max(size, 1))

    def buffer(self, place: int, size_place: int) -> tuple[Any, Callable[[int], list[str]]]:
        """Room for what is received, and what differs from what is written."""
        buffer, said = self.data(place, size_place), self.at(place)

        def check(result: int) -> list[str]:
            if result < 0 or not isinstance(said, Text) or buffer.raw[:result] == said.value:
                return []
            return [f"data {buffer.raw[:result][:40]!r}, expected {said.value[:40]!r}"]
        return buffer, check

    def keep(self, what: object) -> None:
        """Memory that has to stay while the kernel uses it; with MSG_ZEROCOPY until the script ends."""
        self._kept.append(what)

    def done(self, *arguments: Any, opens: bool = False, check: Callable[[int], list[str]] = _nothing) -> Prepared:
        function = getattr(_libc, self._call.name)
        function.restype = ctypes.c_long if self._call.name in _LONG else ctypes.c_int
        _KEPT.append((self, arguments))

        def run() -> int:
            result = int(function(*arguments))
            return result if result >= 0 else -ctypes.get_errno()
        return Prepared(self._call.name, run, check, opens)


_LONG = ("read", "write", "send", "sendto", "sendmsg", "recv", "recvfrom", "recvmsg", "readv", "writev", "sendfile",
         "splice")
#: what the kernel may still read (MSG_ZEROCOPY); a process carries out one script
_KEPT: list[object] = []


def errno_name(number: int) -> str:
    return errno.errorcode.get(number, {524: "ENOTSUPP"}.get(number, str(number)))

# SPDX-License-Identifier: GPL-2.0-only
"""An io_uring over `imitated_tcp`, with the rules of links and of completions that nobody asked for.

What the kernel would do silently and a test could hardly see is a problem here (`World.problems`): an operation on a
descriptor that is closed or another flow's, an instant or data written to memory that was given back, a chain that is
cut by a submission.
"""
import ctypes
import errno
import struct

from tests.unit.replay.imitated_tcp import Socket
from traffic.io.sockets import SEND_BUFFER_BYTES
from traffic.io.uring import LINK, QUIET

CCA = b"cubic"
#: what an operation's number says (traffic/replay/core/core.h): its flow, or nobody's if its kind is another
_KIND_BITS, _KINDS_OF_FLOWS = 4, range(4)
_COMPLETIONS, _ARGUMENT_BYTES = 1 << 15, 96
#: struct sqe of traffic/io/ring.h, and its operations
_SQE = struct.Struct("=BBHiQQIIQIIQQ")
_RECVMSG, _TIMEOUT, _ACCEPT, _CONNECT, _READ, _SEND, _RECV, _SOCKET, _URING_CMD, _BIND, _CANCEL = (
    10, 11, 13, 16, 22, 26, 27, 45, 46, 56, 14)
_OTHERS = {_ACCEPT: "accept", _CANCEL: "cancel", 19: "close", 34: "shutdown", _SOCKET: "socket"}
_ABSOLUTE, _GET_OPTION = 1, 2


class Operation:
    """One entry of the ring, and how far it came."""

    def __init__(self, what, flags, fd, number, arguments):
        self.what, self.flags, self.fd, self.number, self.arguments = what, flags, fd, number, arguments
        self.next = self.socket = None
        self.bytes = 0
        self.over = False

    @property
    def flow(self):
        """The flow whose operation this is, None for none."""
        return self.number >> _KIND_BITS if self.number & (1 << _KIND_BITS) - 1 in _KINDS_OF_FLOWS else None


class ImitatedRing:
    """What `traffic.io.uring.Ring` is for the replay of a Host, and what the kernel does with it: `enter`."""

    def __init__(self, host, entries):
        self.host, self.world, self._entries = host, host.world, entries
        self._completed = []
        self._active = {}           # operations, in the order in which they began
        self._owners = {}           # {address where instants are noted, of a buffer: its latest operation}
        # head and tail of what is submitted, and of what has completed
        self._words = (ctypes.c_uint32 * 4)()
        self._sqes, self._cqes = (ctypes.c_char * (64 * entries))(), (ctypes.c_char * (16 * _COMPLETIONS))()
        self._arguments = (ctypes.c_char * (_ARGUMENT_BYTES * entries))()
        self._sink, self._end = (ctypes.c_char * SEND_BUFFER_BYTES)(), (ctypes.c_char * 1)()

    # --- the interface

    def use_clock(self, path):
        return self.host.chains

    def places(self):
        return {"fd": self.host.ring_fd, "entries": self._entries, "completions": _COMPLETIONS,
                "words": ctypes.addressof(self._words), "sq_head": 0, "sq_tail": 1, "cq_head": 2, "cq_tail": 3,
                "cqes": ctypes.addressof(self._cqes), "sqes": ctypes.addressof(self._sqes),
                "arguments": ctypes.addressof(self._arguments), "sink": ctypes.addressof(self._sink),
                "end": ctypes.addressof(self._end), "clock_fd": -1}

    def close(self):
        pass

    def enter(self, waiting, least):
        """io_uring_enter: take what waits, sleep until something has completed if so much is wanted."""
        words = self._words
        taken = [self._operation(number % self._entries) for number in range(words[0], words[1])]
        if len(taken) > self._entries:
            self.problem(taken[-1], "there is no room for it")
        words[0] = words[1]
        self._submit(taken)
        if least and not self._completed and not self.host.loop.stopping:
            self.host.sleep()
        for number, result in self._completed:
            struct.pack_into("=QiI", self._cqes, words[3] % _COMPLETIONS * 16, number, result, 0)
            words[3] += 1
        self._completed = []
        return len(taken)

    @property
    def awake(self):
        """Whether something is to be told."""
        return bool(self._completed)

    def _operation(self, place):
        """What an entry asks for."""
        code, flags, _, fd, off, address, length, op_flags, number, _, index, last, _ = _SQE.unpack_from(
            self._sqes, 64 * place)
        if code == _TIMEOUT:
            seconds, ns = struct.unpack("=qq", ctypes.string_at(address, 16))
            ns += 10**9 * seconds
            what, arguments = "timeout", (ns,) if op_flags & _ABSOLUTE else (None, ns)
        elif code == _READ:
            what, arguments = "note", (address,)
        elif code == _URING_CMD:
            what, arguments = ("ask", (last, index)) if off & 0xffffffff == _GET_OPTION else ("nothing", ())
        elif code in (_BIND, _CONNECT):
            what = "bind" if code == _BIND else "connect"
            arguments = (int.from_bytes(ctypes.string_at(address + 2, 2), "big"),)
        elif code == _SEND:
            what, arguments = "send", (address, length)
        elif code == _RECV:
            what, arguments = "receive", (address, length, length, address != ctypes.addressof(self._end))
        elif code == _RECVMSG:
            before, at, kept = struct.unpack("=QQQ", ctypes.string_at(address, 88)[-24:])
            what, arguments = "receive", (at, kept, before + kept)
        else:
            what, arguments = _OTHERS[code], (address,) if code == _ACCEPT else ()
        made = Operation(what, flags, -1 if code in (_SOCKET, _READ, _CANCEL) else fd, number, arguments)
        if what == "receive" and not self._is_of_all(arguments[0]):
            if not self._owners.get(arguments[0], made).over and arguments[0] in self._owners:
                self.problem(made, "reads into a buffer of a read that is under way")
            self._owners[arguments[0]] = made
        elif what == "note":
            self._owners[address // 64] = made
        return made

    def _is_of_all(self, address):
        """Whether memory is for what nobody looks at."""
        return address in (ctypes.addressof(self._sink), ctypes.addressof(self._end))

    # --- the kernel

    def problem(self, operation, text):
        self.world.problems.append(f"{self.host.role}: {operation.what} of flow {operation.flow}: {text}")

    def _submit(self, taken):
        chain = []
        for operation in taken:
            chain.append(operation)
            if not operation.flags & LINK:
                for one, following in zip(chain, chain[1:]):
                    one.next = following
                self._begin(chain[0])
                chain = []
        if chain:
            self.problem(chain[0], "its chain is cut by a submission")
        self.world.settle()

    def _begin(self, operation):
        if operation.over:
            return
        if operation.fd >= 0 and operation.what not in ("close", "accept"):
            found = self.host.files.get(operation.fd)
            if found is None:
                if operation.what != "nothing":
                    self.problem(operation, f"descriptor {operation.fd} is closed")
                return self._complete(operation, -errno.EBADF, True)
            if operation.flow is not None:
                found.flow = operation.flow if found.flow is None else found.flow
                if found.flow != operation.flow:
                    self.problem(operation, f"descriptor {operation.fd} is of flow {found.flow}")
            operation.socket = found
            found.use()
        self._active[operation] = None
        getattr(self, f"_do_{operation.what}")(operation, *operation.arguments)

    def _complete(self, operation, result, failed=False):
        if operation.over:
            return
        operation.over = True
        self._active.pop(operation, None)
        if operation.socket is not None:
            operation.socket.leave()
        if failed or not operation.flags & QUIET:
            self._completed.append((operation.number, result))
        following = operation.next
        if following is not None and not failed:
            self.world.soon(self._begin, following)
        while following is not None and failed:     # io_fail_links: of what follows a QUIET one nobody hears
            following.over = True
            if not operation.flags & QUIET:
                self._completed.append((following.number, -errno.ECANCELED))
            following = following.next

    def _do_timeout(self, operation, instant_ns, ns=0):
        self.world.at(self.world.now_ns + ns if instant_ns is None else instant_ns,
                      self._complete, operation, -errno.ETIME)

    def _do_nothing(self, operation):
        self._complete(operation, 0)

    def _do_note(self, operation, address):
        if self._owners[address // 64].flow != operation.flow:
            self.problem(operation, "notes an instant in a block that is not its own")
        ctypes.memmove(address, struct.pack("Q", self.world.now_ns), 8)
        self._complete(operation, 8)

    def _do_ask(self, operation, address, size):
        if not self.host.asks:
            return self._complete(operation, -errno.EOPNOTSUPP, True)
        ctypes.memmove(address, CCA.ljust(size, b"\0"), size)
        return self._complete(operation, size)

    def _do_socket(self, operation):
        self._complete(operation, self.host.open(Socket(self.world)))

    def _do_bind(self, operation, port):
        operation.socket.port = port
        taken = port in self.host.taken_ports
        self._complete(operation, -errno.EADDRINUSE if taken else 0, taken)

    def _do_connect(self, operation, port):
        self.world.after_delay(self._syn_arrives, operation, port)

    def _syn_arrives(self, operation, port):
        listener, own = self.world.listeners.get(port), operation.socket
        if operation.over:
            return
        if listener is None or own.port in self.host.refused_ports:
            return self.world.after_delay(self._complete, operation, -errno.ECONNREFUSED, True)
        own.peer = accepted = Socket(self.world)
        accepted.peer, accepted.port = own, own.port
        self.world.after_delay(self._complete, operation, 0)
        return self.world.at(self.world.now_ns + 2 * self.world.delay_ns, self._established, listener, accepted)

    def _established(self, listener, accepted):
        listener.queue.append(accepted)
        for do in listener.waiting:
            self.world.soon(do)
        listener.waiting.clear()

    def _do_accept(self, operation, address):
        listener = self.host.files[operation.fd]
        if operation.over:
            return None
        if not listener.queue:
            return listener.waiting.append(lambda: self._do_accept(operation, address))
        accepted = listener.queue.popleft()
        ctypes.memmove(address + 2, accepted.port.to_bytes(2, "big"), 2)
        return self._complete(operation, self.host.open(accepted))

    def _do_send(self, operation, address, size):
        if operation.over:
            return None
        taken = operation.socket.write(ctypes.string_at(address + operation.bytes, size - operation.bytes))
        if taken < 0 and taken != -errno.EAGAIN:
            return self._complete(operation, operation.bytes or taken, True)
        operation.bytes += max(0, taken)
        if operation.bytes == size:
            return self._complete(operation, size)
        return operation.socket.when_writable(lambda: self._do_send(operation, address, size))

    def _do_receive(self, operation, address, kept, size, whole=True):
        """The last `kept` of `size` bytes go to the address; whole: fewer than `size` break the chain."""
        own = operation.socket
        if operation.over:
            return None
        if own.received:
            data = bytes(own.received[:size - operation.bytes])
            del own.received[:len(data)]
            skipped = max(0, size - kept - operation.bytes)
            if len(data) > skipped:
                place = operation.bytes + skipped - (size - kept)
                ctypes.memmove(address + place, data[skipped:], len(data) - skipped)
            operation.bytes += len(data)
            if operation.bytes == size:
                return self._complete(operation, size)
        error = own.take_error()
        if error:
            return self._complete(operation, operation.bytes or -error, True)
        if own.ended:
            return self._complete(operation, operation.bytes, whole)
        return own.when_readable(lambda: self._do_receive(operation, address, kept, size, whole))

    def _do_shutdown(self, operation):
        own = operation.socket
        if not own.reset:
            own.send_fin()
        self._complete(operation, -errno.ENOTCONN if own.reset else 0, own.reset)

    def _do_close(self, operation):
        found = self.host.files.pop(operation.fd, None)
        if found is None:
            self.problem(operation, f"descriptor {operation.fd} is closed")
        else:
            if operation.flow is not None and found.flow not in (None, operation.flow):
                self.problem(operation, f"descriptor {operation.fd} is of flow {found.flow}")
            found.close_when_left()
        self._complete(operation, 0)

    def _do_cancel(self, operation):
        found = [one for one in self._active if one is not operation]
        for one in found:
            self._complete(one, one.bytes or -errno.ECANCELED, True)
        self._complete(operation, len(found))

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
from traffic.io.uring import LINK, LONGEST_CHAIN, QUIET
from traffic.replay.flow import CONNECT, KIND_BITS, KIND_MASK, SHUTDOWN

CCA = b"cubic"


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
        return self.number >> KIND_BITS if CONNECT <= self.number & KIND_MASK <= SHUTDOWN else None


class ImitatedRing:
    """What `traffic.io.uring.Ring` is for the replay of a Host."""

    def __init__(self, host, entries):
        self.host, self.world, self._entries = host, host.world, entries
        self._put_in, self._completed = [], []
        self._active = {}           # operations, in the order in which they began
        self._stray = bytearray(1)
        self._stray_at = ctypes.addressof(ctypes.c_char.from_buffer(self._stray))

    # --- the interface

    def make_room(self, operations=LONGEST_CHAIN):
        if len(self._put_in) + operations > self._entries:
            self._submit()

    def use_clock(self, path):
        return self.host.chains

    def at(self, instant_ns, flags, number):
        self._put("timeout", flags, -1, number, instant_ns)

    def after(self, ns, flags, number):
        self._put("timeout", flags, -1, number, None, ns)

    def note_time(self, address, flags, number):
        self._put("note", flags, -1, number, address)

    def socket(self, ip, flags, number):
        self._put("socket", flags, -1, number)

    def set_option(self, fd, level, name, value, flags, number):
        self._put("nothing", flags, fd, number)

    def option(self, fd, level, name, address, size, flags, number):
        self._put("ask", flags, fd, number, address, size)

    def bind(self, fd, ip, port, flags, number):
        self._put("bind", flags, fd, number, port)

    def connect(self, fd, ip, port, flags, number):
        self._put("connect", flags, fd, number, port)

    def accept(self, fd, address_at, size_at, number):
        self._put("accept", 0, fd, number, address_at)

    def send(self, fd, address, size, flags, number):
        self._put("send", flags, fd, number, address, size)

    def receive(self, fd, address, size, flags, number):
        self._put("receive", flags, fd, number, address, size, size)

    def receive_last(self, fd, address, last, size, flags, number):
        self._put("receive", flags, fd, number, address, last, size)

    def receive_end(self, fd, flags, number):
        self._put("receive", flags, fd, number, self._stray_at, 1, 1, False)

    def unexpected(self):
        return bool(self._stray[0])

    def shutdown(self, fd, flags, number):
        self._put("shutdown", flags, fd, number)

    def close_socket(self, fd, flags, number):
        self._put("close", flags, fd, number)

    def cancel_everything(self, number):
        self._put("cancel", 0, -1, number)

    def close(self):
        pass

    def submit_and_wait(self):
        self._submit()
        if not self._completed and not self.host.loop.stopping:
            self.host.sleep()
        found, self._completed = self._completed, []
        return found

    @property
    def awake(self):
        """Whether something is to be told."""
        return bool(self._completed)

    # --- the kernel

    def _put(self, what, flags, fd, number, *arguments):
        self._put_in.append(Operation(what, flags, fd, number, arguments))
        if len(self._put_in) > self._entries:
            self.problem(self._put_in[-1], "there is no room for it")

    def problem(self, operation, text):
        self.world.problems.append(f"{self.host.role}: {operation.what} of flow {operation.flow}: {text}")

    def _submit(self):
        chain, put_in, self._put_in = [], self._put_in, []
        for operation in put_in:
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
        self.host.check_note(self, operation, address)
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
            if address and len(data) > skipped:
                self.host.check_buffer(self, operation, address)
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

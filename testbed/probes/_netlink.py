# SPDX-License-Identifier: GPL-2.0-only
"""The two netlink questions that are asked a hundred times a second.

pyroute2 would do, but importing it costs more wall time in the guest than a short
run, and so does each of its dictionaries per sample; these are two fixed messages.
"""
import socket
import struct
from collections.abc import Callable, Iterator

from topologies import queues
from topologies.linux.rtnetlink import HEADER, raise_error

NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ECHO, NLM_F_DUMP = 0x1, 0x8, 0x300
_RTM_GETQDISC = 38
_SOCK_DIAG_BY_FAMILY = 20
ROOT, INGRESS = 0xFFFFFFFF, 0xFFFFFFF1     # TC_H_ROOT, TC_H_INGRESS
_TCA_STATS2, _TCA_STATS_BASIC, _TCA_STATS_QUEUE, _TCA_STATS_APP, _TCA_STATS_PKT64 = 7, 1, 3, 4, 8

_DONE_BYTES = HEADER.size + 4               # NLMSG_DONE carries an int


def attributes(data: bytes | bytearray | memoryview, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (type, offset of payload, length of payload) of the attributes in data[start:end]."""
    while start + 4 <= end:
        length, kind = struct.unpack_from("=HH", data, start)
        if length < 4 or start + length > end:
            return
        yield kind & 0x3FFF, start + 4, length - 4
        start += (length + 3) & ~3


class Qdisc:
    """Counters of a device's root (or ingress) qdisc. Open it in the namespace of the device.

    shared: the socket of another one in the same namespace.
    `read()` returns (sent bytes, sent packets, drops, backlog bytes, backlog packets):
    struct gnet_stats_basic and gnet_stats_queue of include/uapi/linux/gen_stats.h.
    """
    _STATS = struct.Struct("=QI")
    _QUEUE = struct.Struct("=IIIII")         # qlen, backlog, drops, requeues, overlimits

    def __init__(self, ifindex: int, parent: int = ROOT, shared: socket.socket | None = None) -> None:
        if shared is None:
            shared = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
            shared.bind((0, 0))
        self.socket = shared
        body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, ifindex, 0, parent, 0)
        self._request = HEADER.pack(HEADER.size + len(body), _RTM_GETQDISC,
                                    NLM_F_REQUEST | NLM_F_ECHO, 1, 0) + body
        self._buffer = bytearray(16384)
        # message length, offsets of basic, packets, queue
        self._layout: tuple[int, int, int | None, int] | None = None

    def fileno(self) -> int:
        return self.socket.fileno()

    def read(self) -> tuple[int, int, int, int, int]:
        self._ask()
        assert self._layout is not None
        _, basic, packets, queue = self._layout
        sent_bytes, sent_packets = self._STATS.unpack_from(self._buffer, basic)
        if packets:
            sent_packets, = struct.unpack_from("=Q", self._buffer, packets)
        qlen, backlog, drops, _, _ = self._QUEUE.unpack_from(self._buffer, queue)
        return sent_bytes, sent_packets, drops, backlog, qlen

    def requeues(self) -> int:
        """What the qdisc calls so: netem the packets that it lets go before others."""
        self._ask()
        assert self._layout is not None
        return int(self._QUEUE.unpack_from(self._buffer, self._layout[3])[3])

    def marks(self, kind: str) -> int:
        """Packets that a qdisc of this kind marked with CE instead of dropping them."""
        self.socket.send(self._request)
        length = self.socket.recv_into(self._buffer)
        found = self._statistics(length)
        if _TCA_STATS_APP not in found:
            raise OSError("netlink: the qdisc has no statistics of its own")
        at, size = found[_TCA_STATS_APP]
        return queues.kind(kind).marked_packets(bytes(self._buffer[at:at + size]))

    def _ask(self) -> None:
        """Have an answer of the kernel in the buffer, and know where in it what is."""
        self.socket.send(self._request)
        length = self.socket.recv_into(self._buffer)
        if not self._layout or self._layout[0] != length:
            self._layout = self._find(length)

    def _find(self, length: int) -> tuple[int, int, int | None, int]:
        found = self._statistics(length)
        if _TCA_STATS_BASIC not in found or _TCA_STATS_QUEUE not in found:
            raise OSError("netlink: the qdisc has no statistics")
        packets = found.get(_TCA_STATS_PKT64)
        return length, found[_TCA_STATS_BASIC][0], packets[0] if packets else None, found[_TCA_STATS_QUEUE][0]

    def _statistics(self, length: int) -> dict[int, tuple[int, int]]:
        """Where in the answer which statistics are, and how long they are."""
        if HEADER.unpack_from(self._buffer)[1] == NLMSG_ERROR:
            raise_error(self._buffer)
        found = {}
        for kind, at, size in attributes(self._buffer, HEADER.size + 20, length):
            if kind == _TCA_STATS2:
                for inner, offset, inner_size in attributes(self._buffer, at, at + size):
                    found[inner] = offset, inner_size
        return found

    def close(self) -> None:
        self.socket.close()


class TcpSockets:
    """Dumps of all connected TCP sockets of a family in a namespace, undecoded (INET_DIAG_INFO, _CONG; with `ccas` what
    the congestion control says of itself, too).

    One at a time, whatever the namespace: they share what they read into.
    """
    _STATES = sum(1 << s for s in (1, 2, 3, 4, 5, 8, 9, 11))      # all but TIME_WAIT, CLOSE, LISTEN
    #: of all sockets: an answer is handed on before the next is asked for, and pages are dear in a guest
    _buffer = bytearray(1 << 18)
    _view = memoryview(_buffer)

    def __init__(self, family: int = socket.AF_INET, ccas: bool = False) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        self._socket.bind((0, 0))
        # INET_DIAG_INFO, INET_DIAG_CONG; INET_DIAG_VEGASINFO asks for what any congestion control has
        extensions = 1 << (2 - 1) | 1 << (4 - 1) | ccas << (3 - 1)
        body = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, extensions, self._STATES)
        self._request = HEADER.pack(HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY,
                                    NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body

    def dump_into(self, write: Callable[[memoryview], object]) -> None:
        """Ask, and hand every answer datagram (memoryview) to `write`."""
        self._socket.send(self._request)
        while True:
            length = self._socket.recv_into(self._buffer)
            kind = HEADER.unpack_from(self._buffer)[1]
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                raise_error(self._buffer)
                return
            # newer kernels put the end of the dump behind its last messages
            tail = length - _DONE_BYTES
            if tail > 0 and HEADER.unpack_from(self._buffer, tail)[:2] == (_DONE_BYTES, NLMSG_DONE):
                write(self._view[:tail])
                return
            write(self._view[:length])

    def close(self) -> None:
        self._socket.close()

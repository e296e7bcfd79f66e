# SPDX-License-Identifier: GPL-2.0-only
"""Socket options that a connection's vector asks for: packet sizes (`m`) and receive windows (`w`).

Packet sizes. The initiator alone can set both. What it announces in its SYN bounds what the acceptor sends: TCP_MAXSEG
before connect() is the acceptor's `m`. What it sends itself is bounded by TCP_MAXSEG as it is when the SYN-ACK is
read, so if the two differ the initiator's own `m` is set when the SYN is out. (An accepted socket's TCP_MAXSEG has no
effect, and a listener's is that of all its connections.)

Windows. TCP_WINDOW_CLAMP bounds the window that a socket announces, and SO_RCVBUF keeps the kernel from tuning buffer
and clamp. An initiator sets them before connect(), an acceptor's socket when it is accepted; what its SYN-ACK
announced, 64 KB at most, stays announced. Standard library only. core/loop.c and core/flow.c do the same in C.
"""
from __future__ import annotations

from traffic.io.sockets import IPPROTO_TCP, SO_RCVBUF, SOL_SOCKET, TCP_MAXSEG, TCP_WINDOW_CLAMP

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from array import array

    from traffic.replay.plan import Plan

    Option = tuple[int, int, int]       # level, name, value

#: the kernel takes no more for TCP_MAXSEG; a plan has none that is not below what the path's MTU leaves (compile.py)
MOST_MSS = 32768
# of the window: what waits to be read takes more memory than it has bytes, and the window is to shrink by it only
_BUFFER_WINDOWS = 2
_MOST_BUFFER_BYTES = 1 << 30


class Options:
    """The options of the connections of a plan, as one of its ends sets them."""

    def __init__(self, plan: Plan, initiates: bool) -> None:
        self.mss: tuple[array[int], array[int]] | None = (plan.mss_init, plan.mss_acc) if initiates else None
        self.windows = plan.window_init if initiates else plan.window_acc
        self.limit_windows = bool(self.windows)

    def at_first(self, index: int) -> list[Option]:
        """Before a connection is established, at the initiator; as soon as it is accepted, at the acceptor."""
        options: list[Option] = []
        if self.mss:
            mss = _effective(self.mss[1][index])
            if mss:
                options.append((IPPROTO_TCP, TCP_MAXSEG, mss))
        window = self.windows[index] if self.windows else 0
        if window:
            options += [(SOL_SOCKET, SO_RCVBUF, min(_BUFFER_WINDOWS * window, _MOST_BUFFER_BYTES)),
                        (IPPROTO_TCP, TCP_WINDOW_CLAMP, min(window, _MOST_BUFFER_BYTES))]
        return options

    def after_syn(self, index: int) -> Option | None:
        """What the initiator sets between its SYN and the SYN-ACK."""
        if not self.mss:
            return None
        own, peer = _effective(self.mss[0][index]), _effective(self.mss[1][index])
        return (IPPROTO_TCP, TCP_MAXSEG, own) if own != peer else None

    def window_again(self, index: int) -> Option | None:
        """What is set when data begin to come: the kernel puts another clamp in its place when it sees how much memory
        larger segments take (tcp_measure_rcv_mss)."""
        window = self.windows[index] if self.windows else 0
        return (IPPROTO_TCP, TCP_WINDOW_CLAMP, min(window, _MOST_BUFFER_BYTES)) if window else None


def _effective(mss: int) -> int:
    """0, none, for what bounds nothing."""
    return mss if mss < MOST_MSS else 0

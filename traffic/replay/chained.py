# SPDX-License-Identifier: GPL-2.0-only
"""A flow where the ring can note instants itself: what is settled beforehand is handed over as one chain.

Nobody is woken before the end of a chain, or at all if it closes the connection. `settle` catches up with what the
ring has noted when something is heard of the flow, when other connections come, and at the end.
core/chained.c does the same in C.
"""

from __future__ import annotations

from traffic.io.payload import PERIOD
from traffic.io.sockets import IPPROTO_TCP, SEND_BUFFER_BYTES, TCP_CONGESTION
from traffic.io.uring import LINK, QUIET
from traffic.replay.chain import CONNECTED, END, NOWHERE, Place, Step, steps_from
from traffic.replay.flow import CLOSED, CONNECT, DATA, EOF, IGNORED, KIND_BITS, LAST_DATA, RECEIVE, SEND, Flow
from traffic.replay.records import FINISHED

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

    from traffic.replay.endpoint import End
    from traffic.replay.notes import Notes
    from traffic.replay.ringloop import RingLoop

# Of a flow's block of words: the instants of the steps of its chain come first
_CCA_WORD: Final = 6
_CCA_WORDS: Final = 2
_CCA_BYTES: Final = 16


class ChainedFlow(Flow):
    """A flow that has a block of `notes`, whose first word is number `block`."""

    __slots__ = ("notes", "block", "steps", "asks", "eof_is_last")

    def __init__(self, loop: RingLoop, end: End, index: int, number: int, fd: int, notes: Notes, block: int) -> None:
        super().__init__(loop, end, index, number, fd)
        self.notes, self.block = notes, block
        self.steps: list[Step] = []     # of the chain that is under way, those of which is not known that they are over
        self.asks = False       # connected, and what the socket says of its congestion control will be in the block
        self.eof_is_last = self._eof_is_last()

    def _note_cca(self) -> None:
        if self.loop.asks:
            self.asks = True
            self.ring.make_room()
            self._ask(QUIET, IGNORED)
        else:
            super()._note_cca()

    def _ask(self, flags: int, number: int) -> None:
        """Have the ring ask the socket for its congestion control."""
        self.ring.option(self.fd, IPPROTO_TCP, TCP_CONGESTION, self.notes.address(self.block + _CCA_WORD), _CCA_BYTES,
                         flags, number)

    def _wait(self) -> None:
        if self.steps or self.asked:
            return
        if self.state == DATA or self.state == LAST_DATA or self.state == EOF:
            place = self._place()
            steps = steps_from(place, self.end, False)
            if self.state == EOF and self.read == self.expected and not self.closes:
                steps = [Step(END)]
                steps[0].closes = True
            if steps:
                self.ring.make_room()
                return self._submit(steps, place)
        super()._wait()

    def received(self, n: int, now: int) -> None:
        self._drop_steps()
        super().received(n, now)

    def _place(self) -> Place:
        return Place(self.op, self.last_op, self.read, self.mark, self.sent, self.peer_op, self.peer_last,
                     self.expected, self.closes, self.eof_is_last)

    def connect(self) -> None:
        place = self._place()
        steps = steps_from(place, self.end, True) if self.loop.asks else []
        if not steps:
            return super().connect()
        self.ring.connect(self.fd, self.end.peer_ip, self.end.port, LINK | QUIET, self.number | CONNECT)
        return self._submit(steps, place)

    def _submit(self, steps: list[Step], place: Place) -> None:
        """Hand over a chain, whose beginning may be there already; there has to be room. place: where the program is
        after the steps."""
        self.loop.chains += 1
        ring, end, loop, notes, number = self.ring, self.end, self.loop, self.notes, self.number | SEND
        op = self.op
        for i, step in enumerate(steps):
            step.word = self.block + i
            notes.words[step.word] = 0
            if step.what == END:
                ring.receive_end(self.fd, LINK | QUIET, self.number | RECEIVE)
            elif step.what != CONNECTED:
                step.buffer = self._submit_read(step.what, LINK | QUIET)
            ring.note_time(notes.address(step.word), LINK | QUIET, number)
            if step.what == CONNECTED:
                self._ask(LINK | QUIET, number)
            for _ in range(step.answers):
                if end.own_wait_us[op]:
                    ring.after(1000 * end.own_wait_us[op], LINK | QUIET, number)
                size = end.own_bytes[op]
                if size:
                    ring.send(self.fd, loop.pattern.address + self.out_place, size, LINK | QUIET, number)
                    self.out_place = (self.out_place + size) % PERIOD
                op += 1
        self.steps = steps
        if steps[-1].closes:
            ring.close_socket(self.fd, QUIET, number)
            loop.silent.append(self.number >> KIND_BITS)
        elif place.mark == NOWHERE:
            steps.append(Step(END))
            ring.receive(self.fd, 0, 1, 0, self.number | RECEIVE)
        else:
            rest = place.mark - place.read
            steps.append(Step(rest if rest < SEND_BUFFER_BYTES else SEND_BUFFER_BYTES))
            steps[-1].buffer = self._submit_read(steps[-1].what, 0)
        self._under_way()

    def _under_way(self) -> None:
        """Which read the ring is at."""
        self.asked, self.buffer = (max(0, self.steps[0].what), self.steps[0].buffer) if self.steps else (0, 0)

    def _drop_steps(self) -> None:
        """The chain is over, or broken at its first step."""
        for step in self.steps[1:]:
            if step.buffer:
                self.loop.buffers.give(step.buffer)
        self.steps = []

    def settle(self) -> None:
        steps, words = self.steps, self.notes.words
        while steps and steps[0].word >= 0:
            noted: int = words[steps[0].word]
            if not noted:
                return
            self._happened(steps.pop(0), self.loop.since_t0(noted))
            self._under_way()

    def _happened(self, step: Step, now: int) -> None:
        """A step is over; its instant was `now`."""
        end, index = self.end, self.index
        over = self.loop.is_over(now)           # what is read then still counts
        if step.what > 0:
            self.take(step.what)
            if over:
                self.mark = NOWHERE
            else:
                self._delivered(now)
        elif over:
            return
        elif step.what == END:
            self.closes = True
        else:
            end.records.connected_us[index] = now // 1000
            self.state, self.asks = DATA, True
        if over:
            return
        due = now
        for op in range(self.op, self.op + step.answers):
            due += 1000 * end.own_wait_us[op]
            end.records.sent_us[op] = due // 1000
            self.sent += end.own_bytes[op]
        if step.answers:
            self.op += step.answers
            self.due = due
        if self.state == DATA and self.op == self.last_op:
            self.state = LAST_DATA if self.closes else EOF
        if step.closes:
            self.is_closed = not step.answers       # a write before it may break the chain
            self.state, self.due = CLOSED, due
            self._note(FINISHED, due)

    def leave(self) -> None:
        self._drop_steps()
        if self.asks:
            self.end.note_name(self.notes.text(self.block + _CCA_WORD, _CCA_WORDS))
        self.notes.give(self.block)

# SPDX-License-Identifier: GPL-2.0-only
"""What ring.py, ring_ends.py and the library in C have to agree upon, and that both do the same."""
import ctypes
import struct

import pytest
from hypothesis import given, settings, strategies as st

from testbed.core import c_libraries
from testbed.runs import code_bundle
from tests.c_declarations import fields, numbers, read
from traffic.greedy import core_reads, ends, ring, ring_ends
from traffic.io import compiled, payload, sockets, uring

SOURCE = read("greedy/reads.c")
FLOWS = 5
MOST_BYTES = 1 << 15
# numbers that have other names in Python, or none
VALUES = {"KIND_MASK": (1 << ring_ends.KIND_BITS) - 1}


@pytest.fixture(scope="module")
def library():
    """The library's path."""
    made = code_bundle.ensure() / c_libraries.GREEDY_READS
    assert made.exists(), "a compiler is there, so it compiles"
    return str(made)


@pytest.mark.parametrize("name, value", numbers(SOURCE))
def test_the_same_numbers(name, value):
    found = {getattr(module, spelt) for module in (payload, sockets, ends, ring, ring_ends)
             for spelt in (name, f"_{name}") if hasattr(module, spelt)}
    assert (found or {VALUES[name]}) == {value}


@pytest.mark.parametrize("name, python", [
    ("shared_receiver", ring_ends.SharedReceiver), ("shared_reads", core_reads.SharedReads)])
def test_the_same_fields(name, python):
    assert fields(SOURCE, name) == [field for field, _ in python._fields_]


def test_a_library_of_other_code_is_refused(library, monkeypatch):
    class Longer(compiled.SharedRing):
        _fields_ = [("more", ctypes.c_int64)]
    monkeypatch.setattr(core_reads, "SharedRing", Longer)
    with pytest.raises(ImportError, match="do not agree"):
        core_reads.CoreFlows(library, *parts())


def test_what_is_no_library_is_refused(tmp_path):
    (tmp_path / "reads.so").write_bytes(b"not ELF")
    with pytest.raises(ImportError, match="reads.so"):
        core_reads.CoreFlows(str(tmp_path / "reads.so"), *parts())


class Listener:
    def fileno(self):
        return 7

    def getsockopt(self, *_):
        return b"cubic"


def parts():
    """What flows are made of that receive FLOWS flows; nothing is ever handed over to the kernel."""
    orders = [{"flow": number, "address": "127.0.0.1", "port": 0, "cca": None, "start_us": 0, "stop_us": 10}
              for number in range(1, FLOWS + 1)]
    made = uring.Ring(4096)
    return (made, [ends.End(order, "receive") for order in orders], [Listener()] * FLOWS,
            ends.Counts([{"send": [], "receive": orders}]), payload.Pattern(1 << 17))


class Interpreted(ring.RingFlows):
    """Finds completions that were made up."""

    def find(self, completions):
        for number, result in completions:
            assert not self._found(number, result)


class Compiled(core_reads.CoreFlows):
    """Finds completions that were made up."""

    def find(self, completions):
        words, mask = self.ring._words, self.ring._cq_mask
        head = words[self.ring._cq_head]
        for at, (number, result) in enumerate(completions, head):
            struct.pack_into("=Qi", self.ring._ring, self.ring._cqes + 16 * (at & mask), number, result)
        words[self.ring._cq_tail] = head + len(completions)
        self._shared.first, self._shared.last = head, head + len(completions)
        self._hand_over()
        assert self._core.greedy_next(self._at) == 0        # nothing is left to Python
        self._take_back()
        assert words[self.ring._cq_head] == head + len(completions)


def begin(flows):
    """All are connected and have their first read behind them."""
    flows.answers.asks, flows.before = True, flows.ring._tail
    for receiver in flows._ends:
        receiver.accept()
        fill(receiver, 1448, spoilt=False)
    kind = ring_ends.KIND_BITS
    flows.find([(end << kind | ring_ends.ACCEPT, 100 + end) for end in range(FLOWS)])
    flows.find([(end << kind | ring_ends.READ, 1448) for end in range(FLOWS)])


def fill(receiver, size, spoilt):
    """What comes next in the stream lies in the buffer."""
    shared, pattern = receiver.shared, receiver._flows.pattern
    place = (payload.phase(receiver.end.flow["flow"]) + checked(receiver)) % payload.PERIOD
    ctypes.memmove(shared.buffer, pattern.address + place, size)
    if spoilt:
        ctypes.c_ubyte.from_address(shared.buffer + size - 1).value ^= 1


def checked(receiver):
    return receiver.shared.checked_bytes or receiver.end.tally.checked_bytes


def asked_for(flows):
    """The operations that were put into the ring: with places in this process as distances."""
    operations = []
    for at in range(64 * flows.before, 64 * flows.ring._tail, 64):
        opcode, flags, priority, fd, off, address, length, op_flags, number, _, index, last, _ = uring._SQE.unpack_from(
            flows.ring._sqes, at)
        if index and number == ring_ends.IGNORED:
            last -= flows.answers._at
        elif index:
            last = ctypes.c_int.from_address(last).value if last else 0
        elif address:
            address -= flows._ends[0].shared.buffer
        operations.append((opcode, flags, priority, fd, off, address, length, op_flags, number, index, last))
    return operations


STEP = st.lists(st.tuples(st.integers(0, FLOWS - 1), st.sampled_from((1, 700, MOST_BYTES, MOST_BYTES)), st.booleans()),
                min_size=1, max_size=FLOWS, unique_by=lambda one: one[0])


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_the_same_operations_in_c_and_in_python(library, steps):
    """Reads of all lengths, bytes that are wrong."""
    both = Interpreted(*parts()), Compiled(library, *parts())
    for flows in both:
        assert flows.most_bytes > MOST_BYTES
        flows.most_bytes = MOST_BYTES
        if isinstance(flows, Compiled):
            flows._shared.most_bytes = MOST_BYTES
        begin(flows)
    for completions in steps:
        for flows in both:
            for number, size, spoilt in completions:
                fill(flows._ends[number], size, spoilt)
            flows.find([(number << ring_ends.KIND_BITS | ring_ends.READ, size) for number, size, _ in completions])
            assert flows.ring._tail < 4096
    one, other = both
    other.note_found()
    assert asked_for(one) == asked_for(other)
    for mine, its in zip(one._ends, other._ends):
        assert mine.end.account() == its.end.account()
        assert mine.shared.fd == its.shared.fd
    for flows in both:
        flows.ring.close()


@pytest.mark.parametrize("make", [lambda _: Interpreted(*parts()), lambda library: Compiled(library, *parts())])
def test_the_end_of_a_stream_and_errors_after_reads(library, make, monkeypatch):
    flows = make(library)
    flows.most_bytes = MOST_BYTES
    if isinstance(flows, Compiled):
        flows._shared.most_bytes = MOST_BYTES
    begin(flows)
    number = ring_ends.READ
    for _ in range(3):
        fill(flows._ends[0], MOST_BYTES, spoilt=False)
        flows.find([(number, MOST_BYTES)])
    monkeypatch.setattr(ring_ends.Receiver, "_was_reset", lambda _: False)
    before, under_way = flows.ring._tail, flows.under_way
    assert not flows._found(number, 0) and flows.under_way == under_way - 1
    assert flows._ends[0].shared.fd == -1 and flows.ring._tail == before + 1        # it is closed
    with pytest.raises(OSError, match="flow 2: Connection reset by peer"):
        flows._found(1 << ring_ends.KIND_BITS | number, -104)


def test_without_answers_in_the_ring_python_goes_on_itself(library):
    both = Interpreted(*parts()), core_reads.CoreFlows(library, *parts())
    found = []
    for flows in both:
        flows.most_bytes, flows.answers.asks, flows.before = MOST_BYTES, False, flows.ring._tail
        flows.answers.ask_cca = lambda *_: None
        receiver = flows._ends[0]
        receiver.accept()
        for kind, result in ((ring_ends.ACCEPT, 100), (ring_ends.READ, 1448), *[(ring_ends.READ, MOST_BYTES)] * 40):
            assert not receiver.shared.own and not flows._found(kind, result)
        found.append((asked_for(flows), checked(receiver)))
    assert found[0] == found[1] and found[0][1] == 1448 + 40 * MOST_BYTES


@pytest.mark.parametrize("more, receives, compiled", [
    ({}, True, True), ({}, False, False), ({"bytes": 5}, True, False), ({"window_bytes": 5}, True, False)])
def test_the_library_is_loaded_where_it_has_something_to_do(library, monkeypatch, more, receives, compiled):
    monkeypatch.setattr(core_reads, "beside", lambda *_: library)
    made, all_ends, *rest = parts()
    for end in all_ends:
        end.role = "receive" if receives else "send"
        end.flow.update(more)
    flows = core_reads.make_flows(made, all_ends, *rest)
    assert isinstance(flows, core_reads.CoreFlows) is compiled


@pytest.mark.parametrize("result", [0, -104])
def test_what_is_no_read_is_left_to_python_in_its_turn(library, result):
    flows = Compiled(library, *parts())
    begin(flows)
    number = [end << ring_ends.KIND_BITS | ring_ends.READ for end in range(FLOWS)]
    first = flows._shared.first
    struct.pack_into("=QiIQiIQi", flows.ring._ring, flows.ring._cqes + 16 * first,
                     number[0], 700, 0, number[1], result, 0, number[2], 700)
    flows._shared.last = first + 3
    before = [checked(end) for end in flows._ends]
    flows._hand_over()
    assert flows._core.greedy_next(flows._at) == 1
    assert (flows._shared.number, flows._shared.result) == (number[1], result)
    assert [checked(end) for end in flows._ends] == [before[0] + 700, *before[1:]]
    flows._ends[3].shared.own = 0
    assert flows._core.greedy_next(flows._at) == 0
    assert [checked(end) for end in flows._ends] == [before[0] + 700, before[1], before[2] + 700, *before[3:]]
    struct.pack_into("=Qi", flows.ring._ring, flows.ring._cqes + 16 * first + 48, number[3], 700)
    flows._shared.last = first + 4
    assert flows._core.greedy_next(flows._at) == 1 and flows._shared.number == number[3]

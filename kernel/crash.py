# SPDX-License-Identifier: GPL-2.0-only
"""What a guest kernel that crashed says of itself: where, why, how it got there, and what may be done about it."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_MOST_CALLS = 25
#: calls that reporting itself may take
_NEARBY = 20
#: the folder in which a module was compiled, in the kernel's words for its source
_COPY = re.compile(r"(?<=\s)/\S*/\.new-[^/\s]+/")
#: of fault_signals.c
_SIGNAL = re.compile(r"the host stopped the kernel by signal (\d+)$")
_STACK = re.compile(r"^the host stopped the kernel at the end of its stack, at 0x([0-9a-f]{16})$", re.M)
#: of testbed/guest/congestion_controls.py
_MODULE = re.compile(r"^module (\w+) is at 0x([0-9a-f]+)$", re.M)
#: bytes of code of a module
_LARGEST = 1 << 20
_NULL = re.compile(r"the host stopped the kernel at a NULL pointer$")
#: after it nothing that a run measures can be trusted, though the kernel may go on: of any kind, of SLUB, of lockdep
_BUG = re.compile(r"\bBUG: .*|\bBUG [\w-]+ \(.*\): .*|WARNING: (possible|inconsistent|bad) .*(lock|dependency).*")
_TROUBLE = re.compile(rf"Kernel panic - not syncing: .*|Oops\b.*|{_BUG.pattern}|Unable to handle .*|"
                      rf"Segfault with no mm.*|{_SIGNAL.pattern}")
#: where frames of a call trace begin that say nothing of what was called: an interrupt came, the machine was idle
_BELOW = re.compile(r"(irq_exit|do_IRQ|timer_handler|timer_real_alarm_handler|do_idle|ret_from_fork|"
                    r"new_thread_handler)\b")


#: functions that notice what is wrong, and do nothing wrong themselves
_REPORTERS = re.compile(r"(_?printk|panic|process_timeout|(dump|show)_\w+|print_\w+|__might_\w+|___might_\w+|"
                        r"__schedule\w*|schedule\w*|__mod_timer|msleep\w*|mutex_lock\w*|spin_bug\w*|"
                        r"do_raw_spin_lock\w*|__?raw_spin_\w+|_*(mark_)?lock_\w+|mark_lock|_*slab_\w+|object_err|"
                        r"check_\w+|alloc_debug_\w+|free_debug_\w+|_*kmalloc\w*|kmem_cache_\w+|"
                        r"(un)?block_signals|um_set_signals|_*warn\w*|kasan_\w+|_*ubsan_\w+)(\.[\w.]+)?\+0x")


class _Meaning(NamedTuple):
    said: str
    means: str


_NULL_MEANS = "a NULL pointer was followed, or a field of one"
_NULL_CALL_MEANS = "a function was called through a NULL pointer"
_DEBUG = "--kernel-option debug finds out who writes there"
#: what the kernel's words mean, and what to do: the first that fits
_MEANINGS = (
    _Meaning(r"signal 8\b", "an integer was divided by zero, or a quotient has no room in its type: check the divisor "
             "before the division"),
    _Meaning(r"signal 4\b", "an instruction that is none: the kernel ran into data, or into code that the compiler "
             "took for unreachable"),
    _Meaning(r"Kernel mode fault at addr 0x\w+, ip 0x0\b", _NULL_CALL_MEANS),
    _Meaning(r"Kernel mode fault at addr 0x[0-9a-f]{1,3}\b", _NULL_MEANS),
    _Meaning(r"Kernel mode fault|Segfault with no mm|Kernel tried to access user memory|Unable to handle",
             f"a pointer leads to memory that is not there: overwritten, freed, or never set; {_DEBUG}"),
    _Meaning(r"scheduling while atomic|sleeping function called from invalid context",
             "something slept where nobody may: most hooks of a congestion control run in softirq, where msleep(), "
             "mutexes and GFP_KERNEL are forbidden"),
    _Meaning(r"spinlock (recursion|lockup|already unlocked|bad magic)|recursive locking|inconsistent lock state",
             "a lock that its holder takes again, or that is taken with interrupts in two ways"),
    _Meaning(r"KASAN: \S*use-after-free|Poison overwritten", "memory is used that was freed"),
    _Meaning(r"KASAN: \S*out-of-bounds|Redzone overwritten", "memory beyond the end of an object was written"),
    _Meaning(r"^BUG [\w-]+ \(", "memory beyond the end of an object was written, or memory that was freed; the kernel "
             "found it only when it needed that place again"),
    _Meaning(r"kernel BUG at|BUG_ON", "a condition that the code itself checks does not hold"),
    _Meaning(r"stack (overflow|is corrupted)|corrupted stack end", "the stack is full: a recursion, or large local "
             "arrays"),
)


def describe(log: str, lines_of: Callable[[str], str] = lambda place: "") -> str | None:
    """The reason, the function and the call trace of the first crash in a kernel's log; None if there is none.

    lines_of(place): the line of source of a place such as mine_cong_avoid+0xe/0x25 [tcp_mine], to be put behind it.
    Registers and raw stack words are left out; they stay in the log.
    """
    lines = _lines(log)
    at = next((i for i, line in enumerate(lines) if _TROUBLE.search(line)), None)
    if at is None:
        return None
    trouble = _trouble(lines[at])
    if signal := _SIGNAL.search(lines[at]):
        # the panic that follows is that of a fault of memory, since the kernel knows no other with registers
        trouble = f"Kernel mode signal {signal[1]}"
    meaning = next((meaning.means for meaning in _MEANINGS if re.search(meaning.said, trouble)), "")
    # UML prints registers before the panic, other kernels after the oops
    before = lines[max(0, at - 20):at]
    calls, place = _calls(lines[at:]), _place(before + lines[at + 1:at + 80])
    if place and re.match(r"0x0\b", place):
        meaning, place = _NULL_CALL_MEANS, None
    elif any(map(_NULL.search, before)) and trouble.startswith("Kernel panic"):
        meaning = _NULL_MEANS
    if place and not place.endswith("]") and meaning == _NULL_MEANS:
        meaning += f"; if that was overwritten, {_DEBUG}"
    said = [_COPY.sub("", trouble) + (f" ({meaning})" if meaning else "")]
    if place:
        said.append(f"in {place}{lines_of(place)}")
    elif calls:
        # who called those that noticed it: a module under test, if there is one nearby
        first = next((i for i, call in enumerate(calls[:_NEARBY]) if call.endswith("]")), None)
        if first is None:
            first = next((i for i, call in enumerate(calls) if not _REPORTERS.match(call)), 0)
        said.append(f"in {calls[first]}{lines_of(_call_in(calls[first]))}")
        calls = calls[first + 1:]
    said += [f"  {call}{lines_of(_call_in(call))}" for call in calls[:_MOST_CALLS]]
    return "\n".join(said)


def bug(log: str) -> str | None:
    """The first line in which a kernel says that it has a bug; None if there is none. It may go on after that."""
    return next((found.group() for line in _lines(log) if (found := _BUG.search(line))), None)


def place(log: str) -> str | None:
    """The function in which a kernel was that had no time to say more."""
    return _place(_lines(log))


def full_stack(log: str) -> str | None:
    """Where a kernel was whose stack was full: .text+0x45/0x0 [tcp_x] in a module of which the log says where it is,
    else the address; None if no stack was full."""
    log = log.replace("\r", "")
    found = list(_STACK.finditer(log))
    if not found:
        return None
    at = int(found[-1][1], 16)
    modules = {int(address, 16): name for name, address in _MODULE.findall(log)}
    base = max((address for address in modules if address <= at), default=None)
    return f"0x{at:x}" if base is None or at - base > _LARGEST else f".text+0x{at - base:x}/0x0 [{modules[base]}]"


def _lines(log: str) -> list[str]:
    return [re.sub(r"^\[ *\d+\.\d+\] ?", "", line) for line in log.replace("\r", "").splitlines()]


def _trouble(line: str) -> str:
    found = _TROUBLE.search(line)
    return found.group().strip() if found else line


def _calls(lines: list[str]) -> list[str]:
    """The calls of the first trace in these lines, as far down as they say something."""
    calls: list[str] = []
    tracing = False
    for line in lines:
        if line.startswith("Call Trace:"):
            tracing = True
        elif tracing:
            call = re.match(r" *(?:\[<\w+>\] )?(?:\? )?(\w\S*\+0x\w+/0x\w+(?: \[\w+\])?)$", line)
            if not call or calls and _BELOW.match(call.group(1)):
                break
            if "+0x0/" not in call.group(1):                # a pointer to a function, and no call
                calls.append(call.group(1))
    return calls


def _call_in(returns_to: str) -> str:
    """The place of a call, of that where it returns to: another line of source, where it is the last of one."""
    return re.sub(r"\+0x([0-9a-f]+)/", lambda found: f"+{int(found[1], 16) - 1:#x}/", returns_to, count=1)


def _place(lines: list[str]) -> str | None:
    return next((m.group(1) for line in lines if (m := re.match(r"RIP: \w+:(\S.*)", line))), None)


def program_running(log: str) -> str | None:
    """The name of the program that ran, and not the kernel, when a UML kernel was made to panic; else None."""
    if not re.search(r"Call Trace:\s*\n[^\n]*\? userspace\+0x", log.replace("\r", "")):
        return None
    found = re.search(r"comm: (\S+)", log, re.IGNORECASE)
    return found.group(1) if found else None

# SPDX-License-Identifier: GPL-2.0-only
"""What a guest kernel that crashed says of itself: where, why, and how it got there."""
from __future__ import annotations

import re

_MOST_CALLS = 25
_TROUBLE = re.compile(r"Kernel panic - not syncing: (.*)|(Oops\b.*|BUG: .*|Unable to handle .*|Segfault with no mm.*)")
#: what UML's words for a signal of the host mean; it has no stack to show then
_SIGNALS = {"Kernel mode signal 8": " (SIGFPE: an integer was divided by zero, or the quotient has no room)"}


def describe(log: str) -> str | None:
    """The reason, the function and the call trace of the first crash in a kernel's log; None if there is none.

    Registers and raw stack words are left out; they stay in the log.
    """
    lines = [re.sub(r"^\[ *\d+\.\d+\] ?", "", line) for line in log.replace("\r", "").splitlines()]
    found = next(((i, match) for i, line in enumerate(lines) if (match := _TROUBLE.search(line))), None)
    if found is None:
        return None
    at, trouble = found
    said = [trouble.group().strip() + next((why for words, why in _SIGNALS.items() if words in trouble.group()), "")]
    # UML prints registers before the panic, other kernels after the oops
    around = lines[max(0, at - 20):at] + lines[at + 1:at + 80]
    if place := _place(around):
        said.append(f"in {place}")
    calls, tracing = [], False
    for line in lines[at:]:
        if line.startswith("Call Trace:"):
            tracing = True
        elif tracing:
            call = re.match(r" *(?:\[<\w+>\] )?(?:\? )?(\w\S*\+0x\w+/0x\w+(?: \[\w+\])?)$", line)
            if not call:
                break
            calls.append(call.group(1))
    said += [f"  {call}" for call in calls[:_MOST_CALLS]]
    return "\n".join(said)


def place(log: str) -> str | None:
    """The function in which a kernel was that had no time to say more."""
    return _place([re.sub(r"^\[ *\d+\.\d+\] ?", "", line) for line in log.replace("\r", "").splitlines()])


def _place(lines: list[str]) -> str | None:
    return next((m.group(1) for line in lines if (m := re.match(r"RIP: \w+:(\S.*)", line))), None)


def program_running(log: str) -> str | None:
    """The name of the program that ran, and not the kernel, when a UML kernel was made to panic; else None."""
    if not re.search(r"Call Trace:\s*\n[^\n]*\? userspace\+0x", log.replace("\r", "")):
        return None
    found = re.search(r"comm: (\S+)", log, re.IGNORECASE)
    return found.group(1) if found else None

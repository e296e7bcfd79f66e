# SPDX-License-Identifier: GPL-2.0-only
"""What modules for older kernels trip over: changes of the kernel's interfaces, matched on the compiler's words.

To add one, add a line: an expression for what gcc or modpost says, the version that brought the change, what to write
instead.
"""
from __future__ import annotations

import re
from typing import NamedTuple

#: the oldest kernel that `--kernel` names by a version
_OLDEST = (6, 1)


class _Change(NamedTuple):
    said: str
    since: tuple[int, int]
    instead: str


def _function(name: str) -> str:
    """What is said of a function, or of a macro, that has gone."""
    return (rf"implicit declaration of function '{name}'|'{name}' undeclared|\"{name}\" \[.*undefined!"
            rf"|too (?:few|many) arguments to function '{name}'")


def _field(name: str) -> str:
    return rf"(?:has no member named|has no member) '{name}'|unknown field '{name}'"


_CHANGES = (
    _Change(r"'void \(\*\)\(struct sock \*, *(?:u32|unsigned int), *int, *const struct rate_sample \*\)'.*from "
            r"incompatible pointer type|from incompatible pointer type 'void \(\*\)\(struct sock \*, *"
            r"const struct rate_sample \*\)'", (6, 10),
            "cong_control takes (struct sock *sk, u32 ack, int flag, const struct rate_sample *rs): add `u32 ack, int "
            "flag`"),
    _Change(r"'void \(\*\)\(struct sock \*, *const struct ack_sample \*\)'.*from incompatible pointer type", (4, 7),
            "pkts_acked takes (struct sock *sk, const struct ack_sample *sample): sample->pkts_acked, sample->rtt_us"),
    _Change(r"'void \(\*\)\(struct sock \*, *(?:u32|unsigned int), *(?:u32|unsigned int)\)'.*from incompatible pointer "
            r"type", (3, 16), "cong_avoid takes (struct sock *sk, u32 ack, u32 acked)"),
    _Change(r"'size_t \(\*\)\(struct sock \*.*from incompatible pointer type|'size_t \(\*\)\(struct sock \*, *u32",
            (4, 2), "get_info takes (struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info) and returns the "
            "size of what it has filled in"),
    _Change(_function("prandom_u32_max"), (6, 2), "get_random_u32_below(n)"),
    _Change(_function("prandom_u32"), (6, 1), "get_random_u32()"),
    _Change(_function("prandom_bytes"), (6, 1), "get_random_bytes()"),
    _Change(_function("tcp_tso_autosize"), (4, 16), "the kernel sizes segments itself: set `.min_tso_segs` (a function "
            "that returns the least number of segments) instead"),
    _Change(_field("tso_segs_goal"), (4, 16), "`.min_tso_segs`: u32 (*)(struct sock *sk), the least number of "
            "segments"),
    _Change(_function("tcp_time_stamp"), (6, 7), "tcp_jiffies32 for jiffies; tcp_time_stamp_ts(tp) for the clock of "
            "the time stamp option"),
    _Change(_field("min_cwnd"), (3, 15), "nothing: `ssthresh` gives the least window"),
    _Change(_field("skb_mstamp") + r"|invalid use of undefined type 'struct skb_mstamp'|" + _function("skb_mstamp_get"),
            (4, 13), "times are u64 in microseconds: tp->tcp_mstamp, tcp_skb_timestamp_us(skb)"),
    _Change(_function("tcp_is_cwnd_limited"), (3, 16), "tcp_is_cwnd_limited(sk)"),
    _Change(_function("tcp_cong_avoid_ai"), (3, 19), "tcp_cong_avoid_ai(tp, w, acked)"),
    _Change(_function("tcp_slow_start"), (3, 13), "tcp_slow_start(tp, acked) returns what is left of `acked`"),
    _Change(_function("init_timer") + "|" + _function("setup_timer"), (4, 15), "timer_setup(timer, function, flags)"),
    _Change(_function("del_timer_sync") + "|" + _function("del_timer"), (6, 15),
            "timer_delete_sync(timer), timer_delete(timer)"),
    _Change(_function("from_timer"), (6, 16), "timer_container_of(variable, timer, field)"),
    _Change(_function("hrtimer_init"), (6, 15), "hrtimer_setup(timer, function, clock, mode)"),
    _Change(r"asm/unaligned\.h: No such file", (6, 12), "#include <linux/unaligned.h>"),
)
#: what is no change: never in a kernel
_FLOATS = re.compile(r"\"__(?:float|fix|add|sub|mul|div|extend|trunc|neg|(?:un)?ord|eq|ne|lt|le|gt|ge)\w*[sdt]f\w*\" "
                     r"\[.*undefined!|SSE register (?:return|argument) with SSE (?:disabled|not enabled)|80387|"
                     r"x87 register return with x87 disabled")


def advice(words: str) -> list[str]:
    """What to write instead, for what the compiler said; a line for each change, in the order of the table."""
    # gcc quotes in its own way where the locale is UTF-8
    words = words.replace("\N{LEFT SINGLE QUOTATION MARK}", "'").replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    found = [f"since Linux {_shown(change.since)}: {change.instead}"
             + (f" (or run it with --kernel {_shown(_OLDEST)})" if change.since > _OLDEST else "")
             for change in _CHANGES if re.search(change.said, words)]
    if _FLOATS.search(words):
        found.append("a kernel has no floating point (nor has Linux on x86-64: -mno-80387, -mno-sse): count in "
                     "integers, scaled, such as thousandths; div64_u64() divides 64 bits")
    return found


def _shown(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

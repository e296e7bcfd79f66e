# SPDX-License-Identifier: GPL-2.0-only
"""The kernel warned of itself: its taint mask before the traffic and after it, and what it said in its log; memory that
nobody gives back."""
from collections.abc import Iterator

from testbed.checks import Evidence, Finding

NEEDS = ("kernel", "late.json")
#: bits of the mask (Documentation/admin-guide/tainted-kernels.rst); others say which modules there are
_WARNED = 1 << 9
_BROKEN = {1 << 4: "a machine check", 1 << 5: "a bad page", 1 << 7: "an oops or BUG", 1 << 14: "a lockup"}
#: Memory that a kernel may keep for good or for minutes: what it has ready for more packets, and what waits for
#: stragglers of each connection that was closed (0.4 kB on the access link, 12,000 connections).
_KEPT_MB, _KEPT_OF_CONNECTION_MB = 16, 1 / 1024


def check(evidence: Evidence) -> Iterator[Finding]:
    before, late = evidence.measured.tainted, evidence.late
    after = late.tainted
    if before is None or after is None:
        yield Finding("suspect", "whether the kernel warned of itself is not known")
        return
    # a machine's own kernel may have been so for months
    mask = after if evidence.clock == "virtual" else after & ~before
    said = late.trouble or ["its log has nothing of it"]
    words = f": {said[0]}" + f" (and {len(said) - 1} more)" * (len(said) > 1)
    when = "during the traffic" if mask & ~before else "before the traffic"
    broken = [name for bit, name in _BROKEN.items() if mask & bit]
    if broken:
        yield Finding("invalid", f"the kernel had {', '.join(broken)} {when}{words}")
    elif mask & _WARNED:
        level = "invalid" if any(line.startswith("BUG") for line in said) else "suspect"
        yield Finding(level, f"the kernel warned of itself {when}{words}")
    else:
        yield Finding("ok", "the kernel did not warn of itself")
    if evidence.clock == "virtual":
        yield from _kept(evidence)


def _kept(evidence: Evidence) -> Iterator[Finding]:
    """Of a kernel of its own, in which nobody else allocates memory."""
    late = evidence.late
    more_mb = late.kept_more_mb
    if more_mb is None:
        yield Finding("suspect", "how much memory the kernel kept is not known")
        return
    connections = sum(counts.get("TcpActiveOpens", [0])[-1] + counts.get("TcpPassiveOpens", [0])[-1]
                      for counts in evidence.snmp.nodes.values())
    allowed_mb = _KEPT_MB + _KEPT_OF_CONNECTION_MB * connections
    for name, kept_bytes in late.kept_of_connections.items():
        if kept_bytes > 0:
            yield Finding("suspect", f"{name}: the kernel keeps {kept_bytes} B of each connection that is over: it "
                                     "does not free what it allocates"
                          + (f" ({late.leaked[0]})" if late.leaked else
                             "; --kernel-option debug finds out where it allocates it"))
    if more_mb > allowed_mb:
        yield Finding("suspect", f"the kernel had at least {more_mb} MB more memory in use after the traffic than "
                                 f"before it, where {allowed_mb:.0f} MB at most are usual: a congestion control "
                                 "that does not free what it allocates?")

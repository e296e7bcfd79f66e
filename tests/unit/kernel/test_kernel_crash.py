# SPDX-License-Identifier: GPL-2.0-only
"""Crashes read out of a kernel's log."""
from kernel import crash

FAULT = """\
[    0.000000] mine: loading out-of-tree module taints kernel.\r
[    4.100000] \r
[    4.100000] Modules linked in: tcp_mine(O)\r
[    4.100000] Pid: 77, comm: python3 Tainted: G           O       6.12.1\r
[    4.100000] RIP: 0033:mine_cong_avoid+0xe/0x25 [tcp_mine]\r
[    4.100000] RSP: 0000000060887d98  EFLAGS: 00010246\r
[    4.100000] Kernel panic - not syncing: Kernel mode fault at addr 0x0, ip 0x6480d000\r
[    4.100000] CPU: 0 UID: 0 PID: 1 Comm: python3\r
[    4.100000] Stack:\r
[    4.100000]  6001dff8 00000000 00000000 00000000\r
[    4.100000] Call Trace:\r
[    4.100000]  [<6001dff8>] ? tcp_ack+0x58/0x220\r
[    4.100000]  [<60086b6f>] tcp_rcv_established+0x6f/0x2c0 [ipv4]\r
[    4.100000] \r
[    4.100000] something else\r
"""


def test_where_and_how_it_got_there():
    assert crash.describe(FAULT).splitlines() == [
        "Kernel panic - not syncing: Kernel mode fault at addr 0x0, ip 0x6480d000",
        "in mine_cong_avoid+0xe/0x25 [tcp_mine]",
        "  tcp_ack+0x58/0x220",
        "  tcp_rcv_established+0x6f/0x2c0 [ipv4]",
    ]


def test_a_division_by_zero_is_said_in_words():
    assert crash.describe("[    1.0] Kernel panic - not syncing: Kernel mode signal 8\n") == (
        "Kernel panic - not syncing: Kernel mode signal 8 (SIGFPE: an integer was divided by zero, or the quotient has "
        "no room)")


def test_where_a_kernel_was_that_says_no_more():
    assert crash.place("[   22.4] RIP: 0033:deep.isra.0+0x45/0x80 [tcp_x]\r\n") == "deep.isra.0+0x45/0x80 [tcp_x]"
    assert crash.place("all is well") is None


def test_long_traces_are_cut():
    calls = "".join(f"[    1.0]  [<6001dff8>] ? function_{i}+0x58/0x220\n" for i in range(100))
    told = crash.describe(f"[    1.0] BUG: spinlock recursion\n[    1.0] Call Trace:\n{calls}").splitlines()
    assert told[0] == "BUG: spinlock recursion" and len(told) == 26


def test_no_crash():
    assert crash.describe("") is None
    assert crash.describe("[    0.000000] Linux version 6.12\nall is well\n") is None
    assert (
        crash.describe("[    1.0] Kernel panic - not syncing: No init found")
        == "Kernel panic - not syncing: No init found"
    )

# SPDX-License-Identifier: GPL-2.0-only
"""Crashes read out of a kernel's log."""
import pytest

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
        "Kernel panic - not syncing: Kernel mode fault at addr 0x0, ip 0x6480d000 (a NULL pointer was followed, or a "
        "field of one)",
        "in mine_cong_avoid+0xe/0x25 [tcp_mine]",
        "  tcp_ack+0x58/0x220",
        "  tcp_rcv_established+0x6f/0x2c0 [ipv4]",
    ]


def test_lines_of_source_stand_behind_places():
    lines = crash.describe(FAULT, lambda place: " (mine.c:3)" if "tcp_mine" in place else "").splitlines()
    assert lines[1:3] == ["in mine_cong_avoid+0xe/0x25 [tcp_mine] (mine.c:3)", "  tcp_ack+0x58/0x220"]
    # of a call: the line of the instruction before the one that it returns to
    assert "  tcp_ack+0x58/0x220 (tcp_ack+0x57/0x220)" in crash.describe(FAULT, " ({})".format).splitlines()


def test_a_division_by_zero_has_a_place():
    """fault_signals.c says which signal it was; the panic behind it is that of a fault of memory."""
    log = "\nthe host stopped the kernel by signal 8\n" + FAULT
    assert crash.describe(log).splitlines()[:2] == [
        "Kernel mode signal 8 (an integer was divided by zero, or a quotient has no room in its type: check the "
        "divisor before the division)", "in mine_cong_avoid+0xe/0x25 [tcp_mine]"]


def test_a_division_by_zero_is_said_in_words():
    """As a kernel says it by itself."""
    assert crash.describe("[    1.0] Kernel panic - not syncing: Kernel mode signal 8\n").startswith(
        "Kernel panic - not syncing: Kernel mode signal 8 (an integer was divided by zero")


NO_MM = "Kernel panic - not syncing: Segfault with no mm"


@pytest.mark.parametrize("log, said", [
    (FAULT.replace("Kernel mode fault at addr 0x0, ip 0x6480d000", "Segfault with no mm"),
     f"{NO_MM} (a pointer leads to memory that is not there"),
    ("the host stopped the kernel at a NULL pointer\n" + FAULT.replace("Kernel mode fault at addr 0x0, ip 0x6480d000",
                                                                       "Segfault with no mm"),
     f"{NO_MM} (a NULL pointer was followed, or a field of one)\n"),
    ("the host stopped the kernel at a NULL pointer\nRIP: 0033:fib_lookup+0x1/0x2\n" + NO_MM,
     f"{NO_MM} (a NULL pointer was followed, or a field of one; if that was overwritten, --kernel-option debug"),
    (FAULT.replace("mine_cong_avoid+0xe/0x25 [tcp_mine]", "0x0"),
     "Kernel panic - not syncing: Kernel mode fault at addr 0x0, ip 0x6480d000 (a function was called through a NULL "
     "pointer)\nin tcp_rcv_established+0x6f/0x2c0 [ipv4]"),
    ("BUG: failure at /c/modules/.new-x7/sub/tcp_x.c:16/x_avoid()!", "BUG: failure at sub/tcp_x.c:16/x_avoid()!"),
    ("WARNING: possible recursive locking detected", "WARNING: possible recursive locking detected (a lock that its")])
def test_what_the_kernels_words_mean(log, said):
    assert crash.describe(log).startswith(said)


def test_the_function_is_who_called_those_that_noticed_it():
    calls = ["dump_stack_lvl+0x4a/0x8b", "__schedule_bug+0x52/0x60", "process_timeout+0x0/0x10", "msleep+0x32/0x40",
             "tcp_ack+0x1/0x9", "x_avoid+0x10/0x25 [tcp_x]", "irq_exit+0x87/0xa0", "stale+0x1/0x2"]
    log = "BUG: scheduling while atomic: x\nCall Trace:\n" + "".join(f" [<6001dff8>] ? {call}\n" for call in calls)
    assert crash.describe(log).splitlines()[1:] == ["in x_avoid+0x10/0x25 [tcp_x]"]
    assert crash.describe(log.replace(" [tcp_x]", "")).splitlines()[1:] == ["in tcp_ack+0x1/0x9", "  x_avoid+0x10/0x25"]


def test_bugs_after_which_a_kernel_goes_on():
    assert crash.bug("[ 1.0] WARNING: CPU: 0 PID: 0 at x.c:1 x+0x1/0x2\n[ 2.0] all is well\n") is None
    for line in ("BUG: sleeping function called from invalid context at mm/slab.h:1",
                 "BUG kmalloc-64 (Tainted: G O): Right Redzone overwritten",
                 "WARNING: possible circular locking dependency detected", "WARNING: inconsistent lock state"):
        assert crash.bug(f"[    1.0] fine\n[    2.0] {line}\n") == line


def test_where_a_kernel_was_that_says_no_more():
    assert crash.place("[   22.4] RIP: 0033:deep.isra.0+0x45/0x80 [tcp_x]\r\n") == "deep.isra.0+0x45/0x80 [tcp_x]"
    assert crash.place("all is well") is None


def test_a_full_stack_has_a_place():
    log = ("module tcp_a is at 0x00000000a0800000\r\nmodule tcp_x is at 0x00000000a0807000\r\n[ 1.0] fine\r\n"
           "the host stopped the kernel at the end of its stack, at 0x00000000{}\r\n")
    assert crash.full_stack(log.format("a0807065")) == ".text+0x65/0x0 [tcp_x]"
    assert crash.full_stack(log.format("a0806fff")) == ".text+0x6fff/0x0 [tcp_a]"
    assert crash.full_stack(log.format("60807065")) == "0x60807065" and crash.full_stack("fine") is None


def test_long_traces_are_cut():
    calls = "".join(f"[    1.0]  [<6001dff8>] ? function_{i}+0x58/0x220\n" for i in range(100))
    told = crash.describe(f"[    1.0] BUG: spinlock recursion\n[    1.0] Call Trace:\n{calls}").splitlines()
    assert told[0].startswith("BUG: spinlock recursion (a lock") and len(told) == 27


def test_no_crash():
    assert crash.describe("") is None
    assert crash.describe("[    0.000000] Linux version 6.12\nall is well\n") is None
    assert (
        crash.describe("[    1.0] Kernel panic - not syncing: No init found")
        == "Kernel panic - not syncing: No init found"
    )

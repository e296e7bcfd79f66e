# SPDX-License-Identifier: GPL-2.0-only
"""A machine opens Mininet's command line on its own kernel: from a script, at a terminal, and it is killed there."""
import signal
import time

import pexpect

from tests.host import inside

SHELL = ("shell", "/run/checkout/tests/host/small.yaml", "--engine", "host", "--cca", "cubic")


def at_terminal():
    """A session at the prompt."""
    child = pexpect.spawn(inside.TESTBED, [*SHELL], encoding="utf-8", timeout=300)
    child.expect_exact("mininet> ")
    return child


def main(out_dir):
    findings = {}
    before = inside.look()
    findings["script"] = inside.command(
        inside.TESTBED, *SHELL, "--exec", "n1 ping -c3 -i0.2 n2", "--exec", "r1 tc qdisc show dev r1-eth0", "--exec",
        "n1 sysctl net.ipv4.tcp_congestion_control", "--exec", "n2 iperf3 -s &", "--exec", "n1 sleep 600 &")
    findings["script_left"] = inside.difference(before, inside.look())

    child = at_terminal()
    child.sendline("n1 ping n2")
    child.expect_exact("icmp_seq=2")
    child.sendintr()
    child.expect_exact("packets transmitted")
    child.expect_exact("mininet> ")
    child.sendline("sh echo still $((6 * 7))")
    child.expect_exact("still 42")
    child.expect_exact("mininet> ")
    child.sendcontrol("d")
    child.expect(pexpect.EOF)
    child.close()
    findings["terminal"] = {"code": child.exitstatus, "difference": inside.difference(before, inside.look())}

    child = at_terminal()
    child.kill(signal.SIGKILL)
    child.wait()
    time.sleep(1)
    findings["repair"] = inside.command(inside.TESTBED, "doctor", "--engine", "host", "--repair")
    findings["repaired"] = inside.difference(before, inside.look())
    inside.keep(out_dir, **findings)

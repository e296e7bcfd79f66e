# SPDX-License-Identifier: GPL-2.0-only
"""`testbed shell` as somebody uses it at a terminal, and as a script does. It runs in real time: what is measured here
only tells the right network from a wrong one, on a busy machine, too."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import termios
import time

import pexpect
import pytest

from tests.end_to_end.command_line import PROJECT

PROMPT = "mininet> "
_TIMEOUT_S = 180


class Shell:
    """bin/testbed shell, with a folder of its own for the guest's memory."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="testbed-test-", dir="/dev/shm"))
        self.environment = {**os.environ, "TESTBED_GUEST_MEMORY_DIR": str(self.folder), "TERM": "xterm"}
        self._opened = []

    def open(self, *arguments):
        """At a terminal of 30 x 100 characters."""
        child = pexpect.spawn(str(PROJECT / "bin/testbed"), ["shell", *arguments], encoding="utf-8", timeout=_TIMEOUT_S,
                              dimensions=(30, 100), env=self.environment)
        self._opened.append(child)
        return child

    def run(self, *arguments, given="", closed=False):
        """Without a terminal: (exit code, output, errors)."""
        done = subprocess.run([PROJECT / "bin/testbed", "shell", *arguments], env=self.environment,
                              capture_output=True, timeout=_TIMEOUT_S,
                              **({"stdin": subprocess.DEVNULL} if closed else {"input": given.encode()}))
        return done.returncode, done.stdout.decode().replace("\r\n", "\n"), done.stderr.decode()

    def processes(self):
        """Of guests, and of what looks after them: those with our folder in their environment."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int(entry.name) != os.getpid() and str(self.folder).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def assert_nothing_left(self):
        end = time.monotonic() + 20
        while (self.processes() or list(self.folder.iterdir())) and time.monotonic() < end:
            time.sleep(0.1)
        assert self.processes() == []
        assert list(self.folder.iterdir()) == []

    def close(self):
        for child in self._opened:
            child.close(force=True)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def shell():
    opened = Shell()
    yield opened
    opened.close()


def answer(child, command):
    """What a command prints, until the next prompt. Programs may print in colours at a terminal: newer tc does."""
    child.sendline(command)
    child.expect_exact(PROMPT)
    return re.sub(r"\x1b\[[\d;]*m", "", child.before.replace("\r", ""))


def test_a_session_on_the_access_link(shell):
    child = shell.open("access-link", "--cca", f"{PROJECT}/docs/examples/tcp_mine.c,cubic")
    settings = termios.tcgetattr(child.child_fd)
    child.expect_exact(PROMPT)
    assert "hosts n1 n2 n3 n4 n5 n6; routers r1 r2" in child.before
    assert termios.tcgetattr(child.child_fd) != settings

    # 8 ms of propagation and 35 us of transmission; on the path of n5 78 ms; timers of a busy machine come late
    replies = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", answer(child, "n1 ping -c5 -i0.2 n4"))]
    assert len(replies) == 5 and 8 <= min(replies) < 40
    queues = answer(child, "r1 tc -s qdisc")
    assert "qdisc htb 3: dev r1-eth0 root" in queues and "limit 850p" in queues
    assert "net.ipv4.tcp_congestion_control = mine" in answer(child, "n4 sysctl net.ipv4.tcp_congestion_control")

    answer(child, "n4 iperf3 -s &")
    assert "iperf Done." in answer(child, "n1 iperf3 -c n4 -n 200K")
    assert "iperf Done." in answer(child, "n1 iperf3 -C cubic -c n4 -n 200K")

    # Ctrl-C ends the command, and nothing but the command; Ctrl-Z does nothing
    child.sendline("n1 ping n4")
    child.expect_exact("icmp_seq=1")
    child.sendintr()
    child.expect_exact("packets transmitted")
    child.expect_exact(PROMPT)
    child.sendcontrol("z")
    assert "30 100" in answer(child, "sh stty size")
    child.setwinsize(41, 123)
    child.expect_exact(PROMPT)                  # readline draws it again in the new width
    assert "41 123" in answer(child, "sh stty size")

    # more than any buffer on the way holds
    assert len(answer(child, "n1 seq 1 30000").split("\n")) == 30_002

    # cursor left, inserted in between, and the line again from the history
    assert "abcd\n" in answer(child, "n1 echo abd\x1b[Dc").replace("\x08", "")
    child.send("\x1b[A")
    assert "abcd\n" in answer(child, "")
    assert "n9: neither a node nor a command; nodes: n1 n2" in answer(child, "n9 ping n1")
    assert "n1: a command expected" in answer(child, "n1")
    child.sendcontrol("d")
    child.expect(pexpect.EOF)
    assert termios.tcgetattr(child.child_fd) == settings
    child.close()
    assert (child.exitstatus, child.signalstatus) == (0, None)
    shell.assert_nothing_left()


def test_kill_nine_leaves_nothing_and_the_terminal_as_it_was(shell):
    child = shell.open("access-link")
    settings = termios.tcgetattr(child.child_fd)
    child.expect_exact(PROMPT)
    child.kill(signal.SIGKILL)
    child.wait()
    shell.assert_nothing_left()
    assert termios.tcgetattr(child.child_fd) == settings


def test_a_terminal_that_goes_away(shell):
    child = shell.open("access-link")
    child.expect_exact(PROMPT)
    child.close(force=False)
    assert child.exitstatus == 129
    shell.assert_nothing_left()


def test_a_guest_that_is_killed(shell):
    child = shell.open("access-link")
    settings = termios.tcgetattr(child.child_fd)
    child.expect_exact(PROMPT)
    guests = [pid for pid in shell.processes() if os.readlink(f"/proc/{pid}/exe").endswith("/linux")]
    os.kill(min(guests), signal.SIGKILL)
    child.expect_exact("the guest kernel was killed by SIGKILL")
    child.expect(pexpect.EOF)
    assert termios.tcgetattr(child.child_fd) == settings
    child.close()
    assert child.exitstatus == 4
    shell.assert_nothing_left()


def test_the_escape_ends_a_session_that_does_not_listen(shell):
    child = shell.open("access-link")
    child.expect_exact(PROMPT)
    child.sendline("sh trap '' INT; sleep 1000")
    time.sleep(1)
    child.sendcontrol("]")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    shell.assert_nothing_left()


def test_interrupted_while_it_starts(shell):
    child = shell.open("access-link")
    end = time.monotonic() + _TIMEOUT_S
    while not list(shell.folder.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.01)
    child.sendintr()
    child.expect_exact("interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    shell.assert_nothing_left()


def test_commands_from_a_pipe(shell):
    """A command does not read what comes after it, and what a terminal would take for a command is just a byte."""
    code, output, errors = shell.run("access-link", given="n1 echo 'a\tb' | od -An -c\n\n# nothing\n"
                                                          "sh cat; echo two\nn2 printf '\\377\\n'\nn2 echo last")
    assert (code, errors) == (0, "")
    assert output == "   a  \\t   b  \\n\ntwo\n\N{REPLACEMENT CHARACTER}\nlast\n"
    shell.assert_nothing_left()


def test_commands_as_options(shell):
    code, output, errors = shell.run("parking-lot", "--exec", "n9 ls", "--exec", "n1 ping -c1 n8",
                                     "--set", "topology.links.1.delay=20 ms", given="n1 echo never\n")
    assert "1 received" in output and "never" not in output and float(re.search(r"time=([\d.]+)", output)[1]) >= 80
    assert code == 1 and "n9: neither a node nor a command" in output and errors == ""
    shell.assert_nothing_left()


def test_names_become_addresses_of_ipv6(shell):
    code, output, errors = shell.run("access-link", "--set", "topology.ip=6", "--exec", "n1 ping -c1 n4",
                                     "--exec", "n1 echo n4 r1", closed=True)
    assert code == 0, errors
    # without the blank in older ping
    assert re.search(r"PING fd00:0:0:5::1 ?\(fd00:0:0:5::1\)", output) and " 1 received" in output
    assert re.search(r"^fd00:0:0:5::1 fd00:0:0:\d::\d\r?$", output, re.MULTILINE), output


def test_links_change_as_their_schedules_say(shell, tmp_path):
    """From 10 to 200 ms of delay, 5 s after the session has opened."""
    scenario = tmp_path / "changing.yaml"
    scenario.write_text(
        "name: changing\n"
        "topology: {kind: dumbbell, left_delays: [0 ms], right_delays: [0 ms], edge: {rate: 1 Gbit/s},\n"
        "  central: {rate: 10 Mbit/s, delay: 10 ms, schedule: [{at: 5 s, delay: 200 ms}]}}\n"
        "traffic: {kind: greedy}\ntiming: {test: 9 s}\n")
    ping = "--exec", "n1 ping -c1 n2"
    code, output, errors = shell.run(str(scenario), *ping, "--exec", "sh sleep 6", *ping)
    assert (code, errors) == (0, "")
    before, after = (float(ms) for ms in re.findall(r"time=([\d.]+)", output))
    assert 20 <= before < 400 <= after
    shell.assert_nothing_left()
    code, output, errors = shell.run(str(scenario), "--set", "topology.central.schedule=null", "--set",
                                     f"topology.central.trace={PROJECT}/docs/examples/bursts.trace", *ping)
    assert (code, output, errors.count("\n")) == (2, "", 1) and "left_to_right has a trace" in errors


def test_nothing_to_do(shell):
    assert shell.run("access-link", closed=True) == (0, "", "")
    shell.assert_nothing_left()


@pytest.mark.parametrize("arguments, code, message", [
    (["no-such"], 2, "no scenario 'no-such'"), (["access-link", "--engine", "ns3"], 2, "engine ns3 has no shell"),
    (["access-link", "--cca", "cubic,no-such"], 2, "no congestion control 'no-such' in this kernel"),
    (["access-link", "--set", "topology.central.rate=fast"], 2, "topology.central.rate"),
    (["access-link", "--exec", ""], 2, "--exec: a value expected"),
    (["access-link", "--cca", "no_such.c"], 2, "no such file"),
])
def test_what_cannot_be_opened(shell, arguments, code, message):
    found, output, errors = shell.run(*arguments)
    assert (found, output) == (code, "") and message in errors and errors.count("\n") == 1
    shell.assert_nothing_left()


def test_settings_that_the_kernel_refuses_are_one_line(shell):
    code, output, errors = shell.run("access-link", "--set", "hosts.sysctls={net.ipv4.tcp_no_such_thing: 1}",
                                     "--exec", "nodes")
    assert (code, output) == (4, "") and errors.count("\n") == 1
    assert "net.ipv4.tcp_no_such_thing: the kernel knows no such setting" in errors
    shell.assert_nothing_left()


def test_mininets_own_command_takes_our_topologies(shell):
    """`mn --custom`, in a guest, with Mininet's links and with ours."""
    def mn(file, *words):
        return "--exec", f"sh cd /run/project && mn --custom topologies/{file} {' '.join(words)}"

    script = "--exec", "sh printf 'n1 ping -c1 n4\\nn1 tc class show dev n1-eth0\\n' > /tmp/script"
    then = "--test none --post /tmp/script"
    code, output, errors = shell.run(
        "access-link", *script, *mn("dumbbell.py", "--topo dumbbell --test pingall"),
        *mn("dumbbell.py", "--topo dumbbell --link emulated", then),
        *mn("parking_lot.py", "--topo parking-lot --link emulated", then),
        *mn("h_shape.py", "--topo h-shape --link emulated", then),
        *mn("h_shape.py", "--topo h-shape --link tc,delay=1ms", then), *mn("dumbbell.py", "--topo dumbbell,3"))
    assert (code, errors) == (0, ""), output
    assert "0% dropped (56/56 received)" in output
    replies = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", output)]
    assert len(replies) == 4 and "class htb 3:1 root leaf 10: prio 0 rate 10Mbit ceil 10Mbit" in output
    # dumbbell, parking lot (n1 to n4 crosses one of its links), H; six links with the delay that mn was asked for
    for reply_ms, base_ms in zip(replies, (8, 40, 60, 6)):
        assert base_ms <= reply_ms < base_ms + 60
    assert "--topo dumbbell: takes no values" in output

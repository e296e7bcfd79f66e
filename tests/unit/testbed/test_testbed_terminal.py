# SPDX-License-Identifier: GPL-2.0-only
"""Lines on their way to a terminal that must take them for what they are."""
import os
import signal
import subprocess
import sys

import pytest

from testbed.core import terminal
from testbed.core.errors import RunFailed, UsageError


def test_lines_are_whole_and_have_no_commands_for_the_terminal():
    lines = terminal._Lines()
    assert lines.take(b"n1 ec") == b""
    assert lines.take(b"ho a\tb\n\x03\x04\x7f\nla") == b"n1 echo a\x16\tb\n\x16\x03\x16\x04\x16\x7f\n"
    assert lines.end() == b"la\n\x04"
    assert terminal._Lines().end() == b"\x04"


def test_a_line_that_no_terminal_takes():
    with pytest.raises(UsageError, match="a line of at most 4000 bytes expected"):
        terminal._Lines().take(b"x" * 4001)


def test_the_escape_counts_only_by_itself():
    assert terminal._Keys().take(b"a\x1db") == b"a\x1db"
    with pytest.raises(terminal.Ended):
        terminal._Keys().take(terminal.ESCAPE)


def started(program):
    def start(fd, out):
        return subprocess.Popen([sys.executable, "-c", program], stdin=fd, stdout=out)
    return start


@pytest.mark.parametrize("pipe", [False, True])
def test_what_is_said_after_the_mark_is_shown(capfd, tmp_path, pipe):
    process = terminal.connect(started("print('!hello', end='')"), b"!", "nothing", tmp_path / "size" if pipe else None)
    assert process.wait() == 0
    assert capfd.readouterr().out == "hello"


class SaysItsLastWhileSomebodyWaits:
    """A process that says its last word, and ends, after the other side has found nothing to read."""

    def __init__(self, fd):
        self._fd, self.returncode = fd, None

    def wait(self, timeout):
        os.write(self._fd, b"last")
        os.close(self._fd)
        self.returncode = 0


@pytest.mark.parametrize("ends", [os.pipe, os.openpty])
def test_the_last_that_is_said_is_shown(capfd, ends):
    said, fd = ends()
    os.set_blocking(said, False)
    terminal._Relay(said, said, SaysItsLastWhileSomebodyWaits(fd), None).run()
    os.close(said)
    assert capfd.readouterr().out == "last"


def test_a_program_that_ends_before_it_is_ready():
    assert terminal.connect(started("raise SystemExit(3)"), b"!", "nothing").wait() == 3


def test_a_program_that_does_not_get_ready(monkeypatch):
    monkeypatch.setattr(terminal, "_READY_S", 0)
    with pytest.raises(RunFailed, match="did not get ready within 0 s"):
        terminal.connect(started("import time; time.sleep(1)"), b"!", "nothing")


def test_the_folder_goes_with_the_block(tmp_path):
    with pytest.raises(KeyError), terminal.session_folder(str(tmp_path), "work-") as folder:
        (folder / "file").write_text("")
        assert list(tmp_path.iterdir()) == [folder]
        raise KeyError
    assert not folder.exists()


def test_the_folder_goes_with_a_killed_process(tmp_path):
    program = ("import os, signal, sys; from testbed.core import terminal\n"
               "with terminal.session_folder(sys.argv[1], 'work-'): os.kill(os.getpid(), signal.SIGKILL)")
    reading, writing = os.pipe()
    subprocess.run([sys.executable, "-c", program, tmp_path], pass_fds=[writing], check=False)
    os.close(writing)
    assert os.read(reading, 1) == b""           # until the process that looks after it has ended, too
    assert not list(tmp_path.iterdir())


def test_a_signal_while_the_folder_is_made_waits_until_it_is_known(tmp_path):
    program = ("import os, signal, sys; from testbed.core import terminal\n"
               "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
               "make = terminal.tempfile.mkdtemp\n"
               "def interrupted(**where):\n"
               "    made = make(**where)\n"
               "    os.kill(os.getpid(), signal.SIGINT)\n"
               "    return made\n"
               "terminal.tempfile.mkdtemp = interrupted\n"
               "with terminal.session_folder(sys.argv[1], 'work-'): print('the signal was lost')")
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr and done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_where_no_folder_can_be_made(tmp_path):
    with pytest.raises(FileNotFoundError), terminal.session_folder(str(tmp_path / "none"), "work-"):
        pytest.fail("there is one")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()

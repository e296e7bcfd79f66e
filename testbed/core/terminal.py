# SPDX-License-Identifier: GPL-2.0-only
"""The user's terminal, or whatever else is our standard input, connected with a guest's.

The guest has one end of a pseudo-terminal, we the other. Its first byte says that it is ready; before,
the user's terminal is as it was, so that Ctrl-C ends this process.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import tty
import types
from collections.abc import Callable, Iterator, Mapping

from testbed.core.errors import RunFailed, UsageError
from testbed.core.files import write_text

#: Ctrl-], as telnet has it: ends a session whose guest does not listen any more
ESCAPE = b"\x1d"
#: how long a guest may take to get ready, wall time
_READY_S = 180
#: lines that a terminal takes at once (N_TTY_BUF_SIZE less the end of the line)
_LONGEST_LINE_BYTES = 4000
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END_OF_FILE, _LITERALLY = b"\x04", b"\x16"
_CHUNK_BYTES = 4096

Process = subprocess.Popen[bytes]


class Ended(Exception):
    """The user has given up on the guest."""


@contextlib.contextmanager
def session_folder(parent: str, prefix: str) -> Iterator[pathlib.Path]:
    """A new folder in `parent`. It is removed, and the terminal put back, when the block or this process ends: even by
    kill -9."""
    before = termios.tcgetattr(0) if os.isatty(0) else None
    waiting, held = os.pipe()
    # a signal whose handler raises would raise in what Python does around a fork, and be lost there, or between the
    # making of the folder and our knowing of it
    ours = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, ours)
        os.close(waiting)
        os.close(held)
        raise
    pid = os.fork()
    if not pid:
        try:                                # with all signals blocked that end us
            os.close(held)
            os.setsid()
            os.read(waiting, 1)             # nothing ever comes: until nobody holds the other end
            if before:
                with contextlib.suppress(termios.error):        # it may be that which went away
                    termios.tcsetattr(0, termios.TCSADRAIN, before)
            _remove(folder)
        finally:
            os._exit(0)
    try:
        os.close(waiting)
        signal.pthread_sigmask(signal.SIG_SETMASK, ours)
        yield folder
    finally:
        os.close(held)
        os.waitpid(pid, 0)


def reading(session: Mapping[str, object]) -> str:
    """What `connect` reads for a session of testbed/guest/shell.py."""
    if session["interactive"]:
        return "keys"
    return "lines" if session["commands"] is None else "nothing"


def _remove(folder: pathlib.Path) -> None:
    """A guest that was killed just now may still be writing."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def connect(start: Callable[[int, int], Process], mark: bytes, source: str, size_file: pathlib.Path | None = None
            ) -> Process:
    """Relay between our standard files and a process until it ends; returns it, ended or about to.

    start(fd, out): starts it with a terminal, and where what it says goes; mark: what it says when it is ready;
    source: "keys" of the user's terminal, "lines" or "nothing"; size_file: for who can only read from terminals, and
    does not hear of their size: out is then a pipe, and in this file are the numbers of rows and columns. Raises
    Ended on ESCAPE, RunFailed if it does not get ready.
    """
    master, slave = os.openpty()
    said, out = os.pipe() if size_file else (master, slave)
    try:
        tty.setraw(slave)
        with _window_size(master, size_file) if source == "keys" else contextlib.nullcontext():
            try:
                process = start(slave, out)
            finally:
                for fd in {slave, out}:
                    os.close(fd)
            for fd in (master, said):
                os.set_blocking(fd, False)
            if _wait_until_ready(said, process, mark):
                if source == "keys":
                    tty.setraw(0, termios.TCSADRAIN)
                reader = _Keys() if source == "keys" else _Lines() if source == "lines" else None
                _Relay(master, said, process, reader).run()
    finally:
        for fd in {master, said}:
            os.close(fd)
    return process


def _wait_until_ready(said: int, process: Process, mark: bytes) -> bool:
    """False if it ended before it was ready."""
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        readable, _, _ = select.select([said], [], [], 0.2)
        heard = _read(said, len(mark)) if readable else None
        if heard == mark:
            return True
        if process.poll() is not None:
            return False
        if heard == b"":
            time.sleep(0.05)                # it has closed the terminal, and is about to end
    raise RunFailed(f"the guest did not get ready within {_READY_S} s")


def _read(fd: int, most: int) -> bytes | None:
    """What there is to read: nothing at the end; None if there is nothing yet."""
    try:
        return os.read(fd, most)
    except BlockingIOError:
        return None
    except OSError:                         # EIO: nobody has the other end of the terminal any more
        return b""


@contextlib.contextmanager
def _window_size(master: int, size_file: pathlib.Path | None) -> Iterator[None]:
    """The guest's terminal is as large as ours, all the time."""
    def copy(_number: int = 0, _frame: types.FrameType | None = None) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(master, termios.TIOCSWINSZ, size)
            if size_file:
                write_text(size_file, "{} {}".format(*struct.unpack("HH", size[:4])))
    before = signal.signal(signal.SIGWINCH, copy)
    try:
        copy()
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


class _Keys:
    """What is typed, as it is."""

    def take(self, data: bytes) -> bytes:
        if data == ESCAPE:
            raise Ended
        return data

    def end(self) -> bytes:
        return _END_OF_FILE


class _Lines:
    """Whole lines, for a terminal that takes nothing else."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if max(map(len, [*lines, self._rest])) > _LONGEST_LINE_BYTES:
            raise UsageError(f"a line of at most {_LONGEST_LINE_BYTES} bytes expected")
        return b"".join(self._literally(line) + b"\n" for line in lines)

    def end(self) -> bytes:
        return (self._literally(self._rest) + b"\n" if self._rest else b"") + _END_OF_FILE

    @staticmethod
    def _literally(line: bytes) -> bytes:
        """Without anything that a terminal takes for a command."""
        return b"".join(_LITERALLY + bytes([byte]) if byte < 32 or byte == 127 else bytes([byte]) for byte in line)


class _Relay:
    """Bytes both ways. What the guest has not taken yet keeps us from reading more."""

    def __init__(self, master: int, said: int, process: Process, input_: _Keys | _Lines | None) -> None:
        self._master, self._said, self._process, self._input = master, said, process, input_
        self._pending = b""

    def run(self) -> None:
        """Until the process ends."""
        while True:
            reads = [self._said, *([0] if self._input and not self._pending else [])]
            readable, writable, _ = select.select(reads, [self._master] if self._pending else [], [], 0.2)
            if self._said in readable and self._show() == b"" and self._ended():
                return
            if 0 in readable:
                self._take()
            if writable:
                self._pending = self._pending[self._write():]
            if not readable and self._ended():
                while self._show():         # what it said between our looking and its end
                    pass
                return

    def _ended(self) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.05)
        return self._process.returncode is not None

    def _show(self) -> bytes | None:
        said = _read(self._said, 1 << 16)
        rest = memoryview(said or b"")
        while rest:
            rest = rest[os.write(1, rest):]
        return said

    def _take(self) -> None:
        assert self._input
        data = os.read(0, _CHUNK_BYTES)
        if data:
            self._pending += self._input.take(data)
        else:
            self._pending += self._input.end()
            self._input = None

    def _write(self) -> int:
        try:
            return os.write(self._master, self._pending)
        except OSError:                     # nobody there any more: the process ends
            return 0

# SPDX-License-Identifier: GPL-2.0-only
"""A process that has imported and looked up what every run needs, and forks one for each: without it, a second of CPU
time for each run would go into that.

A worker has one for each command whose runs it carries out; it ends by itself when it has had nothing to do for a
minute, and with its worker. Each run is connected with the worker by a socket of its own: the order comes in, lines of
JSON go out, the last of them {"ended": exit status}. Whoever closes the worker's end of it ends the run.
"""
from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from typing import IO

from testbed import PROJECT_DIR
from testbed.executors.cluster.messages import RunOrder

_IDLE_S = 60
_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Nursery:
    """The worker's side. One for each command: code that was updated since counts from the next command on."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, order: RunOrder, log: IO[str]) -> socket.socket:
        """Begin a run; its socket. What it says goes to `log`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self._hand_over(theirs, log)
                ours.sendall(json.dumps(order).encode() + b"\n")
            except BaseException:
                ours.close()
                raise
        return ours

    def _hand_over(self, run: socket.socket, log: IO[str]) -> None:
        with self._lock:
            if self._control is not None:
                with contextlib.suppress(OSError):          # it had nothing to do, or was killed
                    socket.send_fds(self._control, [b"r"], [run.fileno(), log.fileno()])
                    return
                self._close()
            self._control = self._begin()
            socket.send_fds(self._control, [b"r"], [run.fileno(), log.fileno()])

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # -c and not -m: nothing of the current folder is looked for
        start = f"import sys; sys.path.insert(0, {str(PROJECT_DIR)!r}); " \
                f"from testbed.executors.cluster import nursery; nursery.serve({theirs.fileno()}, {self._engine!r})"
        with theirs:
            self._process = subprocess.Popen([sys.executable, "-P", "-s", "-c", start], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, cwd="/", pass_fds=[theirs.fileno()])
        return ours

    def has_ended(self) -> bool:
        """Whether its process has, which is then collected."""
        return self._process is not None and self._process.poll() is not None

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        self.has_ended()


def serve(control_fd: int, engine: str) -> None:
    """The nursery itself: fork a process for each pair of socket and log that comes, until nobody wants more."""
    for number in (signal.SIGINT, signal.SIGHUP):           # of a terminal: the worker's business
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])     # runs find it as they do without a worker
    control = socket.socket(fileno=control_fd)
    _warm_up(engine)
    listening = select.poll()
    listening.register(control, select.POLLIN)
    runs: dict[int, tuple[socket.socket, int]] = {}         # {pidfd: (socket, process)}
    open_ = True
    while open_ or runs:
        events = listening.poll(_IDLE_S * 1000)
        if not events and not runs:
            return
        ready = {fd for fd, _ in events}
        for fd in ready - {control.fileno()}:
            if fd in runs:
                _ended(fd, listening, runs)
            else:
                _abandoned(fd, listening, runs)
        if control.fileno() in ready:                       # last: it may get a number that has just become free
            open_ = _fork(control, listening, runs)
            if not open_:
                listening.unregister(control)


def _warm_up(engine: str) -> None:
    """Once for all runs."""
    from testbed import engines
    from testbed.executors.cluster import single
    from testbed.runs.run import warm_up
    try:
        single.import_all()
        warm_up()
        engines.load(engine, {}).code_sha256()
    except Exception:                                       # an engine that is not here, say: each run tells it
        traceback.print_exc()
    gc.freeze()                                             # what is the same in all runs stays shared memory


def _fork(control: socket.socket, listening: select.poll, runs: dict[int, tuple[socket.socket, int]]) -> bool:
    """Begin a run; False if there will be none any more."""
    message, fds, *_ = socket.recv_fds(control, 1, 2)
    if not message:
        return False
    run, log = socket.socket(fileno=fds[0]), fds[1]
    process = os.fork()
    if not process:
        _child(run, log, [control.fileno(), *runs, *(one.fileno() for one, _ in runs.values())])
    os.close(log)
    pidfd = os.pidfd_open(process)
    runs[pidfd] = (run, process)
    listening.register(pidfd, select.POLLIN)
    listening.register(run, _HUNG_UP)
    return True


def _child(run: socket.socket, log: int, others: list[int]) -> None:
    """In the process of a run; does not return."""
    status = 1
    try:
        from testbed.executors.cluster import single
        for fd in others:
            os.close(fd)
        os.dup2(log, 1)
        os.dup2(log, 2)
        single.main(run)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _ended(pidfd: int, listening: select.poll, runs: dict[int, tuple[socket.socket, int]]) -> None:
    run, process = runs.pop(pidfd)
    listening.unregister(pidfd)
    with contextlib.suppress(KeyError):
        listening.unregister(run)
    os.close(pidfd)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError), run:
        run.sendall(json.dumps({"ended": status}).encode() + b"\n")


def _abandoned(fd: int, listening: select.poll, runs: dict[int, tuple[socket.socket, int]]) -> None:
    """Nobody waits for this run any more."""
    with contextlib.suppress(KeyError):                     # it has ended, too
        listening.unregister(fd)
    for run, process in runs.values():
        if run.fileno() == fd:
            os.kill(process, signal.SIGTERM)

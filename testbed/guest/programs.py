# SPDX-License-Identifier: GPL-2.0-only
"""Starting, synchronising and ending the traffic programs."""
import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Protocol

_Program = dict[str, Any]
_Process = subprocess.Popen[bytes]
#: how long a program may take to end what it has started
_PATIENCE_S = 5


def _python(module: str, project_dir: str) -> list[str]:
    """How Python is started for a module: from its image (testbed/guest/start.py), if it has one."""
    # -S: only the standard library is needed, and looking for more is slow
    python = [sys.executable, "-s", "-S"]
    image = os.path.join(project_dir, "images", module)
    if os.path.exists(image):
        return [*python, "-P", os.path.join(project_dir, "testbed/guest/start.py"), image, module]
    return [*python, "-m", module]


class ProgramFailed(Exception):
    """A traffic program ended early or badly; the message has its own words."""


class _Network(Protocol):
    def in_namespace(self, name: str) -> AbstractContextManager[Any]: ...


class Programs:
    """The traffic programs of a run, each in its node's namespace."""

    def __init__(self, network: _Network, programs: Sequence[_Program], project_dir: str, log_dir: str,
                 preload: str | None = None) -> None:
        """programs: list of {"node", "module", "arguments"}; preload: a library that they are started with."""
        self._running: list[tuple[_Program, _Process, BinaryIO]] = []
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": project_dir, "LANG": "C.UTF-8",
                       "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
                       # memory given back to the kernel is faulted in again, and faults are dear
                       "MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
                       "MALLOC_TOP_PAD_": str(1 << 20)}
        if preload:
            environment["LD_PRELOAD"] = preload
        try:
            for number, program in enumerate(programs):
                log = open(os.path.join(log_dir, f"program-{number}-{program['node']}.log"), "w+b")
                with network.in_namespace(program["node"]):
                    process = subprocess.Popen(
                        [*_python(program["module"], project_dir), *program["arguments"]],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, cwd="/")
                self._running.append((program, process, log))
        except BaseException:
            self.kill()
            raise

    def wait_until_ready(self, timeout_s: float = 60) -> None:
        """Return when every program has said that it is ready."""
        for program, process, log in self._running:
            assert process.stdout
            ready, _, _ = select.select([process.stdout], [], [], timeout_s)
            line = process.stdout.readline() if ready else b""
            if line.strip() != b"ready":
                raise ProgramFailed(self._describe(program, process, log, f"said {line!r} instead of ready"))

    def start(self, t0_ns: int) -> None:
        """Tell every program when the experiment begins (CLOCK_MONOTONIC)."""
        for _, process, _ in self._running:
            assert process.stdin
            process.stdin.write(b"start %d\n" % t0_ns)
            process.stdin.flush()

    def check(self) -> None:
        """ProgramFailed if one has died."""
        for program, process, log in self._running:
            if process.poll():
                raise ProgramFailed(self._describe(program, process, log, f"ended with status {process.returncode}"))

    def finish(self, timeout_s: float) -> list[dict[str, Any]]:
        """Wait for all of them to end by themselves, each so long; returns their accounts, in order."""
        accounts = []
        for program, process, log in self._running:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise ProgramFailed(self._describe(program, process, log, "did not end by itself")) from None
            if process.returncode:
                raise ProgramFailed(self._describe(program, process, log, f"ended with status {process.returncode}"))
            last = output.decode().strip().rpartition("\n")[2]
            word, _, account = last.partition(" ")
            if word != "done":
                raise ProgramFailed(self._describe(program, process, log, f"ended with {last!r} instead of an account"))
            accounts.append({"node": program["node"], **json.loads(account or "{}")})
        return accounts

    def kill(self) -> None:
        """End whatever still runs: by SIGTERM, so that programs end what they have started."""
        alive = [process for _, process, _ in self._running if process.poll() is None]
        for process in alive:
            process.terminate()
        for process in alive:
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for _, _, log in self._running:
            log.close()

    @staticmethod
    def _describe(program: _Program, process: _Process, log: BinaryIO, what: str) -> str:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.seek(0)
        words = log.read()[-2000:].decode("utf-8", "replace").strip()
        return f"{program['module']} on {program['node']} {what}" + (
            f":{chr(10) if chr(10) in words else ' '}{words}" if words else "")

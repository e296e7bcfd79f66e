# SPDX-License-Identifier: GPL-2.0-only
"""Starting, synchronising and ending the traffic programs."""
import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from traffic.workload.records import Program

_Process = subprocess.Popen[bytes]
#: Programs that can be one are one for each so many threads: what their receivers read into is there at once, 0.5 MB
#: for each (traffic/greedy/ends.py).
_MOST_THREADS = 128
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
    def in_namespace(self, name: str) -> AbstractContextManager[None]: ...

    def open_namespace(self, name: str) -> int: ...


def processes(programs: Sequence[Program]) -> list[list[Program]]:
    """Which programs are one process where computing takes no time, in their order: those of a component that only have
    a few threads each (`Program` of traffic/workload). One has one of each node: accounts are told apart by that."""
    made: list[list[Program]] = []
    filled: dict[tuple[str, str], tuple[list[Program], int]] = {}
    for program in programs:
        key, threads = (program.component, program.module), program.threads
        if not threads:
            made.append([program])
            continue
        process, before = filled.get(key, ([], _MOST_THREADS))
        if before + threads > _MOST_THREADS or any(one.node == program.node for one in process):
            process, before = [], 0
            made.append(process)
        process.append(program)
        filled[key] = process, before + threads
    return made


@contextlib.contextmanager
def _namespaces(network: _Network, nodes: Sequence[str]) -> Iterator[list[int]]:
    """Descriptors of nodes' namespaces."""
    with contextlib.ExitStack() as opened:
        found = []
        for node in nodes:
            found.append(network.open_namespace(node))
            opened.callback(os.close, found[-1])
        yield found


class Programs:
    """The traffic programs of a run, each in its node's namespace."""

    def __init__(self, network: _Network, programs: Sequence[Sequence[Program]], project_dir: str, log_dir: str,
                 preload: str | None = None) -> None:
        """programs: lists of those that are a process each; preload: a library that they are
        started with."""
        self._running: list[tuple[Sequence[Program], _Process, BinaryIO]] = []
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": project_dir, "LANG": "C.UTF-8",
                       "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
                       # memory given back to the kernel is faulted in again, and faults are dear
                       "MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
                       "MALLOC_TOP_PAD_": str(1 << 20)}
        if preload:
            environment["LD_PRELOAD"] = preload
        try:
            for number, group in enumerate(programs):
                first = group[0]
                log = open(os.path.join(log_dir, f"program-{number}-{first.node}.log"), "w+b")
                nodes = [program.node for program in group] if len(group) > 1 else []
                with network.in_namespace(first.node), _namespaces(network, nodes) as descriptors:
                    arguments = [word for program, descriptor in zip(group, descriptors) for word in (
                        program.node, str(descriptor), *program.arguments)]
                    process = subprocess.Popen(
                        [*_python(first.module, project_dir), *(arguments or first.arguments)],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, cwd="/",
                        pass_fds=descriptors)
                self._running.append((group, process, log))
        except BaseException:
            self.kill()
            raise

    def wait_until_ready(self, timeout_s: float = 60) -> None:
        """Return when every program has said that it is ready."""
        for group, process, log in self._running:
            assert process.stdout
            ready, _, _ = select.select([process.stdout], [], [], timeout_s)
            line = process.stdout.readline() if ready else b""
            if line.strip() != b"ready":
                raise ProgramFailed(self._describe(group, process, log, f"said {line!r} instead of ready"))

    def start(self, t0_ns: int) -> None:
        """Tell every program when the experiment begins (CLOCK_MONOTONIC)."""
        for _, process, _ in self._running:
            assert process.stdin
            process.stdin.write(b"start %d\n" % t0_ns)
            process.stdin.flush()

    def check(self) -> None:
        """ProgramFailed if one has died."""
        for group, process, log in self._running:
            if process.poll():
                raise ProgramFailed(self._describe(group, process, log, f"ended with status {process.returncode}"))

    def finish(self, timeout_s: float) -> list[dict[str, object]]:
        """Wait for all of them to end by themselves, each so long; returns their accounts, in order."""
        accounts: list[dict[str, object]] = []
        for group, process, log in self._running:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise ProgramFailed(self._describe(group, process, log, "did not end by itself")) from None
            if process.returncode:
                raise ProgramFailed(self._describe(group, process, log, f"ended with status {process.returncode}"))
            last = output.decode().strip().rpartition("\n")[2]
            word, _, account = last.partition(" ")
            if word != "done":
                raise ProgramFailed(self._describe(group, process, log, f"ended with {last!r} instead of an account"))
            said = json.loads(account or "{}")
            accounts += [{"node": program.node, **(said if len(group) == 1 else said[program.node])}
                         for program in group]
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
    def _describe(group: Sequence[Program], process: _Process, log: BinaryIO, what: str) -> str:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.seek(0)
        words = log.read()[-2000:].decode("utf-8", "replace").strip()
        others = f" and {len(group) - 1} other nodes" if len(group) > 1 else ""
        return f"{group[0].module} on {group[0].node}{others} {what}" + (
            f":{chr(10) if chr(10) in words else ' '}{words}" if words else "")

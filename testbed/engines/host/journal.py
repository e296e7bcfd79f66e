# SPDX-License-Identifier: GPL-2.0-only
"""What a run on the running kernel changes beyond its own namespaces: written down before, put back afterwards.

The journal is one file of the whole machine in a folder that does not survive a boot, as the changes do not. It is
written before the first change and removed when everything is as it was: one that is there without its process means
that a run was killed, and says what is still to be done.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from testbed.core.errors import EnvironmentProblem
from testbed.core.files import write_json
from testbed.core.record import Perhaps, Record
from testbed.engines.host import modules

FOLDER = pathlib.Path("/run/tcp-testbed")
TRACE_INSTANCES = pathlib.Path("/sys/kernel/tracing/instances")
#: how long the kernel may take to let go of namespaces, modules and trace buffers of processes that have ended
PATIENCE_S = 30.0
_PAUSE_S = 0.1


class Process(Record):
    """The first process of a run."""
    pid: int
    #: in ticks since boot; None: it had ended
    started: str | None


class Entries(Record):
    """What the journal says."""
    boot_id: str
    process = Perhaps(Process)
    #: (path, content)
    settings: Sequence[Sequence[str]]
    #: that were loaded, and that the run loads
    modules: Sequence[str]
    extra_modules: Sequence[str]
    trace_instances: Sequence[str]


class Busy(EnvironmentProblem):
    """Somebody else has the lock."""


class Journal:
    """The journal of this machine, or of a test's folder."""

    def __init__(self, folder: pathlib.Path = FOLDER) -> None:
        self._folder, self._path = folder, folder / "journal.json"

    @contextlib.contextmanager
    def exclusive(self, waiting: Callable[[], None] | None) -> Iterator[None]:
        """Hold the lock of all runs on this kernel. If somebody else has it, waiting() is called; Busy if it is None.

        What a run that was killed left is put back first. EnvironmentProblem if that cannot be.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with open(self._folder / "lock", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is None:
                    raise Busy("another run on this kernel is going on") from None
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            problems = self.put_back()
            if problems:
                raise EnvironmentProblem(f"a run that was killed left what cannot be put back: {'; '.join(problems)} "
                                         f"(do that by hand and remove {self._path}, or boot again)")
            yield

    def left(self) -> Entries | None:
        """What a run of this boot has written down and not yet put back."""
        try:
            record = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            raise EnvironmentProblem(f"{self._path}: not readable as JSON; remove it when nothing is left of a run"
                                     ) from None
        of_this_boot = isinstance(record, dict) and record.get("boot_id") == _boot_id()
        return Entries(record, str(self._path)) if of_this_boot else None

    def left_by_dead(self) -> str:
        """What a run that was killed has left, in words; '' if there is nothing, or the run still goes on."""
        record = self.left()
        if record is None:
            return ""
        with open(self._folder / "lock", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ""
        return f"a run that was killed left {len(record.settings)} settings and its modules as they were for it"

    def begin(self, settings: Sequence[str] = (), trace_instances: Sequence[str] = ()) -> None:
        """Note how things are: the content of these files, and which modules and trace instances there are.

        settings: paths of sysctls and parameters that will be written; trace_instances: names that will be made.
        """
        present = set(_trace_instances())
        write_json(self._path, {
            "boot_id": _boot_id(), "process": None, "settings": list(_contents(settings).items()),
            "modules": sorted(modules.loaded()), "extra_modules": [],
            "trace_instances": [name for name in trace_instances if name not in present]})

    def add(self, **more: object) -> None:
        """Change entries of the journal."""
        left = self.left()
        write_json(self._path, {**(left.content() if left else {}), **more})

    def note_process(self, pid: int) -> None:
        """The first process of the run, which all others end with."""
        self.add(process={"pid": pid, "started": _started(pid)})

    def put_back(self) -> list[str]:
        """Make everything as it was before; returns what could not be, one line each. The journal is then kept."""
        record = self.left()
        if record is None:
            self._path.unlink(missing_ok=True)
            return []
        problems: list[str] = []
        problems += _end(record.process)
        for path, content in reversed(record.settings):
            problems += _write_back(path, content)
        problems += _remove_trace_instances(record.trace_instances)
        problems += modules.remove_new(set(record.modules), set(record.extra_modules), patient)
        if not problems:
            self._path.unlink()
        return problems


def patient(attempt: Callable[[], bool], longest_s: float | None = None) -> bool:
    """Try until it works, for as long as the kernel may need (or so long); whether it did."""
    until = time.monotonic() + (PATIENCE_S if longest_s is None else longest_s)
    while not attempt():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE_S)
    return True


def _boot_id() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _contents(paths: Sequence[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):        # a parameter of a module that is yet to be loaded
            found[path] = pathlib.Path(path).read_text(encoding="utf-8")
    return found


def _write_back(path: str, content: str) -> list[str]:
    try:
        if pathlib.Path(path).read_text(encoding="utf-8") != content:
            pathlib.Path(path).write_text(content, encoding="utf-8")
    except FileNotFoundError:                               # of a module that has gone
        pass
    except OSError as problem:
        return [f"{path} was {content.strip()!r} ({problem.strerror})"]
    return []


def _started(pid: int) -> str | None:
    """When a process began, in ticks since boot: with its id, what it is known by. None if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = fields.split()
    return None if state in "ZX" else rest[18]


def _end(process: Process | None) -> list[str]:
    """Wait until the first process of a run, and with it all others, are gone: of itself, or else killed."""
    if process is None or process.started is None:
        return []
    pid, started = process.pid, process.started

    def gone() -> bool:
        return _started(pid) != started

    # it knows that whoever started it is gone, and ends in order
    if not patient(gone):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [] if patient(gone) else [f"process {pid} does not end"]


def _trace_instances() -> list[str]:
    return [path.name for path in TRACE_INSTANCES.iterdir()] if TRACE_INSTANCES.is_dir() else []


def _remove_trace_instances(names: Sequence[str]) -> list[str]:
    problems = []
    for name in set(names) & set(_trace_instances()):
        def removed(name: str = name) -> bool:
            with contextlib.suppress(OSError):              # busy as long as somebody has one of its files open
                (TRACE_INSTANCES / name).rmdir()
            return not (TRACE_INSTANCES / name).exists()
        if not patient(removed):
            problems.append(f"trace instance {name} is busy")
    return problems

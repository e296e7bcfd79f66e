# SPDX-License-Identifier: GPL-2.0-only
"""A simulator as a child process: its progress, its log, its last words; it never outlives its run."""
from __future__ import annotations

import pathlib
import signal
import subprocess
from collections.abc import Mapping, Sequence

from testbed.core.errors import RunFailed
from testbed.runs.engine import OnProgress

_LAST_WORDS = 2000


def run(name: str, command: Sequence[str], folder: pathlib.Path, log_path: pathlib.Path, on_progress: OnProgress,
        environment: Mapping[str, str] | None = None) -> None:
    """Run `command` in `folder`; what it says that is not `phase NAME` or `t MICROSECONDS` goes to the log.

    RunFailed with the last line it wrote if it does not end with success.
    """
    phase = "start"
    with open(log_path, "a", encoding="utf-8") as log:
        child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                 text=True, errors="replace", env=environment)
        assert child.stdout is not None
        try:
            for line in child.stdout:
                word, _, rest = line.partition(" ")
                if word == "phase":
                    phase = rest.strip()
                    on_progress(phase, 0)
                elif word == "t" and rest.strip().isdigit():
                    phase = "traffic"
                    on_progress(phase, int(rest))
                else:
                    log.write(line)
                    log.flush()
            status = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()
    if status:
        raise RunFailed(f"{name} {_how(status)}: {last_words(log_path) or 'without a word'}")


def _how(status: int) -> str:
    if status < 0:
        return f"crashed ({signal.Signals(-status).name})"
    return f"ended with exit status {status}"


def last_words(log_path: pathlib.Path) -> str:
    """The last line of a log that says anything."""
    with open(log_path, "rb") as log:
        log.seek(max(0, log.seek(0, 2) - _LAST_WORDS))
        lines = log.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

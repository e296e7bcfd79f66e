# SPDX-License-Identifier: GPL-2.0-only
"""Commands, schedulers and workers of Dask that tests start, watch and kill."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import distributed


def wait_for(what, most_s: float = 240) -> None:
    deadline = time.monotonic() + most_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def said(process: subprocess.Popen[str], code: int = 0) -> str:
    out, _ = process.communicate(timeout=240)
    assert process.returncode == code, out
    return out


@contextlib.contextmanager
def ended(*processes: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextlib.contextmanager
def scheduler() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(["/usr/bin/python3", "-m", "distributed.cli.dask_scheduler", "--host", address,
                                "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
                               start_new_session=True, cwd="/")
    with ended(process):
        yield address, process


def wait_for_workers(address: str, count: int) -> None:
    with distributed.Client(address, timeout=120) as client:
        assert client.status == "running"
        if count:
            client.wait_for_workers(count, timeout=120)

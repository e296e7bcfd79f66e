# SPDX-License-Identifier: GPL-2.0-only
import shutil
import subprocess
import sys

import pytest

from testbed.core import c_libraries
from testbed.runs import code_bundle
from tests.unit.replay import imitated_core
from tests.unit.replay.plans import Replay
from traffic.io.uring import Ring

# the guest's /dev/virtual_clock for this machine: a file that has the time of some microseconds ago
_CLOCK = """
import mmap, sys, time
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    words = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
    words[0] = time.monotonic_ns()
    print(flush=True)
    while True:
        words[0] = time.monotonic_ns()
        time.sleep(5e-6)
"""


def _ways():
    """The ways of waiting for events that this kernel has: chains is io_uring that notes instants itself."""
    try:
        Ring(8).close()
    except OSError:
        return ["epoll"]
    return ["epoll", "io_uring", "chains"]


@pytest.fixture
def clock(tmp_path):
    """A file that a program keeps the time in."""
    path = tmp_path / "clock"
    with subprocess.Popen([sys.executable, "-I", "-c", _CLOCK, str(path)], stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"\n"
        yield str(path)
        program.kill()


@pytest.fixture(scope="session")
def core_command(tmp_path_factory):
    """How a replay is started that has the library, and nothing to replay by epoll."""
    code = tmp_path_factory.mktemp("code") / "code"
    shutil.copytree(code_bundle.ensure(), code)
    assert (code / c_libraries.TMIX_CORE).exists(), "a compiler is there, so it compiles"
    for name in ("eventloop", "connection"):
        (code / f"traffic/replay/{name}.py").unlink()
    return [code_bundle.PYTHON, "-I", "-S", str(code / "traffic/replay/program.py")]


@pytest.fixture(params=_ways())
def replay(request, tmp_path):
    """A Replay over loopback, by each way of waiting for events."""
    if request.param == "epoll":
        return Replay(tmp_path, {"events": "epoll"})
    command = request.getfixturevalue("core_command")
    if request.param == "io_uring":
        return Replay(tmp_path, {"events": "io_uring"}, command=command)
    return Replay(tmp_path, {"events": "io_uring", "clock": request.getfixturevalue("clock")}, late_us=20_000,
                  command=command)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The library of the replay over an imitated kernel."""
    return imitated_core.build(tmp_path_factory.mktemp("imitated") / "core")

# SPDX-License-Identifier: GPL-2.0-only
"""What core_loop.py and the library in C have to agree upon, and what the library does with signals."""
import time
from pathlib import Path

import pytest

from plans import PORT, make_plan
from traffic.tmix.core_loop import LIBRARY, CoreLoop
from traffic.tmix.endpoint import End
from traffic.tmix.ringloop import RingLoop


@pytest.fixture
def library(core_command):
    """The library's path."""
    return str(Path(core_command[-1]).with_name(LIBRARY))


@pytest.mark.parametrize("way", ["core", "interpreted"])
def test_told_to_stop_before_it_waits(library, tmp_path, way):
    """Between its signal handler and the first wait a replay may be told to stop, too."""
    make_plan(tmp_path / "plan", [(10_000_000, [(0, 0, 1)], [])])
    end = End({"source": 0, "role": "initiator", "plan": str(tmp_path / "plan"), "local": "127.0.0.1",
               "peer": "127.0.0.1", "port": PORT}, "n")
    loop = CoreLoop([end], "/none", library) if way == "core" else RingLoop([end], "/none")
    loop.stopping = True
    before_ns = time.monotonic_ns()
    loop.run(before_ns, 3_000_000_000)
    assert time.monotonic_ns() < before_ns + 1_000_000_000
    assert loop.stopping is True and end.records.status[0] == 0
    loop.close()

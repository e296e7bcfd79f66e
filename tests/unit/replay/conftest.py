# SPDX-License-Identifier: GPL-2.0-only
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from plans import Replay
from traffic.tmix.uring import Ring


@pytest.fixture(params=["epoll", "io_uring"])
def replay(request, tmp_path):
    """A Replay over loopback, by each way of waiting for events."""
    if request.param == "io_uring":
        try:
            Ring(8).close()
        except OSError as error:
            pytest.skip(f"no io_uring here: {error}")
    return Replay(tmp_path, request.param)

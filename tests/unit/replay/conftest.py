# SPDX-License-Identifier: GPL-2.0-only
import pytest

from plans import Replay
from traffic.tmix.uring import Ring


def _ways():
    """The ways of waiting for events that this kernel has."""
    try:
        Ring(8).close()
    except OSError:
        return ["epoll"]
    return ["epoll", "io_uring"]


@pytest.fixture(params=_ways())
def replay(request, tmp_path):
    """A Replay over loopback, by each way of waiting for events."""
    return Replay(tmp_path, request.param)

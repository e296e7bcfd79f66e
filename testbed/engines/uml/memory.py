# SPDX-License-Identifier: GPL-2.0-only
"""How much memory a guest gets: what its network and its programs need, from what the run is made of.

What a guest does not touch is never allocated. Still it is not just given a lot: TCP has shares of it (tcp_mem), and
the machine has to have it.
"""
import pathlib
from typing import Any

from testbed.guest.tuning import socket_buffer_bytes

#: the size of nearly all guests: TCP sees how large it is, so that another would be another experiment
LEAST_MB = 1024
#: kernel, Mininet, a program in each host, what the kernel keeps of files: 110 MB with next to no traffic, and room
_IDLE_MB = 384
#: Of the files of connections (plans) both ends hold a copy (2.0), and preallocated records (0.4 for each end):
#: traffic/tmix/plan.py, records.py
_HELD = 3
_STEP_MB = 64


def of_run_mb(work_dir: pathlib.Path | None, network: dict[str, Any]) -> int:
    """Memory of a run's guest: from what its programs will read, and from what its network can hold.

    work_dir: as the traffic was prepared there, None where it was not yet; network: that of the scenario.
    """
    plans = work_dir.glob("*.plan") if work_dir else ()
    held_bytes = _HELD * sum(path.stat().st_size for path in plans) + socket_buffer_bytes(network)
    wanted_mb = _IDLE_MB + held_bytes / (1 << 20)
    return LEAST_MB if wanted_mb <= LEAST_MB else _STEP_MB * -int(-wanted_mb // _STEP_MB)

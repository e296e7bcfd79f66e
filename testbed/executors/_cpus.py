# SPDX-License-Identifier: GPL-2.0-only
"""Which CPU a run gets, beside the runs of other commands on this machine."""
from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable


def claim(in_use: Iterable[int]) -> tuple[int, socket.socket]:
    """A CPU that this process may use, and what claims it until it is closed here and in every child.

    in_use: CPUs of our own runs; several of them may have the same one. Of the least used ones the first that no other
    command has claimed is taken; the first if there is none.
    """
    runs = Counter(in_use)
    allowed = sorted(os.sched_getaffinity(0), key=lambda cpu: (runs[cpu], cpu))
    # a name without a file: it goes with the last process that has it, however that ends
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for cpu in allowed:
        if runs[cpu] > runs[allowed[0]]:
            break
        try:
            mark.bind(f"\0testbed-cpu-{cpu}")
        except OSError:
            continue
        return cpu, mark
    return allowed[0], mark

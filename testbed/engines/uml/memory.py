# SPDX-License-Identifier: GPL-2.0-only
"""How much memory a guest gets: what its network and its programs need, from what the run is made of.

What a guest does not use is never allocated, give or take 2 MB. Still it is not just given a lot: TCP has shares of it
(tcp_mem), and the machine has to have it.
"""
import json
import os
import pathlib
from collections.abc import Sequence

from testbed.core.errors import UsageError
from testbed.guest.programs import processes
from testbed.guest.tuning import memory_without_pressure_mb, socket_buffer_bytes
from topologies.links import varying
from topologies.links.records import Network
from traffic.workload.records import Program, Workload

#: the size of nearly all guests: TCP sees how large it is, so that another would be another experiment
LEAST_MB = 1024
#: kernel, Mininet, a few programs, what the kernel keeps of files: 110 MB with next to no traffic, and room
_IDLE_MB = 384
#: programs that fit into that, and what each of more takes: 10.3 MB when it has started (a sender of greedy flows)
_FEW_PROGRAMS, _PROGRAM_MB = 20, 12
#: what each thread takes of a program that serves several nodes: what it reads into (at most 512 kB), and stacks
_THREAD_MB = 0.6
#: Of the files of connections (plans) both ends hold a copy (2.0), and preallocated records (0.4 for each end):
#: traffic/replay/plan.py, records.py
_HELD = 3
#: Of what an overloaded link cannot carry, senders have a part in their buffers: 0.65 to 0.7 bytes of the guest's
#: memory for each byte (access link at 110 %, reno and cubic, after 300 and 1050 s; not measured on other links)
_WAITING = 0.75
_STEP_MB = 64


def large_pages() -> bool:
    """Whether guests' memory is to be in pages of 2 MB, where the host can. Raises UsageError."""
    choice = os.environ.get("TESTBED_HUGE_PAGES") or "yes"
    if choice not in ("yes", "no"):
        raise UsageError(f"TESTBED_HUGE_PAGES is {choice!r}: yes or no")
    return choice == "yes"


def of_run_mb(work_dir: pathlib.Path | None, network: Network) -> int:
    """Memory of a run's guest: from what its programs will read, from what its network can hold and cannot carry.

    work_dir: as the traffic was prepared there, None where it was not yet; network: that of the scenario.
    """
    held_bytes, buffers_bytes, waiting_bytes, programs_mb = 0.0, float(socket_buffer_bytes(network)), 0.0, 0.0
    if work_dir:
        held_bytes = _HELD * sum(path.stat().st_size for path in work_dir.glob("*.plan"))
        workload = Workload(json.loads((work_dir / "workload.json").read_text(encoding="utf-8")), "workload.json")
        waiting_bytes = _WAITING * _waiting_bytes(workload, network)
        programs_mb = max(0.0, sum(map(_process_mb, processes(workload.programs))) - _FEW_PROGRAMS * _PROGRAM_MB)
    in_sockets_mb = (buffers_bytes + waiting_bytes) / (1 << 20)
    used_mb = _IDLE_MB + programs_mb + held_bytes / (1 << 20) + in_sockets_mb
    wanted_mb = max(used_mb, memory_without_pressure_mb(in_sockets_mb))
    return LEAST_MB if wanted_mb <= LEAST_MB else _STEP_MB * -int(-wanted_mb // _STEP_MB)


def _process_mb(programs: Sequence[Program]) -> float:
    """What a process takes that does what these programs say."""
    threads = sum(program.threads for program in programs) if len(programs) > 1 else 0
    return _PROGRAM_MB + _THREAD_MB * threads + sum(program.buffers_mb for program in programs)


def _waiting_bytes(workload: Workload, network: Network) -> float:
    """Bytes that are offered to bottlenecks in the whole run beyond what they carry."""
    offered: dict[str, float] = {}
    for component in workload.components:
        for link, bps in component.offered_bps.items():
            offered[link] = offered.get(link, 0.0) + bps / 8e6 * (component.stop_us - component.start_us)
    last_us = max((component.stop_us for component in workload.components), default=0)
    return sum((max(0.0, offered.get(link.name, 0.0) - varying.mean_rate_bps(link, 0, last_us) / 8e6 * last_us)
                for link in network.links if link.bottleneck), 0.0)

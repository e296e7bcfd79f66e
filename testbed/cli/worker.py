# SPDX-License-Identifier: GPL-2.0-only
"""Offer this machine's CPUs to a Dask cluster.

On one machine of a trusted network:
  /usr/bin/python3 -m distributed.cli.dask_scheduler --port 8786
On each machine with this checkout and its packages:
  testbed worker tcp://scheduler:8786
Then:
  testbed run access-link --cluster tcp://scheduler:8786

It is Dask's own worker, with this checkout on its path and a thread for each
run. Whoever reaches the scheduler can run code here (docs/howto/clusters.md).
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from testbed import PROJECT_DIR
from testbed.cli import _shared
from testbed.core import environment
from testbed.core.errors import EnvironmentProblem

HELP = "carry out runs of a Dask cluster"
GROUP = "Set up and explore"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scheduler", help="its address, such as tcp://scheduler:8786")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N",
                        help="runs at a time (default: one per CPU, fewer if memory is short)")
    parser.add_argument("--scratch", metavar="FOLDER", help="folder for runs until the client has them (default: "
                        "Dask's)")


def main(arguments: argparse.Namespace) -> int:
    from testbed.executors import cluster
    from testbed.executors.cluster import worker as there
    from testbed.executors.cluster.delivery import CPU, MEMORY_MB, RUN_MEMORY_MB
    where = cluster.parse_scheduler(arguments.scheduler)
    if importlib.util.find_spec("distributed") is None:
        raise EnvironmentProblem(cluster.MISSING)
    memory_mb = environment.available_memory_mb()
    jobs = arguments.jobs or max(1, min(len(os.sched_getaffinity(0)), memory_mb // RUN_MEMORY_MB))
    if memory_mb < jobs * RUN_MEMORY_MB:
        raise EnvironmentProblem(f"{memory_mb} MB of memory are available, {jobs} runs need "
                                 f"{jobs * RUN_MEMORY_MB}; --jobs, please")
    words = [sys.executable, "-s", "-m", "distributed.cli.dask_worker", where, "--nthreads", str(jobs),
             "--nworkers", "1", "--memory-limit", "0", "--no-dashboard", "--preload", there.__name__, "--resources",
             f"{CPU}={jobs} {MEMORY_MB}={memory_mb}"]
    if arguments.scratch:
        words += ["--local-directory", arguments.scratch]
    os.chdir("/")           # -m looks for modules in the current folder
    os.execve(sys.executable, words, {**os.environ, "PYTHONPATH": str(PROJECT_DIR)})

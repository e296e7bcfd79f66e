# SPDX-License-Identifier: GPL-2.0-only
"""Runs on this machine: each in a process of its own, pinned to a CPU, as many at a time as there are CPUs."""
from __future__ import annotations

import gc
import multiprocessing
import os
import pathlib
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from testbed.core import ending
from testbed.executors import _cpus, _processes
from testbed.runs.engine import EngineBase
from testbed.runs.executor import ExecutorBase, Listener
from testbed.runs.run import Job, Outcome, warm_up
from testbed.runs.store import Store


class _Worker(NamedTuple):
    """A process that carries out the job with this number, on this CPU."""
    process: BaseProcess
    cpu: int
    number: int


class Executor(ExecutorBase):
    """Starts workers while CPUs are free and listens to them."""

    def __init__(self, engine: EngineBase, store: Store, jobs_at_a_time: int | None) -> None:
        self._engine, self._store = engine, store
        self._most = (jobs_at_a_time or len(os.sched_getaffinity(0))) if engine.capabilities.parallel else 1
        self._processes = multiprocessing.get_context("fork")

    def run(self, jobs: Sequence[Job], listener: Listener) -> None:
        active: dict[Connection, _Worker] = {}
        waiting = list(range(len(jobs)))
        if jobs:                                # whoever makes the report needs most of it, too
            warm_up()
            gc.freeze()                         # what is the same in all workers stays shared memory
        with self._store.shared_folder() as shared_dir:
            try:
                while waiting or active:
                    ending.if_asked()           # a handler that ran around a fork was not heard
                    while waiting and len(active) < self._most:
                        number = waiting.pop(0)
                        cpu, mark = _cpus.claim(worker.cpu for worker in active.values())
                        # a pipe each: in a shared queue, a worker that is killed may take the lock with it
                        ear, mouth = self._processes.Pipe(duplex=False)
                        process = self._processes.Process(target=self._work,
                                                          args=(jobs[number], shared_dir, cpu, mouth))
                        process.start()
                        mouth.close()
                        mark.close()                    # the worker has it
                        active[ear] = _Worker(process, cpu, number)
                        listener.started(number)
                    spoke = connection.wait(list(active), timeout=0.5)
                    for ready in [one for one in spoke if isinstance(one, Connection)]:
                        outcome = self._listen(ready, jobs, active[ready], listener)
                        if outcome:
                            worker = active.pop(ready)
                            listener.ended(worker.number, outcome)
            finally:
                for worker in active.values():
                    worker.process.terminate()
                for worker in active.values():
                    worker.process.join()
                gc.unfreeze()                   # in a notebook it would stay for ever

    def _listen(self, ear: Connection, jobs: Sequence[Job], worker: _Worker, listener: Listener) -> Outcome | None:
        """Take a message of a worker, or notice that it ended without; its Outcome if it has ended."""
        try:
            message = ear.recv()
        except (EOFError, OSError):
            worker.process.join()
            message = Outcome(jobs[worker.number].plan.id,
                              error=f"its process ended with status {worker.process.exitcode}")
        if not isinstance(message, Outcome):
            listener.progress(worker.number, *message)
            return None
        worker.process.join()
        ear.close()
        if worker.process.exitcode:                     # killed: it could not clean up
            self._store.create()
            self._engine.clean_up(worker.process.pid or 0)
        return message

    def _work(self, job: Job, shared_dir: pathlib.Path, cpu: int, mouth: Connection) -> None:
        """In the worker: one run, its outcome as a message."""
        def tell(phase: str, t_us: int) -> None:
            mouth.send((phase, t_us))

        _processes.die_with_parent()
        os.sched_setaffinity(0, {cpu})
        mouth.send(_processes.carry_out(job, self._engine, self._store, shared_dir, cpu, tell))

# SPDX-License-Identifier: GPL-2.0-only
"""One job and its way: to a worker, with what that lacks, and back as a sealed run."""
from __future__ import annotations

import asyncio
import concurrent.futures
import pathlib
import tempfile
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, TypeVar

from testbed.core import archive
from testbed.core.errors import TestbedError, what_failed
from testbed.executors.cluster import worker as there
from testbed.executors.cluster.messages import Answer, Order
from testbed.executors.cluster.payload_files import PayloadFiles
from testbed.executors.cluster.transfer import PIECE_BYTES, Damaged, pieces, receive
from testbed.runs.engine import EngineBase
from testbed.runs.plan import digest
from testbed.runs.run import Job, Outcome, read_verdict
from testbed.runs.store import Store

if TYPE_CHECKING:
    import distributed

_Result = TypeVar("_Result")
#: how often a job is tried on workers that are lost while they deliver it, or that deliver rubbish
_TRIES = 5
_LOOK_EVERY_S = 1.0

#: what a run takes of a worker: a CPU, and memory for its guest and for what collects its data
CPU, MEMORY_MB = "testbed_cpu", "testbed_memory_mb"
BESIDE_GUEST_MB = 256
#: of a run with the usual guest; no run takes less
RUN_MEMORY_MB = 1024 + BESIDE_GUEST_MB


def resources_of(guest_mb: int) -> dict[str, float]:
    """What a run takes of its worker, by the memory of its guest."""
    return {CPU: 1, MEMORY_MB: max(RUN_MEMORY_MB, guest_mb + BESIDE_GUEST_MB)}


class WorkerInfo(TypedDict):
    """What the scheduler knows of a worker, as far as it is read."""
    resources: dict[str, float]


def workers_of(client: "distributed.Client") -> dict[str, WorkerInfo]:
    """{address: what the scheduler knows of it}; Dask 2025.4 and later give five unless all are asked for."""
    found: dict[str, WorkerInfo] = client.scheduler_info(n_workers=-1)["workers"]
    return found


class Gone(Exception):
    """The scheduler does not answer any more."""


class _WorkerLost(Exception):
    """A worker that was to be asked is not there any more."""


class Courier:
    """Carries out jobs, each in a thread of its caller's."""

    def __init__(self, client: "distributed.Client", engine: EngineBase, store: Store, payload: PayloadFiles,
                 topic: str) -> None:
        import distributed
        self._client, self._engine, self._store, self._payload = client, engine, store, payload
        self._topic, self._dask = topic, distributed.__version__
        self._guests_mb: dict[str, int] = {}        # {scenario's digest: memory of the largest guest so far}
        #: ends all waiting
        self.stop = threading.Event()
        self._sending = threading.Lock()
        self._unfit: dict[str, str] = {}            # {worker: why}

    def carry_out(self, job: Job) -> Outcome:
        """One job. Gone if the scheduler is, or nobody wants the result any more."""
        run_id = job.plan.id
        try:
            with self._store.claim(run_id, job.again) as folder:
                if folder is None:
                    return Outcome(run_id, verdict=read_verdict(self._store.run_dir(run_id)), was_there=True)
                return self._try(job, folder)
        except TestbedError as problem:
            return Outcome(run_id, error=str(problem))
        except OSError as problem:
            return Outcome(run_id, error=what_failed(problem))

    def _try(self, job: Job, folder: pathlib.Path) -> Outcome:
        plan = job.plan
        scenario = digest(plan.scenario)
        guest_mb = max(self._guests_mb.get(scenario, 0), self._engine.memory_mb(plan, None))
        order: Order = {
            "id": plan.id, "plan": plan.record(), "engine": self._engine.name, "options": self._engine.options,
            "files": self._payload.files(plan), "facts": self._payload.facts, "again": job.again, "dask": self._dask,
            "keep_work": job.keep_work, "topic": self._topic, "memory_mb": guest_mb}
        problem, tries = "", 0
        served: set[str] = set()
        while tries < _TRIES:
            resources = resources_of(guest_mb)
            self._check_room(resources)
            try:
                order["memory_mb"] = guest_mb
                answer = self._ask(there.carry_out, order, workers=self._fit(), resources=resources)
                if "lacks" in answer:
                    self._send(answer["worker"], answer["lacks"])
                    if answer["worker"] not in served:      # to lack something is no failure, but once
                        served.add(answer["worker"])
                        continue
                    problem = f"worker {answer['worker']} does not keep what it was given"
                elif "unfit" in answer:
                    self._unfit[answer["worker"]] = answer["unfit"]
                    self._fit()
                    continue
                elif answer.get("memory_mb", 0) > guest_mb:     # known when its traffic was made
                    guest_mb = answer["memory_mb"]
                    self._guests_mb[scenario] = max(self._guests_mb.get(scenario, 0), guest_mb)
                    continue
                else:
                    return self._received(plan.id, answer, folder)
            except _WorkerLost as lost:
                problem = f"worker {lost} was lost while it delivered"
            except (Damaged, archive.BadArchive, FileNotFoundError, KeyError) as damage:
                problem = f"what came back was damaged: {damage}"
            tries += 1
        return Outcome(plan.id, error=f"{problem}, {_TRIES} times")

    def _check_room(self, resources: dict[str, float]) -> None:
        """TestbedError if there are workers, and none has the memory for a run."""
        offered = [worker["resources"].get(MEMORY_MB, 0) for worker in workers_of(self._client).values()]
        if offered and max(offered) < resources[MEMORY_MB]:
            raise TestbedError(f"it needs {resources[MEMORY_MB]:.0f} of {MEMORY_MB}, {BESIDE_GUEST_MB} of them beside "
                               f"its guest; the largest worker offers {max(offered):.0f}")

    def _fit(self) -> list[str] | None:
        """Workers that may be asked, None for any. TestbedError if all there are cannot carry out these runs."""
        if not self._unfit:
            return None
        fit = [worker for worker in self._workers() if worker not in self._unfit]
        if not fit:
            raise TestbedError("no worker can carry it out: " + "; ".join(
                f"{worker}: {why}" for worker, why in self._unfit.items()))
        return fit

    def _send(self, worker: str, hashes: list[str]) -> None:
        """Give a worker files that it lacks; one thread at a time, the next one finds them there."""
        with self._sending:
            for sha256 in hashes:
                path, upload, offset = self._payload.paths[sha256], uuid.uuid4().hex, 0
                size = path.stat().st_size
                for piece in pieces(path):
                    last = offset + len(piece) >= size
                    self._ask(there.take_piece, sha256, upload, offset, piece, last, workers=[worker])
                    offset += len(piece)

    def _received(self, run_id: str, answer: Answer, folder: pathlib.Path) -> Outcome:
        """Fetch a sealed run, verify it, put it in its place."""
        worker = answer["worker"]
        outcome = answer["outcome"]
        if answer["size"] is not None:
            with tempfile.TemporaryDirectory(prefix="fetched-", dir=folder) as name:
                packed = pathlib.Path(name) / "run.tar"

                def piece_at(offset: int) -> bytes:
                    piece: bytes = answer["piece"] if offset == 0 else \
                        self._ask(there.give_piece, run_id, offset, workers=[worker])
                    return piece[:PIECE_BYTES]
                receive(packed, answer["size"], answer["sha256"], piece_at)
                with open(packed, "rb") as stream:
                    archive.unpack(stream, pathlib.Path(name) / "run")
                # as if written last: whatever is touched later is hashed again (testbed/core/derived.py)
                (pathlib.Path(name) / "run" / "run.json").touch()
                self._store.adopt(pathlib.Path(name) / "run", run_id)
            self._submit(there.forget, (run_id,), f"forget-{uuid.uuid4().hex}", workers=[worker])
        return Outcome(run_id, error=outcome["error"], verdict=outcome["verdict"])

    def _workers(self) -> list[str]:
        return list(workers_of(self._client))

    def _ask(self, function: Callable[..., _Result], *words: object, workers: list[str] | None = None,
             resources: dict[str, float] | None = None) -> _Result:
        """The result of a function on a worker.

        _WorkerLost if the only worker that may be asked goes away; Gone with the scheduler.
        """
        if self.stop.is_set():
            raise Gone("stopped")
        more = {name: value for name, value in (("workers", workers), ("resources", resources)) if value}
        # asked again is asked again: a key of its own for each
        key = f"testbed-{function.__name__}-{uuid.uuid4().hex}"
        future = self._submit(function, words, key, **more)
        try:
            while True:
                try:
                    result: _Result = future.result(timeout=_LOOK_EVERY_S)
                    return result
                except TimeoutError:
                    self._look(workers if resources is None else None)
                except (asyncio.CancelledError, concurrent.futures.CancelledError, OSError) as problem:
                    if self._client.status == "running" and isinstance(problem, OSError) and future.status == "error":
                        raise                           # the function's own
                    raise Gone(f"the scheduler {self._address} is gone") from None
                except Exception as problem:
                    if type(problem).__name__ == "KilledWorker":
                        raise TestbedError("each worker that carried it out was lost; out of memory, perhaps") from None
                    raise
        finally:
            future.release()

    def _submit(self, function: Callable[..., object], words: tuple[object, ...], key: str,
                **more: object) -> "distributed.Future":
        """Named in a text: newer schedulers unpickle what they are given, and need not have our code."""
        call = f"__import__({function.__module__!r}, fromlist=['']).{function.__name__}(*words)"
        return self._client.submit(eval, call, {"words": words}, key=key, pure=False, **more)

    def _look(self, workers: list[str] | None) -> None:
        """Whether there is still something to wait for."""
        if self.stop.is_set():
            raise Gone("stopped")
        if self._client.status != "running":
            raise Gone(f"the scheduler {self._address} is gone")
        if workers and not set(workers) & set(self._workers()):
            raise _WorkerLost(", ".join(workers))

    @property
    def _address(self) -> str:
        return str(self._client.scheduler.address)

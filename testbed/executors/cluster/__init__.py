# SPDX-License-Identifier: GPL-2.0-only
"""Runs on a Dask cluster: workers started here (`local:N`), or those of a scheduler (`tcp://host:8786`).

Each job has a thread here, which claims the run, submits it, fetches what came of it, verifies it and puts it in its
place. Dask decides which worker carries it out, and does so again elsewhere when a worker is lost
(docs/howto/clusters.md).
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib.util
import logging
import os
import pathlib
import queue
import re
import signal
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, TypedDict

from testbed.core import ending
from testbed.core.environment import available_memory_mb
from testbed.core.errors import NoWorkers, RunFailed, UsageError
from testbed.executors.cluster.delivery import CPU, MEMORY_MB, RUN_MEMORY_MB, Courier, Gone, workers_of
from testbed.executors.cluster.payload_files import PayloadFiles
from testbed.runs.engine import EngineBase
from testbed.runs.executor import ExecutorBase, Listener
from testbed.runs.run import Job, Outcome
from testbed.runs.store import Store

if TYPE_CHECKING:
    import distributed

_CONNECT_S = 10
#: jobs under way for each CPU of the cluster: the next one is there when a worker is free
_AHEAD = 2
_MOST_THREADS = 256
_WORKERS_WITHIN_S = 60
_ASK_EVERY_S = 5
MISSING = "--cluster: Python's module distributed is missing: apt-get install python3-distributed python3-cryptography"


_ADDRESS = re.compile(r"(?:tcp|tls)://(?:\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):(\d{1,5})")
_FORMS = "tcp://host:port or tls://host:port expected"


def parse(where: str) -> str:
    """`local`, `local:N` or a scheduler's address, checked. UsageError if it is none of them."""
    if re.fullmatch(r"local(:[1-9]\d{0,2})?", where) or _is_address(where):
        return where
    raise UsageError(f"--cluster {where}: local, local:N, {_FORMS}")


def parse_scheduler(where: str) -> str:
    """A scheduler's address, checked. UsageError."""
    if _is_address(where):
        return where
    raise UsageError(f"{where}: a scheduler's address, {_FORMS}")


def _is_address(where: str) -> bool:
    match = _ADDRESS.fullmatch(where)
    return match is not None and 0 < int(match[1]) < 65536


class Executor(ExecutorBase):
    """Gives jobs to the workers of a cluster."""

    def __init__(self, engine: EngineBase, store: Store, jobs_at_a_time: int | None, where: str = "local") -> None:
        self._engine, self._store, self._most, self._where = engine, store, jobs_at_a_time, where

    def run(self, jobs: Sequence[Job], listener: Listener) -> None:
        if not jobs:
            return
        events: queue.Queue[Callable[[], None]] = queue.Queue()
        with self._store.shared_folder() as scratch, _connected(self._where, self._most, scratch) as client:
            topic = f"testbed-{uuid.uuid4().hex[:12]}"
            payload = PayloadFiles(self._engine, scratch)
            numbers = {job.plan.id: number for number, job in enumerate(jobs)}
            shown = _Shown(listener, events)
            client.subscribe_topic(topic, functools.partial(_heard, numbers, shown))
            couriers = Courier(client, self._engine, self._store, payload, topic)
            threads = min(self._most or _AHEAD * _cpus(client), len(jobs), _MOST_THREADS)
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                try:
                    waiting = {pool.submit(couriers.carry_out, job): number for number, job in enumerate(jobs)}
                    while waiting:
                        ending.if_asked()
                        with contextlib.suppress(queue.Empty):
                            events.get(timeout=0.1)()
                            continue
                        for future in [future for future in waiting if future.done()]:
                            shown.ended(waiting.pop(future), future.result())
                except Gone as problem:
                    raise RunFailed(f"{problem}; finished runs are kept, the same command goes on from here") from None
                finally:
                    couriers.stop.set()
                    pool.shutdown(wait=True, cancel_futures=True)
            while not events.empty():
                events.get()()


class _Shown:
    """Tells the listener what happens, in its own thread and in order: a run that ends has begun."""

    def __init__(self, listener: Listener, events: queue.Queue[Callable[[], None]]) -> None:
        self._listener, self._events = listener, events
        self._begun: set[int] = set()
        self._ended: set[int] = set()

    def heard(self, number: int, phase: str, t_us: int) -> None:
        """From any thread."""
        self._events.put(lambda: self._progress(number, phase, t_us))

    def ended(self, number: int, outcome: Outcome) -> None:
        self._begin(number)
        self._ended.add(number)
        self._listener.ended(number, outcome)

    def _progress(self, number: int, phase: str, t_us: int) -> None:
        if number not in self._ended:           # news may come late
            self._begin(number)
            self._listener.progress(number, phase, t_us)

    def _begin(self, number: int) -> None:
        if number not in self._begun:
            self._begun.add(number)
            self._listener.started(number)


def _heard(numbers: dict[str, int], shown: _Shown, event: object) -> None:
    """What a worker tells of a run."""
    news = event[1] if isinstance(event, (tuple, list)) and len(event) == 2 else None
    if isinstance(news, dict) and news.get("id") in numbers:
        shown.heard(numbers[news["id"]], str(news.get("phase")), int(news.get("t_us") or 0))


@contextlib.contextmanager
def _connected(where: str, jobs_at_a_time: int | None, scratch: pathlib.Path) -> Iterator["distributed.Client"]:
    """A client of the cluster. NoWorkers if there is none, or it has no workers for us."""
    try:
        import distributed
    except ImportError:
        raise NoWorkers(MISSING) from None
    _quiet()
    with contextlib.ExitStack() as stack:
        if where.startswith("local"):
            # of the user's own scratch: others cannot look into it, and it goes with the command
            folder = tempfile.mkdtemp(prefix="workers-", dir=scratch)
            count = int(where.partition(":")[2] or jobs_at_a_time or len(os.sched_getaffinity(0)))
            with _interrupts_wait():
                cluster = stack.enter_context(_local(count, folder))
            client = stack.enter_context(distributed.Client(cluster))
            _wait_for_workers(cluster, client, count)
            stack.enter_context(_replacing_lost_workers(cluster, count))
        else:
            try:
                with warnings.catch_warnings():         # of versions that differ: see below
                    warnings.simplefilter("ignore")
                    client = stack.enter_context(distributed.Client(where, timeout=_CONNECT_S, name="testbed"))
            except (OSError, TimeoutError, ValueError, TypeError) as problem:
                reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
                raise NoWorkers(f"--cluster {where}: no scheduler answers: {reason[:200]}") from None
            if differ := other_versions(client.get_versions()):
                raise NoWorkers(f"--cluster {where}: {differ}")
        _check(where, client)
        if "dashboard" in client.scheduler_info().get("services", {}):
            print(f"dashboard: {_dashboard(client)}", file=sys.stderr)
        yield client


def _wait_for_workers(cluster: "distributed.LocalCluster", client: "distributed.Client", count: int) -> None:
    """Return when all workers of a local cluster are there, or some after a minute."""
    deadline = time.monotonic() + _WORKERS_WITHIN_S
    while len(workers_of(client)) < count and time.monotonic() < deadline:
        ending.if_asked()
        cluster.scale(count)
        time.sleep(0.5)


@contextlib.contextmanager
def _replacing_lost_workers(cluster: "distributed.LocalCluster", count: int) -> Iterator[None]:
    """Meanwhile a worker is started for each that was lost for good.

    With Python 3.13 and Dask 2024.12, encrypted connections of busy machines now and then end right after they were
    made. Dask takes the worker off its list 15 s later, and starts another only when it is asked for as many as before.
    """
    over = threading.Event()

    def ask() -> None:
        while not over.wait(_ASK_EVERY_S):
            cluster.scale(count)
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


class _Node(TypedDict, total=False):
    """packages: {name: version}"""
    packages: dict[str, str]


class Versions(TypedDict):
    """What Dask says of all."""
    client: _Node
    scheduler: _Node | None
    workers: dict[str, _Node | None]


def other_versions(found: "Versions") -> str:
    """What of a cluster has another Dask than this machine, in words, '' if nothing; found: as Client.get_versions has
    it. Between two versions, connections are lost without a word when the first task is submitted."""
    here = _dask(found["client"])
    there = [(f"its worker {address}", _dask(one)) for address, one in sorted(found["workers"].items())]
    for who, version in [("its scheduler", _dask(found["scheduler"])), *there]:
        if version != here:
            return f"{who} has Dask {version}, this machine {here}: it has to be the same everywhere"
    return ""


def _dask(node: "_Node | None") -> str:
    packages = (node or {}).get("packages") or {}
    return str(packages.get("distributed") or "of an unknown version")


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """What begins in here never sees SIGINT: threads inherit that it is blocked, and so do processes that they begin.

    Ctrl-C goes to all processes of a terminal. Workers would end in tracebacks; their cluster ends them anyway.
    """
    resource_tracker.ensure_running()       # now: as the first process begins, it would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _local(count: int, folder: str) -> "distributed.LocalCluster":
    """A cluster for `count` workers in processes of their own, which begin when it is scaled.

    What they say to each other is encrypted: nobody else here can join in.
    """
    import distributed
    each_mb = available_memory_mb() // count
    if each_mb < RUN_MEMORY_MB:
        raise NoWorkers(f"--cluster local:{count}: {each_mb} MB of memory for each worker, a run needs "
                        f"{RUN_MEMORY_MB}; fewer workers, please")
    try:
        security = distributed.Security.temporary()
    except ImportError:
        raise NoWorkers(MISSING) from None
    return distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, processes=True, security=security, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, local_directory=folder,
        memory_limit=0, resources={CPU: 1, MEMORY_MB: each_mb})


def _quiet() -> None:
    """Silence what Dask logs about workers that come and go: the executor itself reports lost runs."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _dashboard(client: "distributed.Client") -> str:
    """Where a browser sees the workers. Dask's charts need bokeh, its plain pages do not."""
    link = str(client.dashboard_link)
    return link if importlib.util.find_spec("bokeh") else link.removesuffix("/status") + "/info/main/workers.html"


def _check(where: str, client: "distributed.Client") -> None:
    """NoWorkers unless some worker has room for a run."""
    workers = workers_of(client)
    room = [worker for worker in workers.values()
            if worker["resources"].get(CPU, 0) >= 1 and worker["resources"].get(MEMORY_MB, 0) >= RUN_MEMORY_MB]
    if not room:
        raise NoWorkers(
            f"--cluster {where}: " + (f"none of its {len(workers)} workers offers {CPU} and {RUN_MEMORY_MB} of "
                                      f"{MEMORY_MB}" if workers else "it has no workers")
            + f"; start some with `bin/testbed worker {where}`")


def _cpus(client: "distributed.Client") -> int:
    return max(1, int(sum(worker["resources"].get(CPU, 0) for worker in workers_of(client).values())))

# SPDX-License-Identifier: GPL-2.0-only
"""What Dask's workers are asked to do. The client names these functions; the worker has them from its own checkout.

A worker keeps kernels and modules in its cache by their hashes, and sealed runs in its scratch folder until the client
has them. Dask removes that folder with the worker, or with the next one if it was killed.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable

from kernel.source import cache_dir
from testbed.core import archive
from testbed.core.files import write_json
from testbed.executors import _cpus
from testbed.executors.cluster.messages import Answer, Order, RunOrder
from testbed.executors.cluster.nursery import Nursery
from testbed.executors.cluster.transfer import PIECE_BYTES, Blobs, sha256_of
from testbed.runs.store import RUNS, Store

_PROGRESS_EVERY_S = 1.0
_lock = threading.Lock()
_nurseries: dict[str, Nursery] = {}             # one for each command whose runs are carried out here


def dask_setup(_worker: object) -> None:
    """Called by Dask in a worker of `testbed worker`, before it has work.

    Ctrl-C goes to all processes of a terminal. The worker would end in a traceback; the process above it ends it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _blobs() -> Blobs:
    return Blobs(cache_dir() / "cluster" / "blobs")


def take_piece(sha256: str, upload: str, offset: int, piece: bytes, last: bool) -> None:
    """A piece of a file for the cache."""
    _blobs().put(sha256, upload, offset, piece, last)


def carry_out(order: Order) -> Answer:
    """Carry out a plan -> {"lacks": [hashes]}, {"unfit": text}, {"memory_mb": of the guest, more than was set aside}
    or {"outcome", "size", "sha256", "piece"}; with "worker".

    piece: the first of the archive of the sealed run, of which `give_piece` has the others.
    """
    import distributed
    worker = distributed.get_worker()
    if order["dask"] != distributed.__version__:
        return {"worker": worker.address, "unfit": f"Dask {distributed.__version__}, not {order['dask']}"}
    blobs = _blobs()
    lacks = blobs.lacks(order["files"])
    if lacks:
        return {"worker": worker.address, "lacks": lacks}
    cache = cache_dir() / "cluster" / ("cache-" + hashlib.sha256(
        json.dumps(order["files"], sort_keys=True).encode()).hexdigest()[:16])
    blobs.lay_out(order["files"], cache)
    scratch = pathlib.Path(worker.local_directory)
    store = Store(scratch / "results")
    with _lock:
        store.create()
    if order["again"]:
        shutil.rmtree(store.run_dir(order["id"]), ignore_errors=True)

    def tell(phase: str, t_us: int) -> None:
        worker.log_event(order["topic"], {"id": order["id"], "phase": phase, "t_us": t_us})
    answer = _in_a_process(order, store, scratch, cache, tell)
    if "outcome" not in answer:
        answer["worker"] = worker.address
        return answer
    packed = _packed(scratch, order["id"])
    if not store.run_dir(order["id"]).is_dir():
        return {"worker": worker.address, "outcome": answer["outcome"], "size": None}
    with open(packed, "wb") as stream:
        archive.pack(store.run_dir(order["id"]), stream)
    return {"worker": worker.address, "outcome": answer["outcome"], "size": packed.stat().st_size,
            "sha256": sha256_of(packed), "piece": give_piece(order["id"], 0)}


def give_piece(run_id: str, offset: int) -> bytes:
    """A piece of the archive of a sealed run."""
    from distributed import get_worker
    with open(_packed(pathlib.Path(get_worker().local_directory), run_id), "rb") as stream:
        stream.seek(offset)
        return stream.read(PIECE_BYTES)


def forget(run_id: str) -> None:
    """The client has the run."""
    from distributed import get_worker
    scratch = pathlib.Path(get_worker().local_directory)
    _packed(scratch, run_id).unlink(missing_ok=True)
    shutil.rmtree(scratch / "results" / RUNS / run_id, ignore_errors=True)


def _packed(scratch: pathlib.Path, run_id: str) -> pathlib.Path:
    return scratch / f"run-{run_id}.tar"


def _in_a_process(order: Order, store: Store, scratch: pathlib.Path, cache: pathlib.Path,
                  tell: Callable[[str, int], None]) -> Answer:
    """The last answer of single.py."""
    cpu, mark = _cpus.claim([])
    shared_dir = scratch / f"shared-{order['topic']}"
    shared_dir.mkdir(exist_ok=True)
    with mark, tempfile.TemporaryDirectory(prefix="order-", dir=scratch) as order_dir:
        write_json(pathlib.Path(order_dir) / "plan.json", order["plan"])
        words: RunOrder = {
            "engine": order["engine"], "options": order["options"], "facts": order["facts"], "again": order["again"],
            "keep_work": order["keep_work"], "memory_mb": order["memory_mb"], "cpu": cpu, "order_dir": order_dir,
            "results": str(store.results), "shared_dir": str(shared_dir), "cache": str(cache)}
        with open(scratch / f"log-{order['id']}.txt", "w+", encoding="utf-8", errors="replace") as log:
            answer: Answer = {}
            status: int | None = None
            for _ in range(2):                  # a nursery may end of boredom while it is asked
                with _nursery(order).start(words, log) as run:
                    answer, status = _listen(run, tell)
                if answer or status is not None:
                    break
            log.seek(0)
            last_words = log.read()[-500:].strip()
        os.unlink(log.name)
    store.create()                              # what a process that was killed has left
    if not {"outcome", "unfit", "memory_mb"} & answer.keys():
        how = "its process was lost" if status is None else f"its process ended with status {status}"
        answer = {"outcome": {"run_id": order["id"], "verdict": None, "was_there": False,
                              "error": how + (f"; its last words: {last_words}" if last_words else "")}}
    return answer


def _nursery(order: Order) -> Nursery:
    """That of the order's command."""
    with _lock:
        for topic in [topic for topic, one in _nurseries.items() if one.has_ended()]:
            del _nurseries[topic]
        return _nurseries.setdefault(order["topic"], Nursery(order["engine"]))


def _listen(run: socket.socket, tell: Callable[[str, int], None]) -> tuple[Answer, int | None]:
    """The last answer of a run, and the exit status of its process; None if nobody was left to tell."""
    answer: Answer = {}
    sent_at, sent = 0.0, ""
    with contextlib.suppress(ConnectionError), run.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            said = json.loads(line)
            if "ended" in said:
                return answer, int(said["ended"])
            answer = said
            now = time.monotonic()
            if "phase" in answer and (answer["phase"] != sent or now - sent_at >= _PROGRESS_EVERY_S):
                tell(answer["phase"], answer["t_us"])
                sent_at, sent = now, answer["phase"]
    return answer, None

# SPDX-License-Identifier: GPL-2.0-only
"""What Dask's workers are asked to do. The client names these functions; the worker has them from its own checkout.

A worker keeps kernels and modules in its cache by their hashes, and sealed runs in its scratch folder until the client
has them. Dask removes that folder with the worker, or with the next one if it was killed.
"""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from kernel.source import cache_dir
from testbed import PROJECT_DIR, archive
from testbed.executors import _cpus
from testbed.executors.cluster.transfer import PIECE_BYTES, Blobs, sha256_of
from testbed.files import write_json
from testbed.store import RUNS, Store

Json = dict[str, Any]
_PROGRESS_EVERY_S = 1.0
_lock = threading.Lock()


def _blobs() -> Blobs:
    return Blobs(cache_dir() / "cluster" / "blobs")


def take_piece(sha256: str, upload: str, offset: int, piece: bytes, last: bool) -> None:
    """A piece of a file for the cache."""
    _blobs().put(sha256, upload, offset, piece, last)


def carry_out(order: Json) -> Json:
    """Carry out a plan -> {"lacks": [hashes]}, {"unfit": text} or {"outcome", "size", "sha256",
    "piece"}; with "worker".

    piece: the first of the archive of the sealed run, of which `give_piece` has the others.
    """
    from distributed import get_worker
    worker = get_worker()
    about: Json = {"worker": worker.address}
    blobs = _blobs()
    lacks = blobs.lacks(order["files"])
    if lacks:
        return {**about, "lacks": lacks}
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
        return {**about, **answer}
    packed = _packed(scratch, order["id"])
    if not store.run_dir(order["id"]).is_dir():
        return {**about, "outcome": answer["outcome"], "size": None}
    with open(packed, "wb") as stream:
        archive.pack(store.run_dir(order["id"]), stream)
    return {**about, "outcome": answer["outcome"], "size": packed.stat().st_size, "sha256": sha256_of(packed),
            "piece": give_piece(order["id"], 0)}


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


def _in_a_process(order: Json, store: Store, scratch: pathlib.Path, cache: pathlib.Path, tell: Any) -> Json:
    """The last answer of single.py."""
    cpu, mark = _cpus.claim([])
    shared_dir = scratch / f"shared-{order['topic']}"
    shared_dir.mkdir(exist_ok=True)
    with mark, tempfile.TemporaryDirectory(prefix="order-", dir=scratch) as order_dir:
        write_json(pathlib.Path(order_dir) / "plan.json", order["plan"])
        words = {**{key: order[key] for key in ("engine", "options", "facts", "again", "keep_work")}, "cpu": cpu,
                 "order_dir": order_dir, "results": str(store.results), "shared_dir": str(shared_dir)}
        # -c and not -m: nothing of the current folder is looked for
        start = f"import sys; sys.path.insert(0, {str(PROJECT_DIR)!r}); " \
                "from testbed.executors.cluster import single; single.main()"
        with open(scratch / f"log-{order['id']}.txt", "w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen([sys.executable, "-P", "-s", "-c", start], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=log, text=True, cwd="/",
                                       env={**os.environ, "TESTBED_CACHE": str(cache)})
            answer = _listen(process, json.dumps(words), tell)
            log.seek(0)
            last_words = log.read()[-500:].strip()
        os.unlink(log.name)
    store.create()                              # what a process that was killed has left
    if "outcome" not in answer and "unfit" not in answer:
        answer = {"outcome": {"run_id": order["id"], "verdict": None, "was_there": False, "error":
                              f"its process ended with status {process.returncode}"
                              + (f"; its last words: {last_words}" if last_words else "")}}
    return answer


def _listen(process: subprocess.Popen[str], order: str, tell: Any) -> Json:
    answer: Json = {}
    told_at, told = 0.0, ""
    with process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(order)
            process.stdin.close()
            for line in process.stdout:
                answer = json.loads(line)
                now = time.monotonic()
                if "phase" in answer and (answer["phase"] != told or now - told_at >= _PROGRESS_EVERY_S):
                    tell(answer["phase"], answer["t_us"])
                    told_at, told = now, answer["phase"]
        except BrokenPipeError:
            pass                                # it ended before it had read its order: its status says the rest
        except BaseException:
            process.terminate()
            raise
    return answer

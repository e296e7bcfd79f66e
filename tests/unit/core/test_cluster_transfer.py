# SPDX-License-Identifier: GPL-2.0-only
"""Files between client and workers arrive whole or not at all; sealed runs are adopted when they are what they say."""
import hashlib
import json
import shutil
import types

import pytest

from testbed import executors
from testbed.core.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.core.files import hash_raw
from testbed.executors import cluster
from testbed.executors.cluster import delivery, payload_files, transfer
from testbed.runs.run import Job
from testbed.runs.store import Store
from tests.unit.core.simple_plans import QuickEngine, plan

ID = "0123456789abcdef"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "PIECE_BYTES", 10)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(25)))
    return path


def upload(blobs, path, sha256, name="up"):
    offset = 0
    for piece in transfer.pieces(path):
        blobs.put(sha256, name, offset, piece, offset + len(piece) >= path.stat().st_size)
        offset += len(piece)


def test_files_go_in_pieces_and_are_called_by_their_hashes(file, tmp_path):
    blobs, sha256 = transfer.Blobs(tmp_path / "blobs"), transfer.sha256_of(file)
    assert [len(piece) for piece in transfer.pieces(file)] == [10, 10, 5]
    assert blobs.lacks({"a": sha256, "b": sha256}) == [sha256]
    upload(blobs, file, sha256)
    assert blobs.lacks({"a": sha256}) == [] and blobs.path(sha256).read_bytes() == file.read_bytes()
    for _ in range(2):
        blobs.lay_out({"kernels/k/linux": sha256, "given.json": sha256}, tmp_path / "cache")
    assert (tmp_path / "cache/kernels/k/linux").read_bytes() == file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "cache", "file"]
    (tmp_path / "empty").write_bytes(b"")
    upload(blobs, tmp_path / "empty", hashlib.sha256(b"").hexdigest())
    assert blobs.path(hashlib.sha256(b"").hexdigest()).read_bytes() == b""


def test_an_upload_that_is_something_else_is_not_kept(file, tmp_path):
    blobs, sha256 = transfer.Blobs(tmp_path / "blobs"), "0" * 64
    with pytest.raises(transfer.Damaged, match="SHA-256 [0-9a-f]{16}, not 0000000000000000"):
        upload(blobs, file, sha256)
    assert blobs.lacks({"a": sha256}) == [sha256] and list((tmp_path / "blobs").iterdir()) == []
    blobs.put(sha256, "up", 0, b"12345", False)
    with pytest.raises(transfer.Damaged, match="a piece at 3 of a file of 5 bytes"):
        blobs.put(sha256, "up", 3, b"45", True)


@pytest.mark.parametrize("piece_at, words", [
    (lambda offset: b"", "a piece of 0 bytes at 0 of 25"), (lambda offset: b"x" * 26, "a piece of 26 bytes at 0 of 25"),
    (lambda offset: b"x" * 5, "SHA-256 ")])
def test_what_comes_back_damaged(file, tmp_path, piece_at, words):
    with pytest.raises(transfer.Damaged, match=words):
        transfer.receive(tmp_path / "got", 25, transfer.sha256_of(file), piece_at)


def test_what_comes_back_whole(file, tmp_path):
    data = file.read_bytes()
    transfer.receive(tmp_path / "got", 25, transfer.sha256_of(file), lambda offset: data[offset:offset + 10])
    assert (tmp_path / "got").read_bytes() == data


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "results")
    made.create()
    return made


def sealed(folder, status="finished"):
    """A run as another machine has it."""
    (folder / "raw").mkdir(parents=True)
    (folder / "raw/a.json").write_text("data")
    (folder / "plan.json").write_text(json.dumps({"id": ID}))
    files, total = hash_raw(folder)
    (folder / "run.json").write_text(json.dumps(
        {"schema": 2, "id": ID, "status": status, "raw_files_sha256": files, "raw_sha256": total}))
    return folder


def test_a_sealed_run_is_adopted(store, tmp_path):
    store.adopt(sealed(tmp_path / "came"), ID)
    assert store.finished(ID) and not (tmp_path / "came").exists()
    store.adopt(sealed(tmp_path / "failed", status="failed"), ID)
    assert store.finished(ID)


@pytest.mark.parametrize("damage", [
    lambda run: (run / "raw/a.json").write_text("datA"), lambda run: (run / "raw/b.json").write_text(""),
    lambda run: (run / "raw/a.json").unlink(), lambda run: shutil.rmtree(run / "raw"),
    lambda run: (run / "raw/c.gz").write_bytes(b"no gzip"), lambda run: (run / "run.json").write_text("{}"),
    lambda run: (run / "plan.json").write_text("[]"), lambda run: (run / "plan.json").write_text('{"id": "another"}')])
def test_a_run_that_is_not_what_it_says_is_refused(store, tmp_path, damage):
    came = sealed(tmp_path / "came")
    damage(came)
    with pytest.raises(RunFailed, match=f"what came is not run {ID}|run {ID}: the raw data that came is not what was"):
        store.adopt(came, ID)
    assert list(store.runs.iterdir()) == []


@pytest.mark.parametrize("where", ["", "local:0", "local:-1", "locale", "tcp://", "tcp://host", "tcp://h:1 x",
                                   "http://h:1", "tcp://h:port", "local:1000", "tcp://h:0", "tcp://h:65536",
                                   "tcp://[h]:1"])
def test_addresses_that_are_none(where):
    with pytest.raises(UsageError, match="--cluster .*: local, local:N, tcp://host:port or tls://host:port expected"):
        executors.choose(None, where)


def test_who_carries_runs_out():
    assert {"cluster", "local"} <= set(executors.names()) and executors.choose(None, None) is executors.load("local")
    for where in ("tcp://[fe80::1]:8786", "tcp://127.0.0.1:65535", "local", "local:999"):
        assert cluster.parse(where) == where
    with pytest.raises(UsageError, match="^local:2: a scheduler's address, tcp://host:port or tls://"):
        cluster.parse_scheduler("local:2")
    made = executors.choose(None, "tls://h-1.example:8786")(None, None, 3)
    assert isinstance(made, cluster.Executor)
    with pytest.raises(UsageError, match="--executor cluster: which one"):
        executors.choose("cluster", None)
    with pytest.raises(UsageError, match="--executor local with --cluster"):
        executors.choose("local", "local:2")


def test_machines_without_dask_or_memory(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(EnvironmentProblem, match="apt-get install python3-distributed python3-cryptography"):
        with cluster._connected("local:1", None, tmp_path):
            pass
    monkeypatch.undo()
    monkeypatch.setattr(cluster, "available_memory_mb", lambda: 4000)
    with pytest.raises(EnvironmentProblem, match="local:4: 1000 MB of memory for each worker, a run needs 1280"):
        cluster._local(4, str(tmp_path))


def test_another_dask_is_told_before_anything_is_submitted():
    def node(version):
        return {"packages": {"distributed": version}} if version else None
    found = {"client": node("1"), "scheduler": node("1"), "workers": {"tcp://a:1": node("1"), "tcp://b:1": node("1")}}
    assert cluster.other_versions(found) == "" == cluster.other_versions({**found, "workers": {}})
    assert cluster.other_versions({**found, "scheduler": node("2")}) == \
        "its scheduler has Dask 2, this machine 1: it has to be the same everywhere"
    found["workers"]["tcp://b:1"] = None
    assert cluster.other_versions(found).startswith("its worker tcp://b:1 has Dask of an unknown version, this")


def test_memory_that_runs_take():
    assert delivery.resources_of(0) == delivery.resources_of(1024) == {"testbed_cpu": 1, "testbed_memory_mb": 1280}
    assert delivery.resources_of(1600)["testbed_memory_mb"] == 1856


class Client:
    """A scheduler with one worker."""
    offers = {"testbed_cpu": 1, "testbed_memory_mb": 4000}

    def scheduler_info(self, **_):
        return {"workers": {"tcp://w:1": {"resources": self.offers}}}


class Courier(delivery.Courier):
    """Its worker finds that guests have 2000 MB when their traffic is made."""

    def _ask(self, function, order, workers=None, resources=None):
        self.asked.append((order["id"], order["memory_mb"], resources["testbed_memory_mb"]))
        if order["memory_mb"] < 2000:
            return {"worker": "tcp://w:1", "memory_mb": 2000}
        return {"worker": "tcp://w:1", "outcome": {"error": None, "verdict": "valid"}, "size": None}


@pytest.fixture
def courier(store, tmp_path):
    engine = QuickEngine(tmp_path)
    engine.memory_mb = lambda plan, workload_dir: 1024
    made = Courier(Client(), engine, store, types.SimpleNamespace(files=lambda plan: {}, facts={}), "topic")
    made.asked = []
    return made


def test_a_run_is_given_to_a_worker_with_the_memory_of_its_guest(courier):
    """The second seed of a scenario asks for it at once."""
    one, other = plan(seed=1), plan(seed=2)
    assert [courier.carry_out(Job(each)).verdict for each in (one, other)] == ["valid", "valid"]
    assert courier.asked == [(one.id, 1024, 1280), (one.id, 2000, 2256), (other.id, 2000, 2256)]


def test_a_run_that_no_worker_has_the_memory_for(courier, monkeypatch):
    monkeypatch.setattr(Client, "offers", {"testbed_cpu": 1, "testbed_memory_mb": 2000})
    said = courier.carry_out(Job(plan())).error
    assert said == "it needs 2256 of testbed_memory_mb, 256 of them beside its guest; the largest worker offers 2000"


def test_what_workers_must_share():
    here = {"code": "c", "radios": {"air_wlan": "r"}, "kernel": "k",
            "packages": {"iproute2": "6.1", "python3": "3.11"}, "files": {"ip": "1"}}
    assert payload_files.differences(here, dict(here)) == ""
    there = {"code": "d", "radios": {"air_wlan": "r"}, "kernel": "l",
             "packages": {"iproute2": "6.15"}, "files": {"ip": "2"}}
    assert payload_files.differences(here, there) == (
        "the testbed's code is another: update its checkout; its engine is l, not k; iproute2 6.15, not 6.1; "
        "python3 is missing, not 3.11")
    assert payload_files.differences(here, {**here, "files": {"ip": "2"}}) == "ip is another"
    assert payload_files.differences(here, {**here, "radios": {"air_wlan": "s"}}) == (
        "the testbed's code is another: update its checkout")

# SPDX-License-Identifier: GPL-2.0-only
"""64 runs of rtt-fairness, on this machine alone and on workers: whatever is killed, the same bytes, each run once."""
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from tests.end_to_end.dask_processes import alive, ended, scheduler, wait_for, wait_for_workers

PROJECT = pathlib.Path(__file__).resolve().parents[2]
RUNS = int(os.environ.get("TESTBED_CLUSTER_RUNS", "64"))
#: two flows of 20 and 200 ms, four seconds of virtual time
SCENARIO = ("rtt-fairness", "--smoke", "--cca", "reno", "--set", "timing.warmup=1 s", "--set", "timing.test=3 s",
            "--set", "traffic.start_within=500 ms")
_MOST_S = 3600

pytestmark = pytest.mark.filterwarnings("ignore:make_current is deprecated:DeprecationWarning")


class Sweep:
    """A results folder, and the command that fills it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.results = folder

    def start(self, *more: str, runs: int = RUNS) -> subprocess.Popen[str]:
        return start("run", *SCENARIO, "--seeds", str(runs), "--no-report", *more, TESTBED_RESULTS=str(self.results))

    def finished(self) -> int:
        return len(list(self.results.glob("runs/[!.]*/run.json")))

    def hashes(self) -> dict[int, str]:
        """{seed: hash over the raw data}"""
        found = {}
        for path in self.results.glob("runs/[!.]*/run.json"):
            record = json.loads(path.read_text())
            assert record["status"] == "finished", record
            seed = json.loads((path.parent / "plan.json").read_text())["seed"]
            assert seed not in found
            found[seed] = record["raw_sha256"]
        assert not list(self.results.glob("runs/.*"))
        return found


def start(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen([PROJECT / "bin/testbed", *words], env={**os.environ, **environment}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def told(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=_MOST_S)
    assert process.returncode == 0, out
    return out


def each_once(out: str, runs: int) -> bool:
    """Whether so many runs ended, each once."""
    names = re.findall(r"^(\S+): finished, ", out, re.M)
    return len(names) == runs == len(set(names))


def busy_worker(command: int) -> int:
    """A Dask worker below this process that carries out a run; 0 if there is none at this moment."""
    parents, words = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words[int(folder.name)] = (folder / "cmdline").read_text()
        except (OSError, ValueError):
            continue                            # it has just ended

    def below(process: int) -> bool:
        while process not in (0, 1, command):
            process = parents.get(process, 0)
        return process == command
    # a run is forked from a nursery, which the worker has started
    runs = [one for one in words if "nursery.serve" in words[one] and "nursery.serve" in words.get(parents[one], "")]
    return next((parents[parents[one]] for one in runs if below(one)), 0)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Without a cluster."""
    sweep = Sweep(tmp_path_factory.mktemp("alone"))
    command = sweep.start()
    with ended(command):
        assert each_once(told(command), RUNS)
    hashes = sweep.hashes()
    assert sorted(hashes) == list(range(1, RUNS + 1)) and len(set(hashes.values())) == RUNS
    return hashes


def test_a_worker_is_killed_half_way(alone: dict[int, str], tmp_path: pathlib.Path) -> None:
    sweep = Sweep(tmp_path)
    command = sweep.start("--cluster", "local:2")
    with ended(command):
        wait_for(lambda: sweep.finished() >= RUNS // 2 or command.poll() is not None, _MOST_S)
        wait_for(lambda: busy_worker(command.pid), _MOST_S)
        worker = busy_worker(command.pid)
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: not alive(worker))
        out = told(command)
    assert each_once(out, RUNS), out
    assert sweep.hashes() == alone


def test_workers_with_homes_of_their_own_and_a_client_that_is_killed(alone: dict[int, str], tmp_path: pathlib.Path) \
        -> None:
    runs = max(4, RUNS // 4)
    sweep = Sweep(tmp_path / "results")
    homes = [tmp_path / "one", tmp_path / "two"]
    with scheduler() as (address, _):
        workers = [start("worker", address, "--jobs", "1", "--scratch", str(home / "scratch"), HOME=str(home),
                         TESTBED_CACHE=str(home / "cache")) for home in homes]
        with ended(*workers):
            wait_for_workers(address, 2)
            first = sweep.start("--cluster", address, runs=runs)
            with ended(first):
                wait_for(lambda: sweep.finished() >= runs // 2 or first.poll() is not None, _MOST_S)
            there = sweep.finished()            # when it had been killed
            assert runs // 2 <= there < runs
            second = sweep.start("--cluster", address, runs=runs)
            with ended(second):
                out = told(second)
        assert f"{there} runs are already there" in out and each_once(out, runs - there), out
    assert sweep.hashes() == {seed: sha256 for seed, sha256 in alone.items() if seed <= runs}
    for home in homes:                          # kernels came over the wire, once for each
        assert len(list(home.glob("cache/cluster/cache-*/kernels/*/linux"))) == 1

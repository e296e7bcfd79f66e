# SPDX-License-Identifier: GPL-2.0-only
"""Runs on Dask clusters: whatever is killed, each run is there once, with the bytes it has everywhere."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import textwrap

import pytest

from tests.end_to_end import toy_checkout

pytest.importorskip("distributed")
from tests.end_to_end.dask_processes import (  # noqa: E402 isort:skip
    alive, ended, said, scheduler, wait_for, wait_for_workers,
)

# Debian 12's Dask and tornado
pytestmark = pytest.mark.filterwarnings("ignore:make_current is deprecated:DeprecationWarning")

SEEDS = 4
PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/howto/clusters.md").read_text()


class Place:
    """A checkout with the waiting engine; commands and workers of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.calls, self.hold = folder, folder / "calls", folder / "hold"
        self.calls.touch()
        self.code = toy_checkout.make(folder / "code")

    def start(self, *words: str, results: str = "results", code: pathlib.Path | None = None,
              home: str = "") -> subprocess.Popen[str]:
        return self._start([str((code or self.code) / "bin/testbed"), *words], results, home)

    def start_script(self, text: str, home: str, **more: str) -> subprocess.Popen[str]:
        """A shell script, begun in the checkout."""
        return self._start(["sh", "-c", text], "results", home, **more)

    def _start(self, command: list[str], results: str, home: str, **more: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "TESTBED_RESULTS": str(self.folder / results), "TOY_CALLS": str(self.calls),
                       "TOY_HOLD": str(self.hold), "PYTHONDONTWRITEBYTECODE": "1", **more}
        if home:
            environment.update(HOME=str(self.folder / home), TESTBED_CACHE=str(self.folder / home / "cache"))
        # what a script starts with & ignores SIGINT, and so would this
        return subprocess.Popen(["env", "--default-signal=INT", *command], env=environment, text=True, cwd=self.code,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, cluster: str | None, results: str = "results", seeds: int = SEEDS) -> subprocess.Popen[str]:
        return self.start("run", "c", "--engine", "waiting", "--cca", "reno", "--seeds", str(seeds), "--no-report",
                          *(["--cluster", cluster] if cluster else []), results=results)

    def begun(self, count: int) -> list[tuple[int, int, int]]:
        """The runs that have begun, once there are that many: seed, process, worker."""
        def lines() -> list[str]:
            return self.calls.read_text().splitlines()
        wait_for(lambda: len(lines()) >= count)
        return [(int(seed), int(process), int(worker)) for seed, process, worker in map(str.split, lines())]

    def hashes(self, results: str = "results") -> dict[int, str]:
        """{seed: hash over the raw data} of finished runs."""
        found = {}
        for path in (self.folder / results).glob("runs/[!.]*/run.json"):
            assert json.loads(path.read_text())["status"] == "finished"
            seed = json.loads((path.parent / "plan.json").read_text())["seed"]
            found[seed] = json.loads(path.read_text())["raw_sha256"]
        assert not list((self.folder / results / "runs").glob(".*"))
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def local(place: Place) -> dict[int, str]:
    """The same runs without a cluster."""
    said(place.run(None, "without"))
    return place.hashes("without")


def test_killed_clients_and_workers_cost_no_run_and_double_none(place: Place, local: dict[int, str]) -> None:
    place.hold.touch()
    place.calls.write_text("")
    first = place.run("local:2")
    with ended(first):
        before = place.begun(2)
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: not any(alive(process) for seed, *both in before for process in both))
    second = place.run("local:2")
    with ended(second):
        (seed, process, worker), *_ = place.begun(4)[2:]
        os.kill(worker, signal.SIGKILL)
        place.begun(5)                          # somebody goes on in its place
        wait_for(lambda: not alive(process))
        place.hold.unlink()
        out = said(second)
    # what was lost began once more, everything else once
    assert sorted(begun for begun, *_ in place.begun(5)[2:]) == sorted([*range(1, SEEDS + 1), seed])
    assert out.count("finished, ") == SEEDS and "run 4 of 4" in out and "Restarting" not in out, out
    assert place.hashes() == local and len(local) == SEEDS
    assert "4 runs are already there" in said(place.run("local:2"))


def workers_below(command: int) -> list[str]:
    """Processes that Dask has begun for its workers."""
    found = subprocess.run(["pgrep", "-s", str(command), "-f", "spawn_main"], stdout=subprocess.PIPE, text=True,
                           check=False)
    return found.stdout.split()


@pytest.mark.parametrize("in_a_run", [False, True])
def test_an_interrupted_command_says_so_in_one_line(place: Place, in_a_run: bool) -> None:
    """Whether its workers are beginning or busy: Ctrl-C goes to them, too."""
    place.hold.touch()
    place.calls.write_text("")
    results = f"interrupted-{in_a_run}"
    command = place.run("local:2", results)
    with ended(command):
        if in_a_run:
            place.begun(2)
        else:
            wait_for(lambda: workers_below(command.pid))
        os.killpg(command.pid, signal.SIGINT)
        out = said(command, 130)
    assert "Traceback" not in out and out.endswith(
        "testbed: interrupted; finished runs are kept, the same command goes on from here\n"), out
    assert not place.hashes(results)            # nothing half-written either


def test_an_interrupted_worker_ends(place: Place) -> None:
    with scheduler() as (address, _):
        wait_for_workers(address, 0)
        worker = place.start("worker", address, "--jobs", "1")
        with ended(worker):
            wait_for_workers(address, 1)
            os.killpg(worker.pid, signal.SIGINT)
            out = said(worker)
    assert "Traceback" not in out and "End worker" in out, out


def test_workers_of_their_own(place: Place, local: dict[int, str], tmp_path: pathlib.Path) -> None:
    """With homes of their own, one by the page's script; one with other code gets no runs; a scheduler that goes
    away."""
    other = toy_checkout.make(tmp_path / "other")
    (other / "traffic/__init__.py").write_text((other / "traffic/__init__.py").read_text() + "# other code\n")
    place.hold.unlink(missing_ok=True)
    with scheduler() as (address, process), contextlib.ExitStack() as workers:
        def add(home: str, code: pathlib.Path | None = None) -> None:
            workers.enter_context(ended(place.start(
                "worker", address, "--jobs", "1", "--scratch", str(tmp_path / home), home=home, code=code)))

        wait_for_workers(address, 0)
        assert f"testbed: --cluster {address}: it has no workers; start some with `bin/testbed worker {address}`\n" in \
            said(place.run(address, "far"), 3)
        add("stranger", other)
        wait_for_workers(address, 1)
        refused = said(place.run(address, "refused", 1), 4)
        assert re.search(r"no worker can carry it out: tcp://\S+: the testbed's code is another: update its", refused)
        add("one")
        script = textwrap.dedent(re.search(r"    #!/bin/sh\n(    .*\n)+", PAGE)[0])
        (tmp_path / "two").mkdir()
        workers.enter_context(ended(place.start_script(
            script.replace("tcp://login-node:8786", address).replace("--jobs 8", "--jobs 1"), "two",
            TMPDIR=str(tmp_path), SLURM_ARRAY_TASK_ID="two")))
        wait_for_workers(address, 3)
        place.calls.write_text("")
        assert said(place.run(address, "far")).count("finished, ") == SEEDS
        assert place.hashes("far") == local and len({worker for *_, worker in place.begun(SEEDS)}) == 2
        place.hold.touch()
        place.calls.write_text("")
        left = place.run(address, "left")
        with ended(left):
            place.begun(2)
            os.killpg(process.pid, signal.SIGKILL)
            assert f"scheduler {address} is gone; finished runs are kept, the same command goes on" in said(left, 4)

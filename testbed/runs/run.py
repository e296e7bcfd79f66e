# SPDX-License-Identifier: GPL-2.0-only
"""One run: from a plan to a sealed folder, and what is made of it afterwards.

`execute` depends on nothing but the plan, the engine and the results folder, so that any executor can
carry it out, in any process. Raw data is sealed before anything judges or measures it; verdict and
metrics are made of the sealed folder and can be made again.
"""
from __future__ import annotations

import dataclasses
import pathlib
import resource
import shutil
import time
import traceback
from collections.abc import Callable

import traffic
from testbed.core import derived, environment
from testbed.core.errors import RunFailed, TestbedError, what_failed
from testbed.core.fields import FieldError
from testbed.core.files import write_json
from testbed.runs.engine import EngineBase, OnProgress, traffic_context
from testbed.runs.plan import Plan
from testbed.runs.store import SCHEMA, Store


@dataclasses.dataclass(frozen=True)
class Job:
    """A plan to be carried out, and how: again: though it is finished; keep_work: with intermediate files;
    most_memory_mb: not if its guest has more."""
    plan: Plan
    again: bool = False
    keep_work: bool = False
    most_memory_mb: int | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended: error is None if it finished; verdict is then valid, suspect or invalid."""
    run_id: str
    error: str | None = None
    verdict: str | None = None
    #: it was finished before, by somebody else meanwhile
    was_there: bool = False
    #: memory of its guest, if that is more than the job allows: then nothing was done
    needs_mb: int = 0


def execute(job: Job, engine: EngineBase, store: Store, shared_dir: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> Outcome:
    """Carry out a plan and seal what it left; then judge and measure it.

    shared_dir: where runs of one command keep what they have in common (the connections of a seed, say).
    A run that fails is kept, too, with its log and its error; nothing is raised for it.
    """
    plan = job.plan
    with store.claim(plan.id, job.again) as folder:
        if folder is None:
            return Outcome(plan.id, verdict=read_verdict(store.run_dir(plan.id)), was_there=True)
        stopwatch = _Stopwatch(on_progress)
        error: str | None = None
        record: dict[str, object] = {"schema": SCHEMA, "id": plan.id, "status": "failed", "error": None,
                                     "virtual_s": plan.timing.duration_us / 1e6}
        plan.write(folder)
        work_dir = folder / "work"
        work_dir.mkdir()
        try:
            write_json(folder / "environment.json", {
                "engine": plan.engine, "capabilities": dataclasses.asdict(engine.capabilities),
                "clock": engine.capabilities.clock} | engine.environment() | environment.this_machine())
            stopwatch("traffic of this seed", 0)
            _prepare(plan, engine, work_dir, shared_dir, lambda text: on_progress(text, 0))
            if job.most_memory_mb is not None and (needs_mb := engine.memory_mb(plan, work_dir)) > job.most_memory_mb:
                return Outcome(plan.id, needs_mb=needs_mb)
            engine.run(plan, work_dir, folder, cpu, stopwatch)
            record["status"] = "finished"
        except (TestbedError, FieldError) as problem:
            error = str(problem)
        except OSError as problem:
            error = what_failed(problem)
        except Exception as problem:            # a defect of ours: the run is kept, with where it happened
            error = f"{stopwatch.phase}: {type(problem).__name__}: {problem}"
            record["traceback"] = traceback.format_exc()
        stopwatch("seal", 0)
        if not job.keep_work:
            shutil.rmtree(work_dir, ignore_errors=True)
        stopwatch("end", 0)
        record.update(error=error, phase=stopwatch.last_phase, phases_wall_s=stopwatch.phases_wall_s,
                      ended_at=round(time.time(), 3),
                      wall_s=round(sum(stopwatch.phases_wall_s.values()), 3),
                      # Linux gives kilobytes of 1024
                      largest_process_bytes=1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
        sealed = store.seal(folder, plan.id, record)
    if error:
        return Outcome(plan.id, error=error)
    on_progress("judge", 0)
    return Outcome(plan.id, verdict=judge_and_measure(sealed))


def judge_and_measure(run_dir: pathlib.Path) -> str:
    """Make verdict and metrics of a sealed run; returns the verdict. What goes wrong is noted beside them."""
    from analysis.metrics import keep_metrics
    keep_metrics(run_dir)
    return read_verdict(run_dir)


def warm_up() -> None:
    """Do once what every run would: import what judges and measures, look up this machine.

    For a process from which those of many runs are forked.
    """
    from analysis import metrics
    from testbed import checks
    derived.import_all([*metrics.__path__, *checks.code_places()])
    for places in (metrics.__path__, checks.code_places()):
        derived.code_sha256(places)
    environment.this_machine()


def read_verdict(run_dir: pathlib.Path) -> str:
    """'valid', 'suspect' or 'invalid'; judged again if the verdict on disk is not of this run and these checks."""
    from testbed import checks
    return str(checks.read_verdict(run_dir)["verdict"])


def _prepare(plan: Plan, engine: EngineBase, work_dir: pathlib.Path, shared_dir: pathlib.Path,
             report: Callable[[str], None]) -> None:
    """Make what the traffic programs need in `work_dir`, and workload.json."""
    try:
        traffic.prepare(plan.scenario.traffic, plan.variants, traffic_context(
            plan, work_dir, engine.guest_dir(work_dir), shared_dir=shared_dir, report=report))
    except MemoryError:
        raise RunFailed("not enough memory to prepare the traffic") from None


class _Stopwatch:
    """The phase a run is in, and the wall seconds each phase took."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.phase = ""
        self.last_phase = ""            # the last one in which work for the run was done
        self.phases_wall_s: dict[str, float] = {}
        self._on_progress = on_progress
        self._since = time.monotonic()

    def __call__(self, phase: str, t_us: int) -> None:
        now = time.monotonic()
        if phase != self.phase:
            if self.phase:
                self.phases_wall_s[self.phase] = round(self.phases_wall_s.get(self.phase, 0) + now - self._since, 3)
            if self.phase not in ("seal", "end"):
                self.last_phase = self.phase
            self.phase, self._since = phase, now
        if phase not in ("seal", "end"):
            self._on_progress(phase, t_us)

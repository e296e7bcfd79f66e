# SPDX-License-Identifier: GPL-2.0-only
"""Many runs: each in a process of its own, pinned to a CPU, as many at a time as there are CPUs.

A run that is already there is not repeated, so an interrupted sweep goes on where it was;
a run that fails does not stop the others.
"""
import ctypes
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
from multiprocessing import connection
from pathlib import Path

from testbed import results
from testbed.errors import TestbedError
from testbed.progress import open_display
from testbed.run import RunSpec, carry_out, code_version, prepare_workload

_PR_SET_PDEATHSIG = 1


def run_all(experiment, scenario, engine, subjects, seeds, jobs, keep_work=False, again=False, index=True):
    """Carry out every missing run of subjects x seeds in `experiment` (a results.Experiment).

    subjects: ready ccas.Subjects; jobs: how many at a time; index: note the runs in index.sqlite. Returns ({run name: error message} of the failed ones).
    """
    wanted = [(subject, seed) for seed in seeds for subject in subjects]
    there = [(subject, seed) for subject, seed in wanted
             if not again and results.finished(experiment.run_dir(subject.name, seed))]
    # the same name is no proof: scenario, variant, module or kernel may have been changed since
    same = {(subject.name, seed) for subject, seed in there
            if results.made_from(experiment.run_dir(subject.name, seed), scenario, subject, engine.environment())}
    todo = [(subject, seed) for subject, seed in wanted if (subject.name, seed) not in same]
    done = len(same)
    failures = {}
    scratch = Path(tempfile.mkdtemp(prefix=f".workload-{os.getpid()}-", dir=experiment.folder))
    try:
        with open_display(len(todo), scenario.timing.duration_us / 1e6) as display:
            if done:
                display.note(f"{done} runs are already there")
            if len(there) > done:
                display.note(f"{len(there) - done} runs were made from another scenario, module or kernel: they are repeated")
            if todo:
                scheduler = _Scheduler(experiment, scenario, engine, scratch, display, keep_work, index)
                failures = scheduler.run(todo, cpus=_cpus(jobs))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return failures


def _cpus(jobs):
    """CPUs to pin runs to, one each."""
    available = sorted(os.sched_getaffinity(0))
    return [available[i % len(available)] for i in range(jobs or len(available))]


class _Scheduler:
    """Starts workers while CPUs are free and listens to them."""

    def __init__(self, experiment, scenario, engine, scratch, display, keep_work, index):
        self._experiment, self._scenario, self._engine = experiment, scenario, engine
        self._scratch, self._display, self._keep_work = scratch, display, keep_work
        self._index = index
        self._processes = multiprocessing.get_context("fork")

    def run(self, todo, cpus):
        failures, active, free = {}, {}, list(cpus)
        waiting = list(todo)
        prepared = set()
        try:
            while waiting or active:
                while waiting and free:
                    subject, seed = waiting.pop(0)
                    if seed not in prepared:
                        self._display.note(f"preparing the traffic of seed {seed}")
                        prepare_workload(self._scenario, seed, self._engine.guest_dir(self._scratch),
                                         self._scratch / f"seed{seed}")
                        prepared.add(seed)
                    name = results.run_name(subject.name, seed)
                    cpu = free.pop(0)
                    # a pipe each: in a shared queue, a worker that is killed may take the lock with it
                    ear, mouth = self._processes.Pipe(duplex=False)
                    worker = self._processes.Process(target=self._work, args=(subject, seed, cpu, mouth), name=name)
                    worker.start()
                    mouth.close()
                    active[name] = (worker, ear, cpu, subject.name, seed)
                    self._display.start(name)
                self._listen(active, free, failures)
        finally:
            for worker, *_ in active.values():
                worker.terminate()
            for worker, *_ in active.values():
                worker.join()
        return failures

    def _listen(self, active, free, failures):
        """Handle a message of each worker that has one, or notice that it ended without."""
        names = {ear: name for name, (_, ear, *_) in active.items()}
        for ear in connection.wait(list(names), timeout=0.5):
            name = names[ear]
            try:
                kind, *rest = ear.recv()
            except (EOFError, OSError):
                worker = active[name][0]
                worker.join()
                kind, rest = "end", [f"its process ended with status {worker.exitcode}", None]
            if kind == "phase":
                self._display.update(name, *rest)
            else:
                self._end(name, *rest, active, free, failures)

    def _end(self, name, error, verdict, active, free, failures):
        worker, ear, cpu, cca, seed = active.pop(name)
        worker.join()
        ear.close()
        self._experiment.remove_partial(worker.pid)         # a killed one could not
        free.append(cpu)
        run_dir = self._experiment.run_dir(cca, seed)
        if error:
            failures[name] = error
            self._display.end(name, "failed: " + error.splitlines()[0])
        else:
            self._display.end(name, f"finished, {verdict}")
        record = results.read_record(run_dir)
        if record and self._index:
            try:
                results.index_run(self._experiment.folder, run_dir, record, verdict)
            except sqlite3.Error as problem:            # a full disk, or somebody else's lock: the run is what counts
                self._display.note(f"{name}: not noted in index.sqlite: {problem}")

    def _work(self, subject, seed, cpu, mouth):
        """In the worker: one run, its outcome as a message."""
        _die_with_parent()
        os.sched_setaffinity(0, {cpu})
        error = verdict = None
        try:
            with self._experiment.new_run(subject.name, seed) as folder:
                try:
                    carry_out(RunSpec(self._scenario, subject, seed, self._keep_work), self._engine,
                              self._scratch / f"seed{seed}", folder, cpu,
                              lambda phase, t_us: mouth.send(("phase", phase, t_us)))
                    verdict = results.read_verdict(folder)
                except TestbedError as problem:
                    error = str(problem)
        except TestbedError as problem:
            error = str(problem)
        except OSError as problem:
            error = f"{problem.strerror}: {problem.filename}" if problem.filename else str(problem)
        except Exception:
            error = "a bug in the testbed:\n" + traceback.format_exc()
        mouth.send(("end", error, verdict))


def _die_with_parent():
    """A worker ends, cleaning up, when the testbed is interrupted, terminated or killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def describe_experiment(scenario, engine_name, ccas, seeds, command):
    """The contents of experiment.json."""
    return {"scenario": scenario.name, "title": scenario.title, "source": scenario.source,
            "description": scenario.description, "parameters": scenario.parameters, "engine": engine_name,
            "ccas": list(ccas), "seeds": list(seeds), "command": command, "code_version": code_version(),
            "runs": [f"runs/{results.run_name(cca, seed)}" for seed in seeds for cca in ccas]}

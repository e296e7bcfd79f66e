# SPDX-License-Identifier: GPL-2.0-only
"""One run: orders for the guest, the engine, collecting, judging, metrics."""
import dataclasses
import json
import os
import pathlib
import platform
import shutil
import subprocess
import time

import topologies
import traffic
from analysis.metrics import write_metrics
from analysis.runs import AnalysisError
from testbed import PROJECT_DIR, __version__, fidelity, orders, probes
from testbed.errors import RunFailed, TestbedError, UsageError
from testbed.files import write_json
from testbed.results import hash_raw

#: guest files that go to raw/ as they are
_PLAIN = ("network.json", "checks.json", "counters.json")


@dataclasses.dataclass
class RunSpec:
    """Which run: a scenario with all choices made, a ready ccas.Subject, a seed."""
    scenario: object
    subject: object
    seed: int
    keep_work: bool = False

    @property
    def cca(self):
        """Name of what is tested: 'newreno', or 'libra+bic' if flows take turns."""
        return self.subject.name


def prepare_workload(scenario, seed, guest_dir, folder):
    """Make what the traffic programs need in `folder`; the same for every congestion control.

    Leaves the files, and `workload.json` with the description and the programs to start.
    """
    topo = topologies.from_section(scenario.topology)
    kind = traffic.load(scenario.traffic["kind"])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        workload = kind.prepare(scenario.traffic, _context(scenario, seed, folder, guest_dir, topo.describe()))
    except ValueError as problem:           # traffic's own errors: bad vector files, a load that cannot be met
        raise UsageError(str(problem)) from problem
    except OSError as problem:
        raise UsageError(f"{problem.filename}: {problem.strerror}") from problem
    write_json(folder / "workload.json", {"description": workload.description,
                                          "programs": [dataclasses.asdict(p) for p in workload.programs]})


def carry_out(spec, engine, workload_dir, run_dir, cpu, on_phase):
    """Fill `run_dir` with a finished run; raises RunFailed (run_dir then holds log and record).

    on_phase(phase, t_us): what is happening; t_us of experiment time while traffic runs.
    """
    work_dir, raw_dir = run_dir / "work", run_dir / "raw"
    raw_dir.mkdir(parents=True)
    shutil.copytree(workload_dir, work_dir, copy_function=_link)
    workload = json.loads((work_dir / "workload.json").read_text())
    scenario = spec.scenario
    started = time.time()
    record = {"scenario": scenario.name, "parameters": scenario.parameters, "engine": engine.environment()["engine"],
              "cca": spec.cca, "seed": spec.seed, "status": "failed", "error": None,
              "virtual_s": scenario.timing.duration_us / 1e6, "wall_s": None, "phase": None, "phases_wall_s": {}, "raw_sha256": None}
    write_json(run_dir / "scenario.json", {**scenario.resolved(), "cca": spec.cca, "variants": spec.subject.record(),
                                           "seed": spec.seed})
    write_json(run_dir / "environment.json", {**engine.environment(), **_this_machine(), "seed": spec.seed})
    stopwatch = _Stopwatch(record, on_phase)
    try:
        write_json(work_dir / "job.json", {
            "topology": scenario.topology, "probes": scenario.probes, "seed": spec.seed,
            "programs": workload["programs"], "duration_us": scenario.timing.duration_us,
            "timer_period_us": engine.timer_period_us, **orders.congestion_controls(spec, engine, workload, work_dir)})
        stopwatch.phase("start", 0)
        engine.run(work_dir, run_dir / "log.txt", cpu, stopwatch.phase)
        stopwatch.phase("collect", 0)
        write_json(raw_dir / "workload.json", workload["description"])
        _collect(spec, work_dir, raw_dir, engine.guest_dir(work_dir))
        stopwatch.phase("judge", 0)
        record["raw_files_sha256"], record["raw_sha256"] = hash_raw(run_dir)
        verdict = fidelity.judge(fidelity.Evidence(run_dir, scenario.resolved(), engine.clock, spec.subject.record()))
        write_json(run_dir / "verdict.json", verdict)
        stopwatch.phase("metrics", 0)
        write_metrics(run_dir)
        record["status"] = "finished"
    except TestbedError as problem:
        record["error"] = str(problem)
        raise
    except (OSError, ValueError, KeyError, AnalysisError) as problem:
        # what the run left cannot be used: a failed run, not the end of the sweep
        record["error"] = f"{record['phase']}: {type(problem).__name__}: {problem}"
        raise RunFailed(record["error"]) from problem
    finally:
        stopwatch.phase("end", 0)
        record["wall_s"] = round(time.time() - started, 3)
        if not spec.keep_work:
            shutil.rmtree(work_dir, ignore_errors=True)
        write_json(run_dir / "run.json", record)


def _collect(spec, work_dir, raw_dir, guest_dir):
    """Turn what the guest left into the raw files of docs/run-folder.md."""
    scenario = spec.scenario
    for name in _PLAIN:
        shutil.copyfile(work_dir / name, raw_dir / name)
    guest = json.loads((work_dir / "guest.json").read_text())
    network = json.loads((work_dir / "network.json").read_text())
    timing = scenario.timing
    for name, settings in scenario.probes.items():
        probes.load(name).collect(work_dir, raw_dir, {
            "settings": settings, "network": network, "t0_ns": guest["t0_ns"], "prefill_us": timing.prefill_us,
            "warmup_us": timing.warmup_us, "duration_us": timing.duration_us})
    context = _context(scenario, spec.seed, work_dir, guest_dir, network)
    guest["traffic"] = traffic.load(scenario.traffic["kind"]).collect(context, raw_dir)
    del guest["t0_ns"]
    write_json(raw_dir / "guest.json", guest)


def _context(scenario, seed, folder, guest_dir, network):
    timing = scenario.timing
    return traffic.Context(work_dir=pathlib.Path(folder), guest_dir=guest_dir, network=network, seed=seed,
                           prefill_us=timing.prefill_us, warmup_us=timing.warmup_us, test_us=timing.test_us)


def _link(source, target):
    """Plans are read only: a hard link serves every congestion control."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _this_machine():
    """Program versions and code version of this side."""
    return {"testbed_version": __version__, "code_version": code_version(), "machine": platform.machine(),
            "host_kernel": platform.release(), "cpus": os.cpu_count(), "python": platform.python_version(),
            "packages": _package_versions()}


def code_version():
    """git's description of the checkout, or 'unknown' outside one."""
    try:
        done = subprocess.run(["git", "-C", str(PROJECT_DIR), "describe", "--always", "--dirty", "--abbrev=12"],
                              capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _package_versions():
    packages = ["mininet", "iproute2", "iperf3", "gnuplot-nox", "python3-pandas", "python3-numpy"]
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages],
                              capture_output=True, text=True)
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


class _Stopwatch:
    """The phase a run is in and the wall seconds each took, kept in its record."""

    def __init__(self, record, on_phase):
        self._record, self._on_phase = record, on_phase
        self._since = time.monotonic()

    def phase(self, name, t_us):
        before, now = self._record["phase"], time.monotonic()
        if name != before:
            if before:
                seconds = self._record["phases_wall_s"]
                seconds[before] = round(seconds.get(before, 0) + now - self._since, 3)
            self._record["phase"], self._since = name, now
        if name != "end":
            self._on_phase(name, t_us)

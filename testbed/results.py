# SPDX-License-Identifier: GPL-2.0-only
"""Experiment folders, run folders, their hashes, and the index over all runs."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import sqlite3

from testbed import ccas
from testbed.errors import TestbedError, UsageError
from testbed.files import write_json

_INDEX_COLUMNS = ("experiment", "run", "scenario", "parameters", "engine", "cca", "seed", "status", "verdict",
                  "raw_sha256", "virtual_s", "wall_s", "path")


def results_dir():
    """Where experiments go: TESTBED_RESULTS, or `results` in the current folder."""
    return pathlib.Path(os.environ.get("TESTBED_RESULTS", "results")).resolve()


def experiment_name(scenario, engine, kernel=None):
    """access-link-load60-quick: equal parameters, equal name. `kernel` as given to --kernel."""
    parts = [scenario.name]
    for key, value in scenario.parameters.items():
        if key == "quick":
            parts.append("quick")
        elif key == "set":
            parts.append("set" + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8])
        else:
            parts.append(f"{key}{value}")
    if engine != "uml":
        parts.append(engine)
    if kernel:
        parts.append("kernel" + re.sub(r"[^A-Za-z0-9.]+", "_", pathlib.Path(kernel).name))
    return "-".join(parts)


def run_name(cca, seed):
    return f"{cca}-seed{seed}"


def find_experiment(name):
    """The folder of an experiment, by path or name. UsageError if there is none."""
    for folder in (pathlib.Path(name), results_dir() / name):
        if (folder / "experiment.json").is_file():
            return folder.resolve()
    have = sorted(p.parent.name for p in results_dir().glob("*/experiment.json"))
    raise UsageError(f"no experiment {name!r} in {results_dir()}" + (f"; there are: {', '.join(have)}" if have else ""))


def find_run(path):
    """A run folder given by path (absolute, or below the results folder). UsageError if it is none."""
    for folder in (pathlib.Path(path), results_dir() / path):
        if (folder / "run.json").is_file():
            return folder.resolve()
    raise UsageError(f"{path}: not a run folder (one with a run.json in it, such as "
                     f"results/access-link-load60/runs/cubic-seed1)")


def read_record(run_dir):
    """run.json of a run, or None if there is none."""
    try:
        return json.loads((run_dir / "run.json").read_text())
    except (OSError, ValueError):
        return None


def finished(run_dir):
    """run.json of a finished run, or None if there is none or it did not finish."""
    record = read_record(run_dir)
    return record if record and record.get("status") == "finished" else None


def made_from(run_dir, scenario, subject, environment):
    """True if a run was made from this scenario, as resolved, these variants and modules, and this kernel."""
    try:
        was = json.loads((run_dir / "scenario.json").read_text())
        there = json.loads((run_dir / "environment.json").read_text())
    except (OSError, ValueError):
        return False
    now = json.loads(json.dumps(scenario.resolved()))
    matters = ("topology", "traffic", "timing", "hosts", "probes")
    return all(was.get(key) == now[key] for key in matters) and ccas.same(was.get("variants"), subject.record()) and \
        there.get("kernel_key") == environment.get("kernel_key")


def read_verdict(run_dir):
    """'valid', 'suspect' or 'invalid'."""
    return json.loads((run_dir / "verdict.json").read_text())["verdict"]


def hash_raw(run_dir):
    """{file: SHA-256 of its content} of the raw folder, and one hash over all of them.

    Hashed is the data, not its compression.
    """
    import gzip
    hashes = {}
    for path in sorted((run_dir / "raw").iterdir()):
        digest = hashlib.sha256()
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as f:
            while chunk := f.read(1 << 20):
                digest.update(chunk)
        hashes[path.name] = digest.hexdigest()
    total = hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode())
    return hashes, total.hexdigest()


class Experiment:
    """An experiment's folder while runs are added to it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def create(self, record):
        """Make the folder and write (or extend) experiment.json; keeps the runs it already lists."""
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise TestbedError(f"cannot make {self.folder}: {problem.strerror}") from None
        path = self.folder / "experiment.json"
        if path.exists():
            before = json.loads(path.read_text())
            for key in ("ccas", "seeds", "runs"):
                record[key] = before[key] + [v for v in record[key] if v not in before[key]]
        write_json(path, record)
        for stale in [*self.folder.glob(".partial-*"), *self.folder.glob(".workload-*")]:
            if not os.path.exists(f"/proc/{stale.name.split('-')[1]}"):
                shutil.rmtree(stale)

    def remove_partial(self, pid):
        """Remove what process `pid`, which has ended, may have left unfinished."""
        shutil.rmtree(self.folder / f".partial-{pid}", ignore_errors=True)

    def run_dir(self, cca, seed):
        return self.folder / "runs" / run_name(cca, seed)

    @contextlib.contextmanager
    def new_run(self, cca, seed):
        """A folder to fill; it takes its place when the block ends, and is removed if the block raises."""
        final = self.run_dir(cca, seed)
        scratch = self.folder / f".partial-{os.getpid()}"
        shutil.rmtree(scratch, ignore_errors=True)
        partial = scratch / final.name
        partial.mkdir(parents=True)
        try:
            yield partial
            shutil.rmtree(final, ignore_errors=True)
            os.replace(partial, final)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def index_run(experiment_dir, run_dir, record, verdict):
    """Note a run in index.sqlite beside the experiments."""
    values = {"experiment": experiment_dir.name, "run": run_dir.name, "verdict": verdict, "path": str(run_dir),
              **{k: record.get(k) for k in ("scenario", "engine", "cca", "seed", "status", "raw_sha256", "virtual_s", "wall_s")},
              "parameters": json.dumps(record.get("parameters"), sort_keys=True)}
    with contextlib.closing(sqlite3.connect(experiment_dir.parent / "index.sqlite", timeout=60)) as database, database:
        database.execute(f"CREATE TABLE IF NOT EXISTS runs ({', '.join(_INDEX_COLUMNS)}, PRIMARY KEY (experiment, run))")
        database.execute(f"INSERT OR REPLACE INTO runs ({', '.join(_INDEX_COLUMNS)}) "
                         f"VALUES ({', '.join(':' + c for c in _INDEX_COLUMNS)})", values)

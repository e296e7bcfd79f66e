# SPDX-License-Identifier: GPL-2.0-only
"""Run a finished run again and compare every raw file with the first, byte for byte.

The same scenario, seed and kernel must give the same data; a difference is reported per
file. The repetition is made in a temporary folder and removed.
"""
import json
import pathlib
import shutil
import tempfile

from testbed import ccas, engines, results, sweep
from testbed.cli import _shared
from testbed.errors import NotReproducible, UsageError
from testbed.scenario import from_resolved

HELP = "repeat a run and compare hashes"


def add_arguments(parser):
    parser.add_argument("run", help="a run folder, such as results/access-link-load60/runs/cubic-seed1")
    _shared.add_engine_arguments(parser)


def main(arguments):
    run_dir = results.find_run(arguments.run)
    record = results.finished(run_dir)
    if not record:
        raise UsageError(f"{run_dir}: this run did not finish; there is nothing to compare with")
    resolved = json.loads((run_dir / "scenario.json").read_text())
    before = json.loads((run_dir / "environment.json").read_text())
    arguments.kernel = arguments.kernel or before.get("kernel_spec")
    engine = engines.load(record["engine"])(_shared.engine_options(arguments))
    engine.prepare(_shared.reporter())
    after = engine.environment()
    for key in ("kernel_key", "guest_memory_mb"):
        if before.get(key) != after.get(key):
            print(f"note: {key} was {before.get(key)}, is {after.get(key)}")
    on_disk, _ = results.hash_raw(run_dir)
    changed = sorted(n for n in record["raw_files_sha256"] if on_disk.get(n) != record["raw_files_sha256"][n])
    if changed:
        raise NotReproducible(f"{run_dir}: raw files are not as the run left them: {', '.join(changed)}")
    # runs made before there were variants have none noted
    subject = ccas.from_record(record["cca"], resolved["variants"]) if "variants" in resolved else ccas.parse(record["cca"])[0]
    folder = pathlib.Path(tempfile.mkdtemp(prefix=".verify-", dir=run_dir.parent.parent.parent))
    try:
        experiment = results.Experiment(folder / "again")
        experiment.create({"ccas": [], "seeds": [], "runs": []})
        failures = sweep.run_all(experiment, from_resolved(resolved), engine, [subject], [record["seed"]], 1,
                                 index=False)
        if failures:
            raise NotReproducible(f"the repetition failed: {'; '.join(failures.values())}")
        again = results.finished(experiment.run_dir(record["cca"], record["seed"]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    different = sorted(n for n in set(again["raw_files_sha256"]) | set(record["raw_files_sha256"])
                       if again["raw_files_sha256"].get(n) != record["raw_files_sha256"].get(n))
    if different:
        raise NotReproducible(f"different data in {', '.join(different)}")
    print(f"identical: {len(record['raw_files_sha256'])} raw files, SHA-256 over all {record['raw_sha256']}")
    return 0

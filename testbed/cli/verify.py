# SPDX-License-Identifier: GPL-2.0-only
"""Repeat a run, or all runs of a pack, and compare every byte of raw data.

  testbed verify results/access-link-load60/runs/cubic-seed1
  testbed verify access-link-load60.pack.tar.xz

The same plan on the same kernel must give the same data. Differences are
reported file by file, with what differs in the code, the kernel, programs and
libraries. Exit code 5: something differs.
"""
from __future__ import annotations

import argparse
import pathlib
import shutil
import tempfile

from testbed import executors
from testbed.cli import _packs, _repetition, _shared
from testbed.core.errors import NotReproducible, UsageError
from testbed.core.files import hash_raw
from testbed.core.run_files import RunRecord
from testbed.runs import campaign, experiment, pack, plan
from testbed.runs.store import Store, read_record

HELP = "repeat a run, or those of a pack, and compare hashes"
GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="a run, such as results/access-link-load60/runs/cubic-seed1, or its id; or a pack")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="for a pack: runs at a time (default: one "
                        "per CPU)")
    _shared.add_engine_options(parser)          # the engine is that of the run


def main(arguments: argparse.Namespace) -> int:
    path = pathlib.Path(arguments.run)
    if pack.is_one(path):
        return _packs.verify(path, arguments)
    if path.name.endswith(".tar.xz") and not path.exists():
        raise UsageError(f"{path}: no such file")
    run_dir = experiment.find_run(arguments.run)
    record = read_record(run_dir)
    if not record or record.status != "finished":
        raise UsageError(f"{run_dir}: this run did not finish; there is nothing to compare with")
    was = plan.read(run_dir)
    _check_raw(run_dir, record)
    before = _repetition.environment_of(run_dir)
    engine = _repetition.engine_for(arguments, was.engine, before, str(run_dir))
    now = _repetition.with_todays_code(was, engine)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="verify-", dir=_room(run_dir)))
    try:
        store = Store(folder)
        store.create()
        failures = campaign.carry_out([now], executors.load(executors.DEFAULT)(engine, store, 1), store, indexed=False)
        differences = _repetition.differences(was, now, before, _repetition.environment_of(store.run_dir(now.id)))
        for line in differences:
            print(f"note: {line}")
        if failures:
            raise NotReproducible(f"the repetition failed: {'; '.join(failures.values())}")
        again = read_record(store.run_dir(now.id)) or RunRecord({})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    one, other = record.raw_files_sha256 or {}, again.raw_files_sha256 or {}
    different = _repetition.different_files(one, other)
    if different:
        raise NotReproducible(f"different data in {', '.join(different)}; what differs besides: "
                              + ("; ".join(differences) or "nothing that is known of"))
    print(f"identical: {len(one)} raw files, SHA-256 over all {record.raw_sha256}")
    return 0


def _check_raw(run_dir: pathlib.Path, record: RunRecord) -> None:
    """NotReproducible unless the raw files are as the run left them."""
    noted = record.raw_files_sha256
    if not isinstance(noted, dict) or not noted:
        raise UsageError(f"{run_dir / 'run.json'}: damaged: raw_files_sha256 is missing")
    try:
        on_disk, _ = hash_raw(run_dir)
    except (OSError, EOFError) as problem:
        raise NotReproducible(f"{run_dir}: raw files are not as the run left them: {problem}") from None
    except Exception as problem:                # zlib's own, of a damaged .gz
        raise NotReproducible(f"{run_dir}: raw files are not as the run left them: "
                              f"{type(problem).__name__}: {problem}") from None
    changed = _repetition.different_files(noted, on_disk)
    if changed:
        raise NotReproducible(f"{run_dir}: raw files are not as the run left them: {', '.join(changed)}")


def _room(run_dir: pathlib.Path) -> pathlib.Path | None:
    """Beside the results if that can be written, else where temporary files go."""
    parent = run_dir.parent.parent
    try:
        probe = tempfile.mkdtemp(prefix=".room-", dir=parent)
    except OSError:
        return None
    pathlib.Path(probe).rmdir()
    return parent

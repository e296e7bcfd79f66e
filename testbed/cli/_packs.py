# SPDX-License-Identifier: GPL-2.0-only
"""A pack verified: its runs once more, on this machine, from what is in it."""
from __future__ import annotations

import argparse
import pathlib
import tempfile

from testbed import executors
from testbed.cli import _repetition, _shared
from testbed.core.errors import NotReproducible, UsageError
from testbed.core.progress import print_error
from testbed.core.run_files import RunRecord
from testbed.runs import campaign, experiment, pack, plan as plans
from testbed.runs.engine import EngineBase
from testbed.runs.store import RUNS, Store, read_record

_MOST_FILES_TOLD = 5


def verify(path: pathlib.Path, arguments: argparse.Namespace) -> int:
    """Repeat the runs of a pack. NotReproducible if any raw file differs, after all have been told."""
    with tempfile.TemporaryDirectory(prefix="verify-pack-") as scratch:
        folder = pathlib.Path(scratch) / "pack"
        pack.unpack(path, folder)
        listed = experiment.read(folder)
        names = {run.id: run.name for run in [*listed.runs, *listed.idle]}
        if other := pack.other_code(folder):
            print(f"note: {len(other)} files of the testbed differ: {', '.join(other[:_MOST_FILES_TOLD])}"
                  + (" ..." if len(other) > _MOST_FILES_TOLD else ""))
        store = Store(pathlib.Path(scratch) / "results")
        store.create()
        packed = {run_id: folder / RUNS / run_id for run_id in names}
        wrong = 0
        for group in _groups(packed).values():
            wrong += _repeat(group, names, folder, store, arguments)
    if wrong:
        raise NotReproducible(f"{path}: {wrong} of {len(names)} runs gave other data")
    print(f"identical: {len(names)} runs of {listed.name}")
    return 0


def _groups(packed: dict[str, pathlib.Path]) -> dict[tuple[object, ...], list[pathlib.Path]]:
    """Runs with the same engine and kernel."""
    found: dict[tuple[object, ...], list[pathlib.Path]] = {}
    for run_dir in packed.values():
        before = _repetition.environment_of(run_dir)
        key = (plans.read(run_dir).engine, before.kernel_spec, before.kernel_hz, *before.kernel_options)
        found.setdefault(key, []).append(run_dir)
    return found


def _repeat(run_dirs: list[pathlib.Path], names: dict[str, str], folder: pathlib.Path, store: Store,
            arguments: argparse.Namespace) -> int:
    """Repeat runs of one engine and tell of each; returns how many differ."""
    before = {run_dir: plans.read(run_dir) for run_dir in run_dirs}
    engine = _repetition.engine_for(arguments, before[run_dirs[0]].engine,
                                    _repetition.environment_of(run_dirs[0]), names[run_dirs[0].name])
    for was in before.values():
        _check_inputs(was, folder)
        _build_modules(was, engine, folder)
    now = {run_dir: _repetition.with_todays_code(was, engine) for run_dir, was in before.items()}
    executor = executors.load(executors.DEFAULT)(engine, store, arguments.jobs)
    campaign.carry_out(list(now.values()), executor, store, indexed=False)
    wrong = 0
    for run_dir, was in before.items():
        record = read_record(run_dir) or RunRecord({})
        again = read_record(store.run_dir(now[run_dir].id)) or RunRecord({})
        name = names[run_dir.name]
        different = _repetition.different_files(record.raw_files_sha256 or {}, again.raw_files_sha256 or {})
        if not different and again.status == "finished":
            print(f"identical: {name}, SHA-256 {again.raw_sha256}")
            continue
        wrong += 1
        besides = _repetition.differences(was, now[run_dir], _repetition.environment_of(run_dir),
                                          _repetition.environment_of(store.run_dir(now[run_dir].id)))
        what = f"the repetition failed: {again.error}" if again.error else \
            f"different data in {', '.join(different)}"
        print_error(f"{name}: {what}; what differs besides: {'; '.join(besides) or 'nothing that is known of'}")
    return wrong


def _check_inputs(was: plans.Plan, folder: pathlib.Path) -> None:
    """UsageError if a file that traffic is made from is not where the plan has it."""
    for name, sha256 in was.inputs.items():
        path = pathlib.Path(name)
        if not path.is_file() or pack.sha256_of_bytes(path) != sha256:
            raise UsageError(f"{path}: the runs were made from a file at this path with SHA-256 {sha256[:16]}...; put "
                             f"inputs/{sha256} of the pack there")


def _build_modules(was: plans.Plan, engine: EngineBase, folder: pathlib.Path) -> None:
    """Build what the pack has the sources of, unless it is in the cache."""
    for variant in was.variants:
        sha256 = variant.module_sha256
        if sha256 and engine.find_module(sha256) is None:
            # beside a .c file lies what it includes
            source = folder / "modules" / sha256 / pathlib.PurePath(variant.module or "").name
            built = engine.build_module(str(source), _shared.reporter())
            if built.sha256 != sha256:
                raise UsageError(f"{variant.name}: its sources in the pack are not what the run was made from")

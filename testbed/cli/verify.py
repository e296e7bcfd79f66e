# SPDX-License-Identifier: GPL-2.0-only
"""Run a finished run again and compare every raw file with the first, byte for byte.

The same plan on the same kernel must give the same data; a difference is reported per file, together
with what differs in the code, the kernel, the programs and the libraries. The repetition is made in a
temporary folder and removed.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import shutil
import tempfile
from typing import Any

from testbed import campaign, engines, executors, experiment, plan
from testbed.cli import _shared
from testbed.errors import NotReproducible, TestbedError, UsageError
from testbed.files import hash_raw
from testbed.store import Store, read_record

HELP = "repeat a run and compare hashes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="a run, such as results/access-link-load60/runs/cubic-seed1, or its id")
    _shared.add_engine_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    run_dir = experiment.find_run(arguments.run)
    record = read_record(run_dir)
    if not record or record.get("status") != "finished":
        raise UsageError(f"{run_dir}: this run did not finish; there is nothing to compare with")
    was = plan.read(run_dir)
    _check_raw(run_dir, record)
    before = _environment(run_dir)
    if arguments.kernel is None and isinstance(before.get("kernel_spec"), str):
        arguments.kernel = before["kernel_spec"]
    if arguments.hz is None and isinstance(before.get("kernel_hz"), int):
        arguments.hz = before["kernel_hz"]
    if arguments.ns3 is None and isinstance(before.get("ns3_path"), str):
        arguments.ns3 = before["ns3_path"]
    arguments.engine = was.engine
    engine = engines.load(was.engine, _shared.engine_options(arguments))
    if engine.capabilities.clock == "real":
        raise UsageError(f"{run_dir}: a run of engine {engine.name} cannot be repeated to the byte, since it took "
                         "place on a wall clock: compare seeds instead")
    engine.prepare(_shared.reporter())
    # with today's code, or a repetition could not be told from the run itself
    now = dataclasses.replace(was, guest_code=engine.code_sha256(), kernel_key=engine.kernel_key())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="verify-", dir=_room(run_dir)))
    try:
        store = Store(folder)
        store.create()
        failures = campaign.carry_out([now], executors.load(executors.DEFAULT)(engine, store, 1), store, indexed=False)
        differences = _differences(was, now, before, _environment(store.run_dir(now.id)))
        for line in differences:
            print(f"note: {line}")
        if failures:
            raise NotReproducible(f"the repetition failed: {'; '.join(failures.values())}")
        again = read_record(store.run_dir(now.id)) or {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    one, other = record["raw_files_sha256"], again["raw_files_sha256"]
    different = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    if different:
        raise NotReproducible(f"different data in {', '.join(different)}; what differs besides: "
                              + ("; ".join(differences) or "nothing that is known of"))
    print(f"identical: {len(one)} raw files, SHA-256 over all {record['raw_sha256']}")
    return 0


def _check_raw(run_dir: pathlib.Path, record: dict[str, Any]) -> None:
    """NotReproducible unless the raw files are as the run left them."""
    noted = record.get("raw_files_sha256")
    if not isinstance(noted, dict) or not noted:
        raise UsageError(f"{run_dir / 'run.json'}: damaged: raw_files_sha256 is missing")
    try:
        on_disk, _ = hash_raw(run_dir)
    except (OSError, EOFError) as problem:
        raise NotReproducible(f"{run_dir}: raw files are not as the run left them: {problem}") from None
    except Exception as problem:                # zlib's own, of a damaged .gz
        raise NotReproducible(f"{run_dir}: raw files are not as the run left them: "
                              f"{type(problem).__name__}: {problem}") from None
    changed = sorted(name for name in {*noted, *on_disk} if on_disk.get(name) != noted.get(name))
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


def _environment(run_dir: pathlib.Path) -> dict[str, Any]:
    try:
        value = json.loads((run_dir / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise TestbedError(f"{run_dir / 'environment.json'}: not readable") from None
    return value if isinstance(value, dict) else {}


def _differences(was: plan.Plan, now: plan.Plan, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not the same in what the two runs were made from, in words."""
    found = []
    if was.guest_code != now.guest_code:
        found.append(f"the testbed's code that runs inside (was {was.guest_code[:12]}, is {now.guest_code[:12]})")
    if was.kernel_key != now.kernel_key:
        found.append(f"the kernel (was {was.kernel_key}, is {now.kernel_key})")
    for section in ("files_sha256", "packages"):
        one, other = before.get(section) or {}, after.get(section) or {}
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{name} (was {str(one.get(name, 'none'))[:24]}, is {str(other.get(name, 'none'))[:24]})"
                      for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    return found

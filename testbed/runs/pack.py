# SPDX-License-Identifier: GPL-2.0-only
"""A pack: an experiment as one file, from which another machine can repeat it and compare.

    pack.json           what is in it: files and their SHA-256, the experiment's name, versions
    experiment.json     the list of runs
    report/             as it was when the pack was made
    runs/<id>/          plan.json, run.json (hashes of raw data), environment.json, metrics.csv, verdict.json ...
    kernel/             configuration of the guest kernel, and the patches that it was built with
    modules/<sha256>/   sources of modules
    inputs/<sha256>     files that traffic was made from; what was synthesised has its recipe in the plan
    code.json           SHA-256 of each file of the testbed

Raw data is left out unless wanted: its hashes are enough to tell whether a repetition is the same.
"""
from __future__ import annotations

import hashlib
import json
import lzma
import pathlib
import shutil
from typing import TypedDict, cast

import kernel
from testbed import PROJECT_DIR, __version__
from testbed.core import archive, environment
from testbed.core.errors import TestbedError, UsageError
from testbed.core.files import write_json
from testbed.core.run_files import Environment
from testbed.runs import experiment, plan as plans
from testbed.runs.store import RUNS, read_record
from traffic.workload.records import Variant

SCHEMA = 1
SUFFIX = ".pack.tar.xz"
#: unpacked; more is no pack but an attack, or has raw data that is better sent by itself
MOST_BYTES = 50 << 30
_OF_RUN = ("plan.json", "run.json", "environment.json", "metrics.csv", "verdict.json", "derived.json", "log.txt")
_CODE = ("analysis", "ccas", "kernel", "kernel-modules", "scenarios", "simulation", "testbed", "topologies", "traffic")


class About(TypedDict):
    """pack.json; files: {path in the pack: SHA-256}"""
    schema: int
    name: str
    testbed_version: str
    code_version: str | None
    files: dict[str, str]


def make(folder: pathlib.Path, target: pathlib.Path, raw: bool, scratch: pathlib.Path) -> About:
    """Write the pack of an experiment; returns its pack.json. UsageError if a run is missing or did not finish.

    raw: with the raw data; scratch: an empty folder.
    """
    described = experiment.read(folder)
    shutil.copyfile(folder / "experiment.json", scratch / "experiment.json")
    if (folder / "report").is_dir():
        shutil.copytree(folder / "report", scratch / "report")
    for run in [*described.runs, *described.idle]:
        run_dir = folder.parent / RUNS / run.id
        record = read_record(run_dir)
        if not record or record.status != "finished":
            raise UsageError(f"{folder.name}: {run.name} is missing or did not finish: the same `testbed run` carries "
                             f"it out, and `testbed runs drop {folder.name} {run.name} --why TEXT` takes it off the "
                             "list")
        _add_run(run_dir, scratch, raw)
    write_json(scratch / "code.json", _code())
    about: About = {"schema": SCHEMA, "name": folder.name, "testbed_version": __version__,
                    "code_version": environment.code_version(), "files": _hashes(scratch)}
    write_json(scratch / "pack.json", about)
    partial = target.with_name(f".{target.name}.part")
    try:
        with lzma.open(partial, "wb") as stream:
            archive.pack(scratch, stream)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return about


def _add_run(run_dir: pathlib.Path, scratch: pathlib.Path, raw: bool) -> None:
    plan = plans.read(run_dir)
    target = scratch / RUNS / run_dir.name
    target.mkdir(parents=True)
    for name in _OF_RUN:
        if (run_dir / name).is_file():
            shutil.copyfile(run_dir / name, target / name)
    if raw:
        shutil.copytree(run_dir / "raw", target / "raw")
    for path, sha256 in plan.inputs.items():
        _add(pathlib.Path(path), scratch / "inputs" / sha256, sha256)
    for variant in plan.variants:
        if variant.module_sha256:
            _add_module(variant, scratch / "modules" / variant.module_sha256)
    of = run_dir / "environment.json"
    _add_kernel(Environment(json.loads(of.read_text(encoding="utf-8")), str(of)), scratch / "kernel")


def _add(path: pathlib.Path, target: pathlib.Path, sha256: str) -> None:
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        try:
            shutil.copyfile(path, target)
        except OSError as problem:
            raise UsageError(f"{path}: {problem.strerror}; a run was made from it") from None
        if sha256_of_bytes(target) != sha256:
            raise UsageError(f"{path}: not what the run was made from any more")


def _add_module(variant: Variant, target: pathlib.Path) -> None:
    if target.exists():
        return
    source = pathlib.Path(variant.module or "")
    try:
        same = kernel.modules.digest_of(source) == variant.module_sha256
    except kernel.ModuleError as problem:
        raise UsageError(f"{variant.name}: {problem}; a run was made from it") from None
    if not same:
        raise UsageError(f"{variant.name}: {source} is not what the run was made from any more")
    target.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, target / source.name)
        return
    for relative in kernel.modules.sources(source):
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.parent / relative, target / relative)


def _add_kernel(environment_of_run: Environment, target: pathlib.Path) -> None:
    """What the guest kernel was built from, as far as it is not its source."""
    key = environment_of_run.kernel_key
    if not isinstance(key, str) or (target / key).exists():
        return
    built = kernel.find(environment_of_run.kernel_spec, environment_of_run.kernel_hz or kernel.USUAL_HZ,
                        environment_of_run.kernel_options)
    (target / key).mkdir(parents=True)
    if built is not None and built.key == key:
        shutil.copyfile(built.build_dir / ".config", target / key / "config")
    if not (target / "patches").exists():
        shutil.copytree(PROJECT_DIR / "kernel/patches", target / "patches")


def _code() -> dict[str, str]:
    """{file: SHA-256} of this checkout's code and data."""
    return {str(path.relative_to(PROJECT_DIR)): sha256_of_bytes(path) for folder in _CODE
            for path in sorted((PROJECT_DIR / folder).rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts}


def _hashes(folder: pathlib.Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): sha256_of_bytes(path) for path in files}


def sha256_of_bytes(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_one(path: pathlib.Path) -> bool:
    """Whether a file is meant to be a pack."""
    return path.is_file() and path.name.endswith(".tar.xz")


def unpack(path: pathlib.Path, folder: pathlib.Path) -> About:
    """Unpack into a new folder; returns pack.json. UsageError, in one line, if the pack is not whole."""
    try:
        with lzma.open(path, "rb") as stream:
            archive.unpack(stream, folder, MOST_BYTES)
        about = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
        if not isinstance(about, dict) or about.get("schema") != SCHEMA or not isinstance(about.get("files"), dict):
            raise UsageError(f"{path}: not a pack of this version of the testbed")
        there = _hashes(folder)
    except (archive.BadArchive, lzma.LZMAError, OSError, EOFError, ValueError, RecursionError) as problem:
        raise UsageError(f"{path}: damaged, or not a pack: {problem}") from None
    del there["pack.json"]
    different = sorted(name for name in {*there, *about["files"]} if there.get(name) != about["files"].get(name))
    if different:
        raise UsageError(f"{path}: damaged: {', '.join(different[:5])}{' ...' if len(different) > 5 else ''} "
                         f"{'are' if len(different) > 1 else 'is'} not what was packed")
    return cast(About, about)


def other_code(folder: pathlib.Path) -> list[str]:
    """Files of the testbed that differ between an unpacked pack and this checkout."""
    packed, here = json.loads((folder / "code.json").read_text(encoding="utf-8")), _code()
    if not isinstance(packed, dict):
        raise TestbedError("code.json: {file: SHA-256} expected")
    return sorted(name for name in {*packed, *here} if packed.get(name) != here.get(name))

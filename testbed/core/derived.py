# SPDX-License-Identifier: GPL-2.0-only
"""Files of a run that are made from its raw data: which of them are still true.

verdict.json and metrics.csv can be made again at any time. derived.json notes, for each of them, the hash
of the file itself, of the code that made it and of the raw data it was made from: a file of which one of
these has changed (an edited check, an edited number) is made again. Raw data is only ever read.
"""
from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping

from testbed import PROJECT_DIR
from testbed.core import imports
from testbed.core.errors import DamagedRun
from testbed.core.files import sha256_of, write_json, write_text
from testbed.core.run_files import RunRecord

NAME = "derived.json"

_Code = tuple[str, tuple[pathlib.Path, ...]]


def check_raw(run_dir: pathlib.Path, record: RunRecord) -> None:
    """DamagedRun if raw/ is not what was sealed; record: run.json.

    Files older than run.json, which was written last, are taken to be as they were; others are hashed.
    """
    for problem in _changes(run_dir, record, hash_all=False):
        raise DamagedRun(problem)


def edited_files(run_dir: pathlib.Path, record: RunRecord) -> list[str]:
    """What of raw/ is not as it was sealed: a line for each file. All are hashed, whatever their times say."""
    return list(_changes(run_dir, record, hash_all=True))


def _changes(run_dir: pathlib.Path, record: RunRecord, hash_all: bool) -> Iterator[str]:
    """Files of raw/ that are missing, have come, or have another hash."""
    wanted = record.raw_files_sha256
    if not isinstance(wanted, dict) or not wanted or not isinstance(record.raw_sha256, str):
        raise DamagedRun(f"{run_dir / 'run.json'}: raw_files_sha256 and raw_sha256 expected, hashes of raw files")
    try:
        since_ns = 0 if hash_all else (run_dir / "run.json").stat().st_mtime_ns
        there = {path.name: path for path in (run_dir / "raw").iterdir()}
        for name in sorted(wanted.keys() | there.keys()):
            if name not in there:
                yield f"{run_dir / 'raw' / name}: file is missing"
            elif name not in wanted:
                yield f"{there[name]}: the run did not leave this file; remove it"
            elif there[name].stat().st_mtime_ns >= since_ns and _hash(there[name]) != wanted[name]:
                yield f"{there[name]}: not what the run left (its hash is not the one in run.json)"
    except OSError as problem:
        raise DamagedRun(f"{problem.filename or run_dir}: {problem.strerror or problem}") from None


def _hash(path: pathlib.Path) -> str:
    """Hash of a file; '' if it cannot even be unpacked."""
    try:
        return sha256_of(path)
    except Exception as problem:            # gzip and zlib have errors of their own
        if isinstance(problem, OSError) and problem.errno:
            raise
        return ""


def fresh(run_dir: pathlib.Path, name: str, code_sha256: str, raw_sha256: str) -> dict[str, object] | None:
    """What derived.json notes of a file, None if the file has to be made again."""
    found = noted(run_dir, name)
    if found.get("code_sha256") != code_sha256 or found.get("raw_sha256") != raw_sha256:
        return None
    try:
        return found if found.get("sha256") == sha256_of(run_dir / name) else None
    except OSError:
        return None


def noted(run_dir: pathlib.Path, name: str) -> dict[str, object]:
    """What derived.json says of a file, {} if nothing."""
    found = _read(run_dir).get(name)
    return found if isinstance(found, dict) else {}


def keep(run_dir: pathlib.Path, name: str, text: str, code_sha256: str, raw_sha256: str, **more: object) -> None:
    """Write a file, and note it. OSError if the folder cannot be written to."""
    with _locked(run_dir):
        write_text(run_dir / name, text)
        note: dict[str, object] = {
            "sha256": sha256_of(run_dir / name), "code_sha256": code_sha256, "raw_sha256": raw_sha256, **more}
        write_json(run_dir / NAME, _read(run_dir) | {name: note})


def _read(run_dir: pathlib.Path) -> dict[str, object]:
    """derived.json; {} if there is none that can be read: then everything is made again."""
    try:
        found = json.loads((run_dir / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def errors_of(note: Mapping[str, object]) -> list[dict[str, str]]:
    """The errors {where, message, traceback} that derived.json notes of a file."""
    errors = note.get("errors")
    return [{key: str(error.get(key, "")) for key in ("where", "message", "traceback")}
            for error in (errors if isinstance(errors, list) else []) if isinstance(error, dict)]


@contextlib.contextmanager
def _locked(run_dir: pathlib.Path) -> Iterator[None]:
    """One writer of derived.json at a time."""
    folder = os.open(run_dir, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):      # not every file system has locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def code_sha256(places: Iterable[str | pathlib.Path]) -> str:
    """Hash of the code in files, and in the folders of packages, and of all ours that it imports, directly or not."""
    begin = _files(places)
    if begin in _hashes:
        return _hashes[begin]
    found: dict[str, str] = {}
    closure = _closure(begin)
    for path, (digest, _) in closure.items():
        found.setdefault(str(path.relative_to(PROJECT_DIR)) if path.is_relative_to(PROJECT_DIR) else path.name, digest)
    code = hashlib.sha256("".join(f"{name} {value}\n" for name, value in sorted(found.items())).encode()).hexdigest()
    if closure.keys() <= _imported.keys():      # then it stays what it is
        _hashes[begin] = code
    return code


def import_all(places: Iterable[str | pathlib.Path]) -> None:
    """Import what code_sha256(places) covers, once for all processes that are forked from this one.

    For the rest of this process these files count as what they were when they were imported, edited or not. If one
    cannot be imported, or changes meanwhile, all are left as they are: whoever needs it will say so.
    """
    found = {path: code for path, code in _closure(_files(places)).items() if path.is_relative_to(PROJECT_DIR)}
    for path in found:
        parts = path.relative_to(PROJECT_DIR).with_suffix("").parts
        try:
            importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        except Exception:
            return
    if all(_as_it_is(path) == code for path, code in found.items()):
        _imported.update(found)


#: files that were imported, as they were then: (hash, files of ours that it imports)
_imported: dict[pathlib.Path, _Code] = {}
#: what code_sha256 said of files that were all imported
_hashes: dict[tuple[pathlib.Path, ...], str] = {}


def _files(places: Iterable[str | pathlib.Path]) -> tuple[pathlib.Path, ...]:
    return tuple(sorted(path for place in map(pathlib.Path, places)
                        for path in (place.glob("*.py") if place.is_dir() else (place,))))


def _closure(files: Iterable[pathlib.Path]) -> dict[pathlib.Path, _Code]:
    """These files, and all of ours that they import."""
    found: dict[pathlib.Path, _Code] = {}
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = _imported.get(path) or _as_it_is(path)
            waiting.extend(found[path][1])
    imports.save()
    return found


def _as_it_is(path: pathlib.Path) -> _Code:
    stat = path.stat()
    return _code(path, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=1024)
def _code(path: pathlib.Path, _mtime_ns: int, _size: int) -> _Code:
    """(hash, files of ours that it imports) of a Python file."""
    source = path.read_bytes()
    package = path.relative_to(PROJECT_DIR).parts[:-1] if path.is_relative_to(PROJECT_DIR) else ()
    imported = {PROJECT_DIR / file for module in imports.modules_of(source, package)
                for file in imports.files_of(module, PROJECT_DIR)}
    return hashlib.sha256(source).hexdigest(), tuple(sorted(imported))

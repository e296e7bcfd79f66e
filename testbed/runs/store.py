# SPDX-License-Identifier: GPL-2.0-only
"""Where runs are kept: one folder for each plan, sealed when its raw data is complete.

    results/runs/<id>/                a run: plan.json, run.json, raw/ ... (docs/reference/run-folder.md)
    results/runs/.claim-<id>          who is carrying the plan out at this moment
    results/runs/.partial-<id>-...    what they have so far
    results/runs/.pin-<id>            this run is not to be removed, and why

A claim names its host, boot and process, and is renewed while the work goes on: the same host sees
at once whether the process still lives, other hosts wait until the lease has run out.
"""
from __future__ import annotations

import contextlib
import glob
import json
import os
import pathlib
import shutil
import socket
import threading
import time
import zlib
from collections.abc import Iterator

from testbed.core import derived
from testbed.core.errors import DamagedRun, EnvironmentProblem, RunFailed
from testbed.core.files import hash_raw, why_unwritable, write_json, write_text
from testbed.core.run_files import Plan as PlanRecord, RunRecord

SCHEMA = 2
RUNS = "runs"
#: a claim that was not renewed for so long is nobody's any more; it is renewed four times as often
LEASE_S = 120.0
_WAIT_S = 0.5


def results_dir() -> pathlib.Path:
    """Where everything goes: TESTBED_RESULTS, or `results` in the current folder."""
    return pathlib.Path(os.environ.get("TESTBED_RESULTS") or "results").absolute()


def read_record(run_dir: pathlib.Path) -> RunRecord | None:
    """run.json of a run, or None if there is none that can be read."""
    try:
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        return None
    return RunRecord(record, str(run_dir / "run.json"))


def plan_of(run_dir: pathlib.Path) -> PlanRecord | None:
    """plan.json of a run as it stands there, None if there is none that can be read."""
    try:
        found = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return PlanRecord(found, str(run_dir / "plan.json")) if isinstance(found, dict) else None


class Store:
    """The runs below a results folder."""

    def __init__(self, results: pathlib.Path) -> None:
        self.results = results
        self.runs = results / RUNS

    def run_dir(self, run_id: str) -> pathlib.Path:
        return self.runs / run_id

    def finished(self, run_id: str) -> RunRecord | None:
        """run.json of a finished run, None if there is none."""
        record = read_record(self.run_dir(run_id))
        return record if record and record.status == "finished" and \
            (self.run_dir(run_id) / "raw").is_dir() else None

    def damage(self, run_id: str) -> str:
        """What of a finished run's raw data is not as the run left it, in words; '' if all is."""
        try:
            derived.check_raw(self.run_dir(run_id), self.finished(run_id) or RunRecord({}))
        except DamagedRun as problem:
            return str(problem)
        return ""

    def require_writable(self) -> None:
        """EnvironmentProblem if runs and lists of them cannot be written; makes nothing."""
        for folder in (self.results, self.runs):
            if why := why_unwritable(folder):
                raise EnvironmentProblem(f"results cannot be written: {why}; --results FOLDER names another folder")

    def create(self) -> None:
        """Make the folder, and remove what commands that were killed left in it."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise EnvironmentProblem(f"cannot make {self.runs}: {problem.strerror}") from None
        for claim in self.runs.glob(".claim-*"):
            if not _alive(claim):
                claim.unlink(missing_ok=True)
        for left in [*self.runs.glob(".partial-*"), *self.runs.glob(".shared-*"), *self.runs.glob(".old-*")]:
            if not _owner_alive(left.name.split("-", 2)[2]):
                shutil.rmtree(left, ignore_errors=True)

    def under_way(self) -> dict[str, pathlib.Path | None]:
        """{id: what there is of it so far} of the runs that somebody carries out at this moment; only looks."""
        found: dict[str, pathlib.Path | None] = {}
        for claim in sorted(self.runs.glob(".claim-*")):
            run_id = claim.name.removeprefix(".claim-")
            if _alive(claim):
                found[run_id] = next((path for path in self.runs.glob(f".partial-{glob.escape(run_id)}-*")
                                      if _owner_alive(path.name.split("-", 2)[2])), None)
        return found

    @contextlib.contextmanager
    def claim(self, run_id: str, again: bool = False) -> Iterator[pathlib.Path | None]:
        """A new folder to fill for this run, or None if it is finished (and not wanted `again`).

        Waits while another process has the claim: it may finish the run meanwhile. What is in the
        folder when the block ends without `seal` is removed.
        """
        path = self.runs / f".claim-{run_id}"
        began = time.time()
        while not _take(path):
            time.sleep(_WAIT_S)
        partial = self.runs / f".partial-{run_id}-{_me()}"
        stop = threading.Event()
        renewing = threading.Thread(target=_renew, args=(path, stop), daemon=True)
        renewing.start()
        try:
            record = self.finished(run_id)
            if record and (not again or record.ended_at > began):
                yield None
                return
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            yield partial
        finally:
            stop.set()
            renewing.join()
            shutil.rmtree(partial, ignore_errors=True)
            path.unlink(missing_ok=True)

    def seal(self, partial: pathlib.Path, run_id: str, record: dict[str, object]) -> pathlib.Path:
        """Hash the raw data, note it in run.json, and put the folder in its place; returns that.

        From here on nothing changes what is in raw/, whatever becomes of verdict and metrics. A run that
        failed takes its place, too, unless there is a finished one.
        """
        if record["status"] == "finished":
            record["raw_files_sha256"], record["raw_sha256"] = hash_raw(partial)
        elif self.finished(run_id):
            return self.run_dir(run_id)
        write_json(partial / "run.json", record)
        return self._put_in_place(partial, run_id)

    def adopt(self, partial: pathlib.Path, run_id: str) -> pathlib.Path:
        """Put a run that was sealed elsewhere in its place; returns that.

        RunFailed if it is not the run, or its raw data is not what was sealed. As `seal`, a failed run never replaces
        a finished one.
        """
        record = read_record(partial)
        plan = plan_of(partial)
        if record is None or plan is None or not record.id == plan.id == run_id:
            raise RunFailed(f"what came is not run {run_id}")
        if record.status == "finished":
            try:
                sound = hash_raw(partial) == (record.raw_files_sha256, record.raw_sha256)
            except (OSError, EOFError, zlib.error):
                sound = False
            if not sound:
                raise RunFailed(f"run {run_id}: the raw data that came is not what was sealed")
        elif self.finished(run_id):
            return self.run_dir(run_id)
        return self._put_in_place(partial, run_id)

    def _put_in_place(self, partial: pathlib.Path, run_id: str) -> pathlib.Path:
        final = self.run_dir(run_id)
        old = self.runs / f".old-{run_id}-{_me()}"
        if final.exists() or final.is_symlink():
            os.rename(final, old)
        os.rename(partial, final)
        shutil.rmtree(old, ignore_errors=True)
        return final

    def remove(self, run_id: str) -> bool:
        """Remove a run and its pin; False if somebody is carrying it out at this moment."""
        claim = self.runs / f".claim-{run_id}"
        if not (_take(claim) or _take(claim)):              # the first may have buried a dead one
            return False
        try:
            old = self.runs / f".old-{run_id}-{_me()}"
            os.rename(self.run_dir(run_id), old)
            self.unpin(run_id)
            old.unlink() if old.is_symlink() else shutil.rmtree(old)
        finally:
            claim.unlink(missing_ok=True)
        return True

    def remove_folder(self, folder: pathlib.Path) -> None:
        """Remove a folder of the results at once: what an interruption leaves of it, `create` takes away."""
        old = self.runs / f".old-{'0' * 16}-{_me()}"
        self.runs.mkdir(exist_ok=True)
        os.rename(folder, old)
        shutil.rmtree(old)

    def pin(self, run_id: str, reason: str) -> None:
        """Keep a run from being removed; what repeats or replaces it leaves that so."""
        write_text(self._pin(run_id), reason + "\n")

    def unpin(self, run_id: str) -> None:
        self._pin(run_id).unlink(missing_ok=True)

    def pins(self) -> dict[str, str]:
        """{id: reason} of the runs that are pinned."""
        return {path.name.removeprefix(".pin-"): path.read_text(encoding="utf-8", errors="replace").strip()
                for path in sorted(self.runs.glob(".pin-*")) if not path.name.endswith(".part")}

    def _pin(self, run_id: str) -> pathlib.Path:
        return self.runs / f".pin-{run_id}"

    @contextlib.contextmanager
    def shared_folder(self) -> Iterator[pathlib.Path]:
        """A folder for what the runs of one command have in common; gone afterwards."""
        folder = self.runs / f".shared-{'0' * 16}-{_me()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _host() -> str:
    return "".join(c if c.isalnum() else "_" for c in socket.gethostname()) or "host"


def _boot_id() -> str:
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "unknown"


def _started(pid: int) -> str | None:
    """When a process was started, in ticks since boot; None if there is no such process (or it is dead)."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _me() -> str:
    """This process among all processes of all hosts, as the end of a file name."""
    return f"{_host()}-{_boot_id()}-{os.getpid()}-{_started(os.getpid())}"


def _owner_alive(owner: str) -> bool:
    """Whether the process named by `_me()` lives; one of another host is taken to."""
    try:
        host, boot, pid, started = owner.rsplit("-", 3)
        return host != _host() or boot == _boot_id() and _started(int(pid)) == started
    except ValueError:
        return False


def _alive(claim: pathlib.Path) -> bool:
    """Whether a claim is still somebody's."""
    try:
        owner, renewed = claim.read_text(), claim.stat().st_mtime
    except OSError:
        return False
    if not owner:
        return time.time() - renewed < 5                    # it is being written at this moment
    if owner.startswith(_host() + "-"):
        return _owner_alive(owner)
    return time.time() - renewed < LEASE_S


def _take(path: pathlib.Path) -> bool:
    """Take a claim if it is free, or nobody's any more."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        if _alive(path):
            return False
        # only one of several that see this moves the dead claim away
        grave = path.with_name(f".dead-{path.name}-{_me()}")
        with contextlib.suppress(OSError):
            os.rename(path, grave)
            if _alive(grave):                               # a new one, taken since we looked: give it back
                os.rename(grave, path)
            else:
                grave.unlink()
        return False
    with open(fd, "w") as file:
        file.write(_me())
    return True


def _renew(path: pathlib.Path, stop: threading.Event) -> None:
    while not stop.wait(LEASE_S / 4):
        with contextlib.suppress(OSError):
            os.utime(path)

# SPDX-License-Identifier: GPL-2.0-only
"""Kernel sources of other Debian releases than the user's, without touching the user's apt.

A second set of package lists, in the testbed's cache: same mirror, same proxy, same
signature checks, other suites. `look` fetches the lists and notes what linux-source packages there
are; everything else reads that note, so that asking for a version costs nothing.
"""
from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator

#: code names: caching mirrors have been seen to serve old lists under `stable-backports` and the like
_SUITES = ("bookworm", "trixie", "trixie-backports", "forky", "sid", "experimental")
_KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PACKAGE = "linux-source-"
# what packages have put into apt's configuration to be run after an update is meant for the user's lists;
# whatever the user allows there, nothing unsigned is taken here
_CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
Acquire::Languages "none";
Acquire::PDiffs "false";
"""


class AptError(Exception):
    """apt cannot be asked; the message says why."""


class OtherReleases:
    """The linux-source packages of Debian's other releases; `folder` is where the lists are kept."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._note = folder / "sources.json"

    def versions(self) -> dict[str, str]:
        """{"7.2": Debian's version of the package}, as of the last look; {} if there was none."""
        try:
            found = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError):                       # never looked, or a note that is not whole
            return {}
        good = isinstance(found, dict) and all(re.fullmatch(r"[0-9]+(\.[0-9]+)+", version) for version in found)
        return {version: str(debian) for version, debian in found.items()} if good else {}

    def newest(self) -> str | None:
        """The highest version, such as "7.2", as of the last look; None if there was none. Release
        candidates do not count."""
        finished = [version for version, debian in self.versions().items() if "~rc" not in debian]
        return max(finished, key=lambda version: [int(part) for part in version.split(".")]) if finished else None

    def age_days(self) -> float:
        """How long ago the last look was; infinite if there was none."""
        try:
            age = (time.time() - self._note.stat().st_mtime) / 86400
        except OSError:
            return float("inf")
        return age if self.versions() else float("inf")

    def look(self, report: Callable[[str], None]) -> None:
        """Fetch the package lists (some 40 MB). AptError if that is not possible."""
        with self._lock():
            self._configure()
            report("looking for kernels in other Debian releases")
            done = self._apt("apt-get", "-q", "update")
            found = self._find()
            if not found:
                raise AptError(f"the package lists of other Debian releases cannot be had: {_complaint(done)}")
            if done.returncode:                 # apt leaves out what is missing or not signed as it should
                report(f"not all package lists of other Debian releases can be had: {_complaint(done)}")
            part = self._note.with_suffix(".part")
            part.write_text(json.dumps(found, indent=1))
            os.replace(part, self._note)

    def download(self, version: str, folder: pathlib.Path) -> None:
        """Fetch linux-source-`version` into `folder`. AptError if it is gone or not signed as it should."""
        with self._lock():
            done = self._apt("apt-get", "-q", "download", f"{_PACKAGE}{version}={self.versions()[version]}", cwd=folder)
        if done.returncode:
            raise AptError(_complaint(done))

    def _configure(self) -> None:
        if not _KEYRING.is_file():
            raise AptError(f"{_KEYRING} is missing, which signatures are checked with: "
                           "apt-get install debian-archive-keyring")
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        (self._folder / "apt.conf").write_text(_CONFIGURATION)
        (self._folder / "debian.sources").write_text(
            f"Types: deb\nURIs: {_mirror()}\nSuites: {' '.join(_SUITES)}\nComponents: main\nArchitectures: amd64\n"
            f"Targets: Packages\nSigned-By: {_KEYRING}\n")

    def _find(self) -> dict[str, str]:
        """{version: highest Debian version of its linux-source package} of the lists fetched."""
        said = self._apt("apt-cache", "search", "--names-only", rf"^{_PACKAGE}[0-9.]+$").stdout
        names = [line.split()[0] for line in said.splitlines()]
        found: dict[str, str] = {}
        if names:
            for line in self._apt("apt-cache", "madison", *names).stdout.splitlines():
                name, version, _ = (column.strip() for column in line.split("|"))
                found.setdefault(name.removeprefix(_PACKAGE), version)      # the highest comes first
        return found

    def _apt(self, program: str, *arguments: str,
             cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
        own = [f"Dir::State={self._folder}/state", f"Dir::Cache={self._folder}/cache", "Dir::Etc::sourceparts=-",
               f"Dir::Etc::sourcelist={self._folder}/debian.sources", "Dir::Etc::preferences=-",
               "Dir::Etc::preferencesparts=-"]
        options = [word for option in own for word in ("-o", option)]
        return subprocess.run([program, "-c", f"{self._folder}/apt.conf", *options, *arguments], cwd=cwd, check=False,
                              env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._folder / "lock", "w", encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield


def candidate(package: str) -> str | None:
    """The version that the user's own apt would install; None if it knows no such package."""
    return _candidate(package, os.environ.get("PATH"), os.environ.get("APT_CONFIG"))


@functools.lru_cache(maxsize=100)       # apt-cache takes half a second of CPU time, and a command asks several times
def _candidate(package: str, *_environment: str | None) -> str | None:
    try:
        shown = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True,
                               check=False).stdout
    except FileNotFoundError:
        raise AptError("apt-cache is missing: not a Debian system? Give a kernel tree with --kernel PATH") from None
    match = re.search(r"Candidate: (\S+)", shown)
    return match.group(1) if match and match.group(1) != "(none)" else None


def _mirror() -> str:
    """The Debian mirror of the user's own apt configuration."""
    try:
        command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"]
        targets = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        raise AptError("apt-get is missing: not a Debian system? Give a kernel tree with --kernel PATH") from None
    for line in targets.splitlines():
        origin, label, uri = line.split("|", 2)
        if origin == label == "Debian" and not uri.startswith(("cdrom:", "file:", "copy:")):
            return uri
    raise AptError("apt knows no Debian mirror: run `apt-get update`, or give a kernel tree with --kernel PATH")


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The errors of apt, and what helps if a key is missing."""
    said = "\n".join(line for line in (done.stderr or done.stdout).splitlines()
                     if not line.startswith("W: Download is performed unsandboxed"))
    if "NO_PUBKEY" in said:
        said += "\n(newer releases are signed with newer keys: apt-get install debian-archive-keyring)"
    return said.strip() or "no linux-source package in them"

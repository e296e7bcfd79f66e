# SPDX-License-Identifier: GPL-2.0-only
"""The virtual machine of Vagrantfile: whether it is there, starting it, asking it to do something (inside.py)."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO, TypedDict

from testbed import PROJECT_DIR, engines
from testbed.core import archive
from testbed.core.errors import EnvironmentProblem, RunFailed
from testbed.runs.engine import OnProgress, Problem, Report

#: where Vagrantfile puts the project
INSIDE = "/vagrant"
_PROGRAM = f"sudo -n /usr/bin/python3 -P -s {INSIDE}/testbed/engines/vagrant/inside.py"
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=20",
            "-o", "ConnectTimeout=120")
_ELSEWHERE = f"or take --engine {engines.DEFAULT}, which needs none of it"
_NO_PROVIDER = Problem("vagrant has no provider: neither VirtualBox nor the plugin vagrant-libvirt is installed",
                       f"apt-get install vagrant-libvirt libvirt-daemon-system, {_ELSEWHERE}")
#: where Debian has Vagrant's plugins; asking Vagrant takes seconds
_GEMS = pathlib.Path("/usr/share/rubygems-integration/all/gems")
#: exit status of ssh where the connection, not the command, failed
_SSH_FAILED = 255
_MOST_WORDS = 400


class Reply(TypedDict, total=False):
    """The last message of the other side; bytes: of an archive that follows."""
    answer: dict[str, object]
    error: str
    bytes: int


class Machine:
    """One per command. What it learns of the machine's address serves all of it."""

    def __init__(self) -> None:
        self._ssh_config: str | None = None

    def problems(self) -> list[Problem]:
        """What keeps Vagrant from having a machine here, without asking for the machine itself."""
        for program, package in (("vagrant", "vagrant"), ("ssh", "openssh-client"), ("rsync", "rsync")):
            if not shutil.which(program):
                return [Problem(f"{program} is not installed", f"apt-get install {package}, {_ELSEWHERE}")]
        if shutil.which("VBoxManage") or os.environ.get("VAGRANT_DEFAULT_PROVIDER") or self.created():
            return []
        if any(_GEMS.glob("vagrant-libvirt-*")) or "vagrant-libvirt" in _vagrant("plugin", "list").stdout:
            return []
        return [_NO_PROVIDER]

    def created(self) -> bool:
        """Whether `vagrant up` has made a machine, running or not."""
        folder = pathlib.Path(os.environ.get("VAGRANT_DOTFILE_PATH") or ".vagrant")
        return any((PROJECT_DIR / folder).glob("machines/default/*/id"))

    def running(self) -> bool:
        """Whether it can be reached."""
        if not self._ssh_config and self.created() and shutil.which("vagrant"):
            done = _vagrant("ssh-config")
            self._ssh_config = done.stdout if done.returncode == 0 else None
        return self._ssh_config is not None

    def bring_up(self, report: Report) -> None:
        """Create or start it, unless it runs. EnvironmentProblem, in one line, if that cannot be."""
        if self.running():
            return
        report("starting the virtual machine (vagrant up); the first time takes minutes")
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            process = subprocess.Popen(["vagrant", "up"], cwd=PROJECT_DIR, env=_environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
            assert process.stdout
            try:
                for line in process.stdout:
                    if line.startswith("==> default: "):
                        report(line.removeprefix("==> default: ").rstrip())
                code = process.wait()
            finally:
                if process.poll() is None:
                    process.terminate()             # Vagrant undoes what is half done
                    process.wait()
            errors.seek(0)
            words = first_sentence(errors.read())
        if code:
            hint = "; provision/box.sh makes a box of Debian packages" if "box" in words.lower() else ""
            raise EnvironmentProblem(
                f"vagrant up: {words or f'ended with status {code}'}{hint} (docs/howto/vagrant.md)")
        if not self.running():
            raise EnvironmentProblem("vagrant up: done, but `vagrant ssh-config` knows of no machine")

    def synchronise(self) -> None:
        """Bring the project as it is now into the machine."""
        done = _vagrant("rsync")
        if done.returncode:
            raise EnvironmentProblem(f"vagrant rsync: {first_sentence(done.stderr) or done.returncode}")

    def ask(self, request: Mapping[str, object], send: pathlib.Path | None = None, receive: pathlib.Path | None = None,
            on_progress: OnProgress | None = None, on_report: Report | None = None) -> dict[str, object]:
        """The answer to a request; send: a folder that goes with it, receive: a new folder for what comes back.

        RunFailed with the other side's error, or if the machine goes away. However it ends, nothing of it goes on
        inside.
        """
        assert self._ssh_config is not None
        with tempfile.TemporaryDirectory(prefix="testbed-ssh-") as name, tempfile.TemporaryFile() as words:
            config = pathlib.Path(name) / "config"
            config.write_text(self._ssh_config, encoding="utf-8")
            process = subprocess.Popen(["ssh", "-F", str(config), *_OPTIONS, "default", _PROGRAM],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words)
            assert process.stdin and process.stdout
            try:
                try:
                    _tell(process.stdin, request, send)
                    answer = _listen(process.stdout, on_progress, on_report)
                    if answer.get("bytes"):
                        _receive(process.stdout, answer["bytes"], receive)
                    process.wait()                  # it cleans up; closing its input would end it before
                finally:
                    with contextlib.suppress(BrokenPipeError):
                        process.stdin.close()
                    process.stdout.close()
                    process.wait()
            except (BrokenPipeError, _Gone):
                words.seek(0)
                said = words.read().decode(errors="replace").strip().splitlines()
                what = "cannot be reached" if process.returncode == _SSH_FAILED else "ended the conversation"
                raise RunFailed(f"the virtual machine {what}: {' '.join(said[-3:])[-_MOST_WORDS:]}") from None
        if "error" in answer:
            raise RunFailed(f"in the virtual machine: {answer['error']}")
        return answer["answer"]


class _Gone(Exception):
    """The other side ended without an answer."""


def _tell(stream: IO[bytes], request: Mapping[str, object], folder: pathlib.Path | None) -> None:
    with tempfile.TemporaryFile() as file:
        if folder is not None:
            archive.pack(folder, file)
        stream.write(json.dumps({**request, "bytes": file.tell()}).encode() + b"\n")
        file.seek(0)
        shutil.copyfileobj(file, stream)
        stream.flush()


def _listen(stream: IO[bytes], on_progress: OnProgress | None, on_report: Report | None) -> Reply:
    """The answer; what comes before it goes to whom it concerns."""
    while True:
        line = stream.readline(1 << 24)
        try:
            message = json.loads(line)
        except ValueError:
            raise _Gone from None
        if not isinstance(message, dict) or "answer" in message or "error" in message:
            reply: Reply = dict(message)                    # type: ignore[assignment]
            return reply
        if on_progress and "progress" in message:
            phase, t_us = message["progress"]
            on_progress(str(phase), int(t_us))
        if on_report and "report" in message:
            on_report(str(message["report"]))


def _receive(stream: IO[bytes], count: int, folder: pathlib.Path | None) -> None:
    with tempfile.TemporaryFile() as file:
        while count > 0:
            part = stream.read(min(count, 1 << 20))
            if not part:
                raise _Gone
            file.write(part)
            count -= len(part)
        file.seek(0)
        if folder is not None:
            try:
                archive.unpack(file, folder)
            except archive.BadArchive as problem:
                raise RunFailed(f"what the virtual machine sent is damaged: {problem}") from None


def first_sentence(text: str) -> str:
    """What Vagrant's errors say, in one line: the rest is advice."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return re.split(r"(?<=[.:]) ", " ".join(paragraphs[0].split()))[0].rstrip(".:")[:_MOST_WORDS]


def _vagrant(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["vagrant", *words], cwd=PROJECT_DIR, env=_environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", check=False)


def _environment() -> dict[str, str]:
    return {**os.environ, "VAGRANT_CWD": str(PROJECT_DIR), "VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}

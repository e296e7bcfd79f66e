# SPDX-License-Identifier: GPL-2.0-only
"""Runs one program of somebody else's in a node: readiness, start, end, exit status, what it leaves.

    python3 -m traffic.program.runner JOB.json

job: {"what": how messages call it, "command", "optional": [options], "environment", "setup": [commands],
"files": {name: {"text"}, {"bytes"} or {"copy_of": path}}, "keep": [names], "root": null or an archive of its root,
"ready": null, "tcp", "udp", "tcp:PORT", "udp:PORT" or "file:NAME", "port", "at_stop", "exit": [...], "start_us",
"stop_us", "patience_us", "output": prefix of what is kept}
It is no shell that reads commands. A program has a folder of its own, the rights of nobody, and ends when we do.
"""
import ctypes
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import IO, BinaryIO, NotRequired, TypedDict

from traffic import program
from traffic.io import payload
from traffic.io.clock import now_ns
from traffic.program import image

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {"PATH": PATH, "LANG": "C.UTF-8"}
#: std::random_device asks the guest's kernel; there where gcc could make it (testbed/core/c_libraries.py)
_RANDOM_DEVICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_device.so")
_NOBODY = 65534
_LARGEST_FILE_BYTES = 256 << 20
_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.01
_READY_WITHIN_S = 30
#: how long a program may take to end after SIGTERM
_TERMINATE_S = 5
_LAST_WORDS = 500

_libc = ctypes.CDLL(None)


class Failed(Exception):
    """The program did not do what it should; the message is one line, and its last words."""


def output_names(prefix: str, keep: Iterable[str]) -> dict[str, str]:
    """{file in the program's folder, or "" and " " for its two outputs: name under which it is kept}; of a folder,
    whose name ends with /, an archive is kept."""
    return {"": f"{prefix}.out", " ": f"{prefix}.err",
            **{name: f"{prefix}-{name.strip('/').replace('/', '-')}{'.tar' * name.endswith('/')}" for name in keep}}


def main() -> None:
    job = program.read_job()
    with tempfile.TemporaryDirectory(prefix="program-") as folder:
        one = _Program(job, image.ROOT if job.get("root") else folder)
        try:
            one.set_up()
            if job["ready"]:
                one.start()
                one.wait_until_ready()
            t0_ns = program.wait_for_start()
            if not job["ready"]:
                program.sleep_until(t0_ns + job["start_us"] * 1000)
                one.start()
            one.wait_until_ended(t0_ns)
            one.keep_files()
        except Failed as problem:
            sys.exit(str(problem))
        finally:
            one.kill()
        program.done({"program": {"what": job["what"], "exit": one.status,
                                  "ended_us": (one.ended_ns - t0_ns) // 1000}})


class _File(TypedDict, total=False):
    """A file that it finds: its text, a size, or a copy of another."""
    text: str
    bytes: int
    copy_of: str


class _Job(TypedDict):
    """See above."""
    what: str
    command: list[str]
    optional: list[str]
    environment: Mapping[str, str]
    setup: list[list[str]]
    files: Mapping[str, _File]
    keep: list[str]
    root: NotRequired[str | None]
    ready: str | None
    port: int
    at_stop: bool
    exit: list[int]
    start_us: int
    stop_us: int
    patience_us: int
    output: str


class _Program:
    """The program, its folder and its outputs."""

    def __init__(self, job: _Job, folder: str) -> None:
        self._job = job
        self._folder = folder
        #: as the program calls it
        self._called = "/" if job.get("root") else folder
        self._process: subprocess.Popen[bytes] | None = None
        preload = {"LD_PRELOAD": _RANDOM_DEVICE} if os.path.exists(_RANDOM_DEVICE) else {}
        own = {"PATH": image.PATH, "HOME": "/", "TMPDIR": "/tmp"} if job.get("root") else {
            **preload, "HOME": folder, "TMPDIR": folder}
        self._environment = {**_ENVIRONMENT, **own, **{
            name: self._text(text) for name, text in job["environment"].items()}}
        self._outputs = [tempfile.TemporaryFile() for _ in range(2)]
        self.status: int | None = None
        self.ended_ns = 0

    def _text(self, text: str) -> str:
        return text.replace("{folder}", self._called)

    # -- before -----------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Write its files, and run what is to run before it."""
        if archive := self._job.get("root"):
            try:
                image.unpack(archive, _NOBODY)
            except (image.ImageError, OSError) as problem:
                raise Failed(f"{self._job['what']}: root: {problem}") from None
            if lent := image.lend(_RANDOM_DEVICE):
                self._environment.setdefault("LD_PRELOAD", lent)
        for name, content in self._job["files"].items():
            path = self._path(name)
            above = self._make_above(path)
            if os.path.islink(path):            # of an image
                os.remove(path)
            if "copy_of" in content:
                shutil.copy(content["copy_of"], path)
            else:
                with open(path, "wb") as file:
                    _write(file, content, self._text)
                if content.get("text", "").startswith("#!"):
                    os.chmod(path, 0o755)
            if os.geteuid() == 0:
                for made in (*above, path):
                    os.chown(made, _NOBODY, _NOBODY)
        if os.geteuid() == 0:
            os.chown(self._folder, _NOBODY, _NOBODY)
        for command in self._job["setup"]:
            self.start(command)
            assert self._process
            self._process.wait()
            if self._process.returncode:
                raise self._failed(f"setup {command[0]} {_ended(self._process.returncode)}")
        if self._job["optional"]:
            self._job["command"][1:1] = self._known_options()

    def _path(self, name: str) -> str:
        """Of a file in its folder. Failed if links of an image lead out of it."""
        path = os.path.join(self._folder, name)
        if os.path.commonpath([os.path.realpath(os.path.dirname(path)), os.path.realpath(self._folder)]) \
                != os.path.realpath(self._folder):
            raise Failed(f"{self._job['what']}: {name} would not lie in its root: a folder above it is a link")
        return path

    def _make_above(self, path: str) -> list[str]:
        """The folders above a file that are not there yet."""
        made: list[str] = []
        while not os.path.isdir(path := os.path.dirname(path)):
            made.insert(0, path)
        for folder in made:
            os.mkdir(folder)
        return made

    def _known_options(self) -> list[str]:
        """The optional options that this version of the program names in its --help."""
        with tempfile.TemporaryFile() as answer:
            self.start([self._job["command"][0], "--help"], [answer, answer])
            assert self._process
            try:
                self._process.wait(_READY_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise Failed(f"{self._job['what']}: --help, asked because of `optional`, did not end within "
                             f"{_READY_WITHIN_S} s") from None
            answer.seek(0)
            text = answer.read().decode("utf-8", "replace")
        return [word for word in self._job["optional"]
                if re.search(rf"(?<![\w-]){re.escape(word.partition('=')[0])}(?![\w-])", text)]

    def start(self, command: list[str] | None = None, outputs: list[IO[bytes]] | None = None) -> None:
        """Start it, or a command before it, whose outputs may be others."""
        out, err = outputs or self._outputs
        words = [self._text(word) for word in command or self._job["command"]]
        if words[0] in self._job["files"]:
            words[0] = os.path.join(self._called, words[0])
        in_root = bool(self._job.get("root"))
        user = _NOBODY if os.geteuid() == 0 and not in_root else None
        first = image.entering(_NOBODY, _end_with_us) if in_root else _end_with_us
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self._folder,
                env=self._environment, start_new_session=True, preexec_fn=first,
                user=user, group=user, extra_groups=[] if user else None)
        except OSError as problem:
            raise Failed(f"{self._job['what']}: {words[0]}: {problem.strerror}") from None

    def wait_until_ready(self) -> None:
        """Return when it is ready; Failed if it has ended, or takes too long."""
        assert self._process
        deadline_ns = now_ns() + _READY_WITHIN_S * 1_000_000_000
        while not self._is_ready():
            try:
                status = self._process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if now_ns() > deadline_ns:
                    raise self._failed(f"was not ready ({self._job['ready']}) within {_READY_WITHIN_S} s") from None
                continue
            raise self._failed(f"{_ended(status)} before it was ready")

    def _is_ready(self) -> bool:
        kind, _, name = (self._job["ready"] or "").partition(":")
        if kind == "file":
            return os.path.exists(os.path.join(self._folder, name))
        return (int(name) if name else self._job["port"]) in program.bound_ports(kind)

    # -- its end ----------------------------------------------------------------------------------

    def wait_until_ended(self, t0_ns: int) -> None:
        """Return when it has ended as it should; Failed if it does not, or not well."""
        assert self._process
        stop_ns = t0_ns + self._job["stop_us"] * 1000
        late_ns = stop_ns + self._job["patience_us"] * 1000
        right = set(self._job["exit"])
        try:
            self.status = self._process.wait(max(0, (stop_ns if self._job["at_stop"] else late_ns) - now_ns()) / 1e9)
        except subprocess.TimeoutExpired:
            if not self._job["at_stop"]:
                raise self._failed(f"did not end by {(late_ns - t0_ns) / 1e9:g} s, "
                                   f"{self._job['patience_us'] / 1e6:g} s after its stop") from None
            right.add(-signal.SIGTERM)
            self._process.terminate()
            try:
                self.status = self._process.wait(_TERMINATE_S)
            except subprocess.TimeoutExpired:
                raise self._failed(f"did not end within {_TERMINATE_S} s of SIGTERM") from None
        self.ended_ns = now_ns()
        if self.status not in right:
            raise self._failed(_ended(self.status))

    def kill(self) -> None:
        """End it and what it has started."""
        if self._process:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()

    def _failed(self, how: str) -> Failed:
        words = ""
        for output in reversed(self._outputs):          # what it complains of first
            output.seek(0)
            words = words or " ".join(output.read()[-_LAST_WORDS:].decode("utf-8", "replace").split())
        return Failed(f"{self._job['what']} {how}" + (f": {words}" if words else ""))

    def keep_files(self) -> None:
        """Copy its outputs and the files to be kept. Failed if one is not there."""
        names = output_names(self._job["output"], self._job["keep"])
        for output, name in zip(self._outputs, list(names.values())[:2]):
            output.seek(0)
            with open(name, "wb") as file:
                shutil.copyfileobj(output, file)
        for name in self._job["keep"]:
            path = pathlib.Path(self._path(name.rstrip("/")))
            if name.endswith("/") and path.is_dir() and not path.is_symlink():
                image.pack(str(path), names[name])
            elif not name.endswith("/") and path.is_file() and not path.is_symlink():
                shutil.copyfile(path, names[name])
            else:
                raise Failed(f"{self._job['what']} left no {'folder' if name.endswith('/') else 'file'} {name}")


def _write(file: BinaryIO, content: _File, filled: Callable[[str], str]) -> None:
    """Text, or so many bytes that no compression would make few of."""
    if "text" in content:
        file.write(filled(content["text"]).encode())
        return
    pattern, left = payload.sequence(), content["bytes"]
    while left > 0:
        left -= file.write(pattern[:left])


def _end_with_us() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE_BYTES, _LARGEST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _ended(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


if __name__ == "__main__":
    main()

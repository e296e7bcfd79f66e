# SPDX-License-Identifier: GPL-2.0-only
"""The half in the virtual machine: one request of machine.py, carried out by engine `host`.

Standard input: a JSON line {"do": ..., "bytes": n}, n bytes of an archive, then nothing until the other side goes away.
Standard output: JSON lines {"progress": [phase, t_us]} and {"report": text}; last {"answer": ..., "bytes": n} or
{"error": text, "bytes": n}, and n bytes of an archive.
"""
from __future__ import annotations

import io
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import IO, TypedDict

#: what stands for a run's own folder in the path that `describe` gives
RUN = "RUN"
_ROOT = pathlib.Path("/var/tmp/tcp-testbed")
_OLD_S = 24 * 3600


class Request(TypedDict, total=False):
    """What is asked for; bytes: of the archive that follows."""
    do: str
    bytes: int
    #: the name of a run's folder
    place: str
    kernel_options: list[str]
    #: of a module
    source: str


_Send = Callable[[dict[str, object]], None]


def main() -> None:
    """Carry out the one request that comes."""
    from testbed.core import archive
    from testbed.core.errors import TestbedError
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)                                   # what anything else prints is no part of the conversation
    ears = os.fdopen(os.dup(0), "rb", buffering=0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    request: Request = json.loads(_line(ears))
    _ROOT.mkdir(mode=0o700, exist_ok=True)
    place = _ROOT / str(request.get("place") or f"request-{os.getpid()}")
    answer: dict[str, object] = {}
    try:
        place.mkdir(mode=0o700)
        if request["bytes"]:
            archive.unpack(io.BytesIO(_exactly(ears, request["bytes"])), place / "sent")
        threading.Thread(target=_watch, args=(ears,), daemon=True).start()
        try:
            answer = {"answer": _DO[request["do"]](request, place, lambda message: _send(out, message))}
        except TestbedError as problem:
            answer = {"error": str(problem)}
        except OSError as problem:
            answer = {"error": f"{problem.strerror}: {problem.filename}"}
        except Exception:
            answer = {"error": "a bug in the testbed:\n" + traceback.format_exc()}
        _reply(out, answer, place / "reply")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _describe(request: Request, place: pathlib.Path, send: _Send) -> dict[str, object]:
    from testbed import engines
    from testbed.core import environment
    from testbed.core.errors import UsageError
    from testbed.core.fields import FieldError
    for left in _ROOT.iterdir():                    # of a machine that was switched off in the middle
        if left.stat().st_mtime < time.time() - _OLD_S:
            shutil.rmtree(left, ignore_errors=True)
    engine = engines.load("host")
    try:
        engine.require(request["kernel_options"])
    except FieldError as problem:
        raise UsageError(f"{problem.field}: {problem}") from None
    problems = [f"{problem.message} ({problem.fix})" for problem in engine.problems()]
    if problems:
        return {"problems": problems, "code": engine.code_sha256()}
    engine.prepare(lambda text: send({"report": text}))
    return {"problems": [], "code": engine.code_sha256(), "kernel_key": engine.kernel_key(),
            "kernel_release": engine.kernel_release(), "environment": engine.environment(),
            "congestion_controls": list(engine.congestion_controls()), "machine": environment.this_machine(),
            "guest_dir": engine.guest_dir(_ROOT / RUN / "sent" / "work")}


def _build(request: Request, place: pathlib.Path, send: _Send) -> dict[str, object]:
    from kernel import KernelError
    from testbed import engines
    from testbed.core.errors import RunFailed
    source = request["source"] if os.path.isabs(request["source"]) else str(place / request["source"])
    try:
        module = engines.load("host").build_module(source, lambda text: send({"report": text}))
    except (KernelError, RunFailed) as problem:
        raise RunFailed(str(problem).replace(f"{place}/sent/", "")) from None
    names = module.congestion_controls
    return {"module": {"sha256": module.sha256, "warnings": module.warnings, "congestion_controls": list(names),
                       "renamed": dict(module.renamed), "part_names": {name: module.part_name(name) for name in names},
                       "file": None}}


def _run(request: Request, place: pathlib.Path, send: _Send) -> dict[str, object]:
    from testbed import engines
    from testbed.runs import plan
    reply = place / "reply"
    reply.mkdir()
    engines.load("host").run(plan.read(place / "sent"), place / "sent" / "work", reply, 0,
                             lambda phase, t_us: send({"progress": [phase, t_us]}))
    return {}


_DO: dict[str, Callable[[Request, pathlib.Path, _Send], dict[str, object]]] = {
    "describe": _describe, "build": _build, "run": _run}


def _reply(out: IO[bytes], answer: dict[str, object], folder: pathlib.Path) -> None:
    from testbed.core import archive
    with tempfile.TemporaryFile(dir=_ROOT) as file:
        if folder.is_dir():
            archive.pack(folder, file)
        _send(out, {**answer, "bytes": file.tell()})
        file.seek(0)
        shutil.copyfileobj(file, out)
        out.flush()


def _send(out: IO[bytes], message: dict[str, object]) -> None:
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


def _line(stream: IO[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += _exactly(stream, 1)
    return line


def _exactly(stream: IO[bytes], count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(min(count, 1 << 20))
        if not part:
            raise SystemExit("the other side went away")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _watch(ears: IO[bytes]) -> None:
    """End this process, with all cleaning up, when the other side goes away."""
    while ears.read(1 << 10):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _end(*_signal: object) -> None:
    sys.exit(143)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))
    main()

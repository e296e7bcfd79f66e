# SPDX-License-Identifier: GPL-2.0-only
"""What is done with each script inside the guest: orders, and what became of it."""
from __future__ import annotations

import contextlib
import json
import os
import resource
import time

from testbed.core.record import ListOf, Record
from testbed.packet_scripts import parser
from testbed.packet_scripts.calls import CallError
from testbed.packet_scripts.interpreter import Failed, Interpreter

#: characters that a script printed, and packets, of which is told; the last ones
_MOST_OUTPUT, _MOST_TRACE = 20_000, 1000
#: what depends on the guest's memory otherwise: as on a machine with much of it
_SYSCTLS = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}


class ModuleOrder(Record):
    """A module to load: its file in the folder of code, and its parameters as insmod takes them."""
    file: str
    parameters: str = ""


class ScriptOrder(Record):
    """A script: what it is called, its text, and the folder it is in as a number of `Job.folders`."""
    file: str
    text: str
    folder: int
    given: dict[str, str]
    defines: list[tuple[str, str]]


class SocketOption(Record):
    """An integer that all sockets of TCP are given, as setsockopt() gets it."""
    name: str
    level: int
    number: int
    value: int


class Job(Record):
    """What a guest is to do. folders: on the host; ticks_per_s: of the kernel; cca: of all sockets, "" the usual."""
    scripts = ListOf(ScriptOrder)
    modules = ListOf(ModuleOrder, ())
    socket_options = ListOf(SocketOption, ())
    folders: list[str]
    ticks_per_s: int
    cca: str
    sysctls: dict[str, str]


def read_job(path: str) -> Job:
    with open(path, encoding="utf-8") as file:
        return Job(json.load(file), "job.json")


def say_progress(path: str, job: Job, place: int) -> None:
    """Tell whoever watches the guest which script is next (testbed/engines/_watch.py)."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"phase": f"script {place + 1} of {len(job.scripts)}", "t_us": time.monotonic_ns() // 1000}, file)


def folder_of(number: int) -> str:
    """Where the guest sees a folder of scripts."""
    return f"/run/scripts/{number}"


def carry_out(job: Job, place: int) -> dict[str, object]:
    """What became of a script, as results.Outcome reads it."""
    order = job.scripts[place]
    os.chdir(folder_of(order.folder))
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    script = parser.parse(order.text, order.file, order.given, [(name, value) for name, value in order.defines])
    for name, value in {**_SYSCTLS, **job.sysctls}.items():
        with open(f"/proc/sys/{name.replace('.', '/')}", "w", encoding="ascii") as file:
            file.write(str(value))
    interpreter = None
    result: dict[str, object] = {"ok": True}
    with contextlib.suppress(KeyboardInterrupt):
        try:
            interpreter = Interpreter(script, job.cca, job.ticks_per_s, [
                (option.name, option.level, option.number, option.value) for option in job.socket_options])
            interpreter.run()
        except Failed as problem:
            result = {"ok": False, "line": problem.event.line, "what": problem.what, "event": problem.event.text,
                      "lines": list(problem.lines)}
        except CallError as problem:
            result = {"ok": False, "line": 0, "what": str(problem), "event": "", "lines": []}
    return {**result, "virtual_ns": interpreter.elapsed_ns if interpreter else 0,
            "output": interpreter.output[-_MOST_OUTPUT:] if interpreter else "",
            "trace": interpreter.trace()[-_MOST_TRACE:] if interpreter else []}

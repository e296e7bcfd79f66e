# SPDX-License-Identifier: GPL-2.0-only
"""A guest kernel in gdb: stopped at a virtual time or in a function, with helpers that print sockets (gdb/inside.py).

The kernel has symbols and no types. So types are compiled apart (gdb/types), against the kernel as it is, and nothing
of a run changes. gdb attaches to the process that becomes the kernel, and runs in the foreground.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from kernel import compiling, modules
from kernel.build import Kernel
from kernel.source import KernelError

_FOLDER = pathlib.Path(__file__).with_name("gdb")
#: the environment variable that tells gdb/inside.py where its orders are
_ORDERS = "TESTBED_GDB_SESSION"
#: name of the table of calls in a run's folder
CALLS = "functions.csv.gz"


@dataclasses.dataclass(frozen=True)
class Stop:
    """Where a guest is to stop, and what gdb does then.

    at_ns: of virtual time since traffic began, None: as soon as it begins; place: what gdb's command tbreak takes, from
    then on; commands: a file of gdb's commands, None: those that are typed; functions: whose calls are written down;
    stops: False: for these only, it never stops.
    """
    at_ns: int | None
    place: str = ""
    commands: pathlib.Path | None = None
    functions: tuple[str, ...] = ()
    stops: bool = True


def missing() -> str | None:
    """What is missing here for gdb, and how to get it; None if nothing is."""
    return None if shutil.which("gdb") else "gdb is missing (apt-get install gdb)"


def types(kernel: Kernel, report: Callable[[str], None]) -> pathlib.Path:
    """The file with the types of a kernel. KernelError if it cannot be made."""
    built = modules.build_for(kernel, _FOLDER / "types", report, lambda files: [[] for _ in files])
    return compiling.debug_file(built.part().file)


def traced(command: Sequence[str]) -> list[str]:
    """The command that waits for gdb and then becomes `command`."""
    return [sys.executable, "-I", "-S", str(_FOLDER / "traced.py"), *command]


def talk(kernel: Kernel, pid: int, stop: Stop, progress: pathlib.Path, loaded: Mapping[str, pathlib.Path],
         types_file: pathlib.Path, calls: pathlib.Path) -> None:
    """Run gdb on the process of a traced() command until gdb ends. KernelError if it ends with an error.

    progress: the file in which the guest says how far it is, before it is given its name; loaded: {module: file};
    calls: the table of Stop.functions.
    """
    asks = stop.stops and not stop.commands
    orders = {"pid": pid, "types": str(types_file), "progress": str(progress), "hz": kernel.hz,
              "modules": {name: str(file) for name, file in loaded.items()}, "at_ns": stop.at_ns, "place": stop.place,
              "commands": stop.commands and str(stop.commands), "functions": stop.functions, "calls": str(calls),
              "stops": stop.stops, "asks": asks}
    command = ["gdb", "-q", "-x", str(_FOLDER / "inside.py")]
    if not asks:
        command += ["-nx", "-batch"]
    # Ctrl-C is gdb's; a handler of ours is not inherited, other than SIG_IGN
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="testbed-gdb-", suffix=".json", encoding="utf-8") as file:
            json.dump(orders, file)
            file.flush()
            done = subprocess.run(command, env={**os.environ, _ORDERS: file.name}, check=False,
                                  stdin=None if asks else subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode:
        raise KernelError(f"gdb ended with status {done.returncode}; what it said is above")

# SPDX-License-Identifier: GPL-2.0-only
"""Modules of the running kernel: which there are, loading one, and removing those that a run has brought."""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable

from testbed.core.errors import EnvironmentProblem

#: what the kernel loads by itself when a run asks for an interface, a qdisc, a filter, a dump of sockets or a CCA
_BY_RUNS = re.compile(r"veth|ifb|(sch|cls|act|tcp)_\w+|(inet|tcp|udp|packet|raw)_diag")
_CCA = re.compile(r"tcp_(?!diag|probe)\w+")
#: how long connections last that were killed together with their network: their namespaces use a CCA as long
_ORPHANS_S = 240.0
#: what is in the CCAs' folder and is none
_NO_CCA = {"diag", "probe"}
_INIT_MODULE = {"x86_64": 175, "aarch64": 105}
_DELETE_MODULE = {"x86_64": 176, "aarch64": 106}
_AVAILABLE = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def loaded() -> dict[str, set[str]]:
    """{module: modules that need it} of those that are loaded; nothing where the kernel loads none."""
    try:
        lines = pathlib.Path("/proc/modules").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {words[0]: {name for name in words[3].split(",") if name not in ("", "-")}
            for words in (line.split() for line in lines)}


def possible() -> bool:
    """Whether this kernel loads modules."""
    return os.path.exists("/proc/modules")


def congestion_controls() -> list[str]:
    """CCAs that are there, or that the kernel's own folder of modules has."""
    folder = pathlib.Path("/lib/modules", os.uname().release, "kernel/net/ipv4")
    names = {path.name.split(".")[0].removeprefix("tcp_") for path in folder.glob("tcp_*.ko*")}
    return sorted({*available(), *(names - _NO_CCA)})


def available() -> list[str]:
    """CCAs that are loaded."""
    return _AVAILABLE.read_text(encoding="ascii").split()


def load_congestion_control(name: str) -> None:
    """Have a CCA of the kernel loaded with all that it needs. EnvironmentProblem if it cannot be."""
    if name in available():
        return
    modprobe = shutil.which("modprobe") or "/usr/sbin/modprobe"
    try:
        done = subprocess.run([modprobe, f"tcp_{name}"], capture_output=True, text=True, check=False)
        words = done.stderr.strip()
    except OSError as problem:
        words = f"{modprobe}: {problem.strerror}"
    if name not in available():
        raise EnvironmentProblem(f"congestion control {name} cannot be loaded" + (f": {words}" if words else ""))


def load(file: pathlib.Path) -> None:
    """Load a module. OSError with the kernel's reason if it refuses."""
    image = file.read_bytes()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_INIT_MODULE[os.uname().machine], image, ctypes.c_ulong(len(image)), b""):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(file))


def remove_new(before: set[str], extra: set[str], patient: Callable[..., bool]) -> list[str]:
    """Unload what runs bring and was not there `before`, and all that needs nothing else; what cannot be is said.

    extra: names of modules from outside of the kernel. Modules that have nothing to do with runs stay, whoever
    loaded them meanwhile. patient(attempt[, seconds]): journal.patient.
    """
    by_name = {name.replace("-", "_") for name in extra}         # as the kernel spells them

    def ours() -> list[str]:
        there = loaded()
        new = {name for name in there if name not in before and (_BY_RUNS.fullmatch(name) or name in by_name)}
        while more := {name for name, users in there.items()
                       if name not in before and name not in new and users and users <= new}:
            new |= more
        return sorted(new)

    known = set(ours())                     # what they need shows as long as they are there

    def removed() -> bool:
        known.update(ours())
        for name in known & loaded().keys():
            _unload(name)
        return not known & loaded().keys()

    if patient(removed):
        return []
    if all(_CCA.fullmatch(name) or name in by_name for name in known & loaded().keys()) \
            and patient(removed, _ORPHANS_S):
        return []
    return [f"module {name} is in use" for name in sorted(known & loaded().keys())]


def _unload(name: str) -> None:
    """Ask the kernel to remove a module; nothing happens while something uses it."""
    ctypes.CDLL(None).syscall(_DELETE_MODULE[os.uname().machine], name.encode(), os.O_NONBLOCK)

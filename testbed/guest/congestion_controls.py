# SPDX-License-Identifier: GPL-2.0-only
"""The congestion controls of a run: modules loaded, parameters set, all allowed in the nodes."""
import ctypes
import os
from typing import NamedTuple

from testbed.guest.job import Job, Settings
from testbed.guest.settings import MachineSettings

_INIT_MODULE = {"x86_64": 175, "aarch64": 105}


class Controls(NamedTuple):
    """What the kernel has; parameters: {module: {name: value}} as read back."""
    available: list[str]
    parameters: dict[str, dict[str, str]]


def make_available(job: Job, work_dir: str, machine: MachineSettings) -> Controls:
    """Load the job's modules and set its parameters; ValueError if a congestion control is not there.

    Returns what is there now, as read back.
    """
    for module in job.modules:
        load_module(os.path.join(work_dir, module.file), module.parameters)
        _say_where(module.name)
        # the kernel only warns of parameters that it does not know
        there = read_parameters(module.name)
        unknown = sorted(module.parameters.keys() - there.keys())
        if unknown:
            raise ValueError(f"module {module.name} has no parameter {', '.join(unknown)}; "
                             f"it has: {', '.join(there) or 'none that can be read'}")
    for name, parameters in job.builtin_parameters.items():
        for parameter, value in parameters.items():
            _write_parameter(machine, name, parameter, value)
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as f:
        available = f.read().split()
    for variant in job.variants:
        if variant.kernel_cca not in available:
            raise ValueError(f"the kernel has no congestion control {variant.kernel_cca!r}; "
                             f"it has: {' '.join(sorted(available))}")
    # nodes' namespaces may only use what the first one allows
    machine.sysctl("net.ipv4.tcp_allowed_congestion_control", " ".join(available))
    names = [module.name for module in job.modules] + list(job.builtin_parameters)
    return Controls(sorted(available), {name: read_parameters(name) for name in names})


def load_module(path: str, parameters: Settings) -> None:
    """Load the module in a file; ValueError if the kernel refuses it."""
    with open(path, "rb") as f:
        image = f.read()
    words = " ".join(f"{name}={value}" for name, value in parameters.items())
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_INIT_MODULE[os.uname().machine], image, ctypes.c_ulong(len(image)), words.encode()):
        reason = os.strerror(ctypes.get_errno())
        raise ValueError(f"{os.path.basename(path)} cannot be loaded{f' with {words}' if words else ''}: {reason}")


def _say_where(module: str) -> None:
    """In the log, for a crash after which the kernel itself cannot tell any more (kernel/crash.py)."""
    try:
        with open(f"/sys/module/{module}/sections/.text", encoding="ascii") as file:
            os.write(2, f"module {module} is at {file.read().strip()}\n".encode())
    except OSError:
        pass                                # a kernel that does not tell


def _write_parameter(machine: MachineSettings, module: str, parameter: str, value: int | str) -> None:
    try:
        machine.file(f"/sys/module/{module}/parameters/{parameter}", value)
    except OSError as problem:
        raise ValueError(f"parameter {parameter} of {module} cannot be set to {value}: {problem.strerror}") from None


def read_parameters(module: str) -> dict[str, str]:
    """{parameter: value} of a module, those that can be read."""
    folder = f"/sys/module/{module}/parameters"
    values = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        try:
            with open(f"{folder}/{name}") as f:
                values[name] = f.read().strip()
        except OSError:
            continue                    # write only
    return values

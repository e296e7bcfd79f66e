# SPDX-License-Identifier: GPL-2.0-only
"""Loading a module in a guest that does nothing else.

An `init` that fails, crashes or never ends is found here, in a second, and not in every run. The trial
is confined as runs are.
"""
from __future__ import annotations

import pathlib
import re
import shutil
import tempfile
from collections.abc import Sequence

from kernel import crash, guest
from kernel.build import Kernel

_INIT = pathlib.Path(__file__).with_name("module_boot.py")
#: a guest that does nothing but load a module takes half a second
_LONGEST_S = 60


class TrialError(Exception):
    """What happened, to be put behind the name of the source."""


class TakenName(TrialError):
    """The kernel has another congestion control of the name that `module` registers, or, if that is "", another module
    of its own name."""

    def __init__(self, module: pathlib.Path, congestion_control: str, message: str) -> None:
        super().__init__(message)
        self.module, self.congestion_control = module, congestion_control


def load(kernel: Kernel, modules: Sequence[pathlib.Path], for_congestion_control: bool = True) -> list[list[str]]:
    """The congestion controls that each of `modules` registers, loaded in this order; none at all is an error if they
    are for that.

    Raises TrialError, KernelError.
    """
    with tempfile.TemporaryDirectory(prefix="testbed-uml-") as name:
        scratch = pathlib.Path(name)
        shutil.copyfile(_INIT, scratch / "init.py")
        for file in modules:
            shutil.copyfile(file, scratch / file.name)
        log = guest.run_briefly(kernel.program, scratch, ["init.py", *(file.name for file in modules)], scratch,
                                _LONGEST_S)
    names = " ".join(file.name for file in modules)
    if log is None:
        raise TrialError(f": loading {names} does not end: its init function computes without end")
    before, *parts = re.split(r"^loading (\S+)\n", log, flags=re.M)
    if not parts:                                           # the kernel's start, and not a module, failed
        raise TrialError(f": the guest that should load {names} did not start:\n"
                         + (crash.describe(before) or before.strip()[-2000:]))
    said = dict(zip(parts[::2], parts[1::2]))
    found = [_registered(file, said.get(file.name, "")) for file in modules]
    if for_congestion_control and not any(found):
        raise TrialError(f": {names} loads, but registers no congestion control "
                         "(tcp_register_congestion_control in its init function?)")
    return found


def _registered(module: pathlib.Path, log: str) -> list[str]:
    """What the kernel said while it loaded `module`, as names that it registered. TrialError if it did not load it."""
    match = re.search(r"^registered(.*)$", log, re.M)
    if match:
        return match.group(1).split()
    refused = re.search(r"^refused (.*)$", log, re.M)
    if not refused:
        raise TrialError(f": the kernel crashed while {module.name} was loaded: "
                         + (crash.describe(log) or log.strip()[-2000:]).replace("\n", "\n  "))
    if f"{module.stem.replace('-', '_')}: module is already loaded" in log:
        raise TakenName(module, "", f": the kernel has a module {module.stem} already: give this one another name")
    taken = re.search(r"TCP: (\S+) already registered", log)
    if taken:
        raise TakenName(module, taken[1], f": {module.name} registers {taken[1]}, which the kernel has already: give "
                        "its .name another value")
    words = [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in log.splitlines()]
    words = [w for w in words if w and not re.search(r"^refused |taints kernel|reboot: ", w)]
    raise TrialError(f": {module.name} cannot be loaded: {refused.group(1)}"
                     + (f" (the kernel says: {'; '.join(words[-5:])})" if words else ""))

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

from kernel import crash, guest
from kernel.build import Kernel

_INIT = pathlib.Path(__file__).with_name("module_boot.py")
#: a guest that does nothing but load a module takes half a second
_LONGEST_S = 60


class TrialError(Exception):
    """What happened, to be put behind the name of the source."""


class TakenName(TrialError):
    """The kernel has another module of the name of the file."""


def load(kernel: Kernel, module: pathlib.Path, for_congestion_control: bool = True) -> list[str]:
    """The congestion controls that `module` registers; none is an error if it is for that.

    Raises TrialError, KernelError.
    """
    with tempfile.TemporaryDirectory(prefix="testbed-uml-") as name:
        scratch = pathlib.Path(name)
        shutil.copyfile(_INIT, scratch / "init.py")
        shutil.copyfile(module, scratch / module.name)
        log = guest.run_briefly(kernel.program, scratch, ["init.py", module.name], scratch, _LONGEST_S)
    if log is None:
        raise TrialError(f": loading {module.name} does not end: its init function computes without end")
    before, loading, log = log.partition("loading\n")
    if not loading:                                         # the kernel's start, and not the module, failed
        raise TrialError(f": the guest that should load {module.name} did not start:\n"
                         + (crash.describe(before) or before.strip()[-2000:]))
    match = re.search(r"^registered(.*)$", log, re.M)
    if match:
        names = match.group(1).split()
        if for_congestion_control and not names:
            raise TrialError(f": {module.name} loads, but registers no congestion control "
                             "(tcp_register_congestion_control in its init function?)")
        return names
    refused = re.search(r"^refused (.*)$", log, re.M)
    if not refused:
        raise TrialError(f": the kernel crashed while {module.name} was loaded: "
                         + (crash.describe(log) or log.strip()[-2000:]).replace("\n", "\n  "))
    if f"{module.stem}: module is already loaded" in log:
        raise TakenName(f": the kernel has a module {module.stem} already: give this one another name")
    taken = re.search(r"TCP: (\S+) already registered", log)
    if taken:
        raise TrialError(f": {module.name} registers {taken[1]}, which the kernel has already: give its .name another "
                         "value")
    words = [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in log.splitlines()]
    words = [w for w in words if w and not re.search(r"^refused |taints kernel|reboot: ", w)]
    raise TrialError(f": {module.name} cannot be loaded: {refused.group(1)}"
                     + (f" (the kernel says: {'; '.join(words[-5:])})" if words else ""))

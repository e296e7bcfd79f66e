# SPDX-License-Identifier: GPL-2.0-only
"""The guest kernel: built from Debian's source or from anybody's tree, cached per machine.

    ensure(spec, report)   the kernel for `spec`, built if need be
    find(spec)             the same if it is already there, else None
    write_source(...)      the pristine source of a kernel, for somebody to change
    prune(keep)            remove builds and sources that nobody uses any more
    build_module(...)      an out-of-tree module against it, loaded once on trial (kernel/modules.py)
    build_module_for(...)  the same against any kernel, such as the running one (kernel/headers.py)

Kernels have 1000 jiffies per second and what uml.config says, unless `ensure` and `find` are told otherwise (`hz`,
`options`: names of option_names()).

`spec` is None (Debian's linux-source-6.12), a version that some current Debian release has a
linux-source package of, `newest` (resolve() says which that is today), or the path of a kernel
tree or tarball.
"""
from kernel.build import Kernel, ensure, find, write_given
from kernel.configuration import congestion_controls, option_names, ordered as ordered_options
from kernel.debugger import Stop
from kernel.headers import Headers
from kernel.make import HZ, USUAL_HZ
from kernel.modules import (Module, ModuleError, build as build_module, build_for as build_module_for, digest_of,
                            find as find_module)
from kernel.pruning import prune
from kernel.source import KernelError, NoSuchKernel, is_debian, missing_tools, resolve, write_source
from kernel.trial import TrialError

__all__ = ["HZ", "USUAL_HZ", "Headers", "Kernel", "KernelError", "Module", "ModuleError", "NoSuchKernel", "Stop",
           "TrialError",
           "build_module", "build_module_for", "congestion_controls", "digest_of", "ensure", "find", "find_module",
           "is_debian", "missing_tools", "option_names", "ordered_options", "prune", "resolve", "write_given",
           "write_source"]

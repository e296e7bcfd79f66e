# SPDX-License-Identifier: GPL-2.0-only
"""The guest kernel: built from Debian's source or from anybody's tree, cached per machine.

    ensure(spec, report)   the kernel for `spec`, built if need be
    find(spec)             the same if it is already there, else None
    build_module(...)      an out-of-tree module against it

`spec` is None (Debian's linux-source-6.12), a version that Debian has a linux-source
package of, or the path of a kernel tree or tarball.
"""
from kernel.build import Kernel, build_module, ensure, find
from kernel.source import KernelError, missing_tools

__all__ = ["Kernel", "KernelError", "build_module", "ensure", "find", "missing_tools"]

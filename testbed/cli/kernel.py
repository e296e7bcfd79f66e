# SPDX-License-Identifier: GPL-2.0-only
"""Build the guest kernel (or say where it is), or a module against it.

  testbed kernel                       Debian's linux-source-6.12
  testbed kernel --kernel ~/linux      a tree of your own, with your patches
  testbed kernel --module DIR          build the out-of-tree module in DIR against it
"""
import pathlib

import kernel
from testbed.cli import _shared
from testbed.errors import UsageError

HELP = "build the guest kernel, or a module against it"


def add_arguments(parser):
    parser.add_argument("--kernel", metavar="PATH|VERSION",
                        help="a version such as 6.12 (default), a kernel tree or a tarball")
    parser.add_argument("--module", metavar="DIR", help="build the module in DIR")


def main(arguments):
    built = kernel.ensure(arguments.kernel, _shared.reporter())
    if arguments.module:
        folder = pathlib.Path(arguments.module).resolve()
        if not folder.is_dir():
            raise UsageError(f"--module {arguments.module}: no such folder")
        for module in kernel.build_module(built, folder):
            print(module)
        return 0
    print(f"kernel               {built.program}")
    print(f"release              {built.release}")
    print(f"source               {built.source}")
    print(f"congestion controls  {', '.join(built.congestion_controls)}")
    return 0

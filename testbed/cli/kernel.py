# SPDX-License-Identifier: GPL-2.0-only
"""Build the guest kernel, or a module against it.

  testbed kernel                       Debian's linux-source-6.12
  testbed kernel --source ~/linux      a pristine tree to change, not built yet
  testbed kernel --kernel ~/linux      a tree of your own, with your changes
  testbed kernel --kernel newest       the newest that Debian has
  testbed kernel --hz 250              another number of timer ticks per second
  testbed kernel --kernel-option tun   with TUN devices (docs/howto/kernels.md)
  testbed kernel --prune               remove kernels that nobody uses any more
  testbed kernel --module PATH         build a module (a .c file or a folder)

The first run builds the kernel by itself.
"""
import argparse
import pathlib
import sys

from testbed.cli import _shared
from testbed.core.errors import UsageError

HELP = "build the guest kernel, or a module against it"
GROUP = "Set up and explore"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _shared.add_engine_options(parser, _shared.KERNEL_OPTIONS)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--source", metavar="DIR", type=pathlib.Path, help="only put the pristine source of the kernel "
                     "into this new folder, for you to change")
    one.add_argument("--prune", action="store_true", help="remove cached kernels that no run used for a "
                     "month, or that no build would make today")
    one.add_argument("--module", metavar="PATH", help="build the module of PATH (a .c file or a folder)")


def main(arguments: argparse.Namespace) -> int:
    import kernel
    if arguments.prune:
        freed = kernel.prune((None, arguments.kernel), report=print)
        print(f"{freed >> 20} MB are free now")
        return 0
    if arguments.source is not None:
        for option, given in (("--hz", arguments.hz), ("--kernel-option", arguments.kernel_options)):
            if given:
                raise UsageError(f"{option}: a source has none; give it to the command that builds or runs the tree")
        kernel.write_source(arguments.kernel, arguments.source, _shared.reporter())
        print(f"{arguments.source}: change something, then `testbed run ... --kernel {arguments.source}`")
        return 0
    built = kernel.ensure(arguments.kernel, _shared.reporter(), arguments.hz or kernel.USUAL_HZ,
                          arguments.kernel_options)
    if arguments.module:
        module = kernel.build_module(built, arguments.module, _shared.reporter())
        if module.warnings:
            print(module.warnings, file=sys.stderr)
        for part in module.parts:
            print(f"module               {part.file}")
            print(f"congestion controls  {', '.join(part.congestion_controls) or 'none'}")
        return 0
    print(f"kernel               {built.program}")
    print(f"release              {built.release}")
    print(f"source               {built.source}")
    print(f"ticks per second     {built.hz}")
    print(f"options              {', '.join(built.options) or 'none'}")
    print(f"congestion controls  {', '.join(built.congestion_controls)}")
    return 0

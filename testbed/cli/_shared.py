# SPDX-License-Identifier: GPL-2.0-only
"""What several commands have in common."""
import argparse
import sys
from collections.abc import Callable

_KERNEL_HELP = "a version such as 6.12 (default), newest, a kernel tree or a tarball"


def add_kernel_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kernel", metavar="PATH|VERSION", help=f"guest kernel: {_KERNEL_HELP}")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", default="uml",
                        help="where runs take place (default: uml; see `testbed list engines`)")
    add_kernel_argument(parser)


def engine_options(arguments: argparse.Namespace) -> dict[str, str | None]:
    """Options for an engine; `newest` becomes the version it is today, in `arguments` too."""
    import kernel
    arguments.kernel = kernel.resolve(arguments.kernel, reporter())
    return {"kernel": arguments.kernel}


def reporter() -> Callable[[str], None]:
    """A function that shows what is being done: one changing line on a terminal, else plain lines."""
    last = [""]

    def plain(text: str) -> None:
        if text.split(":")[0] != last[0].split(":")[0]:
            print(text, file=sys.stderr)
        last[:] = [text]

    def line(text: str) -> None:
        print(f"\r\033[K{text[:100]}", end="" if text.startswith("building") else "\n", file=sys.stderr, flush=True)
    return line if sys.stderr.isatty() else plain

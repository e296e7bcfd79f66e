# SPDX-License-Identifier: GPL-2.0-only
"""What several commands have in common."""
import sys

import kernel


def add_engine_arguments(parser):
    parser.add_argument("--engine", default="uml", help="where runs take place (default: uml; see `testbed list engines`)")
    parser.add_argument("--kernel", metavar="PATH|VERSION",
                        help="guest kernel: a version such as 6.12 (default), newest, a kernel tree or a tarball")


def engine_options(arguments):
    """Options for an engine; `newest` becomes the version it is today, in `arguments` too."""
    arguments.kernel = kernel.resolve(arguments.kernel, reporter())
    return {"kernel": arguments.kernel}


def reporter():
    """A function that shows what is being done: one changing line on a terminal, else plain lines."""
    if not sys.stderr.isatty():
        last = []

        def plain(text):
            if not last or text.split(":")[0] != last[0].split(":")[0]:
                print(text, file=sys.stderr)
            last[:] = [text]
        return plain

    def line(text):
        print(f"\r\033[K{text[:100]}", end="" if text.startswith("building") else "\n", file=sys.stderr, flush=True)
    return line

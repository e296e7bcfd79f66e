# SPDX-License-Identifier: GPL-2.0-only
"""What several commands have in common."""
import argparse
import sys
from collections.abc import Callable
from typing import Any

from testbed import engines
from testbed.cli._parser import Container
from testbed.core import units

#: what counts as equal, as a share of the reference mean: as analysis.stats has it, which takes long to load
MARGIN = 0.05


def add_kernel_argument(parser: Container) -> None:
    parser.add_argument("--kernel", metavar="PATH|VERSION",
                        help="guest kernel: a version such as 6.12 (default), newest, a kernel tree or a tarball; "
                        "`run` compares several, separated by commas")
    parser.add_argument("--hz", type=_hz, metavar="N", help="timer ticks per second of the guest kernel: 100, 250, 300 "
                        "or 1000 (default)")
    parser.add_argument("--kernel-option", metavar="NAME", type=_kernel_option, action="append", default=[],
                        dest="kernel_options", help="build the guest kernel with this option; stock: without the "
                        "speed patches (docs/kernels.md); may be repeated")


def _kernel_option(text: str) -> str:
    import kernel
    if text not in kernel.option_names():
        raise argparse.ArgumentTypeError(f"no kernel option {text!r}; there are: {', '.join(kernel.option_names())}")
    return text


def _hz(text: str) -> int:
    import kernel
    known = [str(hz) for hz in kernel.HZ]
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r}: one of {', '.join(known)} expected")
    return int(text)


def add_engine_arguments(parser: Container) -> None:
    parser.add_argument("--engine", default=engines.DEFAULT,
                        help="kernel or simulator (default: %(default)s; see `testbed list engines`); `run` compares "
                        "several, separated by commas")
    add_engine_options(parser)


def add_engine_options(parser: Container) -> None:
    """Of whatever engine it is."""
    add_kernel_argument(parser)
    parser.add_argument("--ns3", metavar="PATH", help="engine ns3: a built ns-3 tree, or its installation prefix "
                        "(default: Debian's)")
    parser.add_argument("--no-confine", action="store_true",
                        help="do not sandbox guests")


def add_margin_argument(parser: Container, default: float | None = MARGIN) -> None:
    parser.add_argument("--margin", type=share, default=default, metavar="PERCENT",
                        help="what counts as equal, in percent of the reference (default: 5%%; docs/statistics.md)")


def margin_words(arguments: argparse.Namespace) -> list[str]:
    """--margin as it can be typed again; nothing if it is what it would be anyway."""
    return ["--margin", f"{100 * arguments.margin:g}%"] if arguments.margin != MARGIN else []


def share(text: str) -> float:
    """'5%' -> 0.05"""
    try:
        kind, value = units.parse(text.strip()) or ("", 0)
    except ValueError:
        kind, value = "", 0
    if kind != "percent" or not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"{text!r}: a percentage above 0 and below 100 expected, such as 5%")
    return float(value) / 100


def positive(text: str) -> int:
    """'2' -> 2"""
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:6]) or len(text) > 5:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 1 to 99999 expected")
    return int(text)


def engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was said of the engine's options; `newest` becomes the version it is today, in `arguments` too."""
    options: dict[str, Any] = {}
    if arguments.kernel is not None:
        import kernel
        options["kernel"] = arguments.kernel = kernel.resolve(arguments.kernel, reporter())
    if arguments.hz is not None:
        options["hz"] = arguments.hz
    if arguments.kernel_options:
        import kernel
        options["kernel_options"] = list(kernel.ordered_options(arguments.kernel_options))
    if arguments.ns3 is not None:
        options["ns3"] = arguments.ns3
    if arguments.no_confine:
        options["confine"] = False
    return options


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

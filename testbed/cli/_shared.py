# SPDX-License-Identifier: GPL-2.0-only
"""What several commands have in common."""
import argparse
from collections.abc import Callable, Collection
from typing import Any

from testbed import engines
from testbed.cli._parser import Container
from testbed.core import progress, units

#: what counts as equal, as a share of the reference mean: as analysis.stats has it, which takes long to load
MARGIN = 0.05
#: options of engines that say which guest kernel
KERNEL_OPTIONS = ("kernel", "hz", "kernel_options")
reporter = progress.reporter


def add_engine_arguments(parser: Container) -> None:
    parser.add_argument("--engine", default=engines.DEFAULT,
                        help="kernel or simulator (default: %(default)s; see `testbed list engines`); `run` compares "
                        "several, separated by commas")
    add_engine_options(parser)


def add_engine_options(parser: Container, names: Collection[str] | None = None) -> None:
    """Of whatever engine it is; names: these only."""
    for name, (engine, option) in engines.options().items():
        if names is not None and name not in names:
            continue
        words = option.help.replace("%", "%%")
        if option.value:
            parser.add_argument(option.flag, dest=name, metavar=option.value, help=words,
                                type=_type(engine, name), action="append" if option.repeats else "store",
                                default=[] if option.repeats else None)
        else:
            parser.add_argument(option.flag, dest=name, help=words, action="store_const",
                                const=not option.flag.startswith("--no-"))


def _type(engine: str, option: str) -> Callable[[str], object]:
    """What makes a value of the text after an option: the engine, which is imported for that only."""
    def parsed(text: str) -> object:
        try:
            return engines.kind(engine).parsed(option, text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None
    return parsed


def add_margin_argument(parser: Container, default: float | None = MARGIN) -> None:
    parser.add_argument("--margin", type=share, default=default, metavar="PERCENT",
                        help="what counts as equal, in percent of the reference (default: 5%%; "
                        "docs/explanation/statistics.md)")


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
    given = {name: getattr(arguments, name, None) for name in engines.options()}
    options = {name: value for name, value in given.items() if value not in (None, [])}
    if "kernel" in options:
        import kernel
        options["kernel"] = arguments.kernel = kernel.resolve(arguments.kernel, reporter())
    return options


def engine_words(arguments: argparse.Namespace, names: Collection[str] | None = None) -> list[str]:
    """Options of engines as they can be typed again; names: these only."""
    return [word for name, (_, option) in engines.options().items() if names is None or name in names
            if (given := getattr(arguments, name, None)) not in (None, []) for word in option.words(given)]

# SPDX-License-Identifier: GPL-2.0-only
"""Work with Tmix connection vector files, anybody's and in either format.

  testbed tmix info trace.cvec.gz --json
  testbed tmix convert trace.cvec trace.alt --format alternate
  testbed tmix synth new.cvec.gz --duration 600 --seed 7
  testbed tmix shuffle trace.cvec shuffled.cvec --bin 5 --seed 7
"""
import argparse
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from testbed.errors import TestbedError, UsageError

HELP = "look at, convert, make and shuffle connection vector files"
#: shorter than a microsecond there is nothing, longer than that no trace
_LEAST_S, _MOST_S = 1e-6, 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = commands.add_parser("info", help="connections, ADUs, bytes, rates of a file")
    info.add_argument("file")
    info.add_argument("--json", action="store_true", help="as JSON")
    convert = commands.add_parser("convert", help="write a file in the other format")
    synth = commands.add_parser("synth", help="make a file of synthetic connections")
    shuffle = commands.add_parser("shuffle", help="put bins of a file in another order")
    for command in (convert, shuffle):
        command.add_argument("file")
    for command in (info, convert, shuffle):
        command.add_argument("--most-bytes", type=int, metavar="N",
                             help="read a file of more than 4 GB, or one that unpacks to far more than its size")
    for command in (convert, synth, shuffle):
        command.add_argument("output", help="compressed if it ends in .gz")
        command.add_argument("--format", choices=("original", "alternate"),
                             default="alternate" if command is convert else "original")
    synth.add_argument("--duration", type=float, required=True, metavar="SECONDS")
    shuffle.add_argument("--bin", type=float, required=True, metavar="SECONDS")
    for command in (synth, shuffle):
        command.add_argument("--seed", type=int, default=1)


def main(arguments: argparse.Namespace) -> int:
    if "file" in arguments:
        _check_input(arguments.file)
    if "output" in arguments and os.path.isdir(arguments.output):
        raise UsageError(f"{arguments.output}: a folder; the name of a file expected")
    for name in ("duration", "bin"):
        if name in arguments and not _LEAST_S <= getattr(arguments, name) <= _MOST_S:
            raise UsageError(f"--{name} {getattr(arguments, name):g}: "
                             f"a number of seconds from {_LEAST_S:f} to {_MOST_S:.0f} expected")
    if getattr(arguments, "most_bytes", None) is not None and arguments.most_bytes < 1:
        raise UsageError(f"--most-bytes {arguments.most_bytes}: a number of bytes from 1 expected")
    if "seed" in arguments and not 0 <= arguments.seed < 2**63:
        raise UsageError(f"--seed {arguments.seed}: a number from 0 to 2^63 - 1 expected")
    from traffic.tmix.reader import VectorError
    try:
        _carry_out(arguments)
    except VectorError as problem:
        raise UsageError(str(problem)) from None
    except BrokenPipeError:
        raise
    except ValueError as problem:               # too many connections; a vector that a format has no words for
        raise UsageError(str(problem)) from None
    except OSError as problem:
        name = problem.filename
        if "output" in arguments and (not problem.filename or str(problem.filename).endswith(".part")):
            name = arguments.output             # written under another name first
        raise TestbedError(f"{name or arguments.file}: {problem.strerror or problem}") from None
    return 0


def _carry_out(arguments: argparse.Namespace) -> None:
    from traffic.tmix import tools
    from traffic.tmix.reader import Limits
    limits = Limits(getattr(arguments, "most_bytes", None))
    if arguments.action == "info":
        facts = tools.info(arguments.file, limits=limits)
        print(json.dumps(facts, indent=1) if arguments.json else "\n".join(_lines(facts)))
    elif arguments.action == "convert":
        tools.convert(arguments.file, arguments.output, arguments.format, limits=limits)
    elif arguments.action == "synth":
        tools.synth(arguments.output, arguments.duration, arguments.seed, text_format=arguments.format)
    else:
        tools.shuffle(arguments.file, arguments.output, arguments.bin, arguments.seed, text_format=arguments.format,
                      limits=limits)


def _check_input(path: str) -> None:
    """UsageError unless it is a file that can be read from its beginning as often as needed."""
    try:
        kind = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path}: no such file") from None
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}") from None
    if not stat.S_ISREG(kind):
        raise UsageError(f"{path}: {'a folder' if stat.S_ISDIR(kind) else 'a pipe or device'}; a regular file expected")


def _lines(facts: dict[str, Any], indent: str = "") -> Iterator[str]:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{name}"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name:{width}}  {value}"

# SPDX-License-Identifier: GPL-2.0-only
"""Work with Tmix connection vector files, anybody's and in either format.

  testbed tmix info trace.cvec.gz --json
  testbed tmix convert trace.cvec trace.alt --format alternate
  testbed tmix synth new.cvec.gz --duration 600 --seed 7
  testbed tmix shuffle trace.cvec shuffled.cvec --bin 5 --seed 7
"""
import json
import pathlib

from testbed.errors import TestbedError, UsageError

HELP = "look at, convert, make and shuffle connection vector files"


def add_arguments(parser):
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = commands.add_parser("info", help="connections, ADUs, bytes, rates of a file")
    info.add_argument("file")
    info.add_argument("--json", action="store_true", help="as JSON")
    convert = commands.add_parser("convert", help="write a file in the other format")
    synth = commands.add_parser("synth", help="make a file of synthetic connections")
    shuffle = commands.add_parser("shuffle", help="put bins of a file in another order")
    for command in (convert, shuffle):
        command.add_argument("file")
    for command in (convert, synth, shuffle):
        command.add_argument("output", help="compressed if it ends in .gz")
        command.add_argument("--format", choices=("original", "alternate"),
                             default="alternate" if command is convert else "original")
    synth.add_argument("--duration", type=float, required=True, metavar="SECONDS")
    shuffle.add_argument("--bin", type=float, required=True, metavar="SECONDS")
    for command in (synth, shuffle):
        command.add_argument("--seed", type=int, default=1)


def main(arguments):
    from traffic.tmix import tools
    from traffic.tmix.reader import VectorError
    if hasattr(arguments, "file") and not pathlib.Path(arguments.file).is_file():
        raise UsageError(f"{arguments.file}: no such file")
    try:
        if arguments.action == "info":
            facts = tools.info(arguments.file)
            print(json.dumps(facts, indent=1) if arguments.json else "\n".join(_lines(facts)))
        elif arguments.action == "convert":
            tools.convert(arguments.file, arguments.output, arguments.format)
        elif arguments.action == "synth":
            if not 0 < arguments.duration <= 1e6:
                raise UsageError("--duration: seconds above 0 expected")
            tools.synth(arguments.output, arguments.duration, arguments.seed, text_format=arguments.format)
        elif arguments.action == "shuffle":
            if arguments.bin <= 0:
                raise UsageError("--bin: seconds above 0 expected")
            tools.shuffle(arguments.file, arguments.output, arguments.bin, arguments.seed, text_format=arguments.format)
    except VectorError as problem:
        raise UsageError(str(problem)) from None
    except OSError as problem:
        raise TestbedError(f"{problem.filename or arguments.output}: {problem.strerror}") from None
    return 0


def _lines(facts, indent=""):
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{name}"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name:{width}}  {value}"

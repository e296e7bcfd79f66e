# SPDX-License-Identifier: GPL-2.0-only
"""Work with Tmix connection vector files, in either format.

  testbed tmix info trace.cvec.gz --json
  testbed tmix convert trace.cvec trace.alt --format alternate
  testbed tmix synth new.cvec.gz --duration 600 --seed 7 --set preset=unc-like
  testbed tmix shuffle trace.cvec shuffled.cvec --bin 5 --seed 7
  testbed tmix from-pcap capture.pcap --output capture.cvec.gz
  testbed tmix plot web unc-like ~/traces/r4s1.cvec -o page
"""
import argparse
import json
import os
import pathlib
import shlex
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from testbed.cli import _from_pcap
from testbed.core import units
from testbed.core.errors import TestbedError, UsageError
from testbed.core.fields import FieldError
from testbed.core.yaml_file import parse_setting

if TYPE_CHECKING:
    from traffic.tmix.batch import Batch
    from traffic.tmix.reader import Limits
    from traffic.tmix.synth import SynthParameters

HELP = "look at, convert and make connection vectors"
GROUP = "Set up and explore"
#: shorter than a microsecond there is nothing, longer than that no trace
_LEAST_S, _MOST_S = 1e-6, 1e6
#: how often connections start in presets that are drawn: in ten minutes there are 100,000
_DRAWN_PER_SECOND = 1e5 / 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = commands.add_parser("info", help="connections, ADUs, bytes, rates of a file")
    info.add_argument("file")
    info.add_argument("--json", action="store_true", help="as JSON")
    convert = commands.add_parser("convert", help="write a file in the other format")
    synth = commands.add_parser("synth", help="make a file of synthetic connections")
    shuffle = commands.add_parser("shuffle", help="shuffle the bins of a file")
    for command in (convert, shuffle):
        command.add_argument("file")
    plot = commands.add_parser("plot", help="draw distributions and the load over time, side by side")
    plot.add_argument("sources", nargs="+", metavar="SOURCE",
                      help="a vector file, a folder of them, or a preset of the synthesiser (web, unc-like)")
    plot.add_argument("-o", "--output-folder", type=pathlib.Path, required=True, metavar="FOLDER",
                      help="where the page goes: index.html, figure as SVG and PNG, tables")
    plot.add_argument("--rate", default="40 Mbit/s",
                      help="rate of transfers (default: %(default)s, the share of a long one on 100 Mbit/s at "
                           "60 %% load)")
    _from_pcap.add_arguments(commands.add_parser("from-pcap", help="make a file of the connections of a capture"))
    for command in (info, convert, shuffle, plot):
        command.add_argument("--most-bytes", type=int, metavar="N",
                             help="allow so many bytes: for a file of more than 4 GB, or one that unpacks to far more "
                             "than its size")
    for command in (convert, synth, shuffle):
        command.add_argument("output", help="compressed if it ends in .gz")
        command.add_argument("--format", choices=("original", "alternate"),
                             default="alternate" if command is convert else "original")
    synth.add_argument("--duration", type=float, required=True, metavar="SECONDS")
    plot.add_argument("--duration", type=float, default=3600.0, metavar="SECONDS",
                      help="of presets (default: %(default)g)")
    synth.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
                       help="a parameter, such as preset=unc-like or mean_acceptor='18 kB' (docs/reference/tmix.md); "
                            "may be repeated")
    shuffle.add_argument("--bin", type=float, required=True, metavar="SECONDS")
    for command in (synth, shuffle, plot):
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
        tools.synth(arguments.output, arguments.duration, arguments.seed, _parameters(arguments.settings),
                    text_format=arguments.format)
    elif arguments.action == "from-pcap":
        _from_pcap.carry_out(arguments)
    elif arguments.action == "plot":
        print(_plot(arguments, limits))
    else:
        tools.shuffle(arguments.file, arguments.output, arguments.bin, arguments.seed, text_format=arguments.format,
                      limits=limits)


def _parameters(settings: list[str]) -> "SynthParameters":
    """The synthesiser's parameters with what --set says. UsageError if they make no sense."""
    from traffic.tmix.synth import decode
    given: dict[str, object] = {}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator or not key.strip() or not text.strip():
            raise UsageError(f"--set {setting}: key=value expected, such as preset=unc-like")
        value = parse_setting(f"--set {key}", text)
        try:
            quantity = units.parse(value) if isinstance(value, str) else None
        except ValueError as problem:
            raise UsageError(f"--set {key}: {problem}") from None
        given[f"{key.strip()}_{quantity[0]}" if quantity else key.strip()] = quantity[1] if quantity else value
    try:
        return decode(given)
    except FieldError as problem:
        raise UsageError(f"--set {problem.field}: {problem}") from None


def _plot(arguments: argparse.Namespace, limits: "Limits") -> pathlib.Path:
    """Make the page; its path."""
    from analysis.pages import vectors
    try:
        rate = units.parse(arguments.rate)
    except ValueError as problem:
        raise UsageError(f"--rate: {problem}") from None
    if rate is None or rate[0] != "bps" or not rate[1] >= 1:
        raise UsageError(f"--rate {arguments.rate}: a rate such as '40 Mbit/s' expected")
    names = [pathlib.Path(source).name or source for source in arguments.sources]
    labels = arguments.sources if len(set(names)) < len(names) else names
    if len(set(labels)) < len(labels):
        raise UsageError("the same source is named twice")
    described = [vectors.describe(label, _source(source, arguments, limits), rate[1])
                 for label, source in zip(labels, arguments.sources)]
    words = ["bin/testbed", "tmix", "plot", *arguments.sources, "-o", str(arguments.output_folder),
             "--rate", arguments.rate, "--duration", f"{arguments.duration:g}", "--seed", str(arguments.seed)]
    return vectors.write(described, rate[1], arguments.output_folder, shlex.join(words))


def _source(name: str, arguments: argparse.Namespace, limits: "Limits") -> "Batch":
    """The connections of a file, of all files of a folder, or of a preset."""
    from traffic.tmix import batch, reader, sources, synth
    from traffic.tmix.presets import PRESETS
    if name in PRESETS and not os.path.exists(name):
        parameters = synth.decode({"preset": name, "connections_per_second": _DRAWN_PER_SECOND})
        expected = synth.expected_connections(arguments.duration, parameters)
        if expected > limits.connections:
            raise UsageError(f"--duration: about {expected:.0f} connections; at most {limits.connections}")
        return synth.synthesise(arguments.duration, arguments.seed, parameters)
    if os.path.isdir(name):
        files = sources.trace_files(name)
    elif os.path.exists(name):
        files = [pathlib.Path(name)]
    else:
        raise UsageError(f"{name}: no such file or folder, and no preset; presets are: {', '.join(PRESETS)}")
    read = []
    for path in files:
        _check_input(str(path))
        read.append(batch.from_vectors(reader.read_vectors(path, limits=limits)))
    return batch.concatenate(read)


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


def _lines(facts: Mapping[str, object], indent: str = "") -> Iterator[str]:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{name}"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name:{width}}  {value}"

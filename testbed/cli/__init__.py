# SPDX-License-Identifier: GPL-2.0-only
"""The command line: one file per command, found by listing this folder.

A command file has `HELP` (one line), `add_arguments(parser)` and `main(arguments)`, which
returns an exit code.
"""
import argparse
import importlib
import pathlib
import signal
import sys

from analysis.runs import AnalysisError
from kernel import KernelError
from testbed import __version__
from testbed.errors import INTERRUPTED, TestbedError
from testbed.progress import print_error
from traffic import ParameterError

_EPILOG = """\
First steps:
  testbed doctor                                  what is missing on this machine
  testbed list                                    scenarios, congestion controls, engines
  testbed run access-link --quick --cca reno,cubic
  testbed run access-link --cca cubic,bbr --load 85 --seeds 3
  testbed report access-link-load60-quick         make its report again
  testbed verify results/access-link-load60-quick/runs/cubic-seed1

Exit codes: 0 done, 1 other error, 2 wrong usage or scenario, 3 something is missing on this
machine, 4 a run failed, 5 not reproducible, 130 interrupted.
"""


def _commands():
    return sorted(f.stem.rstrip("_") for f in pathlib.Path(__file__).parent.glob("[a-z]*.py"))


def _load(name):
    stem = name if (pathlib.Path(__file__).parent / f"{name}.py").exists() else f"{name}_"
    return importlib.import_module(f"testbed.cli.{stem}")


def main(argv=None):
    """Run a command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="testbed", epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Evaluate TCP congestion control on the real Linux kernel, in emulated networks, in virtual time.")
    parser.add_argument("--version", action="version", version=f"testbed {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _commands():
        command = _load(name)
        sub = subparsers.add_parser(name, help=command.HELP, description=command.__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
        command.add_arguments(sub)
        sub.set_defaults(main=command.main)
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return arguments.main(arguments) or 0
    except TestbedError as problem:
        print_error(str(problem))
        return problem.exit_code
    except KernelError as problem:
        print_error(str(problem))
        return 3
    except (ParameterError, AnalysisError) as problem:
        print_error(str(problem))
        return 2
    except KeyboardInterrupt:
        print_error("interrupted; finished runs are kept, the same command goes on from here")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as problem:              # a full disk, a folder without permission
        print_error(f"{problem.strerror}: {problem.filename}" if problem.filename else str(problem))
        return 1


def _interrupt(*_signal):
    raise KeyboardInterrupt

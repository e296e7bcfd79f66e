# SPDX-License-Identifier: GPL-2.0-only
"""The command line: one file per command, found by listing this folder.

A command file has `HELP` (one line) and perhaps `GROUP` (under which heading of `testbed --help` it
stands), literals that are read without importing the file, `add_arguments(parser)`, and
`main(arguments)`, which returns an exit code. Only the command that was asked for is imported.
Commands that run experiments or look at results take `--results FOLDER`, unless they say `NO_RESULTS = True`.
"""
import argparse
import ast
import functools
import importlib
import os
import pathlib
import shlex
import sys
import types
from collections.abc import Sequence
from typing import Any

from testbed import __version__
from testbed.cli import _process
from testbed.cli._parser import Parser, add_results_option
from testbed.core import guesses, imports
from testbed.core.errors import UsageError

_OVERVIEW = """\
usage: testbed COMMAND [OPTIONS]         (testbed COMMAND --help says more)

Evaluate TCP congestion control on the real Linux kernel, in virtual time.

First steps:
  testbed doctor                                  what is missing here
  testbed run access-link --quick --cca reno,cubic
  testbed report access-link-load60-quick         make its report again
Results go to ./results; --results FOLDER or TESTBED_RESULTS names another.
Exit codes and examples: docs/reference/commands.md
"""
_GROUPS = ("Run experiments", "Look at results", "Set up and explore", "More")
_GROUPS_WITH_RESULTS = _GROUPS[:2]
_FOLDER = pathlib.Path(__file__).parent
#: commands of the version before, and what they are now
_RENAMED = {"all": "suite run all", "judge": "runs judge", "query": "runs query", "rm": "runs rm", "site": "report",
            "studies": "suite run studies"}
#: commands that, typed again, go on where they were interrupted
_RESUMED = {"assess", "bisect", "regress", "run", "search", "sensitivity", "suite"}
#: commands that take a verb now, and the verb that they had without one
_USUAL_VERBS = {"runs": "list", "suite": "run"}


def command_names() -> list[str]:
    """All commands."""
    return sorted(f.stem.rstrip("_") for f in _FOLDER.glob("[a-z]*.py"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    imports.remember_in(_cache_dir)
    words = [*(sys.argv[1:] if argv is None else argv)]     # list is the name of a command here
    return _process.guarded(lambda: _run(words), resumes=bool({*words[:1]} & _RESUMED))


def _cache_dir() -> pathlib.Path:
    from kernel.source import cache_dir
    return cache_dir()


def _run(words: list[str]) -> int:
    if {"_ARGCOMPLETE", "COMP_LINE"} <= {*os.environ}:
        from testbed.cli import _completion
        _completion.answer(_parser("".join(_completion.words_before()[:1])))
        return 0
    parser = _parser(next((word for word in words if not word.startswith("-")), ""))
    if not words:
        parser.print_help()
        return 0
    _refuse_empty(words)
    _refuse_options_first(words, command_names(), "command")
    words = _with_verb(words)
    _refuse_renamed(words)
    arguments = parser.parse_args(words)
    _process.check_current_folder()
    code: int = arguments.main(arguments) or 0
    return code


def _parser(wanted: str) -> argparse.ArgumentParser:
    """The parser of all commands; only that of the wanted one knows its arguments."""
    parser = _TopParser(prog="testbed", usage="testbed COMMAND [OPTIONS]")
    parser.add_argument("--version", action="version", version=f"testbed {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="testbed",
                                       parser_class=Parser)
    for name in command_names():
        if name != wanted:
            subparsers.add_parser(name)
            continue
        command = _load(name)
        sub = subparsers.add_parser(name, description=command.__doc__)
        command.add_arguments(sub)
        if _literals(name).get("GROUP") in _GROUPS_WITH_RESULTS and not _literals(name).get("NO_RESULTS"):
            add_results_option(sub)
        sub.set_defaults(main=command.main)
    return parser


class _TopParser(Parser):
    def format_help(self) -> str:
        """All commands, by what they are for."""
        literals = {name: _literals(name) for name in command_names()}
        order = [*_GROUPS, *sorted({found.get("GROUP", "") for found in literals.values()} - {*_GROUPS, ""})]
        lines = [_OVERVIEW]
        for group in order:
            mine = {name: found["HELP"] for name, found in literals.items() if found.get("GROUP", _GROUPS[-1]) == group}
            lines += [f"{group}:\n"] * bool(mine)
            lines += [f"  {name:<12} {text}\n" for name, text in sorted(mine.items())]
        return "".join(lines)


def _path(name: str) -> pathlib.Path:
    """The file of a command; one whose name Python reserves has an underscore behind it."""
    path = _FOLDER / f"{name}.py"
    return path if path.exists() else _FOLDER / f"{name}_.py"


def _load(name: str) -> types.ModuleType:
    return importlib.import_module(f"testbed.cli.{_path(name).stem}")


@functools.cache
def _literals(name: str) -> dict[str, Any]:
    """HELP, GROUP and NO_RESULTS of a command that is not imported."""
    found = {target.id: ast.literal_eval(node.value) for node in ast.parse(_path(name).read_bytes()).body
             if isinstance(node, ast.Assign) for target in node.targets
             if isinstance(target, ast.Name) and target.id in ("HELP", "GROUP", "NO_RESULTS")}
    if "HELP" not in found:
        raise ValueError(f"{_path(name)}: HELP is missing")
    return found


def _with_verb(words: list[str]) -> list[str]:
    """`suite published` is `suite run published`."""
    is_suite = words[0] == "suite" and len(words) > 1 and (
        words[1] in _load("suite").names() or words[1].endswith((".yaml", ".yml")))
    return ["suite", "run", *words[1:]] if is_suite else words


def _refuse_renamed(words: list[str]) -> None:
    """UsageError that names the new command, where the one of the version before is asked for."""
    name, rest = words[0], words[1:]
    if name in _RENAMED:
        raise UsageError(f"testbed {name} is now `testbed {_RENAMED[name]}`")
    if name in _USUAL_VERBS and rest and not {*rest} & {"-h", "--help"} and rest[0] not in _load(name).VERBS:
        if guesses.close(rest[0], _load(name).VERBS):
            return                      # a mistyped verb: the parser says which was meant
        _refuse_options_first(rest, _load(name).VERBS, "verb", name)
        if name == "suite":
            raise UsageError(f"testbed suite {rest[0]}: {', '.join(_load(name).VERBS)} or a suite expected; "
                             f"{guesses.alternatives(rest[0], _load(name).names())}")
        raise UsageError(f"testbed {name} takes a verb now: {', '.join(_load(name).VERBS)}; what was `testbed {name}` "
                         f"is `testbed {name} {_USUAL_VERBS[name]}`")


def _refuse_options_first(words: list[str], names: Sequence[str], kind: str, *above: str) -> None:
    """UsageError that shows the right order, where a command or a verb has its options before it.

    names: of all commands, or of the verbs of the command `above`."""
    first = next((place for place, word in enumerate(words) if word in names), 0)
    options = words[:first]
    if options and options[0].startswith("-") and not {*options} & {"-h", "--help", "--version"}:
        right = shlex.join(["testbed", *above, *words[first:], *options])
        raise UsageError(f"{options[0]}: options come behind the {kind}: {right}")


def _refuse_empty(words: list[str]) -> None:
    """An empty value (`--kernel=`, `--cca ''`) is a variable that was not set: never a default."""
    for before, word in zip(["", *words], words):
        if not word.strip():
            raise UsageError(f"{before}: a value expected, not an empty one" if before.startswith("--")
                             else "an empty argument")
        if word.startswith("--") and not word.partition("=")[2].strip() and "=" in word:
            raise UsageError(f"{word.rstrip(' =')}: a value expected, not an empty one")

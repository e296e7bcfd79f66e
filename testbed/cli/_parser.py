# SPDX-License-Identifier: GPL-2.0-only
"""How commands read their words: options in full, short usage lines, help that fits a terminal of 80 columns."""
from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable
from typing import Any

from testbed.core import guesses

#: of a line of help, however wide the terminal is
_MOST_COLUMNS = 100
RESULTS_VARIABLE = "TESTBED_RESULTS"
#: what options are added to: a parser, or a group of its help
Container = argparse._ActionsContainer


class Parser(argparse.ArgumentParser):
    """Options are written in full: `--seed` is none of `--seeds`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False, formatter_class=_Help)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, left = super().parse_known_args(args, namespace)
        if left:                        # told by the command whose options these are not
            options = [option for action in self._actions for option in action.option_strings]
            wrong = next((word.partition("=")[0] for word in left if word.startswith("-")), "")
            self.error(f"unrecognized arguments: {' '.join(left)}{guesses.question(wrong, options)}")
        return found, left

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; "
                                         f"{guesses.alternatives(str(value), map(str, action.choices))}")


class _ResultsFolder(argparse.Action):
    """Sets the environment variable that `results_dir` and the command's own programs read."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        folder = os.path.abspath(os.path.expanduser(values))
        if os.path.exists(folder) and not os.path.isdir(folder):
            parser.error(f"--results {values}: not a folder")
        os.environ[RESULTS_VARIABLE] = folder


def add_results_option(parser: argparse.ArgumentParser) -> None:
    """--results FOLDER, of a command or of each of its verbs."""
    verbs = [verb for action in parser._actions if isinstance(action, argparse._SubParsersAction)
             for verb in dict.fromkeys(action.choices.values())]
    for one in verbs or [parser]:
        titled = [group for group in one._action_groups if group.title == "results"]
        (titled or [one])[0].add_argument(
            "--results", action=_ResultsFolder, metavar="FOLDER", default=argparse.SUPPRESS,
            help=f"where runs and reports are (default: {RESULTS_VARIABLE}, or ./results)")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Usage without the options that may be left out: they follow, one by one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26,
                         width=min(shutil.get_terminal_size().columns, _MOST_COLUMNS) - 2)

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action],
                  groups: Iterable[Any], prefix: str | None = None) -> None:
        every = list(actions)
        # with a prefix, this is the name of a command's verb
        if usage is None and prefix is None:
            needed = [action for action in every if action.required or not action.option_strings]
            if len(needed) < len(every):
                self._prog += " [OPTIONS]"
            every, groups = needed, []
        super().add_usage(usage, every, groups, prefix)

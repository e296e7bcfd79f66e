# SPDX-License-Identifier: GPL-2.0-only
"""Open Mininet's command line on a scenario's network, in real time.

  testbed shell access-link                     then: n1 ping -c1 n4
  testbed shell access-link --cca ./tcp_mine.c  all hosts use your module
  testbed shell parking-lot --set topology.access.rate=10Mbit/s
  testbed shell access-link --exec "n1 ping -c3 n4" --exec "r1 tc -s qdisc"
  testbed shell access-link < commands.txt
  sudo bin/testbed shell access-link --engine host      this machine's kernel

The scenario's traffic does not run. exit or Ctrl-D ends the shell; Ctrl-] ends
it even when nothing else does (docs/tutorial/shell.md).
"""
from __future__ import annotations

import argparse
import os
import re

from testbed import engines
from testbed.cli import _runs, _shared
from testbed.core.errors import RunFailed, UsageError
from testbed.runs.engine import EngineBase
from testbed.scenario import ccas, scenario
from testbed.scenario.scenario import Scenario
from topologies.links import varying

HELP = "Mininet's command line on a scenario's network"
GROUP = "Set up and explore"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_choice_arguments(parser)
    _runs.add_setting_arguments(parser)
    _shared.add_engine_arguments(parser)
    parser.add_argument("--exec", metavar="COMMAND", action="append", dest="commands",
                        help="run this command instead of reading commands; may be repeated")


def main(arguments: argparse.Namespace) -> int:
    _runs.check(arguments)
    loaded = scenario.load(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings)
    traced = [link.name for link in loaded.network.links if link.opportunities]
    if traced:
        raise UsageError(f"{arguments.scenario}: {traced[0]} has a trace, whose opportunities are at exact times, and "
                         "a session is in real time: set its trace to null (--set), and it has its rate all the time")
    subjects = ccas.parse(arguments.cca if arguments.cca is not None else loaded.default_ccas[0])
    engine = engines.load(arguments.engine, _shared.engine_options(arguments))
    if reason := engine.no_shell():             # before anything is built
        raise UsageError(reason)
    ready = _runs.prepare(engine, subjects, [loaded])
    if ready.broken:
        raise RunFailed(f"not opened: {', '.join(ready.broken)} cannot be used")
    variants = [record for subject in ready.subjects for record in subject.record()]
    for variant in variants:
        if variant.socket_options:
            raise UsageError(f"--cca: {variant.name} sets {', '.join(one.name for one in variant.socket_options)}, and "
                             "programs that you start here open their sockets themselves")
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--cca: {name} is given twice")
    good = engine.shell(loaded.resolved(), variants, {
        "interactive": arguments.commands is None and os.isatty(0), "commands": arguments.commands,
        "terminal": _terminal(), "welcome": _welcome(loaded, names, engine)})
    return 0 if good else 1


def _terminal() -> str:
    """The type of the user's terminal."""
    name = os.environ.get("TERM", "")
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}", name) else "dumb"


def _welcome(loaded: Scenario, ccas_there: list[str], engine: EngineBase) -> str:
    of_role: dict[str, list[str]] = {"host": [], "router": []}
    for node in loaded.network.nodes:
        of_role.setdefault(node.role, []).append(node.name)
    others = f" ({', '.join(ccas_there[1:])} can be chosen)" if ccas_there[1:] else ""
    path = next(iter(loaded.network.paths), None)
    example = f"{path.initiator} ping -c1 {path.acceptor}" if path else f"{of_role['host'][0]} ip address"
    changes = any(varying.changes(link) for link in loaded.network.links)
    return (f"{loaded.title}: hosts {_some(of_role['host'])}; routers {_some(of_role['router'])}\n"
            f"{ccas_there[0]}{others} on Linux {engine.kernel_release()}, in real time\n"
            + "Links change as their schedules say; time 0 is now\n" * changes +
            f"For example: {example}; help lists commands, exit or Ctrl-D ends, Ctrl-] ends it by force")


def _some(names: list[str]) -> str:
    return " ".join(names if len(names) <= 12 else [*names[:3], "...", names[-1]])

# SPDX-License-Identifier: GPL-2.0-only
"""Show running experiments and their progress. Ctrl-C ends it.

  testbed watch                   a live table; without a terminal: text
  testbed watch --once            one look (--json: for programs)
  testbed watch --serve 8787      a page for a browser: http://127.0.0.1:8787

It shows all runs in the results folder, whoever started them, and disturbs none
(docs/howto/watch.md).
"""
from __future__ import annotations

import argparse
import json
import signal
import time
from typing import TYPE_CHECKING

from testbed.core import ending
from testbed.core.errors import UsageError
from testbed.core.units import show_duration
from testbed.runs.live import Look, Watcher
from testbed.runs.store import results_dir

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Column

HELP = "running experiments and their progress"
GROUP = "Run experiments"
_PORT = 8787


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--serve", metavar="PORT", nargs="?", type=int, const=_PORT,
                        help=f"a page for a browser on this machine (default: port {_PORT}; 0: any that is free)")
    parser.add_argument("--every", metavar="SECONDS", type=float, default=2.0,
                        help="seconds between two looks (default: %(default)g)")
    parser.add_argument("--once", action="store_true", help="one look, then end")
    parser.add_argument("--json", action="store_true", help="with --once: as JSON")


def main(arguments: argparse.Namespace) -> int:
    if not 0.1 <= arguments.every <= 3600:
        raise UsageError(f"--every {arguments.every:g}: a number of seconds from 0.1 to 3600 expected")
    if arguments.json and not arguments.once:
        raise UsageError("--json goes with --once")
    if arguments.serve is not None and (arguments.once or not 0 <= arguments.serve < 65536):
        raise UsageError("--serve: it does not go with --once" if arguments.once else
                         f"--serve {arguments.serve}: a port from 0 to 65535 expected")
    if results_dir().exists() and not results_dir().is_dir():
        raise UsageError(f"{results_dir()} is not a folder; --results FOLDER names one")
    watcher = Watcher(results_dir())
    try:
        if arguments.serve is not None:
            _serve(watcher, arguments)
        elif arguments.once:
            look = watcher.look()
            print(json.dumps(look.record(), indent=1) if arguments.json else "\n".join(lines(look)))
        else:
            _follow(watcher, arguments.every)
    except KeyboardInterrupt as end:    # how one stops watching; other signals are errors as everywhere
        if getattr(end, "number", signal.SIGINT) != signal.SIGINT:
            raise
        ending.forget()
    return 0


def _serve(watcher: Watcher, arguments: argparse.Namespace) -> None:
    from testbed.runs import live_server
    with live_server.server(watcher, arguments.serve, arguments.every) as server:
        print(f"http://{live_server.ADDRESS}:{server.server_port} (Ctrl-C ends it)", flush=True)
        server.serve_forever()


def _follow(watcher: Watcher, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        while True:
            print("\n".join(lines(watcher.look())), flush=True)
            time.sleep(every_s)
            ending.if_asked()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_tables(watcher.look()), refresh=True)
            time.sleep(every_s)
            ending.if_asked()


def lines(look: Look) -> list[str]:
    """A look as plain text."""
    found = [f"{look.results}: {len(look.running)} run{'s'[:len(look.running) != 1]} under way"]
    for run in look.running:
        words = [f"{run.virtual_s:.0f} of {run.duration_s:.0f} s"] if run.phase == "traffic" else []
        words += [f"{run.speed:.1f}x real time"] if run.speed is not None else []
        words += [f"{show_duration(run.wall_s)} of wall time"]
        words += [f"{show_duration(run.left_s)} left"] if run.left_s is not None else []
        found.append(f"  {run.name} ({run.scenario or run.id}): {run.phase}, {', '.join(words)}")
        found += [f"    {link.name}: {link.now_mbps:.2f} Mbit/s now, {link.mean_mbps:.2f} on average, of "
                  f"{link.rate_mbps:g}; queue {link.backlog_packets} packets, {link.backlog_ms:.2f} ms; "
                  f"{link.drops} dropped" for link in run.links]
    for one in look.experiments:
        left = f", about {show_duration(one.left_s)} left" if one.left_s is not None else ""
        found.append(f"  {one.name}: {one.ended} of {one.runs} runs ended, {one.under_way} under way{left}")
    return found


def _tables(look: Look) -> "Group":
    """A look for a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text
    runs = Table("run", "phase", "", *(_right("virtual", "wall", "speed", "left")), box=None, pad_edge=False)
    links = Table("run", "link", *(_right("now", "mean", "of Mbit/s", "queue", "ms", "drops")), box=None,
                  pad_edge=False)
    experiments = Table("experiment", "", *(_right("ended", "under way", "left")), box=None, pad_edge=False)
    for run in look.running:
        runs.add_row(Text(run.name), run.phase, ProgressBar(run.duration_s or 1, run.virtual_s, width=20),
                     f"{run.virtual_s:.0f} of {run.duration_s:.0f} s", show_duration(run.wall_s),
                     "" if run.speed is None else f"{run.speed:.1f}x", _left(run.left_s))
        for link in run.links:
            links.add_row(Text(run.name), Text(link.name), f"{link.now_mbps:.2f}", f"{link.mean_mbps:.2f}",
                          f"{link.rate_mbps:g}", str(link.backlog_packets), f"{link.backlog_ms:.2f}", str(link.drops))
    for one in look.experiments:
        experiments.add_row(Text(one.name), ProgressBar(one.runs or 1, one.ended, width=20),
                            f"{one.ended} of {one.runs}", str(one.under_way), _left(one.left_s))
    head = Text(lines(look)[0] + " (Ctrl-C ends watching)", style="bold")
    return Group(head, *(table for table in (runs, links, experiments) if table.row_count))


def _right(*names: str) -> list["Column"]:
    from rich.table import Column
    return [Column(name, justify="right", no_wrap=True) for name in names]


def _left(seconds: float | None) -> str:
    return "" if seconds is None else show_duration(seconds)

# SPDX-License-Identifier: GPL-2.0-only
"""Mininet's command line on a scenario's network: what `testbed shell` opens, on this process's terminal."""
import codecs
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from mininet.cli import CLI
from mininet.log import error
from mininet.net import Mininet

from testbed.core import ip
from testbed.guest import congestion_controls, tuning
from testbed.guest.job import Job
from testbed.guest.link_changes import LinkChanges
from testbed.guest.settings import MachineSettings
from topologies.linux.network import Network


def run(job: Job, work_dir: str, ready: Callable[[], object]) -> bool:
    """Build the network of `job` and obey whoever is at the terminal; True if a given command named no node.

    ready(): called when the network stands.
    """
    session, description = job.session, job.network
    assert session is not None                  # of a run there is nobody at a terminal
    os.environ["TERM"] = session.terminal
    with MachineSettings() as machine:
        for name, value in tuning.machine_sysctls(description).items():
            machine.sysctl(name, value)
        congestion_controls.make_available(job, work_dir, machine)
        if description.cells:
            from testbed.guest import air
            air.load(job, work_dir)
        with Network(description, job.sysctls, job.timer_period_us, shells=True) as network:
            for node in network.net.hosts:
                # Mininet's would end everything at the first byte that is no text
                node.decoder = codecs.getincrementaldecoder("utf-8")("replace")
            changes = LinkChanges(network, description, job.timer_period_us)
            ready()
            with _followed(changes):
                if session.interactive:
                    print(session.welcome, flush=True)
                    _Shell(network.net)         # a slip of the user's is none of the session's
                    return False
                return _Script(network.net, _lines(session.commands)).failed


@contextlib.contextmanager
def _followed(changes: LinkChanges) -> Iterator[None]:
    """Meanwhile links change as their schedules say: 0 is now, on the wall clock."""
    ended = threading.Event()

    def follow() -> None:
        begin, due_us = time.monotonic(), 0
        try:
            while not ended.wait(max(0.0, begin + due_us / 1e6 - time.monotonic())):
                changes.sample(due_us)
                due_us += changes.interval_us
        except OSError as problem:
            error(f"*** a link's schedule ends here: {problem.strerror}\n")
    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _lines(commands: Iterable[str] | None) -> Iterable[str]:
    """The commands given, or those that come in; the commands' own programs have nothing to read."""
    lines = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return commands if commands is not None else lines


class _Shell(CLI):                  # type: ignore[misc]
    """Mininet's command line; it says which nodes there are to whoever names another."""

    failed = False

    def default(self, line: str) -> None:
        first, arguments, _ = self.parseline(line)
        if first in self.mn and arguments:
            super().default(" ".join([first, *map(self._with_address, arguments.split(" "))]))
            return
        self.failed = True
        if first in self.mn:
            error(f"*** {first}: a command expected, such as: {first} ip address\n")
        else:
            error(f"*** {line.split(None, 1)[0]}: neither a node nor a command; nodes: {' '.join(self.mn.keys())}; "
                  "commands: help\n")

    def _with_address(self, word: str) -> str:
        """Of a node with IPv6 its address; Mininet itself knows only those of IPv4."""
        address = str(self.mn[word].defaultIntf().ip or "") if word in self.mn else ""
        return address if ip.version_of(address) == 6 else word


class _Script(_Shell):
    """The same for commands that nobody types."""

    def __init__(self, net: Mininet, lines: Iterable[str]) -> None:
        self._lines = lines
        self._silence = os.pipe()           # a standard input in which never anything is
        super().__init__(net, stdin=os.fdopen(self._silence[0]))

    def run(self) -> None:
        for line in self._lines:
            if self.onecmd(self.precmd(line.rstrip("\n"))):
                break
            sys.stdout.flush()

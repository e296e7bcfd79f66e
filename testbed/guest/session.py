# SPDX-License-Identifier: GPL-2.0-only
"""A session at Mininet's command line: a terminal of its own, and what is said there (testbed/guest/shell.py)."""
import os
import termios

from testbed.guest.job import Job

#: what whoever opened the terminal hears first: the network stands
READY = b"\x06"


def serve(job: Job, work_dir: str, terminal: str) -> bool:
    """Carry out the session of `job` on the terminal of that name, as the first process of a session of processes.

    True if a given command named no node. What goes wrong is raised, with standard error as it was before.
    """
    log = os.dup(2)
    try:
        _take(terminal, echo=job.session is not None and job.session.interactive)
        # not before: Mininet's command line takes standard input as it finds it
        from testbed.guest import shell
        failed = shell.run(job, work_dir, lambda: os.write(1, READY))
        termios.tcdrain(1)
    except BaseException:
        os.dup2(log, 2)
        raise
    return failed


def _take(terminal: str, echo: bool) -> None:
    """Make the terminal that of this process, as a user expects it; without echo: lines come and go as they are."""
    os.setsid()
    fd = os.open(terminal, os.O_RDWR)               # the first that a session opens is its own
    for number in range(3):
        os.dup2(fd, number)
    os.close(fd)
    settings = termios.tcgetattr(0)
    settings[0] = settings[1] = 0
    settings[3] = termios.ICANON | termios.IEXTEN
    if echo:
        settings[0] = termios.ICRNL | termios.IXON
        settings[1] = termios.OPOST | termios.ONLCR
        settings[3] |= termios.ISIG | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHOCTL | termios.ECHOKE
    termios.tcsetattr(0, termios.TCSANOW, settings)

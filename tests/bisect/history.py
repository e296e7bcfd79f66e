# SPDX-License-Identifier: GPL-2.0-only
"""A git tree of Linux with a history of small commits, some of which bring faults back that were once mended there.

The tree is kept in the testbed's cache, and commits have the same names each time: their kernels are built once.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from typing import NamedTuple

from kernel import source

VERSION = "6.12"
_INPUT, _CUBIC, _DCTCP = "net/ipv4/tcp_input.c", "net/ipv4/tcp_cubic.c", "net/ipv4/tcp_dctcp.c"


class Edit(NamedTuple):
    """A commit: its subject, and texts of a file that stand there once, each with what takes its place."""
    subject: str
    path: str
    changes: tuple[tuple[str, str], ...]


#: after an idle time CUBIC goes on along the curve as if it had sent all the while (before commit 30927520dbae)
IDLE = "tcp_cubic: simplify idle times"
#: a round ends for HyStart only where the window grows (before commit 4e1fddc98d25)
HYSTART = "tcp_cubic: look at rounds where the window grows"
#: a pushed segment is not acknowledged at once (before commit 4720852ed9af)
DELAYED = "tcp: fewer acknowledgements"
#: DCTCP does not react to losses (before commit aecfde23108b)
DCTCP = "tcp_dctcp: marks are what counts"
WARNING = "tcp: fast recovery begins with a small window"
BROKEN, MENDED = "tcp_westwood: tidy", "tcp_westwood: mend the last commit"
EDITS = (
    Edit("tcp_vegas: a parameter that is mostly read", "net/ipv4/tcp_vegas.c", (
        ("static int alpha = 2;", "static int alpha __read_mostly = 2;"),)),
    Edit(IDLE, _CUBIC, (("\t\tif (ca->epoch_start && delta > 0) {", "\t\tif (ca->epoch_start && delta < 0) {"),)),
    Edit(BROKEN, "net/ipv4/tcp_westwood.c", (("#include <net/tcp.h>", "#include <net/tcp.h>\nstatic int tidy"),)),
    Edit(MENDED, "net/ipv4/tcp_westwood.c", (("\nstatic int tidy", ""),)),
    Edit(HYSTART, _CUBIC, (
        ("\tif (after(tp->snd_una, ca->end_seq))\n\t\tbictcp_hystart_reset(sk);\n\n", ""),
        ("\tif (tcp_in_slow_start(tp)) {\n\t\tacked = tcp_slow_start(tp, acked);",
         "\tif (tcp_in_slow_start(tp)) {\n\t\tif (hystart && after(ack, ca->end_seq))\n"
         "\t\t\tbictcp_hystart_reset(sk);\n\t\tacked = tcp_slow_start(tp, acked);"))),
    Edit(DELAYED, _INPUT, ((
        "\t\tif (TCP_SKB_CB(skb)->tcp_flags & TCPHDR_PSH)\n"
        "\t\t\ticsk->icsk_ack.pending |= ICSK_ACK_PUSHED;\n\t} else {", "\t} else {"),)),
    Edit(DCTCP, _DCTCP, ((
        "\tif (new_state == TCP_CA_Recovery &&\n\t    new_state != inet_csk(sk)->icsk_ca_state)\n"
        "\t\tdctcp_react_to_loss(sk);\n", ""),)),
    Edit(WARNING, _INPUT, (("\ttcp_set_ca_state(sk, TCP_CA_Recovery);\n",
                            "\tWARN_ON_ONCE(tcp_snd_cwnd(tp) > 10);\n\ttcp_set_ca_state(sk, TCP_CA_Recovery);\n"),)),
    Edit("tcp_vegas: another parameter", "net/ipv4/tcp_vegas.c", (
        ("static int beta  = 4;", "static int beta __read_mostly = 4;"),)))


def tree() -> pathlib.Path:
    """The tree with the whole history, branch main; made if it is not there."""
    folder = source.cache_dir() / "histories" / VERSION
    if (folder / "complete").exists():
        return folder / "linux"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    linux = folder / "linux"
    source.fetch(VERSION, linux, print)
    _git(linux, "init", "-q", "-b", "main")
    _commit(linux, f"Linux {VERSION}")
    for edit in EDITS:
        path = linux / edit.path
        text = path.read_text(encoding="utf-8")
        for old, new in edit.changes:
            assert text.count(old) == 1, f"{edit.subject}: {edit.path} has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        _commit(linux, edit.subject)
    (folder / "complete").touch()
    return linux


def commits(linux: pathlib.Path) -> dict[str, str]:
    """{subject: hash}"""
    lines = _git(linux, "log", "--format=%H %s").splitlines()
    return {subject: name for name, _, subject in (line.partition(" ") for line in lines)}


def before(linux: pathlib.Path, subject: str) -> str:
    """The hash of the commit before one."""
    return _git(linux, "rev-parse", f"{commits(linux)[subject]}^")


def _commit(linux: pathlib.Path, subject: str) -> None:
    _git(linux, "add", "-A", "-f", ".")
    _git(linux, "commit", "-q", "-m", subject)


def _git(folder: pathlib.Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
                   **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
                       ("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2026-01-02T03:04:05Z"))}}
    return subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True,
                          text=True).stdout.strip()

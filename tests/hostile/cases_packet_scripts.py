# SPDX-License-Identifier: GPL-2.0-only
"""`testbed script` with files and options that make no sense. None of them boots a guest."""
from __future__ import annotations

import os
import pathlib

from tests.hostile.case import Case, Content

_GOOD = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"


def _pipe(work: pathlib.Path) -> None:
    os.mkfifo(work / "a.pkt")


def _folder(work: pathlib.Path) -> None:
    (work / "a.pkt").mkdir()


def _case(name: str, content: Content | None, says: str, *words: str) -> Case:
    return Case(f"packet-script-{name}", ["script", "a.pkt", *words], 2, says,
                {} if content is None else {"a.pkt": content})


CASES = [
    *[_case(name, content, says) for name, content, says in (
        ("missing", None, "a.pkt: No such file"), ("empty", "", "a.pkt:1: an event expected"),
        ("binary", b"\x7fELF\0\0", "a.pkt: a text expected"), ("not-utf8", b"+0 \xff", "a.pkt: a text in UTF-8"),
        ("large", b"// x\n" * 300_000, "a.pkt: more than 1 MB"), ("line", _GOOD * 4 + "+0 bind(3\n", "a.pkt:6: "),
        ("deep", f"0 close({'[' * 100_000}", "a.pkt:1: at most 20 brackets"),
        ("comment", _GOOD + "/* for ever", "a.pkt:2: a comment that does not end"),
        ("number", "0 > S 99999999999:0(0)", "a.pkt:1: sequence numbers"),
        ("option", "--cca=$(reboot)\n" + _GOOD, "a.pkt:1: --cca=.*: a congestion control"),
        ("mtu", "--mtu=1\n" + _GOOD, "a.pkt:1: --mtu=1: a number from 68"))],
    *[_case(name, _GOOD, says, *words) for name, says, words in (
        ("tolerance", "a number of microseconds expected", ("--tolerance-us", "-1")),
        ("percent", "a.pkt:1: --tolerance_percent=x", ("--tolerance-percent", "x")),
        ("define", "NAME=VALUE expected", ("--define", "=1")), ("version", "invalid choice", ("--ip-version", "5")),
        ("junit", "--junit a.pkt/results.xml: no such folder", ("--junit", "a.pkt/results.xml")),
        ("junit-folder", r"--junit \.: a folder; a file expected", ("--junit", ".")),
        ("option-of-kernel", "no kernel option", ("--kernel-option", "nosuch")))],
    *[Case(f"packet-script-bisect-{option[2:]}", ["bisect", "a.pkt", "--tree", ".", "--good", "a", "--bad", "b", option,
                                                  *value], 2, f"{option}.*: (only with a scenario|a packet script)",
           {"a.pkt": _GOOD})
      for option, value in (("--load", ["60"]), ("--choose", ["a=b"]), ("--quick", []), ("--set", ["a=b"]),
                            ("--margin", ["9%"]), ("--engine", ["ns3"]), ("--executor", ["local"]),
                            ("--cluster", ["local"]), ("--jobs", ["1"]), ("--again", []), ("--seeds", ["3"]),
                            ("--metric", ["goodput"]), ("--by", ["crash"]))],
    Case("packet-script-pipe", ["script", "a.pkt"], 2, "a.pkt: not a regular file", prepare=_pipe),
    Case("packet-script-folder", ["script", "a.pkt"], 2, "a.pkt: Is a directory", prepare=_folder)]

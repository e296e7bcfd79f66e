# SPDX-License-Identifier: GPL-2.0-only
"""What became of scripts: lines as of TAP, and a file as of JUnit."""
from __future__ import annotations

import dataclasses
import pathlib
import xml.etree.ElementTree as xml
from collections.abc import Sequence

from testbed.core.files import write_text
from testbed.core.record import Record


class Told(Record):
    """A line of results.jsonl. error: what went wrong with the interpreter itself."""
    script: int
    ok: bool = False
    line: int = 0
    what: str = ""
    event: str = ""
    lines: list[str] = []
    output: str = ""
    trace: list[str] = []
    virtual_ns: int = 0
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one script. problem: its first line has file and line; skipped: why it was not run."""
    file: str
    problem: tuple[str, ...] = ()
    skipped: str = ""
    output: str = ""
    #: packets in their order
    trace: tuple[str, ...] = ()
    virtual_s: float = 0

    @property
    def ok(self) -> bool:
        return not self.problem

    @classmethod
    def of(cls, file: str, told: Told) -> Outcome:
        if told.error:
            return cls(file, (f"{file}: the interpreter failed: {told.error.strip().splitlines()[-1]}",
                              *told.error.strip().splitlines()[:-1]))
        place = f"{file}:{told.line}" if told.line else file
        problem = () if told.ok else (f"{place}: {told.what}", *told.lines)
        return cls(file, problem, output=told.output, trace=tuple(told.trace), virtual_s=told.virtual_ns / 1e9)


#: so many packets before the failure are shown
_SHOWN = 10


def lines(number: int, outcome: Outcome, verbose: bool = False) -> list[str]:
    """`ok 1 - FILE`, or `not ok 1 - FILE` and why; verbose: also all packets."""
    said = [f"# {line}" for line in (*outcome.output.splitlines(), *outcome.trace[0 if verbose else -_SHOWN:])] \
        if verbose or outcome.problem else []
    if outcome.skipped:
        return [f"ok {number} - {outcome.file} # SKIP {outcome.skipped}"]
    return [*said, f"{'ok' if outcome.ok else 'not ok'} {number} - {outcome.file}",
            *(f"  {line}" for line in outcome.problem)]


def write_junit(path: pathlib.Path, outcomes: Sequence[Outcome], kernel_release: str) -> None:
    suite = xml.Element("testsuite", name=f"packet scripts on Linux {kernel_release}", tests=str(len(outcomes)),
                        failures=str(sum(not one.ok for one in outcomes)),
                        skipped=str(sum(bool(one.skipped) for one in outcomes)), errors="0")
    for one in outcomes:
        case = xml.SubElement(suite, "testcase", name=one.file, classname="packet-scripts", time=f"{one.virtual_s:.6f}")
        if one.skipped:
            xml.SubElement(case, "skipped", message=one.skipped)
        elif one.problem:
            failure = xml.SubElement(case, "failure", message=_printable(one.problem[0]))
            failure.text = _printable("\n".join(one.problem))
        if one.output:
            xml.SubElement(case, "system-out").text = _printable(one.output)
    xml.indent(suite)
    write_text(path, xml.tostring(suite, encoding="unicode", xml_declaration=True) + "\n")


def _printable(text: str) -> str:
    """XML has no other control characters."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)

# SPDX-License-Identifier: GPL-2.0-only
"""A case of the corpus: files, a command, and how it must end."""
from __future__ import annotations

import dataclasses
import gzip
import pathlib
from collections.abc import Callable, Mapping

from tests.end_to_end import command_line

Content = str | bytes | Callable[[], bytes]
#: a small scenario that is right; cases change one thing of it
SMALL = command_line.SMALL.replace("TEST", "1 s") + """\
choices:
  load: {default: 60, options: {60: {topology.edge.rate: 100 Mbit/s}, 85: {topology.edge.rate: 1 Gbit/s}}}
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """Run `command` in a folder with `files`; it must end with `code` and say `says` (a regular expression).

    command: words after `testbed`, or a shell line in which $TESTBED is the program. The words run in a copy of
    the test's process, which is as true as a process of their own but saves starting Python.
    after: looks at the folder afterwards. guest: boots a kernel, so memory is not limited.
    """
    name: str
    command: list[str] | str
    code: int | tuple[int, ...]
    says: str
    files: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    prepare: Callable[[pathlib.Path], None] | None = None
    after: Callable[[pathlib.Path], None] | None = None
    umask: int = 0o022
    guest: bool = False
    #: starts from a copy of results with finished runs
    with_results: bool = False

    def codes(self) -> tuple[int, ...]:
        return self.code if isinstance(self.code, tuple) else (self.code,)


def changed(old: str, new: str, text: str = SMALL) -> str:
    """The small scenario with one change."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def packed(text: str | bytes) -> bytes:
    """Compressed with gzip."""
    return gzip.compress(text.encode() if isinstance(text, str) else text, 1, mtime=0)


def run_yaml(name: str, text: Content, says: str, code: int = 2, *options: str, **more: object) -> Case:
    """`testbed run small.yaml` must refuse a scenario file."""
    return Case(f"yaml-{name}", ["run", "small.yaml", "--no-report", *options], code, says, {"small.yaml": text},
                **more)  # type: ignore[arg-type]

# SPDX-License-Identifier: GPL-2.0-only
"""Lines of source for places in modules, from what the compiler left for debuggers: tcp_mine.c:31."""
from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Mapping

_PLACE = re.compile(r"(?P<function>[\w.]+)\+0x(?P<offset>[0-9a-f]+)/0x[0-9a-f]+ \[(?P<module>\w+)\]")
_SYMBOL = re.compile(r"(?P<value>[0-9a-f]{8,16}) .{6}F (?P<section>\S+)\s+[0-9a-f]+\s+(?:\.\w+ )?(?P<name>\S+)")
_PATIENCE_S = 20


class Lines:
    """Of modules: {name as in lsmod: the file beside it that compiling.debug_file() names}."""

    def __init__(self, files: Mapping[str, pathlib.Path]) -> None:
        self._files = files

    def __call__(self, place: str) -> str:
        """` (tcp_mine.c:31)` for mine_cong_avoid+0xe/0x25 [tcp_mine]; "" where that is not known."""
        found = _PLACE.match(place)
        file = self._files.get(found["module"]) if found else None
        if not found or not file or not file.is_file():
            return ""
        if found["function"] == ".text":                    # only where it is, and not in which function
            function, *lines = [*_said(["addr2line", "-f", "-j", ".text", "-e", str(file), f"0x{found['offset']}"]), ""]
            return f" ({function}, {_short(lines[0])})" if lines and _known(lines[0]) else ""
        symbol = next((symbol for line in _said(["objdump", "-t", str(file)])
                       if (symbol := _SYMBOL.match(line)) and symbol["name"] == found["function"]), None)
        if not symbol:
            return ""
        at = int(symbol["value"], 16) + int(found["offset"], 16)
        lines = [re.sub(r" \(discriminator.*", "", line) for line in
                 _said(["addr2line", "-i", "-j", symbol["section"], "-e", str(file), hex(at)])]
        known = list(filter(_known, lines))
        # what was inlined comes first: a division of the kernel's headers happens in the line that calls it
        own = [line for line in known if "/include/" not in line] or known
        return f" ({_short(own[0])})" if own else ""


def _known(line: str) -> bool:
    return bool(line) and not re.search(r":[?0]+$", line)


def _short(line: str) -> str:
    """A line without the folder in which the module was compiled."""
    return re.sub(r".*/[.]new-[^/]+/", "", line)


def _said(command: list[str]) -> list[str]:
    """Lines of a program's output; none where there is no such program: nothing fails for the lines of a message."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()

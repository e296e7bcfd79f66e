# SPDX-License-Identifier: GPL-2.0-only
"""Built modules (.ko) as files: what they need of each other, and names in them that are changed after the build.

A congestion control that registers a name of the kernel, such as an edited copy of tcp_cubic.c, is renamed in the
built module, not in its source: a source may say its name in many ways (a macro, a string in parts, no designator),
but in the built module it is always the same array of 16 bytes in writable data.
"""
from __future__ import annotations

import pathlib
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: the length of a congestion control's name, with its final zero (TCP_CA_NAME_MAX)
_CA_NAME_BYTES = 16
#: bytes that a module's own name may have
_MODULE_NAME_BYTES = 56
_THIS_MODULE = ".gnu.linkonce.this_module"
_WRITABLE, _PROGRAM_BITS = 1, 1


class NotFound(Exception):
    """The message says what is not in the file as it should be."""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int


def needs(file: pathlib.Path) -> list[str]:
    """Names of the modules that have to be loaded before the one in `file`."""
    found = re.search(rb"\0depends=([^\0]*)\0", b"\0" + file.read_bytes())
    return [name for name in found.group(1).decode("ascii", "replace").split(",") if name] if found else []


def in_order(files: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """Modules so that each comes after those it needs; by name where that leaves a choice."""
    left = {file.stem.replace("-", "_"): file for file in sorted(files)}
    of = {name: {need.replace("-", "_") for need in needs(file)} for name, file in left.items()}
    found: list[pathlib.Path] = []
    while left:
        # modpost has refused circles; should there be one, the kernel says so when it loads them
        name = next((name for name in left if not of[name] & left.keys() - {name}), next(iter(left)))
        found.append(left.pop(name))
    return found


def rename_congestion_control(file: pathlib.Path, old: str, new: str) -> None:
    """Let the module register `new` instead of `old`. NotFound if it does not have that name exactly once."""
    data = bytearray(file.read_bytes())
    wanted = old.encode().ljust(_CA_NAME_BYTES, b"\0")
    places = [at for section in _sections(data)
              if section.kind == _PROGRAM_BITS and section.flags & _WRITABLE and section.name.startswith(".data")
              for at in _places(data, wanted, section)]
    if len(places) != 1:
        raise NotFound(f"{old!r} is {len(places)} times in its data")
    data[places[0]:places[0] + _CA_NAME_BYTES] = new.encode().ljust(_CA_NAME_BYTES, b"\0")
    file.write_bytes(data)


def rename_module(file: pathlib.Path, new: str) -> pathlib.Path:
    """The file of the same module under another name, as lsmod shows it. NotFound if it is not where it should be."""
    data, old = bytearray(file.read_bytes()), file.stem.replace("-", "_")
    wanted = old.encode() + b"\0"
    places = [at for section in _sections(data) if section.name == _THIS_MODULE
              for at in _places(data, wanted, section)]
    if len(places) != 1:
        raise NotFound(f"the module's name {old!r} is {len(places)} times in {_THIS_MODULE}")
    data[places[0]:places[0] + _MODULE_NAME_BYTES] = new.encode().ljust(_MODULE_NAME_BYTES, b"\0")
    target = file.with_name(f"{new}.ko")
    target.write_bytes(data)
    file.unlink()
    return target


def _places(data: bytearray, wanted: bytes, section: _Section) -> Iterator[int]:
    """Where `wanted` begins in a section, not as the end of something longer."""
    at, end = section.offset, section.offset + section.size
    while (at := data.find(wanted, at, end)) >= 0:
        if at == section.offset or not data[at - 1]:
            yield at
        at += 1


def _sections(data: bytearray) -> list[_Section]:
    """The sections of an ELF file of 64 bits. NotFound if it is none."""
    try:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError
        table, = struct.unpack_from("<Q", data, 0x28)
        size, count, names_at = struct.unpack_from("<HHH", data, 0x3a)
        rows = [struct.unpack_from("<IIQQQQ", data, table + number * size) for number in range(count)]
        names = rows[names_at][4]
        return [_Section(bytes(data[names + row[0]:data.index(b"\0", names + row[0])]).decode("ascii", "replace"),
                         row[1], row[2], row[4], row[5]) for row in rows]
    except (ValueError, IndexError, struct.error):
        raise NotFound("no ELF file of 64 bits") from None

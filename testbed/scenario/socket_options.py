# SPDX-License-Identifier: GPL-2.0-only
"""Options that a variant sets on the sockets of its flows: the section `socket_options` of a variant file.

    socket_options:
      SO_MAX_PACING_RATE: 20 Mbit/s
      TCP_NOTSENT_LOWAT: 128 kB
      IPPROTO_TCP 200: 3            an option of a module: level, number and the integer that it gets

Values of options that have a name here have their units. Every option is an int of setsockopt().
"""
import dataclasses
import re
from collections.abc import Callable

from testbed.core import fields, guesses, units
from testbed.core.yaml_file import YamlFile

#: a chain of operations of the replay has no room for any number of them
MOST_OPTIONS = 8
# include/uapi/asm-generic/socket.h, include/uapi/linux/in.h
_LEVELS = {"SOL_SOCKET": 1, "IPPROTO_TCP": 6}
_RAW = re.compile(r"(?P<level>[A-Z_]{1,20}) (?P<number>\d{1,10})")
_MOST_BYTES = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class SocketOption:
    """An option as setsockopt() gets it; name: as the variant file has it."""
    name: str
    level: int
    number: int
    value: int


@dataclasses.dataclass(frozen=True)
class _Named:
    """An option with a name: how its value is read, in which unit, and how much of that is one of the kernel's."""
    level: int
    number: int
    read: Callable[[object], int]
    unit: str = ""
    of_kernel: int = 1


_NAMED = {
    # bytes per second; all bits set would be no limit
    "SO_MAX_PACING_RATE": _Named(1, 47, fields.reader(fields.rate(least=8, most=8 * (2**32 - 2))), "bps", 8),
    "SO_PRIORITY": _Named(1, 12, fields.reader(fields.count(most=15))),
    "SO_SNDBUF": _Named(1, 7, fields.reader(fields.size(least=1, most=_MOST_BYTES)), "bytes"),
    "TCP_NODELAY": _Named(6, 1, fields.reader(fields.flag())),
    "TCP_THIN_LINEAR_TIMEOUTS": _Named(6, 16, fields.reader(fields.flag())),
    # milliseconds
    "TCP_USER_TIMEOUT": _Named(6, 18, fields.reader(fields.time(least=1000, most=1000 * (2**31 - 1))), "us", 1000),
    "TCP_NOTSENT_LOWAT": _Named(6, 25, fields.reader(fields.size(least=1, most=_MOST_BYTES)), "bytes"),
}
# numbers of options that the testbed sets or reads itself, or without which its traffic would not be what it is
_OTHERS = {1: {2: "SO_REUSEADDR", 3: "SO_TYPE", 4: "SO_ERROR", 8: "SO_RCVBUF", 13: "SO_LINGER", 15: "SO_REUSEPORT",
               18: "SO_RCVLOWAT", 20: "SO_RCVTIMEO", 21: "SO_SNDTIMEO", 25: "SO_BINDTODEVICE",
               26: "SO_ATTACH_FILTER", 33: "SO_RCVBUFFORCE", 50: "SO_ATTACH_BPF", 66: "SO_RCVTIMEO_NEW",
               67: "SO_SNDTIMEO_NEW"},
           6: {2: "TCP_MAXSEG", 3: "TCP_CORK", 9: "TCP_DEFER_ACCEPT", 10: "TCP_WINDOW_CLAMP", 11: "TCP_INFO",
               13: "TCP_CONGESTION", 14: "TCP_MD5SIG", 19: "TCP_REPAIR", 20: "TCP_REPAIR_QUEUE", 21: "TCP_QUEUE_SEQ",
               22: "TCP_REPAIR_OPTIONS", 23: "TCP_FASTOPEN", 24: "TCP_TIMESTAMP", 26: "TCP_CC_INFO",
               29: "TCP_REPAIR_WINDOW", 30: "TCP_FASTOPEN_CONNECT", 31: "TCP_ULP", 32: "TCP_MD5SIG_EXT",
               33: "TCP_FASTOPEN_KEY"}}
_VALUE = fields.reader(fields.count(least=-2**31, most=2**32 - 1))


def read(file: YamlFile) -> tuple[SocketOption, ...]:
    """The options of a variant file, in its order. ScenarioError."""
    found: list[SocketOption] = []
    for name, value in file.mapping("socket_options").items():
        field = f"socket_options.{name}"
        try:
            found.append(_option(str(name), value))
        except fields.FieldError as problem:
            raise file.error(field, str(problem)) from None
        same = next((one for one in found[:-1] if (one.level, one.number) == (found[-1].level, found[-1].number)), None)
        if same:
            raise file.error(field, f"{same.name} is the same option")
    if len(found) > MOST_OPTIONS:
        raise file.error("socket_options", f"at most {MOST_OPTIONS} options are possible")
    return tuple(found)


def _option(name: str, value: object) -> SocketOption:
    if known := _NAMED.get(name):
        if known.unit and not isinstance(value, str):
            raise fields.FieldError("", f"a value with a unit such as '{units.EXAMPLES[known.unit]}' expected")
        return SocketOption(name, known.level, known.number, int(known.read(value)) // known.of_kernel)
    raw = _RAW.fullmatch(name)
    if not raw:
        raise fields.FieldError("", f"no such option; {guesses.alternatives(name, sorted(_NAMED))}; others by level "
                                    "and number, such as 'IPPROTO_TCP 200: 3'")
    if raw["level"] not in _LEVELS:
        raise fields.FieldError("", f"{' or '.join(_LEVELS)} expected, not {raw['level']}")
    level, number = _LEVELS[raw["level"]], int(raw["number"])
    if number > 2**31 - 1:
        raise fields.FieldError("", f"a number of at most 31 bits expected, not {number}")
    if named := next((one for one, of in _NAMED.items() if (of.level, of.number) == (level, number)), None):
        raise fields.FieldError("", f"this is {named}: use that name, whose value has a unit")
    if number in _OTHERS[level]:
        raise fields.FieldError("", f"this is {_OTHERS[level][number]}, which a variant cannot set")
    return SocketOption(name, level, number, _VALUE(value))

# SPDX-License-Identifier: GPL-2.0-only
"""Text of a packet script -> Script. ScriptError names file, line, and what would be right."""
from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import NoReturn

from testbed.core import guesses
from testbed.packet_scripts import calls, icmp_names, options as tcp_options
from testbed.packet_scripts.constants import value_of
from testbed.packet_scripts.language import (Anything, Call, Clock, Either, Event, Expression, Field, Function, Icmp,
                                             IpFields, Number, Option, Options, Packet, Python, Script, ScriptError,
                                             Sequence, Shell, Structure, Symbol, Tcp, Text, Udp, Way, When)

_SPACE = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)+", re.S)
_SECONDS = r"(?:\d+(?:\.(?!\.)\d*)?|\.\d+)"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ECN = {"noecn": 0, "ect1": 1, "ect0": 2, "ce": 3}
_FLAGS = {"F": "F", "S": "S", "R": "R", "P": "P", ".": ".", "U": "U", "E": "E", "W": "W", "A": "A"}
IP_VERSIONS = ("ipv4", "ipv6", "ipv4-mapped-ipv6")
#: what scripts may say they need (`--needs=`), and of which kernels it is true
NEEDS = ("accecn",)
MOST_BYTES = 1 << 20
_MOST_DEPTH = 20
#: options of packetdrill that say what is always so here
_WITHOUT_EFFECT = ("send_omit_free", "verbose", "gateway_ip", "netmask_ip", "non_fatal", "dry_run", "debug")


def parse(text: str, file: str, given: Mapping[str, str] | None = None,
          defines: Iterable[tuple[str, str]] = ()) -> Script:
    """The Script of a text; given: options for scripts that do not say them, by the names that scripts
    use."""
    if len(text) > MOST_BYTES:
        raise ScriptError(f"{file}: more than 1 MB: is this a packet script?")
    if "\0" in text:
        raise ScriptError(f"{file}: a text expected, not binary data")
    reader = _Reader(text, file)
    options = _options(reader, dict(given or {}), tuple(defines))
    return Script(file, options, tuple(_Events(reader, options).all()))


class _Reader:
    """A place in a text."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.place = text, file, 0
        #: end of what was read last, before spaces and comments
        self.end = 0

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.place) + 1

    def fail(self, what: str, line: int | None = None) -> NoReturn:
        raise ScriptError(f"{self.file}:{line or self.line}: {what}")

    def skip(self) -> None:
        """Spaces and comments."""
        found = _SPACE.match(self.text, self.place)
        if found:
            self.place = found.end()
        if self.text.startswith("/*", self.place):
            self.fail("a comment that does not end: */ expected")

    def at_end(self) -> bool:
        self.skip()
        return self.place == len(self.text)

    def take(self, pattern: str) -> re.Match[str] | None:
        """What is next if it matches, and the place behind it."""
        self.skip()
        found = re.compile(pattern, re.S).match(self.text, self.place)
        if found:
            self.place = self.end = found.end()
        return found

    def peek(self, pattern: str) -> bool:
        self.skip()
        return bool(re.compile(pattern, re.S).match(self.text, self.place))

    def need(self, pattern: str, what: str) -> re.Match[str]:
        return self.take(pattern) or self.fail(f"{what} expected, not {self.following()}")

    def following(self) -> str:
        """What is next, for errors."""
        self.skip()
        rest = self.text[self.place:].split("\n", 1)[0].strip()[:40]
        return repr(rest) if rest else "the end of the line" if self.place < len(self.text) else "the end of the file"

    def number(self, what: str, most: int = (1 << 32) - 1) -> int:
        digits = self.need(r"(0x[0-9a-fA-F]+|\d+)(?![\w])", what).group(1)
        value = int(digits, 0) if digits.startswith("0x") else int(digits)
        if value > most:
            self.fail(f"{what} up to {most} expected, not {value}")
        return value


# --- options -------------------------------------------------------------------------------------------------------


def _options(reader: _Reader, given: dict[str, str], defines: tuple[tuple[str, str], ...]) -> Options:
    words = {name: (text, 0) for name, text in given.items()}
    while found := reader.take(rf"--({_NAME})(?:=(\S*))?"):
        words[found.group(1)] = (found.group(2) or "", reader.line)
    read: dict[str, object] = {}
    for name, (text, line) in words.items():
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _READ:
            reader.fail(f"no option --{name}; there are: {', '.join(f'--{known}' for known in sorted(_READ))}", line)
        field, convert = _READ[name]
        try:
            read[field] = convert(text)
        except ValueError as problem:
            reader.fail(f"--{name}={text}: {problem} expected", line)
    version = str(read.get("ip_version", "ipv4"))
    options = Options(**{**_addresses(version), **read, "defines": defines})    # type: ignore[arg-type]
    wanted = 6 if version == "ipv6" else 4
    for name, address in (("local_ip", options.local_ip), ("remote_ip", options.remote_ip)):
        if ipaddress.ip_address(address).version != wanted:
            reader.fail(f"--{name}={address}: an address of IPv{wanted} expected", words[name][1])
    return options


def _addresses(version: str) -> dict[str, object]:
    """Those that packetdrill's scripts are made for: with 1520 bytes of IPv6 segments are as large as those of IPv4."""
    if version == "ipv6":
        return {"local_ip": "fd3d:a0b:17d6::1", "remote_ip": "fd3d:fa7b:d17d::1", "mtu": 1520}
    return {"local_ip": "192.168.0.1", "remote_ip": "192.0.2.1", "mtu": 1500}


def _whole(least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"\d{1,10}", text) or not least <= int(text) <= most:
            raise ValueError(f"a number from {least} to {most}")
        return int(text)
    return convert


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("an address such as 192.0.2.1") from None


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return text
    return convert


def _needs(text: str) -> tuple[str, ...]:
    return tuple(map(_one_of(NEEDS), text.split(",")))


def _percent(text: str) -> float:
    if not re.fullmatch(r"\d{1,3}(\.\d{1,6})?", text) or float(text) > 100:
        raise ValueError("a percentage from 0 to 100")
    return float(text)


def _flag(text: str) -> bool:
    if text not in ("", "0", "1"):
        raise ValueError("no value, 0 or 1")
    return text != "0"


def _cca(text: str) -> str:
    if not re.fullmatch(r"[\w./=-]{1,200}", text):
        raise ValueError("a congestion control such as cubic")
    return text


_READ: dict[str, tuple[str, Callable[[str], object]]] = {
    "ip_version": ("ip_version", _one_of(IP_VERSIONS)), "local_ip": ("local_ip", _address),
    "remote_ip": ("remote_ip", _address), "bind_port": ("bind_port", _whole(1, 65535)),
    "connect_port": ("connect_port", _whole(1, 65535)), "mtu": ("mtu", _whole(68, 65535)),
    "mss": ("mss", _whole(1, 65535)), "tolerance_usecs": ("tolerance_us", _whole(0, 3_600_000_000)),
    "tolerance_percent": ("tolerance_percent", _percent),
    "tcp_ts_tick_usecs": ("tcp_ts_tick_us", _whole(0, 1_000_000)), "strict_segments": ("strict_segments", _flag),
    "cca": ("cca", _cca), "needs": ("needs", _needs)}


# --- events --------------------------------------------------------------------------------------------------------


class _Events:
    """Reads the events of a script."""

    def __init__(self, reader: _Reader, options: Options) -> None:
        self._reader, self._options, self._defines = reader, options, dict(options.defines)

    def all(self) -> Iterable[Event]:
        if self._reader.at_end():
            self._reader.fail("an event expected, such as `0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3`, not the end "
                              "of the file")
        while not self._reader.at_end():
            yield self._event()

    def _event(self) -> Event:
        reader = self._reader
        start, line = reader.place, reader.line
        when = When(Clock.BEFORE) if reader.peek(r"`|%\{") else self._when()
        what: Packet | Call | Shell | Python
        if reader.peek("`"):
            what = Shell(self._enclosed("`([^`]*)`", "a shell command that ends with `"))
        elif reader.peek(r"%\{"):
            what = self._python()
        elif way := reader.take("[<>]"):
            what = self._packet(Way(way.group()))
        else:
            what = self._call()
        if when.blocking and not isinstance(what, Call):
            reader.fail("only system calls can block: one time, or a range such as +1~+1.1, expected", line)
        if when.clock is Clock.ANY or when.end_ns is not None and not when.blocking:
            if not (isinstance(what, Packet) and what.way is Way.OUT):
                reader.fail("only packets that the kernel sends can have * or a range of times: one time expected",
                            line)
        text = " ".join(reader.text[start:reader.end].split())
        return Event(line, when, what, text if len(text) <= 200 else text[:197] + "...")

    def _enclosed(self, pattern: str, what: str) -> str:
        return self._reader.need(pattern, what).group(1)

    def _python(self) -> Python:
        line = self._reader.line
        code = self._enclosed(r"%\{(.*?)\}%", "Python that ends with }%")
        # statements on the line of the braces may begin with spaces
        first, newline, rest = code.partition("\n")
        code = (first.lstrip() + newline + rest if first.strip() else rest).rstrip().rstrip("\\")
        try:
            compile(code, self._reader.file, "exec")
        except (SyntaxError, ValueError) as problem:
            self._reader.fail(f"not Python: {getattr(problem, 'msg', problem)}", line)
        return Python(code)

    def _when(self) -> When:
        reader = self._reader
        if reader.take(r"\*"):
            return When(Clock.ANY)
        clock, start_ns = self._time("a time such as +0.1, 0.1 or *")
        if reader.take(r"~"):
            other, end_ns = self._time("the end of a range, such as +0.2")
            if other is not clock:
                reader.fail("both ends of a range with +, or both without, expected")
            return self._ordered(When(clock, start_ns, end_ns))
        if reader.take(r"\.\.\."):
            reader.take(r"\+")
            return self._ordered(When(clock, start_ns, self._time("when the call returns, such as 0.2")[1], True))
        return When(clock, start_ns)

    def _ordered(self, when: When) -> When:
        if when.end_ns is not None and when.end_ns < when.start_ns:
            self._reader.fail("a range ends before it begins: the earlier time first expected")
        return when

    def _time(self, what: str) -> tuple[Clock, int]:
        found = self._reader.need(rf"(\+?)\s*({_SECONDS})", what)
        ns = Decimal(found.group(2)) * 1_000_000_000
        if ns != int(ns) or ns > 10**15:
            self._reader.fail(f"a time of at most 1000000 s and whole nanoseconds expected, not {found.group(2)}")
        return (Clock.BEFORE if found.group(1) else Clock.START), int(ns)

    # --- packets

    def _packet(self, way: Way) -> Packet:
        reader = self._reader
        ip = self._ip_fields()
        if reader.take(r"icmp\b"):
            return Packet(way, ip, self._icmp())
        if reader.take(r"udp\b"):
            return Packet(way, ip, self._udp())
        return Packet(way, ip, self._tcp(way))

    def _ip_fields(self) -> IpFields:
        reader, values = self._reader, dict[str, int]()
        if found := reader.take(r"\[\s*(\w+)\s*\]"):
            if found.group(1) not in _ECN:
                reader.fail(f"one of {', '.join(f'[{name}]' for name in _ECN)} expected, not [{found.group(1)}]")
            values["ecn"] = _ECN[found.group(1)]
        if reader.take(r"\("):
            while not reader.take(r"\)"):
                name = reader.need(r"(tos|ttl)\b", "tos or ttl").group(1)
                values[name] = reader.number(f"{name}, a number", 255)
                reader.take(",")
        return IpFields(**values)

    def _udp(self) -> Udp:
        return Udp(int(self._reader.need(r"\(\s*(\d{1,5})\s*\)", "the length of the data, such as (1000)").group(1)))

    def _icmp(self) -> Icmp:
        reader = self._reader
        six = self._options.ip_version == "ipv6"
        kind = reader.need(_NAME, "a type of ICMP, such as unreachable").group()
        code = found.group() if (found := reader.take(rf"(?!mtu\b){_NAME}")) else ""
        try:
            number, code_number = icmp_names.numbers(kind, code, six)
        except ValueError as problem:
            reader.fail(str(problem))
        mtu = reader.number("an MTU", 65535) if reader.take(r"mtu\b") else 0
        quoted: Tcp | Udp | None = None
        if reader.take(r"\["):
            quoted = self._udp() if reader.take(r"udp\b") else Tcp(frozenset("."), *self._numbers())
            reader.need(r"\]", "]")
        return Icmp(f"{kind} {code}".strip(), number, code_number, mtu, quoted)

    def _numbers(self) -> tuple[int, int]:
        reader = self._reader
        found = reader.need(r"(\d{1,10}):(\d{1,10})\((\d{1,6})\)", "sequence numbers such as 1:1001(1000)")
        start, end, length = map(int, found.groups())
        if max(start, end) >= 1 << 32 or (end - start) % (1 << 32) != length:
            reader.fail(f"{start}:{end} are {(end - start) % (1 << 32)} bytes: that number in parentheses expected, "
                        f"not {length}")
        return start, end

    def _tcp(self, way: Way) -> Tcp:
        reader = self._reader
        word = reader.need(r"([FSRPU.EWA0-7]+|-)(?=\s|$)", "flags such as S, . or P.").group(1)
        flags = {_FLAGS[letter] for letter in word if letter in _FLAGS}
        for digit in re.findall(r"\d", word):
            # the three bits of ACE (RFC 9768, section 3.2.2)
            flags |= {name for name, bit in (("A", 4), ("W", 2), ("E", 1)) if int(digit) & bit}
        start, end = self._numbers()
        ack = reader.number("a sequence number") if reader.take(r"ack\b") else None
        if way is Way.OUT and ("." in flags) != (ack is not None):
            reader.fail("`ack N` goes with the flag .: both or neither expected of a packet that the kernel sends")
        window = reader.number("a window", 65535) if reader.take(r"win\b") else None
        urgent = reader.number("an urgent pointer", 65535) if reader.take(r"urg\b") else None
        options = self._tcp_options() if reader.take("<(?!\\s*[\\[(FSRPU.EWA0-7-]+\\s+\\d+:)") else ()
        if way is Way.IN:
            if options is None:
                reader.fail("options of a packet that arrives expected, not <...>")
            size = len(tcp_options.encoded(options, lambda number: number, lambda number: number))
            if size % 4 or size > 40:
                reader.fail(f"the options have {size} bytes: a multiple of 4 up to 40 expected (nop is one byte)")
        return Tcp(frozenset(flags), start, end, ack, window, urgent, options)

    def _tcp_options(self) -> tuple[Option, ...] | None:
        reader = self._reader
        if reader.take(r"\.\.\."):
            reader.need(">", ">")
            return None
        found = []
        while not reader.take(">"):
            found.append(self._tcp_option())
            if not reader.take(",") and not reader.peek(">"):
                reader.fail(f", or > expected after an option, not {reader.following()}")
        return tuple(found)

    def _tcp_option(self) -> Option:
        reader = self._reader
        name = reader.need(r"kind-\d{1,3}|[A-Za-z0-9_]+", "an option such as nop or mss").group()
        if name in ("nop", "eol", "sackOK"):
            return Option({"nop": tcp_options.NOP, "eol": tcp_options.END, "sackOK": tcp_options.SACK_OK}[name])
        if name == "mss":
            return Option(tcp_options.MSS, reader.number("an MSS", 65535).to_bytes(2, "big"))
        if name == "wscale":
            return Option(tcp_options.WINDOW_SCALE, bytes([reader.number("a scale", 255)]))
        if name == "TS":
            reader.need(r"val\b", "val")
            value = reader.number("a timestamp")
            reader.need(r"ecr\b", "ecr")
            return Option(tcp_options.TIMESTAMP, numbers=(value, reader.number("a timestamp")))
        if name == "sack":
            edges: list[int] = []
            while block := reader.take(r"(\d{1,10}):(\d{1,10})"):
                edges += map(int, block.groups())
            if not edges or max(edges) >= 1 << 32:
                reader.fail("blocks such as 1001:2001 expected after sack")
            return Option(tcp_options.SACK, numbers=tuple(edges))
        if name == "FO":
            return Option(tcp_options.FAST_OPEN, self._hex("a cookie"))
        if name == "FOEXP":
            return Option(tcp_options.EXPERIMENTAL, tcp_options.FAST_OPEN_MAGIC + self._hex("a cookie"))
        if name == "md5":
            digest = self._hex("a digest")
            if len(digest) not in (0, 16):
                reader.fail(f"a digest of 16 bytes in hexadecimal expected, not {len(digest)} bytes")
            return Option(tcp_options.MD5, digest, any_data=not digest)
        if name == "ECN":
            return self._acc_ecn()
        if name.startswith("kind-") and int(name[5:]) < 256:
            return Option(int(name[5:]), self._hex("data"))
        reader.fail(f"no option {name!r} of TCP; there are: mss, wscale, sackOK, sack, TS, nop, eol, FO, FOEXP, md5, "
                    "ECN, kind-N")

    def _acc_ecn(self) -> Option:
        counters = []
        while found := self._reader.take(r"(e0b|ceb|e1b)\b"):
            counters.append((found.group(1), self._reader.number("a counter", (1 << 24) - 1)))
        try:
            return tcp_options.acc_ecn(counters)
        except ValueError as problem:
            self._reader.fail(f"ECN: {problem}")

    def _hex(self, what: str) -> bytes:
        """Bytes in hexadecimal, if there are any, or a name that was defined."""
        found = self._reader.take(r"\w+")
        if not found:
            return b""
        digits = self._defines.get(found.group(), found.group())
        try:
            return bytes.fromhex(digits)
        except ValueError:
            self._reader.fail(f"{what} in hexadecimal, or a name given with --define, expected, not {digits!r}")

    # --- system calls

    def _call(self) -> Call:
        reader = self._reader
        name = reader.need(rf"{_NAME}(?=\s*\()", "<, >, a system call, ` or %{").group()
        if name not in calls.names():
            reader.fail(f"no system call {name!r}; {guesses.alternatives(name, calls.names())}")
        reader.need(r"\(", "(")
        arguments = self._list(r"\)", ")")
        if not reader.take("="):
            return Call(name, arguments, None, "")
        if reader.take(r"\.\.\."):
            return Call(name, arguments, None, "")
        sign = -1 if reader.take("-") else 1
        result = sign * reader.number("a result, a number", (1 << 63) - 1)
        errno = found.group() if (found := reader.take(r"E[A-Z0-9]{2,20}\b")) else ""
        reader.take(r"\([^()\n]*\)")
        return Call(name, arguments, result, errno)

    def _list(self, closing: str, shown: str, depth: int = 0) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._reader.take(closing):
            found.append(self._expression(depth))
            if not self._reader.take(",") and not self._reader.peek(closing):
                self._reader.fail(f", or {shown} expected, not {self._reader.following()}")
        return tuple(found)

    def _expression(self, depth: int) -> Expression:
        parts = [self._single(depth)]
        while self._reader.take(r"\|"):
            parts.append(self._single(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _single(self, depth: int) -> Expression:
        reader = self._reader
        if depth > _MOST_DEPTH:
            reader.fail(f"at most {_MOST_DEPTH} brackets in each other expected")
        if reader.take(r"\.\.\."):
            return Anything()
        if found := reader.take(r"-?(?:0x[0-9a-fA-F]+|\d+)(?!\w)"):
            value = int(found.group(), 0 if "x" in found.group() else 10)
            if abs(value) >= 1 << 64:
                reader.fail("a number of at most 64 bits expected")
            return Number(value)
        if found := reader.take(r'"((?:[^"\\\n]|\\.)*)"'):
            return Text(self._bytes(found.group()))
        if reader.take(r"\["):
            return Sequence(self._list(r"\]", "]", depth + 1))
        if reader.take(r"\{"):
            return self._structure(depth + 1)
        name = reader.need(_NAME, "a number, a name, ..., a text, [ or {").group()
        if reader.take(r"\("):
            return Function(name, self._list(r"\)", ")", depth + 1))
        return self._symbol(name)

    def _symbol(self, name: str) -> Expression:
        defined = self._defines.get(name)
        if defined is not None:
            if re.fullmatch(r"-?\d{1,19}", defined):
                return Number(int(defined))
            name = defined
        if name != "NULL" and value_of(name, self._options.ip_version) is None:
            self._reader.fail(f"no constant {name!r}: a name of C's headers such as SOCK_STREAM, or one given with "
                              "--define, expected")
        return Symbol(name)

    def _structure(self, depth: int) -> Structure:
        reader, fields = self._reader, list[Field]()
        while not reader.take(r"\}"):
            named = reader.take(rf"({_NAME})(?:\s*\(\s*(?:\d+|\.\.\.)\s*\))?\s*=(?!=)")
            fields.append(Field(named.group(1) if named else "", self._expression(depth)))
            if not reader.take(",") and not reader.peek(r"\}"):
                reader.fail(f", or }} expected, not {reader.following()}")
        return Structure(tuple(fields))

    def _bytes(self, literal: str) -> bytes:
        if not literal.isascii():
            return literal[1:-1].encode()
        try:
            value = ast.literal_eval("b" + literal)
        except (SyntaxError, ValueError):
            self._reader.fail(f"a text as in C expected, not {literal[:40]}")
        return bytes(value)

# SPDX-License-Identifier: GPL-2.0-only
"""Lines for `ip -batch` and `tc -batch` as messages to the kernel, without the programs.

Starting and ending a program takes a guest some 10 ms of CPU time, and every node of a network would have two. The
lines that nearly all networks consist of are told the kernel here (rtnetlink(7)); for another line, or an option that
is not known here, the program is asked. What the kernel has in the end is the same.
"""
import errno
import itertools
import socket
import struct
from collections.abc import Callable, Iterable, Sequence

from testbed.core import ip
from topologies.linux.rtnetlink import HEADER, TICK_NS, ask_for_words, attribute, raise_error
from topologies.linux.tc_messages import RATESPEC, htb_class, ratespec, share

#: a message but for its header, when the number of each device is known
_Body = Callable[[Callable[[str], int]], bytes]
#: kind of message, its flags beside REQUEST, what is in it
_Order = tuple[int, int, _Body]

_NEWLINK, _NEWADDR, _NEWROUTE, _NEWNEIGH, _NEWQDISC, _NEWTCLASS, _NEWTFILTER = 16, 20, 24, 28, 36, 40, 44
_REQUEST, _ACK, _REPLACE, _CREATE_ONLY, _CREATE = 0x1, 0x4, 0x100, 0x600, 0x400
#: so many are sent at a time
_AT_ONCE = 200
_MOST_32_BITS = 2**32 - 1
_ROOT, _INGRESS, _INGRESS_PARENT = _MOST_32_BITS, 0xFFFF0000, 0xFFFFFFF1
# struct ifinfomsg, ifaddrmsg, rtmsg, ndmsg, tcmsg; numbers of attributes and flags: include/uapi/linux
_IFINFOMSG, _IFADDRMSG, _RTMSG = struct.Struct("=BxHiII"), struct.Struct("=BBBBI"), struct.Struct("=BBBBBBBBI")
_NDMSG, _TCMSG = struct.Struct("=BxxxiHBB"), struct.Struct("=BxxxiIII")
_UP, _NOARP, _MULTICAST, _NODAD, _PERMANENT = 0x1, 0x80, 0x1000, 0x02, 0x80
_MTU = 4
_MAIN, _BOOT, _UNICAST = 254, 3, 1
_ALL_PROTOCOLS = socket.htons(3)
_STOLEN, _EGRESS_REDIRECT = 4, 1


class _Unknown(Exception):
    """A line that only the program knows."""


def orders(program: str, lines: Sequence[str]) -> list[_Order] | None:
    """What the kernel is to be told for these lines of `program`; None if one of them is not known here."""
    reader = {"ip": _ip, "tc": _tc}.get(program)
    if reader is None:
        return None
    try:
        return [reader(line.split()) for line in lines]
    except (_Unknown, ValueError, LookupError, ArithmeticError, OSError, struct.error):
        return None


def tell(program: str, lines: Sequence[str], told: Sequence[_Order]) -> None:
    """Tell the kernel, in the current namespace, what `orders` made of lines.

    RuntimeError with the line that it refuses, why, and the kernel's own words where it has any.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as telling:
        ask_for_words(telling)
        # a device's number is known once the device is there
        for _, group in itertools.groupby(range(len(told)), lambda at: told[at][:2] == (_NEWLINK, _CREATE_ONLY)):
            numbers = list(group)
            for first in range(0, len(numbers), _AT_ONCE):
                _send(telling, program, lines, told, numbers[first:first + _AT_ONCE])


def _send(telling: socket.socket, program: str, lines: Sequence[str], told: Sequence[_Order],
          some: Sequence[int]) -> None:
    """Tell the kernel some of these orders, in one go; it answers errors, and that the last is done."""
    at, data = some[0], b""
    try:
        for at in some:
            kind, flags, body = told[at]
            content = body(_number_of)
            flags |= _REQUEST | (_ACK if at == some[-1] else 0)
            data += HEADER.pack(HEADER.size + len(content), kind, flags, at, 0) + content
        telling.send(data)
        at = -1
        while at < some[-1]:
            answer = telling.recv(1 << 16)
            _, _, _, at, _ = HEADER.unpack_from(answer)
            raise_error(answer)
    except OSError as problem:
        raise RuntimeError(f"{program} {lines[at]}: {problem.strerror or problem}") from None


def _number_of(device: str) -> int:
    try:
        return socket.if_nametoindex(device)
    except OSError:                         # whose words do not say which
        raise OSError(errno.ENODEV, f"there is no device {device}") from None


def _pairs(words: Sequence[str], known: Iterable[str], flags: Iterable[str] = ()) -> dict[str, str]:
    """{name: value} of an option each; a flag's value is itself."""
    found, rest = {}, iter(words)
    for word in rest:
        if word not in known and word not in flags or word in found:
            raise _Unknown
        found[word] = word if word in flags else next(rest, "")
    return found


def _address(text: str) -> bytes:
    return socket.inet_pton(ip.family(text), text)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _text(kind: int, word: str) -> bytes:
    return attribute(kind, word.encode() + b"\0")


def _u32(kind: int, number: int) -> bytes:
    return attribute(kind, struct.pack("=I", number))


def _ip(words: list[str]) -> _Order:
    readers = {("link", "set"): _link_set, ("link", "add"): _link_add, ("addr", "add"): _address_add,
               ("neigh", "replace"): _neighbour, ("route", "add"): _route}
    if tuple(words[:2]) not in readers:
        raise _Unknown
    return readers[words[0], words[1]](words[2:])


def _link_set(words: list[str]) -> _Order:
    device, *changes = words
    flags = changed = 0
    more = b""
    while changes:
        match changes:
            case ["up", *changes]:
                flags, changed = flags | _UP, changed | _UP
            case ["arp", "off", *changes]:
                flags, changed = flags | _NOARP, changed | _NOARP
            case ["multicast", "off", *changes]:
                changed |= _MULTICAST
            case ["mtu", number, *changes]:
                more += _u32(_MTU, int(number))
            case ["gso_max_segs", number, *changes]:
                more += _u32(40, int(number))
            case _:
                raise _Unknown
    return _NEWLINK, 0, lambda _number: _IFINFOMSG.pack(0, 0, 0, flags, changed) + _text(3, device) + more


def _link_add(words: list[str]) -> _Order:
    """An IFB; a veth pair, one end or both of which may belong elsewhere."""
    at = words.index("type")
    one = words[:at] if words[0] == "name" else ["name", *words[:at]]
    match words[at + 1:]:
        case ["ifb"]:
            body = _new_link(one, "ifb")
        case ["veth", "peer", *other]:
            body = _new_link(one, "veth", attribute(2, attribute(1, _new_link(other))))
        case _:
            raise _Unknown
    return _NEWLINK, _CREATE_ONLY, lambda _number: body


def _new_link(words: Sequence[str], kind: str = "", data: bytes = b"") -> bytes:
    options = _pairs(words, ("name", "index", "address", "mtu", "numtxqueues", "numrxqueues", "netns"))
    body = _IFINFOMSG.pack(0, 0, int(options.get("index", 0)), 0, 0) + _text(3, options["name"])
    if "address" in options:
        body += attribute(1, _mac(options["address"]))
    for name, number in (("mtu", _MTU), ("numtxqueues", 31), ("numrxqueues", 32), ("netns", 19)):
        if name in options:
            body += _u32(number, int(options[name]))
    return body + (attribute(18, _text(1, kind) + data) if kind else b"")


def _address_add(words: list[str]) -> _Order:
    address, *rest = words
    options = _pairs(rest, ("dev",), ("nodad",))
    where, _, length = address.partition("/")
    both = attribute(2, _address(where)) + attribute(1, _address(where))
    family, bits, flags = ip.family(where), int(length), _NODAD if "nodad" in options else 0
    return _NEWADDR, _CREATE_ONLY, lambda number: _IFADDRMSG.pack(family, bits, flags, 0, number(options["dev"])) + both


def _neighbour(words: list[str]) -> _Order:
    address, *rest = words
    options = _pairs(rest, ("lladdr", "nud", "dev"))
    if options["nud"] != "permanent":
        raise _Unknown
    known = attribute(1, _address(address)) + attribute(2, _mac(options["lladdr"]))
    family = ip.family(address)
    return _NEWNEIGH, _CREATE | _REPLACE, lambda number: _NDMSG.pack(
        family, number(options["dev"]), _PERMANENT, 0, 0) + known


def _route(words: list[str]) -> _Order:
    network, *rest = words
    options = _pairs(rest, ("via", "dev", "initcwnd"))
    family, bits, before = ip.family(options["via"]), 0, b""
    if network != "default":
        where, _, length = network.partition("/")
        bits, before = int(length), attribute(1, _address(where))
    before += attribute(5, _address(options["via"]))
    after = attribute(8, _u32(11, int(options["initcwnd"]))) if "initcwnd" in options else b""
    return _NEWROUTE, _CREATE_ONLY, lambda number: _RTMSG.pack(
        family, bits, 0, 0, _MAIN, _BOOT, 0, _UNICAST, 0) + before + _u32(4, number(options["dev"])) + after


def _tc(words: list[str]) -> _Order:
    match words:
        case ["qdisc", "add", "dev", device, "handle", "ffff:", "ingress"]:
            return _qdisc(device, _INGRESS_PARENT, _INGRESS, "ingress", None)
        case ["qdisc", "add", "dev", device, "root", "handle", handle, kind, *options]:
            return _qdisc(device, _ROOT, _handle(handle), kind, _options(kind, options))
        case ["qdisc", "add", "dev", device, "parent", parent, "handle", handle, kind, *options]:
            return _qdisc(device, _handle(parent), _handle(handle), kind, _options(kind, options))
        case ["class", "add", "dev", device, "parent", parent, "classid", handle, "htb", *options]:
            return _class(device, _handle(parent), _handle(handle), "htb", _htb_class(options))
        case ["filter", "add", "dev", device, "parent", "ffff:", "protocol", "all", "matchall", "action", "mirred",
              "egress", "redirect", "dev", other]:
            return _redirect(device, other)
    raise _Unknown


def _handle(text: str) -> int:
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def _qdisc(device: str, parent: int, handle: int, kind: str, options: bytes | None) -> _Order:
    more = _text(1, kind) + (b"" if options is None else attribute(2, options))
    return _NEWQDISC, _CREATE_ONLY, lambda number: _TCMSG.pack(0, number(device), handle, parent, 0) + more


def _class(device: str, parent: int, handle: int, kind: str, options: bytes) -> _Order:
    more = _text(1, kind) + attribute(2, options)
    return _NEWTCLASS, _CREATE_ONLY, lambda number: _TCMSG.pack(0, number(device), handle, parent, 0) + more


def _options(kind: str, words: list[str]) -> bytes:
    if kind not in _KINDS:
        raise _Unknown
    return _KINDS[kind](words)


def _fifo(words: list[str]) -> bytes:
    return struct.pack("=I", int(_pairs(words, ("limit",))["limit"]))


def _bytes_per_s(rate: str) -> int:
    return int(rate.removesuffix("bit")) // 8


def _tbf(words: list[str]) -> bytes:
    """Its bucket in bytes and in units of time; a table of times for sizes is for other link layers than Ethernet."""
    options = _pairs(words, ("rate", "burst", "limit"))
    bytes_per_s, burst = _bytes_per_s(options["rate"]), int(options["burst"])
    ticks = min(_MOST_32_BITS, burst * 10**9 // bytes_per_s // TICK_NS)
    bucket = struct.pack("=III", int(options["limit"]), ticks, 0)
    found = attribute(1, ratespec(bytes_per_s) + bytes(RATESPEC.size) + bucket)
    if bytes_per_s > _MOST_32_BITS:
        found += attribute(4, struct.pack("=Q", bytes_per_s))
    return found + _u32(6, burst)


def _htb(words: list[str]) -> bytes:
    """struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts."""
    return attribute(2, struct.pack("=IIIII", 3, 10, int(_pairs(words, ("default",))["default"], 16), 0, 0))


def _htb_class(words: list[str]) -> bytes:
    """Its buckets in time, which tc counts in whole microseconds; one rate is all that links have."""
    options = _pairs(words, ("rate", "ceil", "burst", "cburst", "quantum"))
    if options["rate"] != options["ceil"] or options["burst"] != options["cburst"]:
        raise _Unknown
    bytes_per_s = _bytes_per_s(options["rate"])
    microseconds = int(options["burst"]) * 10**6 // bytes_per_s
    return htb_class(bytes_per_s, min(_MOST_32_BITS, microseconds * 1000 // TICK_NS), int(options["quantum"]))


def _netem(words: list[str]) -> bytes:
    """A constant delay of whole microseconds, which tc rounds down to the kernel's unit; a rate; independent losses."""
    options = _pairs(words, ("limit", "delay", "rate", "loss"))
    delay_us, percent = int(options["delay"].removesuffix("us")), float(options.get("loss", "0").removesuffix("%"))
    bytes_per_s = _bytes_per_s(options["rate"])
    found = struct.pack("=IIIIII", delay_us * 1000 // TICK_NS, int(options["limit"]), share(percent), 0, 0, 0)
    found += attribute(6, struct.pack("=IiIi", min(bytes_per_s, _MOST_32_BITS), 0, 0, 0))
    return found + (attribute(8, struct.pack("=Q", bytes_per_s)) if bytes_per_s > _MOST_32_BITS else b"")


def _redirect(device: str, other: str) -> _Order:
    def body(number: Callable[[str], int]) -> bytes:
        # struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex
        parameters = attribute(2, struct.pack("=IIiiiiI", 0, 0, _STOLEN, 0, 0, _EGRESS_REDIRECT, number(other)))
        action = attribute(1, _text(1, "mirred") + attribute(2, parameters))
        return _TCMSG.pack(0, number(device), 0, _INGRESS, _ALL_PROTOCOLS) + _text(1, "matchall") \
            + attribute(2, attribute(2, action))
    return _NEWTFILTER, _CREATE_ONLY, body


_KINDS: dict[str, Callable[[list[str]], bytes]] = {
    "pfifo": _fifo, "bfifo": _fifo, "tbf": _tbf, "htb": _htb, "netem": _netem}

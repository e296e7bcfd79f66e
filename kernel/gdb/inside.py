# SPDX-License-Identifier: GPL-2.0-only
"""What gdb does with a guest kernel, and what it can print of it. gdb runs this file (kernel/debugger.py).

It attaches to the stopped process that becomes the guest, lets it go on until traffic begins, and stops it at a
virtual time, exactly and without looking at the clock all the while: an event with that time is put into the kernel's
list of events (arch/um/kernel/time.c). It does nothing else, so what the guest does stays the same.
"""
import functools
import gzip
import io
import json
import os
import socket
import struct
import traceback
import typing

import gdb

_NS_PER_S = 1_000_000_000
_RETURN = b"\xc3"
#: signals that the kernel lives on: page faults, timers, interrupts, the stops of its processes
_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGCHLD", "SIGWINCH",
            "SIGUSR1", "SIGUSR2", "SIGSYS", "SIGTERM", "SIGHUP", "SIGPIPE")
_EXECUTED = "linux"
#: the guest reports its progress by giving a file its name
_HOOK = "hostfs_rename2"
#: when the monotonic clock of the guest showed 0 of the experiment
_BEGAN_NS: "list[int]" = []
#: (slot of the enumeration in the kernel's sources)
_STATES = ("", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT",
           "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV", "BOUND_INACTIVE")
_CA_STATES = ("Open", "Disorder", "CWR", "Recovery", "Loss")
_AF_INET, _AF_INET6 = 2, 10
_TCP_TIME_WAIT, _TCP_NEW_SYN_RECV = 6, 12
_INFINITE_SSTHRESH = 0x7FFFFFFF
_ALL_BITS = (1 << 64) - 1
_CALLS = "t_ns,function,caller,argument,src,dst,ca_state,cwnd,ssthresh,in_flight\n"


def _read(address: int, size: int) -> bytes:
    return bytes(gdb.selected_inferior().read_memory(address, size))


def _u64(address: int) -> int:
    return int.from_bytes(_read(address, 8), "little")


def _put(address: int, *words: int) -> None:
    gdb.selected_inferior().write_memory(address, struct.pack(f"<{len(words)}Q", *words))


def _symbol(name: str) -> int:
    """The address of a symbol, whether or not its type is known."""
    return int(gdb.parse_and_eval(f"(unsigned long)&'{name}'"))


def _symbol_or_none(name: str) -> "int | None":
    try:
        return _symbol(name)
    except gdb.error:
        return None                     # a kernel without IPv6 has no tcpv6_prot


def _offset(kind: str, field: str) -> int:
    """Where a field of a struct is, in bytes; 'a.b' of one in it."""
    of, at = gdb.lookup_type(kind), 0
    for name in field.split("."):
        found = _field(of, name)
        at, of = at + found[0], found[1]
    return at


def _field(of: gdb.Type, name: str) -> "tuple[int, gdb.Type]":
    """(bytes, type) of a field, also of one in a struct without a name."""
    for field in of.strip_typedefs().fields():
        if field.name == name:
            return field.bitpos // 8, field.type
        if not field.name and field.type.strip_typedefs().code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            try:
                at, kind = _field(field.type, name)
            except KeyError:
                continue
            return field.bitpos // 8 + at, kind
    raise KeyError(name)


def _now_ns() -> int:
    if not gdb.selected_inferior().pid:
        raise gdb.GdbError("the guest has ended")
    return _u64(_symbol("time_travel_time"))


class _Now(gdb.Function):
    """$now(): nanoseconds of the experiment, 0 when traffic begins; before that the time since the guest's start,
    below 0 by as much as is not known: -1."""

    def __init__(self) -> None:
        super().__init__("now")

    def invoke(self) -> int:
        return _now_ns() - _BEGAN_NS[0] if _BEGAN_NS else -1


class _NowSeconds(gdb.Function):
    """$now_s(): the same in seconds."""

    def __init__(self) -> None:
        super().__init__("now_s")

    def invoke(self) -> float:
        return (_now_ns() - _BEGAN_NS[0]) / _NS_PER_S if _BEGAN_NS else -1.0


class _Argument(gdb.Function):
    """$arg(N): the Nth argument (1 to 6) of the function whose first instruction is next."""

    def __init__(self) -> None:
        super().__init__("arg")

    def invoke(self, number: gdb.Value) -> gdb.Value:
        names = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
        if not 1 <= int(number) <= len(names):
            raise gdb.GdbError(f"$arg({int(number)}): a number from 1 to {len(names)} expected")
        return gdb.newest_frame().read_register(names[int(number) - 1])


class _TcpSock(gdb.Function):
    """$tcp(SK): a struct sock * as struct tcp_sock *; without SK the first argument of the function."""

    def __init__(self) -> None:
        super().__init__("tcp")

    def invoke(self, sk: "gdb.Value | None" = None) -> gdb.Value:
        return _tcp_sock(int(gdb.newest_frame().read_register("rdi") if sk is None else sk))


def _tcp_sock(address: int) -> gdb.Value:
    return gdb.Value(address).cast(gdb.lookup_type("struct tcp_sock").pointer())


def _time_text(ns: int) -> str:
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // _NS_PER_S}.{ns % _NS_PER_S:09d} s"


class _VirtualTime(gdb.Command):
    """vtime: the virtual time, as all tables of the run have it: 0 is when traffic begins."""

    def __init__(self) -> None:
        super().__init__("vtime", gdb.COMMAND_STATUS)

    def invoke(self, argument: str, from_tty: bool) -> None:
        print(_time_text(_now_ns() - _BEGAN_NS[0]) if _BEGAN_NS else "traffic has not begun")


class _UntilTime(gdb.Command):
    """until-time SECONDS: go on until the virtual time is so much, or a breakpoint stops before that."""

    def __init__(self) -> None:
        super().__init__("until-time", gdb.COMMAND_RUNNING)

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            whole, _, part = argument.strip().removesuffix("s").strip().partition(".")
            ns = int(whole) * _NS_PER_S + int(part.ljust(9, "0")[:9] or 0)
        except ValueError:
            raise gdb.GdbError("until-time SECONDS, such as until-time 12.345") from None
        if not _BEGAN_NS:
            raise gdb.GdbError("traffic has not begun")
        if _BEGAN_NS[0] + ns <= _now_ns():
            raise gdb.GdbError(f"until-time {argument.strip()}: it is {_time_text(_now_ns() - _BEGAN_NS[0])} already")
        _go_until(ns)


class _ShowTcp(gdb.Command):
    """tcp-sock [SK]: what a TCP socket knows; without SK that of the function's first argument."""

    def __init__(self) -> None:
        super().__init__("tcp-sock", gdb.COMMAND_DATA)

    def invoke(self, argument: str, from_tty: bool) -> None:
        at = int(gdb.parse_and_eval(argument)) if argument.strip() else int(gdb.newest_frame().read_register("rdi"))
        print("\n".join(_described(at)))


class _ShowAll(gdb.Command):
    """tcp-socks: one line for each TCP socket of all nodes that has a connection."""

    def __init__(self) -> None:
        super().__init__("tcp-socks", gdb.COMMAND_DATA)

    def invoke(self, argument: str, from_tty: bool) -> None:
        for address in _connections():
            print(_line(address))


def _text(value: gdb.Value) -> str:
    return bytes(_read(int(value.address), value.type.sizeof)).split(b"\0")[0].decode("ascii", "replace")


def _ends(sk: gdb.Value) -> str:
    common, ports = sk["__sk_common"], []
    family = int(common["skc_family"])
    if family == _AF_INET6:
        addresses = [socket.inet_ntop(socket.AF_INET6, _read(int(common[name].address), 16))
                     for name in ("skc_v6_rcv_saddr", "skc_v6_daddr")]
    else:
        addresses = [socket.inet_ntop(socket.AF_INET, struct.pack("<I", int(common[name])))
                     for name in ("skc_rcv_saddr", "skc_daddr")]
    ports = [int(common["skc_num"]), int.from_bytes(int(common["skc_dport"]).to_bytes(2, "little"), "big")]
    left, right = (f"[{address}]:{port}" if family == _AF_INET6 else f"{address}:{port}"
                   for address, port in zip(addresses, ports))
    return f"{left} > {right}"


def _in_flight(tp: gdb.Value) -> int:
    """tcp_packets_in_flight()"""
    return int(tp["packets_out"]) - int(tp["sacked_out"]) - int(tp["lost_out"]) + int(tp["retrans_out"])


def _control(icsk: gdb.Value) -> str:
    return _text(icsk["icsk_ca_ops"]["name"]) if int(icsk["icsk_ca_ops"]) else "none"


def _parts(address: int) -> "tuple[gdb.Value, gdb.Value, gdb.Value]":
    """(tcp_sock, inet_connection_sock, sock)"""
    tp = _tcp_sock(address).dereference()
    icsk = tp["inet_conn"]
    return tp, icsk, icsk["icsk_inet"]["sk"]


def _threshold(tp: gdb.Value) -> str:
    found = int(tp["snd_ssthresh"])
    return "none" if found >= _INFINITE_SSTHRESH else str(found)


def _line(address: int) -> str:
    tp, icsk, sk = _parts(address)
    return (f"{address:#x} {_ends(sk)} {_STATES[int(sk['__sk_common']['skc_state'])]} {_control(icsk)} "
            f"{_CA_STATES[int(icsk['icsk_ca_state'])]} cwnd {int(tp['snd_cwnd'])} ssthresh {_threshold(tp)} "
            f"in flight {_in_flight(tp)} srtt {int(tp['srtt_us']) / 8:.3f} us")


def _described(address: int) -> "list[str]":
    tp, icsk, sk = _parts(address)
    state = int(sk["__sk_common"]["skc_state"])
    if state in (_TCP_TIME_WAIT, _TCP_NEW_SYN_RECV) or not 0 < state < len(_STATES):
        raise gdb.GdbError(f"{address:#x}: no struct tcp_sock")
    jiffies_per_s = int(SESSION["hz"])
    return [
        f"struct tcp_sock {address:#x}: {_ends(sk)}",
        f"  state        {_STATES[state]}, {_CA_STATES[int(icsk['icsk_ca_state'])]}, congestion control "
        f"{_control(icsk)}",
        f"  window       cwnd {int(tp['snd_cwnd'])}, ssthresh {_threshold(tp)}, announced by the peer "
        f"{int(tp['snd_wnd'])} bytes, mss {int(tp['mss_cache'])} bytes",
        f"  packets      in flight {_in_flight(tp)} = out {int(tp['packets_out'])} - sacked {int(tp['sacked_out'])} - "
        f"lost {int(tp['lost_out'])} + sent again {int(tp['retrans_out'])}",
        f"  sequence     snd_una {int(tp['snd_una'])}, snd_nxt {int(tp['snd_nxt'])}, written {int(tp['write_seq'])}, "
        f"rcv_nxt {int(tp['rcv_nxt'])}",
        f"  times        srtt {int(tp['srtt_us']) / 8:.3f} us, variation {int(tp['rttvar_us']) / 4:.3f} us, rto "
        f"{int(icsk['icsk_rto']) * 1000 / jiffies_per_s:g} ms, backoff {int(icsk['icsk_backoff'])}",
        f"  so far       delivered {int(tp['delivered'])} (with CE {int(tp['delivered_ce'])}), lost {int(tp['lost'])}, "
        f"sent again {int(tp['total_retrans'])} packets; acknowledged {int(tp['bytes_acked'])}, received "
        f"{int(tp['bytes_received'])} bytes",
        f"  pacing       {int(sk['sk_pacing_rate']) * 8 / 1e6:.3f} Mbit/s"
        if int(sk["sk_pacing_rate"]) < 1 << 63 else "  pacing       none"]


def _connections() -> "list[int]":
    """Addresses of all established sockets, in order of their connections' ends."""
    tables: "dict[int, None]" = {}
    found: "dict[int, str]" = {}
    head = _symbol("net_namespace_list")
    at, link = _u64(head), _offset("struct net", "list")
    where = _offset("struct net", "ipv4.tcp_death_row.hashinfo")
    node = _offset("struct sock_common", "skc_nulls_node")
    state = _offset("struct sock_common", "skc_state")
    while at != head:
        tables[_u64(at - link + where)] = None
        at = _u64(at)
    of_hash = gdb.lookup_type("struct inet_hashinfo").pointer()
    for table in tables:
        hashed = gdb.Value(table).cast(of_hash)
        count, size = int(hashed["ehash_mask"]) + 1, gdb.lookup_type("struct inet_ehash_bucket").sizeof
        chains = _read(int(hashed["ehash"]), count * size)
        for (first,) in struct.iter_unpack(f"<Q{size - 8}x", chains):
            while not first & 1:
                address = first - node
                if _read(address + state, 1)[0] not in (_TCP_TIME_WAIT, _TCP_NEW_SYN_RECV):
                    found[address] = _ends(_parts(address)[2])
                first = _u64(first)
    return sorted(found, key=lambda address: (found[address], address))


def _memory() -> int:
    """A page of the kernel's process that nobody else has: read, write, execute; private, anonymous."""
    if not _PAGES:
        _PAGES.append(int(gdb.parse_and_eval(
            "((unsigned long (*)(unsigned long, unsigned long, int, int, int, long))mmap64)(0, 4096, 7, 0x22, -1, 0)")))
    return _PAGES[0]


def _without_stops_of_children() -> None:
    """No SIGCHLD when a process of the guest stops, as it does at each of its system calls: the kernel waits for them
    anyway, and here each would stop the kernel, too."""
    action = _memory() + 512
    # struct sigaction of the C library: SIG_DFL, an empty mask, SA_NOCLDSTOP
    _put(action, 0, *[0] * 16, 1, 0)
    if int(gdb.parse_and_eval(f"((int (*)(int, unsigned long, unsigned long))sigaction)(17, {action:#x}, 0)")):
        raise gdb.GdbError("sigaction() failed in the guest's process")


class _Call(gdb.Breakpoint):
    """Writes down each call of a function, and lets the guest go on."""

    def __init__(self, function: str, table: "typing.TextIO") -> None:
        super().__init__(f"*{function}", internal=True)
        self.silent = True
        self._function, self._table = function, table
        self._protocols = [address for name in ("tcp_prot", "tcpv6_prot") if (address := _symbol_or_none(name))]

    def stop(self) -> bool:
        frame = gdb.newest_frame()
        argument, caller = (int(frame.read_register(name)) & _ALL_BITS for name in ("rdi", "rsp"))
        row = [str(_now_ns() - _BEGAN_NS[0]), self._function, _function_at(_u64(caller)), f"{argument:#x}"]
        self._table.write(",".join(row + self._of_socket(argument)) + "\n")
        return False

    def _of_socket(self, address: int) -> "list[str]":
        """What the first argument knows if it is a TCP socket, else nothing."""
        try:
            if _u64(address + _offset("struct sock_common", "skc_prot")) not in self._protocols:
                return [""] * 6
            tp, icsk, sk = _parts(address)
            return [*_ends(sk).split(" > "), _CA_STATES[int(icsk["icsk_ca_state"])], str(int(tp["snd_cwnd"])),
                    str(int(tp["snd_ssthresh"])), str(_in_flight(tp))]
        except gdb.MemoryError:
            return [""] * 6


@functools.cache
def _function_at(address: int) -> str:
    return str(gdb.execute(f"info symbol {address:#x}", to_string=True)).split(" in section")[0].split()[0]


class _Alarm:
    """An event of the kernel's list that does nothing, and a breakpoint in it."""
    _KIND = "struct time_travel_event"

    def __init__(self) -> None:
        self._page = _memory()
        gdb.selected_inferior().write_memory(self._page, _RETURN)
        self.breakpoint = gdb.Breakpoint(f"*{self._page:#x}", internal=True)
        self.breakpoint.silent = True
        self._event = self._page + 256

    def set(self, time_ns: int) -> None:
        """As __time_travel_add_event() does."""
        at = {field: _offset(self._KIND, field) for field in ("time", "fn", "list", "pending")}
        if self.pending():
            previous, following = _u64(self._event + at["list"] + 8), _u64(self._event + at["list"])
            _put(previous, following)
            _put(following + 8, previous)
        head = _symbol("time_travel_events")
        following = _u64(head)
        while following != head and _u64(following - at["list"] + at["time"]) < time_ns:
            following = _u64(following)
        previous = _u64(following + 8)
        _put(self._event + at["time"], time_ns)
        _put(self._event + at["fn"], self._page)
        _put(self._event + at["list"], following, previous)
        gdb.selected_inferior().write_memory(self._event + at["pending"], b"\1")
        _put(previous, self._event + at["list"])
        _put(following + 8, self._event + at["list"])
        if previous == head:
            _put(_symbol("time_travel_next_event"), time_ns)

    def pending(self) -> bool:
        return bool(_read(self._event + _offset(self._KIND, "pending"), 1)[0])


def _go_until(ns: int) -> None:
    """Stop when the experiment is so old; what is due at that instant comes after it."""
    if not _ALARMS:
        _ALARMS.append(_Alarm())
    _ALARMS[0].set(_BEGAN_NS[0] + ns)
    gdb.execute("continue")


_ALARMS: "list[_Alarm]" = []
_PAGES: "list[int]" = []
_FAILED: "list[bool]" = []
with open(os.environ["TESTBED_GDB_SESSION"], encoding="utf-8") as _file:
    SESSION = json.load(_file)


def _begin() -> None:
    """Attach, become the guest, go on until traffic begins."""
    for setting in ("pagination off", "confirm off", "breakpoint pending off", "follow-fork-mode parent",
                    "detach-on-fork on", "print thread-events off", "print inferior-events off", "auto-solib-add off"):
        gdb.execute(f"set {setting}", to_string=True)
    for signal in _SIGNALS:
        gdb.execute(f"handle {signal} nostop noprint pass", to_string=True)
    # of what gdb says of each stop, nothing is for the user until the guest is where it is wanted
    gdb.execute("set suppress-cli-notifications on", to_string=True)
    gdb.execute(f"attach {SESSION['pid']}", to_string=True)
    gdb.execute("catch exec", to_string=True)
    while os.path.basename(gdb.current_progspace().filename or "") != _EXECUTED:
        gdb.execute("continue", to_string=True)
    gdb.execute("delete", to_string=True)
    gdb.execute(f"add-symbol-file {SESSION['types']} 0", to_string=True)
    hook = gdb.Breakpoint(_HOOK, internal=True)
    hook.silent = True
    while not _has_begun():
        gdb.execute("continue", to_string=True)
        if not gdb.selected_inferior().pid:
            raise gdb.GdbError("the guest ended before traffic began; its log says why")
        if not _PAGES:
            _without_stops_of_children()
    hook.delete()
    _BEGAN_NS.append(_now_ns())
    _read_modules()
    gdb.execute("set suppress-cli-notifications off", to_string=True)


def _has_begun() -> bool:
    """Whether the guest says that traffic begins now: it does so in the first instant of it (testbed/guest/main.py)."""
    try:
        with open(SESSION["progress"], encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError):
        return False
    return bool(said.get("phase") == "traffic" and said.get("t_us") == 0)


def _read_modules() -> None:
    """The symbols of modules that are loaded, where their files are known."""
    head, kind = _symbol("modules"), gdb.lookup_type("struct module")
    at, link = _u64(head), _offset("struct module", "list")
    while at != head:
        module = gdb.Value(at - link).cast(kind.pointer())
        file = SESSION["modules"].get(_text(module["name"]))
        if file:
            new = any(field.name == "mem" for field in kind.fields())       # Linux 6.4
            text = int(module["mem"][0]["base"] if new else module["core_layout"]["base"])
            gdb.execute(f"add-symbol-file {file} {text:#x}", to_string=True)
            gdb.execute(f"directory {os.path.dirname(file)}", to_string=True)
        at = _u64(at)


def _stop_as_asked() -> None:
    if SESSION["functions"]:
        table = typing.cast("typing.IO[bytes]", gzip.GzipFile(SESSION["calls"], "wb", mtime=0))
        text = io.TextIOWrapper(table, encoding="ascii")
        text.write(_CALLS)
        for function in SESSION["functions"]:
            _Call(function, text)
        gdb.events.exited.connect(lambda _event: text.close())
    if not SESSION["stops"]:
        gdb.execute("continue", to_string=True)
        return
    if SESSION["at_ns"] is not None and SESSION["at_ns"] > 0:
        _go_until(SESSION["at_ns"])
    if SESSION["place"]:
        gdb.execute(f"tbreak {SESSION['place']}")
        gdb.execute("continue")
    if not gdb.selected_inferior().pid:
        raise gdb.GdbError("the run ended and did not come there")
    print(f"stopped at {_time_text(_now_ns() - _BEGAN_NS[0])} of virtual time")
    if SESSION["commands"]:
        gdb.execute(f"source {SESSION['commands']}")


for _helper in (_Now, _NowSeconds, _Argument, _TcpSock, _VirtualTime, _UntilTime, _ShowTcp, _ShowAll):
    _helper()
try:
    _begin()
    _stop_as_asked()
except (gdb.error, gdb.GdbError) as _problem:
    print(f"gdb: {_problem}", flush=True)
    _FAILED.append(True)
except Exception:
    traceback.print_exc()
    _FAILED.append(True)
if _FAILED and not (SESSION["asks"] and os.isatty(0)):
    gdb.execute("quit 1")               # without a terminal gdb would end with status 0

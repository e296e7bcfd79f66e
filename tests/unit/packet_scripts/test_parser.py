# SPDX-License-Identifier: GPL-2.0-only
"""Text of packet scripts -> records; scripts that nobody can read end in one line with file and line."""
import pytest

from testbed.packet_scripts import parser
from testbed.packet_scripts.language import (Anything, Call, Clock, Either, Field, Icmp, IpFields, Number, Option,
                                             Packet, Python, ScriptError, Sequence, Shell, Structure, Symbol, Tcp, Text,
                                             Udp, Way, When)


def events(text, **given):
    return parser.parse(text, "a.pkt", given).events


def event(text, **given):
    one, = events(text, **given)
    return one.what


@pytest.mark.parametrize("text, when", [
    ("0", When(Clock.START, 0)), ("0.1", When(Clock.START, 100_000_000)), ("+.5", When(Clock.BEFORE, 500_000_000)),
    ("+0", When(Clock.BEFORE)), ("*", When(Clock.ANY)), ("+1~+1.5", When(Clock.BEFORE, 10**9, 1_500_000_000)),
    ("+.02 ~ +2", When(Clock.BEFORE, 20_000_000, 2 * 10**9)), ("1~2", When(Clock.START, 10**9, 2 * 10**9)),
    ("+0.000000001", When(Clock.BEFORE, 1))])
def test_times_of_packets(text, when):
    one, = events(f"{text} > . 1:1(0) ack 1")
    assert one.when == when


@pytest.mark.parametrize("text, when", [
    ("0...0.25", When(Clock.START, 0, 250_000_000, True)), ("+.1...0.2", When(Clock.BEFORE, 10**8, 2 * 10**8, True)),
    ("+.002 ... 1.1", When(Clock.BEFORE, 2_000_000, 1_100_000_000, True))])
def test_times_of_calls_that_block(text, when):
    one, = events(f"{text} accept(3, ..., ...) = 4")
    assert one.when == when


def test_a_segment():
    text = "+0 > [ect0] SE. 0:1000(1000) ack 7 win 5 urg 2 <mss 1460,nop,wscale 8,sackOK,TS val 1 ecr 2>"
    assert event(text) == Packet(
        Way.OUT, IpFields(ecn=2), Tcp(frozenset("SE."), 0, 1000, 7, 5, 2, (
            Option(2, b"\x05\xb4"), Option(1), Option(3, b"\x08"), Option(4), Option(8, numbers=(1, 2)))))


@pytest.mark.parametrize("text, flags", [
    ("P.5", "P.AE"), (".0", "."), ("EAP.", "EAP."), ("-", ""), ("SEWA", "SEWA"), ("F.7", "F.AWE")])
def test_flags(text, flags):
    ack = " ack 1" if "." in text else ""
    assert event(f"+0 > {text} 1:1(0){ack}").transport.flags == frozenset(flags)


@pytest.mark.parametrize("text, option", [
    ("sack 1:2 5:9", Option(5, numbers=(1, 2, 5, 9))), ("FO", Option(34)), ("FO 0aff", Option(34, b"\x0a\xff")),
    ("FOEXP 0a0b", Option(254, b"\xf9\x89\x0a\x0b")),
    ("ECN e1b 1 ceb 2 e0b 3", Option(174, bytes((0, 0, 1, 0, 0, 2, 0, 0, 3)))),
    ("ECN e0b 1", Option(172, bytes((0, 0, 1)))), ("md5", Option(19, any_data=True)),
    ("kind-77 01", Option(77, b"\x01")),
    ("md5 " + "ab" * 16, Option(19, b"\xab" * 16)), ("eol", Option(0))])
def test_options(text, option):
    assert event(f"+0 > . 1:1(0) ack 1 <{text}>").transport.options == (option,)


def test_no_options_any_options_and_a_packet_behind():
    first, second, third = events("+0 > . 1:1(0) ack 1\n+0 > . 1:1(0) ack 1 <...>\n+0 < . 1:1(0) ack 1")
    assert (first.what.transport.options, second.what.transport.options) == ((), None)
    assert third.what.way is Way.IN


def test_a_name_stands_for_a_cookie():
    script = parser.parse("+0 > S 0:0(0) <FO COOKIE>", "a.pkt", {}, [("COOKIE", "0102")])
    assert script.events[0].what.transport.options == (Option(34, b"\x01\x02"),)


@pytest.mark.parametrize("text, what", [
    ("+0 < udp (1000)", Udp(1000)),
    ("+0 < icmp unreachable frag_needed mtu 1200 [1:1461(1460)]",
     Icmp("unreachable frag_needed", 3, 4, 1200, Tcp(frozenset("."), 1, 1461))),
    ("+0 < icmp time_exceeded [udp (5)]", Icmp("time_exceeded", 11, 0, 0, Udp(5)))])
def test_other_protocols(text, what):
    assert event(text).transport == what


def test_icmp_of_ipv6():
    what = event("+0 < icmp packet_too_big mtu 1280 [1:2(1)]", ip_version="ipv6").transport
    assert (what.type, what.code) == (2, 0)


@pytest.mark.parametrize("text, call", [
    ("socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3",
     Call("socket", (Anything(), Either((Symbol("SOCK_STREAM"), Symbol("SOCK_NONBLOCK"))),
                     Symbol("IPPROTO_TCP")), 3, "")),
    ("connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)",
     Call("connect", (Number(3), Anything(), Anything()), -1, "EINPROGRESS")),
    ("fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)", Call("fcntl", (Number(3), Symbol("F_GETFL")), 2, "")),
    (r'write(3, "a\x01\"", 3) = 3', Call("write", (Number(3), Text(b'a\x01"'), Number(3)), 3, "")),
    ("epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN, fd=4}) = 0",
     Call("epoll_ctl", (Number(5), Symbol("EPOLL_CTL_ADD"), Number(4), Structure((
         Field("events", Symbol("EPOLLIN")), Field("fd", Number(4))))), 0, "")),
    ("sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 1}, {..., 2}]}, 0) = 3",
     Call("sendmsg", (Number(4), Structure((Field("msg_name", Anything()), Field("msg_iov", Sequence((
         Structure((Field("", Anything()), Field("", Number(1)))),
         Structure((Field("", Anything()), Field("", Number(2))))))))), Number(0)), 3, "")),
    ("close(3)", Call("close", (Number(3),), None, ""))])
def test_calls(text, call):
    assert event(f"+0 {text}") == call


def test_commands_statements_and_comments():
    first, second, third, fourth = events("""# one
`echo '// no comment' # nor this`   // two
/* three
   lines */ +0 %{ assert tcpi_rto == 1, tcpi_rto; \\
     assert 1 }%
+0 %{
if tcpi_rto:
    print(1)
}%
+.1 `true`
""")
    assert first.what == Shell("echo '// no comment' # nor this")
    assert isinstance(second.what, Python) and (second.line, third.line, fourth.line) == (4, 6, 10)
    assert third.what.code.splitlines()[1] == "    print(1)"
    assert (fourth.when, fourth.text) == (When(Clock.BEFORE, 10**8), "+.1 `true`")


def test_the_text_of_an_event_has_no_comment():
    first, _ = events("+0 > . 1:1(0) ack 1  // why\n// and more\n+0 > . 1:1(0) ack 2")
    assert first.text == "+0 > . 1:1(0) ack 1"


def test_lines_of_options():
    options = parser.parse("--mss=1000\n--tolerance_usecs=5 // enough\n--tolerance_percent=12.5\n--send_omit_free\n"
                           "--needs=accecn\n--cca=./mine.c\n--strict_segments\n+0 close(3)", "a.pkt").options
    assert (options.mss, options.tolerance_us, options.tolerance_percent) == (1000, 5, 12.5)
    assert (options.needs, options.cca, options.strict_segments, options.mtu) == (("accecn",), "./mine.c", True, 1500)


def test_what_the_script_says_counts_more_than_the_command_line():
    given = {"tolerance_usecs": "7", "ip_version": "ipv6"}
    options = parser.parse("--tolerance_usecs=5\n+0 close(3)", "a.pkt", given).options
    assert (options.tolerance_us, options.ip_version, options.mtu) == (5, "ipv6", 1520)


@pytest.mark.parametrize("text, line, words", [
    ("", 1, "socket("), ("\n\n+0 > S 0:0(1)", 3, "not 1"), ("+0 > S", 1, "1:1001(1000)"),
    ("+0 close(3\n+0 close(4)", 2, ")"), ("+0 > . 1:1(0)", 1, "ack"), ("+0 > . 1:1(0) ack 4294967296", 1, "4294967295"),
    ("+0 < . 1:1(0) ack 1 <mss 1460,nop>", 1, "5 bytes"), ("+0 > [ecn] . 1:1(0) ack 1", 1, "[ect0]"),
    ("+0 > . 1:1(0) ack 1 <mss>", 1, "MSS"), ("+0 > . 1:1(0) ack 1 <fast>", 1, "mss, wscale"),
    ("+0 > . 1:1(0) ack 1 <ECN ceb 1>", 1, "e0b"), ("+0 > . 1:1(0) ack 1 <FO xyz>", 1, "hexadecimal"),
    ("+1~+0.5 > . 1:1(0) ack 1", 1, "earlier"), ("+1~2 > . 1:1(0) ack 1", 1, "+"),
    ("* < . 1:1(0) ack 1", 1, "one time"),
    ("+0~+1 close(3)", 1, "one time"), ("+0...1 > . 1:1(0) ack 1", 1, "block"),
    ("+0.0000000001 close(3)", 1, "nanoseconds"),
    ("+0 `sleep", 1, "`"), ("+0 %{ x = ( }%", 1, "Python"), ("+0 %{ 1", 1, "}%"), ("+0 close(NOSUCH)", 1, "NOSUCH"),
    ("/* +0 close(3)", 1, "*/"), ("--msss=1\n+0 close(3)", 1, "--mss"), ("--mss=x\n+0 close(3)", 1, "65535"),
    ("+0 close(3)\n--mss=1", 2, "time"), ("--needs=magic\n+0 close(3)", 1, "accecn"),
    ("--local_ip=::1\n+0 close(3)", 1, "IPv4"),
    ("--tolerance_percent=101\n+0 close(3)", 1, "100"), ("+0 < icmp echo [1:1(0)]", 1, "unreachable"),
    ("+0 write(3, \"\\x\", 1)", 1, "text"), ("+0 close(" + "[" * 50 + "]" * 50 + ")", 1, "20"),
    ("+0 < udp (x)", 1, "(1000)"),
    ("+0 close(3) = 99999999999999999999", 1, "9223372036854775807"), ("+0 > Q 1:1(0)", 1, "flags"),
    ("+0 close(3)\n+0 sendo(3)", 2, "sendto")])
def test_errors_name_the_line(text, line, words):
    with pytest.raises(ScriptError) as problem:
        parser.parse(text, "a.pkt")
    assert str(problem.value).startswith(f"a.pkt:{line}: ") and words in str(problem.value)
    assert "\n" not in str(problem.value) and problem.value.exit_code == 2


@pytest.mark.parametrize("text", ["\0", "+0 close(3)\n" * 100_000])
def test_what_is_no_script(text):
    with pytest.raises(ScriptError, match="^a.pkt: "):
        parser.parse(text, "a.pkt")

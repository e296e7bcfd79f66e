# SPDX-License-Identifier: GPL-2.0-only
"""Packet scripts in a guest: ours pass, wrong ones fail at their line, and a changed kernel makes the script fail that
is about it."""
import itertools
import re
import signal
import subprocess

import pytest

from testbed.core.errors import UsageError
from testbed.packet_scripts import runner
from tests.kernel.small_runs import HANDSHAKE

pytestmark = pytest.mark.xdist_group("packet-scripts")
SCRIPTS = sorted(runner.FOLDER.glob("*.pkt"))
FIRST_LINE = HANDSHAKE.count("\n") + 1


@pytest.fixture(scope="module")
def carried_out():
    return runner.runner({}, print)


@pytest.fixture(scope="module")
def outcomes(carried_out):
    """{name of one of our scripts: what became of it}"""
    sources = [runner.read(str(path), {}, ()) for path in SCRIPTS]
    return {outcome.file: outcome for outcome in carried_out.run(sources, None)}


@pytest.fixture
def run(carried_out, tmp_path):
    """run(text, ...) -> outcomes of scripts that are only these texts"""
    def run_texts(*texts, cca=None, **given):
        sources = []
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.pkt").write_text(text)
            sources.append(runner.read(str(tmp_path / f"{number}.pkt"), given, ()))
        return list(carried_out.run(sources, cca))
    return run_texts


def place_of(outcome):
    """Line of the event that failed."""
    assert outcome.problem
    return int(re.match(r".*\.pkt:(\d+): ", outcome.problem[0])[1])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_our_scripts_pass(outcomes, path):
    outcome = outcomes[str(path)]
    assert not outcome.problem
    assert bool(outcome.skipped) == (path.stem == "accecn")


def test_there_are_twenty():
    assert len(SCRIPTS) >= 20


WRONG = {
    "another packet": ("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1002(1001) ack 1", 1),
    "too late": ("+0 write(4, ..., 1000) = 1000\n+.000001 > P. 1:1001(1000) ack 1", 1),
    "too early": ("+0 write(4, ..., 1000) = 1000\n+.1 close(4) = 0\n+0 > P. 1:1001(1000) ack 1", 2),
    "nothing sent": ("+0 > P. 1:1001(1000) ack 1", 0),
    "result": ("+0 write(4, ..., 1000) = 999", 0),
    "errno": ("+0 read(9, ..., 1000) = -1 EAGAIN", 0),
    "no error": ("+0 write(4, ..., 1000) = -1 EPIPE", 0),
    "assertion": ("+0 %{\nassert tcpi_snd_cwnd == 10\nassert tcpi_snd_cwnd == 11, tcpi_snd_cwnd }%", 0),
    "not Python": ("+0 %{ nosuch }%", 0),
    "command": ("+0 `exit 3`", 0),
    "blocks": ("+0 read(4, ..., 1000) = 1000", 0),
    "blocks too long": ("+0...0.1 read(4, ..., 1000) = 1000\n+.2 close(3) = 0", 0),
    "returns too early": ("+0...0.2 read(4, ..., 9) = 9\n+.1 < . 1:10(9) ack 1 win 1000\n+.3 close(3) = 0", 0),
    "option of a socket": ("+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [1], [4]) = 0", 0),
    "arguments": ("+0 listen(3) = 0", 0)}


def test_wrong_scripts_fail_at_their_line(run):
    found = run(*(f"{HANDSHAKE}{text}\n" for text, _ in WRONG.values()))
    assert {name: place_of(outcome) for name, outcome in zip(WRONG, found)} == {
        name: FIRST_LINE + line for name, (_, line) in WRONG.items()}


def test_expected_and_seen_are_side_by_side(run):
    outcome, = run(f"{HANDSHAKE}+0 write(4, ..., 1000) = 1000\n+.5 > . 1:1001(1000) ack 1 <nop>\n")
    expected, seen = outcome.problem[1:]
    assert expected.split() == "expected +.5 > . 1:1001(1000) ack 1 <nop>".split()
    assert seen.split() == "seen 0.100000 > P. 1:1001(1000) ack 1".split()
    assert expected.index(">") == seen.index(">")


def test_times_are_exact_and_the_same_each_time(run):
    """Whatever ran before: the retransmission comes at the same microsecond."""
    text = f"{HANDSHAKE}+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n* > P. 1:1001(1000) ack 1\n"
    first, *others = run(text, "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+7.123 close(3) = 0\n", text, text)
    assert others[0].virtual_s == 7.123
    traces = [first.trace, *(outcome.trace for outcome in others[1:])]
    assert len(set(traces)) == 1 and traces[0][-1].startswith("0.408000 > P. 1:1001(1000)")


def test_tolerance(run):
    text = f"{HANDSHAKE}+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n+.3 > P. 1:1001(1000) ack 1\n"
    # it comes after 308 ms
    assert [run(text, **given)[0].ok for given in (
        {"tolerance_usecs": "7999"}, {"tolerance_usecs": "8000"}, {"tolerance_percent": "2.6"},
        {"tolerance_percent": "2.7"})] == [False, True, False, True]


@pytest.mark.parametrize("version", ["ipv4", "ipv6", "ipv4-mapped-ipv6"])
def test_versions_of_ip(run, version):
    outcome, = run(f"{HANDSHAKE}+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n"
                   "+.1 < . 1:1(0) ack 1001 win 1000\n+0 %{ assert tcpi_unacked == 0 }%\n", ip_version=version)
    assert outcome.ok, outcome.problem


def test_datagrams_and_icmp(run):
    first, second = run("""
 0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3
+0 bind(3, ..., ...) = 0
+0 connect(3, ..., ...) = 0
+0 write(3, ..., 700) = 700
+0 > udp (700)
+.1 < udp (50)
+0 read(3, ..., 1000) = 50
+0 write(3, ..., 10) = 10
+0 > udp (10)
+0 < icmp unreachable port_unreachable [udp (10)]
+0 write(3, ..., 10) = -1 ECONNREFUSED
""", f"""{HANDSHAKE}+0 write(4, ..., 1000) = 1000
+0 > P. 1:1001(1000) ack 1
+0 < icmp unreachable frag_needed mtu 800 [1:1001(1000)]
+0 > P. 1:1001(1000) ack 1
+0 %{{ assert tcpi_snd_mss == 760, tcpi_snd_mss }}%
""")
    assert first.ok, first.problem
    assert second.ok, second.problem


def test_a_call_that_blocks_lets_the_script_go_on(run):
    """The end of a command, which sends a signal, does not cut it short."""
    outcome, = run(f"""{HANDSHAKE}
+0...0.25 read(4, ..., 1000) = 500
+.1 `true`
+.15 < P. 1:501(500) ack 1 win 1000
+0 > . 1:1(0) ack 501
+0 close(4) = 0
+0 > F. 1:1(0) ack 501
""")
    assert outcome.ok, outcome.problem


def test_waiting_for_several_sockets(run):
    outcome, = run(f"""{HANDSHAKE}
+0 epoll_create(1) = 7
+0 epoll_ctl(7, EPOLL_CTL_ADD, 4, {{events=EPOLLIN, fd=4}}) = 0
+0 epoll_wait(7, {{events=0, fd=0}}, 1, 0) = 0
+0 poll([{{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}}], 1, 0) = 1
+0 < P. 1:11(10) ack 1 win 1000
+0 epoll_wait(7, {{events=EPOLLIN, fd=4}}, 1, 0) = 1
+0 ioctl(4, SIOCINQ, [10]) = 0
+0 getsockopt(4, SOL_TCP, TCP_CONGESTION, "reno", [16]) = 0
+0 shutdown(4, SHUT_RDWR) = 0
+0 > . 1:1(0) ack 11
+0 > F. 1:1(0) ack 11
""")
    assert outcome.ok, outcome.problem


def test_signatures(run):
    outcome, = run("""
 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_TCP, TCP_MD5SIG, {tcpm_key="secret"}, 216) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) <nop,nop,md5,mss 1460,nop,nop,sackOK,nop,wscale 7>
""")
    assert outcome.ok, outcome.problem


def test_each_script_has_a_namespace_of_its_own(run):
    first, second = run("`sysctl -q net.ipv4.tcp_sack=0`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n",
                        "`test $(sysctl -n net.ipv4.tcp_sack) = 1`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n")
    assert first.ok and second.ok, second.problem


def test_the_congestion_control_of_the_command_line_counts(run):
    text = "--cca=cubic\n" + HANDSHAKE + '+0 %{ print(tcp_congestion) }%\n'
    assert [run(text, cca=cca)[0].output for cca in (None, "reno")] == ["cubic\n", "reno\n"]
    for cca in ("nosuch", "reno,cubic", "reno+cubic", "/nosuch.c", "libra"):
        with pytest.raises(UsageError):
            run(text, cca=cca)


@pytest.mark.parametrize("code, words", [
    ("while True: pass", r"virtual time stands still at \d+ s \(script 2 of 3\): .* for 1 s of CPU time"),
    ("while True: __import__('time').sleep(1e-7)", r"no progress at \d+ s \(script 2 of 3\) for 2 s of CPU time"),
    ("__import__('ctypes').CDLL(None).reboot(0x4321FEDC)", "the guest ended: ")])
def test_a_guest_that_does_not_come_to_its_end(run, monkeypatch, code, words):
    """The script before it has its result, and the one behind it says that it was not run."""
    read_progress = runner.watch.read_progress

    def look(work_dir):
        progress = read_progress(work_dir)
        # not before: starting, and importing what reads scripts, takes a second or more of CPU time
        if progress and progress.phase == "script 2 of 3":
            monkeypatch.setattr(runner.watch, "STALL_CPU_S", 1)
            monkeypatch.setattr(runner.watch, "STALL_S", 2 if "sleep" in code else 300)
        return progress
    monkeypatch.setattr(runner.watch, "read_progress", look)
    before, during, behind = run(HANDSHAKE, f"{HANDSHAKE}+0 %{{ {code} }}%\n", HANDSHAKE)
    assert before.ok and not during.ok and "not run" in behind.problem[0]
    assert re.search(words, during.problem[0])


def test_a_script_that_waits_for_what_does_not_come(run):
    """It ends after a week of virtual time, and the next one runs."""
    waiting = f"{HANDSHAKE}+0 %{{ __import__('threading').Event().wait() }}%\n"
    before, during, behind = run(HANDSHAKE, waiting, HANDSHAKE)
    assert before.ok and behind.ok
    assert during.problem == (f"{during.file}: not over after 604800 s of virtual time",)
    assert during.virtual_s == 604_800


def test_a_machine_that_has_little_time_for_the_guest(run, monkeypatch):
    """The wall clock goes by an hour between two looks, and the guest is stopped for twenty of them."""
    hours, looks, guests = itertools.count(0, 3600), itertools.count(), []
    read_progress, popen = runner.watch.read_progress, subprocess.Popen

    def look(work_dir):
        number = next(looks)
        if number in (3, 23):
            guests[-1].send_signal(signal.SIGSTOP if number == 3 else signal.SIGCONT)
        return read_progress(work_dir)

    def start(*words, **more):
        guests.append(popen(*words, **more))
        return guests[-1]
    monkeypatch.setattr(runner.watch, "read_progress", look)
    monkeypatch.setattr(runner.watch, "MOST_BETWEEN_LOOKS_S", 1)
    monkeypatch.setattr(runner.watch.time, "monotonic", lambda: next(hours))
    monkeypatch.setattr(runner.subprocess, "Popen", start)
    assert [outcome.ok for outcome in run(*[HANDSHAKE] * 20)] == [True] * 20 and next(looks) > 23


#: what switches off what a script is about
WITHOUT = {
    "initial-window": "ip route change 192.0.2.0/24 dev tun0 initcwnd 5",
    "slow-start": "ip route change 192.0.2.0/24 dev tun0 initcwnd 5",
    "rto-backoff": "ip route change 192.0.2.0/24 dev tun0 rto_min 400ms",
    "tail-loss-probe": "sysctl -q net.ipv4.tcp_early_retrans=0", "rack": "sysctl -q net.ipv4.tcp_recovery=0",
    "prr": "sysctl -q net.ipv4.tcp_sack=0", "dsack-undo": "sysctl -q net.ipv4.tcp_sack=0",
    "ecn": "sysctl -q net.ipv4.tcp_ecn=0", "ecn-receiver": "sysctl -q net.ipv4.tcp_ecn=0",
    "fast-open-server": "sysctl -q net.ipv4.tcp_fastopen=0",
    "fast-open-client": "sysctl -q net.ipv4.tcp_fastopen=0", "newreno": "sysctl -q net.ipv4.tcp_reordering=5",
    "delayed-ack": "sysctl -q net.ipv4.tcp_window_scaling=0"}


def test_scripts_fail_without_what_they_are_about(run):
    texts = [(runner.FOLDER / f"{name}.pkt").read_text().replace("    0 socket(", f"`{command}`\n    0 socket(", 1)
             for name, command in WITHOUT.items()]
    names = {f"{number}.pkt": name for number, name in enumerate(WITHOUT)}
    assert [names[outcome.file.rpartition("/")[2]] for outcome in run(*texts) if outcome.ok] == []


@pytest.mark.parametrize("script, change", [
    ("cubic-beta", ("beta __read_mostly = 717", "beta __read_mostly = 819")),
    ("hystart", ("hystart __read_mostly = 1", "hystart __read_mostly = 0"))])
def test_a_changed_congestion_control_fails(carried_out, tmp_path, script, change):
    """Mutants of the kernel's own CUBIC; the mutant that only has another name passes."""
    source = (carried_out.kernel.source_dir / "net/ipv4/tcp_cubic.c").read_text().replace('"cubic"', '"mutant"')
    assert change[0] in source
    path = runner.FOLDER / f"{script}.pkt"
    for name, text in (("same", source), ("changed", source.replace(*change))):
        (tmp_path / f"tcp_{name}.c").write_text(text)
        outcome, = carried_out.run([runner.read(str(path), {}, ())], str(tmp_path / f"tcp_{name}.c"))
        assert outcome.ok == (name == "same"), outcome.problem

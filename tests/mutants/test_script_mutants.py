# SPDX-License-Identifier: GPL-2.0-only
"""Each packet script notices the fault that it is about: a kernel with that fault fails it."""
import contextlib
import subprocess
from typing import NamedTuple

import pytest

from testbed import PROJECT_DIR

INPUT, OUTPUT, TIMER, TCP = (f"net/ipv4/tcp{name}.c" for name in ("_input", "_output", "_timer", ""))


class Mutant(NamedTuple):
    """script: of packet-scripts/; old: stands `times` times in the file, with `new` in its place."""
    script: str
    path: str
    old: str
    new: str
    times: int = 1


MUTANTS = {
    "CUBIC's beta": Mutant("cubic-beta", "net/ipv4/tcp_cubic.c", "beta __read_mostly = 717;",
                           "beta __read_mostly = 614;"),
    "no HyStart": Mutant("hystart", "net/ipv4/tcp_cubic.c", "hystart __read_mostly = 1;", "hystart __read_mostly = 0;"),
    "Reno's beta": Mutant("reno-beta", "net/ipv4/tcp_cong.c", "tcp_snd_cwnd(tp) >> 1U, 2U",
                          "tcp_snd_cwnd(tp) * 3 / 4, 2U"),
    "initial window": Mutant("initial-window", INPUT, "\t\tcwnd = TCP_INIT_CWND;", "\t\tcwnd = 4;"),
    "slow start": Mutant("slow-start", "net/ipv4/tcp_cong.c", "tcp_snd_cwnd(tp) + acked, tp->snd_ssthresh",
                         "tcp_snd_cwnd(tp) + (acked + 1) / 2, tp->snd_ssthresh"),
    "RTO of 400 ms at least": Mutant("rto-backoff", TCP, "icsk->icsk_rto_min = usecs_to_jiffies(rto_min_us);",
                                     "icsk->icsk_rto_min = usecs_to_jiffies(rto_min_us) * 2;"),
    "no backoff of timeouts": Mutant("rto-backoff", TIMER, "icsk->icsk_rto << 1", "icsk->icsk_rto"),
    "no tail loss probe": Mutant("tail-loss-probe", OUTPUT, "\tif (rcu_access_pointer(tp->fastopen_rsk))\n"
                                 "\t\treturn false;\n", "\tif (tp)\n\t\treturn false;\n"),
    "no undo by DSACK": Mutant("dsack-undo", INPUT, "\tif (tp->undo_marker && !tp->undo_retrans) {\n"
                               "\t\ttp->rack.reo_wnd_persist", "\tif (0) {\n\t\ttp->rack.reo_wnd_persist"),
    "no proportional rate reduction": Mutant("prr", INPUT, "\t\tsndcnt = div_u64(dividend, tp->prior_cwnd) "
                                             "- tp->prr_out;", "\t\tsndcnt = newly_acked_sacked;"),
    "RACK waits twice as long": Mutant("rack", "net/ipv4/tcp_recovery.c", "(tcp_min_rtt(tp) >> 2) *",
                                       "(tcp_min_rtt(tp) >> 1) *"),
    "every fourth segment is acknowledged": Mutant("delayed-ack", TCP,
                                                   "tp->rcv_nxt - tp->rcv_wup > icsk->icsk_ack.rcv_mss",
                                                   "tp->rcv_nxt - tp->rcv_wup > 3 * icsk->icsk_ack.rcv_mss"),
    "no challenge ACK": Mutant("challenge-ack", INPUT, "\tif (tcp_challenge_ack_allowed(net)) {\n"
                               "\t\tNET_INC_STATS(net, LINUX_MIB_TCPCHALLENGEACK);\n\t\ttcp_send_ack(sk);",
                               "\tif (tcp_challenge_ack_allowed(net)) {\n"
                               "\t\tNET_INC_STATS(net, LINUX_MIB_TCPCHALLENGEACK);"),
    "probes of keep-alive come twice as late": Mutant("keep-alive", TIMER, "elapsed = keepalive_intvl_when(tp);",
                                                      "elapsed = 2 * keepalive_intvl_when(tp);"),
    "no backoff of window probes": Mutant("zero-window", OUTPUT, "\t\t\ticsk->icsk_backoff++;", "\t\t\t;"),
    "user timeout 500 ms late": Mutant("user-timeout", TIMER, "\tremaining = user_timeout - elapsed;",
                                       "\tremaining = user_timeout + 500 - elapsed;"),
    "DCTCP halves": Mutant("dctcp", "net/ipv4/tcp_dctcp.c", "ca->dctcp_alpha) >> 11U", "1024) >> 11U"),
}


def run(linux, scripts):
    """`testbed script` with the tree -> its output by lines."""
    done = subprocess.run([PROJECT_DIR / "bin/testbed", "script", *(
        PROJECT_DIR / "packet-scripts" / f"{name}.pkt" for name in scripts), "--kernel", linux], capture_output=True,
        text=True, timeout=3600, check=False)
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    return done.stdout.splitlines()


@contextlib.contextmanager
def mutated(linux, one):
    path = linux / one.path
    before = path.read_text()
    assert before.count(one.old) == one.times, f"{one.path} is not what it was when this mutant was made"
    path.write_text(before.replace(one.old, one.new))
    try:
        yield
    finally:
        path.write_text(before)


def test_without_a_fault_all_pass(linux):
    scripts = sorted({one.script for one in MUTANTS.values()})
    found = [line for line in run(linux, scripts) if line.startswith(("ok ", "not ok "))]
    assert len(found) == len(scripts) and not [line for line in found if not line.startswith("ok ")]


@pytest.mark.parametrize("name", MUTANTS)
def test_the_script_that_is_about_it_fails(linux, name):
    one = MUTANTS[name]
    with mutated(linux, one):
        lines = run(linux, [one.script])
    assert any(line.startswith("not ok 1 - ") and line.endswith(f"/{one.script}.pkt") for line in lines), lines


def test_every_script_about_the_kernel_has_a_mutant():
    """Those of modules and of the other side's options need another kernel or module to fail."""
    left = {path.stem for path in (PROJECT_DIR / "packet-scripts").glob("*.pkt")} - {
        one.script for one in MUTANTS.values()}
    assert left == {"accecn", "ecn", "ecn-receiver", "fast-open-client", "fast-open-server", "libra", "newreno",
                    "reno-classic", "tahoe", "time-wait"}

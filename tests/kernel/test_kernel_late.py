# SPDX-License-Identifier: GPL-2.0-only
"""What changes while the traffic goes on, and what the kernel says of itself: modules that do what they should not."""
import pathlib

import pytest

from tests.kernel.small_runs import small_scenario

_GOOD = (pathlib.Path(__file__).parents[2] / "docs/examples/tcp_mine.c").read_text()
_OPS = "static struct tcp_congestion_ops mine"


@pytest.fixture
def run_module(run_scenario, tmp_path):
    """run_module(a function bad_HOOK, its hook) -> the verdict's reasons, late.json"""
    def carry_out(function, hook):
        kept = [line for line in _GOOD.replace(_OPS, f"{function}\n{_OPS}").splitlines() if f"\t.{hook}\t" not in line]
        at = next(number for number, line in enumerate(kept) if ".owner" in line)
        source = tmp_path / "tcp_mine.c"
        source.write_text("\n".join([*kept[:at], f"\t.{hook} = bad_{hook},", *kept[at:]]) + "\n")
        run = run_scenario(small_scenario(**{"timing.test": "1 s", "topology.central.rate": "10 Mbit/s",
                                             "topology.central.queue": {"limit": 20}}), cca=str(source))
        verdict = run.json("verdict.json")
        return {(one["check"], one["level"], one["message"]) for one in verdict["reasons"]}, run.json("raw/late.json")
    return carry_out


def test_a_module_that_changes_its_hosts_settings(run_module):
    reasons, late = run_module("""static void bad_init(struct sock *sk)
{
	WRITE_ONCE(sock_net(sk)->ipv4.sysctl_tcp_sack, 0);
}
""", "init")
    assert ("settings", "invalid", "n1, n4: net.ipv4.tcp_sack is 0 after the traffic, and was 1 before it") in reasons
    assert late["changed"]["sysctls"] == {f"{node} net.ipv4.tcp_sack": ["1", "0"] for node in ("n1", "n4")}


def test_a_window_of_nothing(run_module):
    reasons, _ = run_module("""static void bad_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	if (tcp_sk(sk)->snd_cwnd > 20)
		tcp_sk(sk)->snd_cwnd = tcp_sk(sk)->snd_cwnd * (7 / 10);
}
""", "cong_avoid")
    (_, level, message), = [one for one in reasons if "a congestion window of 0, such as 0 segments" in one[2]]
    assert level == "suspect" and "samples of connected sockets" in message


def test_a_warning_of_the_kernel_is_quoted_with_its_function(run_module):
    reasons, late = run_module("""static void bad_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	WARN_ON_ONCE(tcp_snd_cwnd(tcp_sk(sk)) > 20);
	tcp_reno_cong_avoid(sk, ack, acked);
}
""", "cong_avoid")
    (check, level, message), = [one for one in reasons if one[0] == "kernel_log"]
    assert level == "suspect" and "during the traffic: WARNING: " in message
    assert "bad_cong_avoid+0x" in message and "[tcp_mine]" in message
    assert late["tainted"] & 512 and late["changed"] == {}


@pytest.mark.parametrize("given_back, kept_bytes", [("", 8192), ("\tkfree(lost);\n", 0)])
def test_a_module_that_keeps_memory_of_each_connection(run_module, given_back, kept_bytes):
    """4 kB at each of two ends: too little to be seen in a run of one flow."""
    reasons, late = run_module(f"""#include <linux/slab.h>
static void bad_init(struct sock *sk)
{{
	void *lost = kmalloc(4096, GFP_ATOMIC);

	OPTIMIZER_HIDE_VAR(lost);
{given_back}}}
""", "init")
    assert late["kept_more_mb"] == 0 and list(late["kept_of_connections"].values()) == [kept_bytes]
    said = [text for check, level, text in reasons if check == "kernel_log"]
    assert [text.partition(": ")[2] for text in said] == bool(kept_bytes) * [
        "the kernel keeps 8192 B of each connection that is over: it does not free what it allocates; --kernel-option "
        "debug finds out where it allocates it"]

# SPDX-License-Identifier: GPL-2.0-only
"""The module of docs/tutorial/write-your-own-cca.md, and what can be wrong with such a module."""
from tests.end_to_end.command_line import PROJECT

GOOD = (PROJECT / "docs/examples/tcp_mine.c").read_text()

_OPS = "static struct tcp_congestion_ops mine"


def with_hook(function, hook, name):
    """The module with one more function, as `hook`."""
    ops = GOOD.replace(_OPS, function + "\n" + _OPS)
    lines = [line for line in ops.splitlines() if not line.startswith(f"\t.{hook}\t")]
    at = next(i for i, line in enumerate(lines) if ".owner" in line)
    return "\n".join(lines[:at] + [f"\t.{hook} = mine_{hook},"] + lines[at:]).replace('"mine"', f'"{name}"') + "\n"


DOES_NOT_COMPILE = GOOD.replace("= mine_ssthresh", "= mine_sstresh")
WRONG_SYMBOL = GOOD.replace("= tcp_reno_cong_avoid", "= tcp_no_such_cong_avoid").replace(
    _OPS, "extern void tcp_no_such_cong_avoid(struct sock *sk, u32 ack, u32 acked);\n" + _OPS)
NO_SSTHRESH = GOOD.replace("\t.ssthresh\t= mine_ssthresh,\n", "").replace("static u32",
                                                                          "u32 mine_ssthresh(struct sock *sk);\nu32")
TAKEN_NAME = GOOD.replace('"mine"', '"cubic"')
REGISTERS_NOTHING = GOOD.replace("return tcp_register_congestion_control(&mine);", "return 0;").replace(
    "\ttcp_unregister_congestion_control(&mine);", "\t(void)mine;")
CRASHING_INIT = GOOD.replace("return tcp_register", "*(int *)READ_ONCE(mine.key) = 1;\n\treturn tcp_register").replace(
    "*(int *)READ_ONCE(mine.key)", "*(volatile int *)(unsigned long)mine.key")
NULL_DEREFERENCE = with_hook("""\
static void mine_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	u32 *history = inet_csk_ca(sk);

	if (tcp_snd_cwnd(tcp_sk(sk)) > 20)
		history = NULL;
	WRITE_ONCE(*history, acked);
	tcp_reno_cong_avoid(sk, ack, acked);
}
""", "cong_avoid", "nullderef")
DIVISION_BY_ZERO = with_hook("""\
static void mine_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	if (tcp_snd_cwnd(tcp_sk(sk)) > 20)
		tcp_sk(sk)->snd_cwnd_cnt += 1000 / tcp_sk(sk)->retrans_out;
}
""", "pkts_acked", "divzero")
SLEEPS = with_hook("""\
static void mine_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	if (tcp_snd_cwnd(tcp_sk(sk)) > 20)
		msleep(1);
	WARN_ON_ONCE(!sample);
}
""", "pkts_acked", "sleeps").replace("#include <net/tcp.h>", "#include <linux/delay.h>\n#include <net/tcp.h>")
ENDLESS_LOOP = with_hook("""\
static void mine_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	while (READ_ONCE(tcp_sk(sk)->snd_cwnd) > 20)
		barrier();
}
""", "pkts_acked", "endless")

// SPDX-License-Identifier: GPL-2.0-only
/* Broken on purpose: it halves its window each round trip, and never grows. */
#include <linux/module.h>
#include <net/tcp.h>

struct timid {
	u32 round_ends;		/* sequence number; the round ends when it is acknowledged */
};

static void timid_start(struct sock *sk)
{
	struct timid *state = inet_csk_ca(sk);

	state->round_ends = tcp_sk(sk)->snd_nxt;
}

static u32 timid_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
}

static void timid_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct timid *state = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (before(ack, state->round_ends))
		return;
	state->round_ends = tp->snd_nxt;
	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp) / 2, 2U));
}

static struct tcp_congestion_ops timid __read_mostly = {
	.name		= "timid",
	.owner		= THIS_MODULE,
	.init		= timid_start,
	.ssthresh	= timid_ssthresh,
	.cong_avoid	= timid_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init timid_init(void)
{
	return tcp_register_congestion_control(&timid);
}

static void __exit timid_exit(void)
{
	tcp_unregister_congestion_control(&timid);
}

module_init(timid_init);
module_exit(timid_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("halves its window each round trip");

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno whose recovery takes no time, as formulae of its mean window have it
 *
 * The window is halved as soon as recovery begins, and grows on during it. Linux
 * halves it over a round trip (RFC 6937), in which it does not grow. What is in
 * flight has to leave before anything new is sent, here as there.
 */

#include "classic.h"

struct reno_instant {
	bool	halved;		/* in this recovery */
	u32	lent;		/* to the window, for a retransmission */
};

static void reno_instant_init(struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct reno_instant) > ICSK_CA_PRIV_SIZE);
	memset(inet_csk_ca(sk), 0, sizeof(struct reno_instant));
}

static void reno_instant_cong_control(classic_cong_control_args)
{
	struct reno_instant *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 acked = rs->acked_sacked > 0 ? rs->acked_sacked : 0;
	bool recovers = tcp_in_cwnd_reduction(sk);

	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp) - ca->lent, 1U));
	ca->lent = 0;
	if (recovers && !ca->halved) {
		tcp_snd_cwnd_set(tp, tp->snd_ssthresh);
		tp->snd_cwnd_cnt = 0;
	}
	ca->halved = recovers;

	if (acked && tcp_in_slow_start(tp) && tcp_is_cwnd_limited(sk))
		acked = tcp_slow_start(tp, acked);
	/* what was sent with the window before it was halved does not count */
	if (acked && !tcp_in_slow_start(tp) &&
	    tcp_packets_in_flight(tp) <= tcp_snd_cwnd(tp))
		tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);

	if (tp->lost_out > tp->retrans_out &&
	    tcp_packets_in_flight(tp) >= tcp_snd_cwnd(tp)) {
		ca->lent = tcp_packets_in_flight(tp) + 1 - tcp_snd_cwnd(tp);
		tcp_snd_cwnd_set(tp, tcp_snd_cwnd(tp) + ca->lent);
	}
}

static struct tcp_congestion_ops tcp_reno_instant __read_mostly = {
	.init		= reno_instant_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_control	= reno_instant_cong_control,
	.owner		= THIS_MODULE,
	.name		= "reno_instant",
};

static int __init reno_instant_register(void)
{
	return tcp_register_congestion_control(&tcp_reno_instant);
}

static void __exit reno_instant_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_reno_instant);
}

module_init(reno_instant_register);
module_exit(reno_instant_unregister);

MODULE_DESCRIPTION("Reno whose recovery takes no time");
MODULE_LICENSE("GPL");

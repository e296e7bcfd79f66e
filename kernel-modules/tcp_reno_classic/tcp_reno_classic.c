// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Reno as in RFC 2581: fast recovery ends with the first ACK of new data
 *
 * The algorithms are described in:
 * RFC 2581, "TCP Congestion Control", M. Allman, V. Paxson, W. Stevens, 1999
 *
 * Core TCP's fast recovery is that of NewReno (RFC 6582) with proportional rate
 * reduction (RFC 6937). Two differences make it the one of RFC 2581:
 *
 * 1. It ends when high_seq is acknowledged, so high_seq is set to snd_una + 1:
 *    any new ACK will do. (With snd_una itself, it would end with the next
 *    duplicate.) Two losses in a window thus need two fast retransmits, or a
 *    timeout.
 *
 * 2. RFC 2581 inflates: with n duplicate ACKs, data up to
 *
 *	snd_una + ssthresh + n
 *
 *    may be sent. Core TCP counts the n as out of the network, and one
 *    retransmission for the packet lost, so that in_flight = snd_nxt - snd_una
 *    - n, and the same is said by
 *
 *	in_flight < cwnd,	cwnd = ssthresh
 *
 *    with a window that stays as it is until recovery ends.
 *
 * With SACK, recovery is core TCP's but for 2.
 */

#include "classic.h"

struct reno_classic {
	struct classic	classic;
	u32		recovery_end;	/* snd_nxt when recovery began */
	u32		partial_exits;	/* recoveries that an ACK below it ended */
};

static void reno_classic_init(struct sock *sk)
{
	struct reno_classic *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct reno_classic) > ICSK_CA_PRIV_SIZE);
	classic_init(sk, &ca->classic);
	ca->recovery_end = tcp_sk(sk)->snd_una;
	ca->partial_exits = 0;
	classic_update_pacing_rate(sk);
}

static void reno_classic_enter_recovery(struct sock *sk)
{
	struct reno_classic *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	classic_forbid_undo(sk);
	classic_reduce(sk);
	ca->classic.fast_retransmits++;
	ca->recovery_end = tp->snd_nxt;
	if (tcp_is_reno(tp))
		tp->high_seq = tp->snd_una + 1;
}

static void reno_classic_exit_recovery(struct sock *sk)
{
	struct reno_classic *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	classic_reduce(sk);
	if (before(tp->snd_una, ca->recovery_end))
		ca->partial_exits++;
}

/* called before icsk_ca_state changes */
static void reno_classic_set_state(struct sock *sk, u8 new_state)
{
	struct reno_classic *ca = inet_csk_ca(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery &&
	    new_state < TCP_CA_Recovery)
		reno_classic_exit_recovery(sk);

	switch (new_state) {
	case TCP_CA_CWR:
		classic_reduce(sk);
		break;
	case TCP_CA_Recovery:
		reno_classic_enter_recovery(sk);
		break;
	case TCP_CA_Loss:
		classic_enter_loss(sk, &ca->classic);
		break;
	}
}

static void reno_classic_cong_control(classic_cong_control_args)
{
	struct reno_classic *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery) {
		u32 with_one_more = tcp_packets_in_flight(tp) + 1;

		classic_reduce(sk);
		/* the fast retransmit itself needs no room in the window */
		if (tp->lost_out && !tp->retrans_out)
			tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), with_one_more));
	}
	classic_cong_avoid(sk, &ca->classic, rs->acked_sacked);
	classic_update_pacing_rate(sk);
}

/* ss -i prints: dctcp:(ce_state:in recovery?,alpha:fast retransmits,
 *		 ab_ecn:timeouts,ab_tot:recoveries a partial ACK ended)
 */
static size_t reno_classic_get_info(struct sock *sk, u32 ext, int *attr,
				    union tcp_cc_info *info)
{
	const struct reno_classic *ca = inet_csk_ca(sk);
	bool recovery = inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery;

	return classic_get_info(ext, attr, info, &ca->classic, recovery,
				ca->partial_exits);
}

static struct tcp_congestion_ops tcp_reno_classic __read_mostly = {
	.init		= reno_classic_init,
	.ssthresh	= classic_ssthresh,
	.set_state	= reno_classic_set_state,
	.cong_control	= reno_classic_cong_control,
	.undo_cwnd	= classic_undo_cwnd,
	.get_info	= reno_classic_get_info,
	.owner		= THIS_MODULE,
	.name		= "reno_classic",
	classic_cwnd_event_hook,
};

static int __init reno_classic_register(void)
{
	return tcp_register_congestion_control(&tcp_reno_classic);
}

static void __exit reno_classic_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_reno_classic);
}

module_init(reno_classic_register);
module_exit(reno_classic_unregister);

MODULE_DESCRIPTION("TCP Reno of RFC 2581");
MODULE_LICENSE("GPL");

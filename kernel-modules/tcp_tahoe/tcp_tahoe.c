// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Tahoe: slow start, congestion avoidance and fast retransmit, without
 * fast recovery
 *
 * The algorithms are described in:
 * "Congestion Avoidance and Control", V. Jacobson, SIGCOMM 1988
 * "Simulation-based Comparisons of Tahoe, Reno, and SACK TCP", K. Fall,
 *  S. Floyd, Computer Communication Review 26 (3), 1996
 *
 * The third duplicate ACK is treated like a timeout that happens at once: the
 * threshold becomes half the flight, the window one packet, and all from
 * snd_una on is sent again in slow start, but for what ACKs skip.
 *
 * Core TCP would begin a fast recovery. It is turned into what tcp_enter_loss()
 * leaves behind, by cong_control, which runs when tcp_ack() has entered
 * TCP_CA_Recovery and before it retransmits anything: in TCP_CA_Loss, core TCP
 * already does the rest.
 */

#include "classic.h"

struct tahoe {
	struct classic	classic;
	u32		went_back;	/* packets that fast retransmits took
					 * out of flight, to be sent again
					 */
};

static void tahoe_init(struct sock *sk)
{
	struct tahoe *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct tahoe) > ICSK_CA_PRIV_SIZE);
	classic_init(sk, &ca->classic);
	ca->went_back = 0;
	classic_update_pacing_rate(sk);
}

static void tahoe_set_state(struct sock *sk, u8 new_state)
{
	struct tahoe *ca = inet_csk_ca(sk);

	switch (new_state) {
	case TCP_CA_CWR:
		classic_reduce(sk);
		break;
	case TCP_CA_Recovery:
		classic_forbid_undo(sk);
		/* nothing more goes out before tahoe_go_back(), not even if
		 * RACK's timer began this, where cong_control is not called
		 */
		tcp_snd_cwnd_set(tcp_sk(sk), 1);
		ca->classic.fast_retransmits++;
		break;
	case TCP_CA_Loss:
		classic_enter_loss(sk, &ca->classic);
		break;
	}
}

/*
 * tcp_enter_loss() of a fast retransmit. What SACK blocks report stays known,
 * as it does in a timeout; without SACK, duplicate ACKs tell only how many
 * packets have arrived, which go-back-N makes no use of.
 */
static void tahoe_go_back(struct sock *sk)
{
	struct sk_buff *skb = tcp_rtx_queue_head(sk);
	struct tahoe *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_is_reno(tp))
		tp->sacked_out = 0;

	/* tcp_mark_skb_lost(), which modules cannot call */
	skb_rbtree_walk_from(skb) {
		struct tcp_skb_cb *cb = TCP_SKB_CB(skb);
		int packets = tcp_skb_pcount(skb);

		if (cb->sacked & TCPCB_SACKED_ACKED)
			continue;
		if (!(cb->sacked & TCPCB_LOST))
			tp->lost_out += packets;
		if (cb->sacked & TCPCB_SACKED_RETRANS)
			tp->retrans_out -= packets;
		if ((cb->sacked & TCPCB_TAGBITS) != TCPCB_LOST)
			tp->lost += packets;
		cb->sacked |= TCPCB_LOST;
		cb->sacked &= ~TCPCB_SACKED_RETRANS;
		ca->went_back += packets;
	}
	tcp_clear_all_retrans_hints(tp);

	tcp_snd_cwnd_set(tp, 1);
	tp->snd_cwnd_cnt = 0;
	tp->snd_cwnd_stamp = tcp_jiffies32;
	tp->high_seq = tp->snd_nxt;
	ca->classic.go_back_end = tp->snd_nxt;
	tp->tlp_high_seq = 0;
	tp->frto = 0;
	inet_csk(sk)->icsk_ca_state = TCP_CA_Loss;
}

static void tahoe_cong_control(classic_cong_control_args)
{
	struct tahoe *ca = inet_csk_ca(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery)
		tahoe_go_back(sk);
	else
		classic_cong_avoid(sk, &ca->classic, rs->acked_sacked);
	classic_update_pacing_rate(sk);
}

/* ss -i prints: dctcp:(ce_state:sending again?,alpha:fast retransmits,
 *		 ab_ecn:timeouts,ab_tot:packets of fast retransmits)
 */
static size_t tahoe_get_info(struct sock *sk, u32 ext, int *attr,
			     union tcp_cc_info *info)
{
	const struct tahoe *ca = inet_csk_ca(sk);
	bool again = before(tcp_sk(sk)->snd_una, ca->classic.go_back_end);

	return classic_get_info(ext, attr, info, &ca->classic, again,
				ca->went_back);
}

static struct tcp_congestion_ops tcp_tahoe __read_mostly = {
	.init		= tahoe_init,
	.ssthresh	= classic_ssthresh,
	.set_state	= tahoe_set_state,
	.cong_control	= tahoe_cong_control,
	.undo_cwnd	= classic_undo_cwnd,
	.get_info	= tahoe_get_info,
	.owner		= THIS_MODULE,
	.name		= "tahoe",
	classic_cwnd_event_hook,
};

static int __init tahoe_register(void)
{
	return tcp_register_congestion_control(&tcp_tahoe);
}

static void __exit tahoe_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_tahoe);
}

module_init(tahoe_register);
module_exit(tahoe_unregister);

MODULE_DESCRIPTION("TCP Tahoe");
MODULE_LICENSE("GPL");

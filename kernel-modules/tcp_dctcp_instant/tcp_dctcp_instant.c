// SPDX-License-Identifier: GPL-2.0-only
/*
 * DCTCP (RFC 8257) whose reduction takes no time, as the model of its paper has it
 * (M. Alizadeh et al., Data Center TCP, SIGCOMM 2010, section 3.3)
 *
 * The window is reduced as soon as an ACK echoes a mark, and grows on. Linux
 * reduces it over a round trip (RFC 6937). So the queue is above its threshold
 * for longer, and the marks of that time reduce the window once more.
 *
 * alpha, the share of marked packets, is averaged over about 16 round trips. A
 * reduction takes alpha / 2 of the window, once a round trip. A loss halves it.
 */

#include <net/inet_ecn.h>

#include "classic.h"

/* alpha of 1, all packets are marked: 2^20 */
#define ALL		1048576U
/* a round trip weighs 1 / 16 */
#define WEIGHT_SHIFT	4

struct dctcp_instant {
	/* as a sender */
	u32	delivered;	/* of the connection, when the round trip began */
	u32	delivered_ce;	/* those of them with a mark */
	u32	round_end;	/* snd_nxt at that time */
	u32	alpha;
	u32	cwnd_before;	/* the window before the last reduction */
	bool	reduces;	/* ssthresh is new, and the window is not */
	/* as a receiver */
	bool	ce;		/* the last segment had a mark */
	u32	rcv_nxt;	/* behind that segment */
};

static void begin_round(const struct tcp_sock *tp, struct dctcp_instant *ca)
{
	ca->round_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

static void dctcp_instant_init(struct sock *sk)
{
	struct dctcp_instant *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct dctcp_instant) > ICSK_CA_PRIV_SIZE);
	memset(ca, 0, sizeof(*ca));
	/* the first mark halves the window (RFC 8257, 4.2) */
	ca->alpha = ALL;
	ca->rcv_nxt = tcp_sk(sk)->rcv_nxt;
	begin_round(tcp_sk(sk), ca);
}

static void average(struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_instant *ca = inet_csk_ca(sk);
	u32 delivered, marked;

	if (before(tp->snd_una, ca->round_end))
		return;
	delivered = tp->delivered - ca->delivered;
	marked = min(tp->delivered_ce - ca->delivered_ce, delivered);
	if (delivered) {
		u64 share = div_u64((u64)marked * ALL, delivered);

		ca->alpha -= ca->alpha >> WEIGHT_SHIFT;
		ca->alpha += (u32)(share >> WEIGHT_SHIFT);
	}
	begin_round(tp, ca);
}

static u32 dctcp_instant_ssthresh(struct sock *sk)
{
	struct dctcp_instant *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	ca->cwnd_before = cwnd;
	ca->reduces = true;
	return max(cwnd - (u32)((u64)cwnd * ca->alpha / ALL / 2), 2U);
}

/* a loss is answered as Reno answers it, whatever ssthresh() made of marks */
static void halve(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	WRITE_ONCE(tp->snd_ssthresh, max(tcp_snd_cwnd(tp) / 2, 2U));
}

static void dctcp_instant_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Recovery &&
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery)
		halve(sk);
}

static void echo(struct tcp_sock *tp, bool ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

typedef void (*send_ack_t)(struct sock *sk, u32 rcv_nxt);
typedef void (*send_ack_with_flags_t)(struct sock *sk, u32 rcv_nxt, u16 flags);

/* the third argument came in the midst of stable series */
static void send_ack(struct sock *sk, u32 rcv_nxt)
{
	void *function = __tcp_send_ack;
	send_ack_with_flags_t with_flags = function;
	send_ack_t plain = function;

	if (__builtin_types_compatible_p(typeof(__tcp_send_ack) *, send_ack_t))
		plain(sk, rcv_nxt);
	else
		with_flags(sk, rcv_nxt, 0);
}

/* An ACK stands for segments that are all marked, or all not (RFC 8257, 3.2) */
static void segment_came(struct sock *sk, bool ce)
{
	struct dctcp_instant *ca = inet_csk_ca(sk);
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (ca->ce != ce) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, ca->ce);
			send_ack(sk, ca->rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->rcv_nxt = tp->rcv_nxt;
	ca->ce = ce;
	echo(tp, ce);
}

static void dctcp_instant_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	switch (event) {
	case CA_EVENT_ECN_IS_CE:
	case CA_EVENT_ECN_NO_CE:
		segment_came(sk, event == CA_EVENT_ECN_IS_CE);
		break;
	case CA_EVENT_LOSS:
		halve(sk);
		break;
	default:
		break;
	}
}

static void dctcp_instant_cong_control(classic_cong_control_args)
{
	struct dctcp_instant *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 acked = rs->acked_sacked > 0 ? rs->acked_sacked : 0;

	if (ca->reduces && tcp_in_cwnd_reduction(sk)) {
		tcp_snd_cwnd_set(tp, tp->snd_ssthresh);
		tp->snd_cwnd_cnt = 0;
	}
	ca->reduces = false;

	if (acked && tcp_in_slow_start(tp) && tcp_is_cwnd_limited(sk))
		acked = tcp_slow_start(tp, acked);
	/* what was sent with the window before it was reduced does not count */
	if (acked && !tcp_in_slow_start(tp) &&
	    tcp_packets_in_flight(tp) <= tcp_snd_cwnd(tp))
		tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

static u32 dctcp_instant_undo_cwnd(struct sock *sk)
{
	const struct dctcp_instant *ca = inet_csk_ca(sk);

	return max(tcp_snd_cwnd(tcp_sk(sk)), ca->cwnd_before);
}

static struct tcp_congestion_ops tcp_dctcp_instant __read_mostly = {
	.init		= dctcp_instant_init,
	.in_ack_event	= average,
	.ssthresh	= dctcp_instant_ssthresh,
	.cong_control	= dctcp_instant_cong_control,
	.set_state	= dctcp_instant_set_state,
	.cwnd_event	= dctcp_instant_cwnd_event,
	.undo_cwnd	= dctcp_instant_undo_cwnd,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "dctcp_instant",
};

static int __init dctcp_instant_register(void)
{
	return tcp_register_congestion_control(&tcp_dctcp_instant);
}

static void __exit dctcp_instant_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_dctcp_instant);
}

module_init(dctcp_instant_register);
module_exit(dctcp_instant_unregister);

MODULE_DESCRIPTION("DCTCP whose reduction takes no time");
MODULE_LICENSE("GPL");

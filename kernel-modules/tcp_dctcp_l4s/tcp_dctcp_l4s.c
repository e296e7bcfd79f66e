// SPDX-License-Identifier: GPL-2.0-only
/*
 * DCTCP (RFC 8257) as a scalable congestion control for L4S (RFC 9331)
 *
 * The kernel's own DCTCP sends ECT(0) and reads the echo of classic ECN. This
 * module asks for Accurate ECN (RFC 9768), which counts every mark, and sends
 * ECT(1). It is no TCP Prague: it has no fallback behind a queue that marks as
 * RFC 3168 says, and growth depends on the round-trip time, unless virtual_rtt_us
 * is set.
 *
 * alpha, the share of marked packets, is averaged over about 16 round trips.
 * Marks reduce the window by alpha / 2, once a round trip. A loss halves it.
 * Growth is Reno's.
 *
 * With virtual_rtt_us, a flow whose round trips are shorter does as TCP Prague
 * does (RTT_CONTROL_RATE of the L4S team's tcp_prague.c): it gains as much rate
 * in a second as a flow with that round-trip time, averages alpha and answers
 * marks as seldom as that one, and goes on growing beside marks.
 *
 * A connection without Accurate ECN becomes one of Reno, called dctcp_l4s_reno,
 * and sends no ECT(1). On kernels without Accurate ECN all connections do.
 */

#include <linux/inet_diag.h>
#include <linux/ipv6.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>

/* alpha of 1, all packets are marked: 2^20 */
#define ALL		1048576U
/* a round trip weighs 1 / 16 */
#define WEIGHT_SHIFT	4

#ifdef TCP_CONG_ECT_1_NEGOTIATION
#define FLAGS	(TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | \
		 TCP_CONG_ECT_1_NEGOTIATION)
#else
#define FLAGS	0
#endif

struct dctcp_l4s {
	u32	delivered;	/* of the connection, when the round trip began */
	u32	delivered_ce;	/* those of them with a mark */
	u32	round_end;	/* snd_nxt at that time */
	u32	alpha;
	u32	cwnd_before;	/* the window before the last reduction */
	/* with a virtual round-trip time only */
	u32	seen_ce;	/* marks of the connection until the last ACK */
	s64	beyond;		/* of a segment, the window beyond cwnd, in 1 / ALL */
	u64	averaged_us;	/* when alpha was averaged, of tcp_mstamp */
	u64	reduced_us;	/* when marks reduced the window */
};

static bool paced = true;
module_param(paced, bool, 0644);
MODULE_PARM_DESC(paced, "spread packets over the round trip, as L4S asks for");

static uint virtual_rtt_us;
module_param(virtual_rtt_us, uint, 0644);
MODULE_PARM_DESC(virtual_rtt_us,
		 "do as with this round-trip time where it is shorter, 0: do not");

/*
 * The kernel puts ECT(0) on data (tcp_ecn_send). There is no hook between that
 * and IP, so a connection gets a copy of its address family's functions, of
 * which one is ours: it sends with ECT(1) in place of ECT(0).
 */
struct rewriting {
	const struct inet_connection_sock_af_ops *of;
	struct inet_connection_sock_af_ops ops;
};

/* of IPv4, of IPv6, of IPv4 in IPv6 sockets */
static struct rewriting rewritings[3];
static DEFINE_SPINLOCK(rewritings_lock);

static u8 ect_1_for_ect_0(u8 dsfield)
{
	return (dsfield & INET_ECN_MASK) == INET_ECN_ECT_0 ?
		dsfield ^ INET_ECN_MASK : dsfield;
}

static int send_with_ect_1(struct sock *sk, struct sk_buff *skb,
			   struct flowi *fl)
{
	const struct rewriting *rewriting =
		container_of(inet_csk(sk)->icsk_af_ops, struct rewriting, ops);
	struct ipv6_pinfo *ipv6 = inet6_sk(sk);
	u8 tclass = ipv6 ? ipv6->tclass : 0;
	u8 tos = inet_sk(sk)->tos;
	int result;

	inet_sk(sk)->tos = ect_1_for_ect_0(tos);
	if (ipv6)
		ipv6->tclass = ect_1_for_ect_0(tclass);
	result = rewriting->of->queue_xmit(sk, skb, fl);
	inet_sk(sk)->tos = tos;
	if (ipv6)
		ipv6->tclass = tclass;
	return result;
}

static bool is_rewritten(const struct sock *sk)
{
	return inet_csk(sk)->icsk_af_ops->queue_xmit == send_with_ect_1;
}

static void rewrite(struct sock *sk)
{
	const struct inet_connection_sock_af_ops *of;
	unsigned int i;

	if (is_rewritten(sk))
		return;
	of = inet_csk(sk)->icsk_af_ops;
	spin_lock_bh(&rewritings_lock);
	for (i = 0; i < ARRAY_SIZE(rewritings); i++) {
		struct rewriting *one = &rewritings[i];

		if (!one->of) {
			one->of = of;
			one->ops = *of;
			one->ops.queue_xmit = send_with_ect_1;
		}
		if (one->of == of) {
			inet_csk(sk)->icsk_af_ops = &one->ops;
			break;
		}
	}
	spin_unlock_bh(&rewritings_lock);
	WARN_ONCE(i == ARRAY_SIZE(rewritings), "dctcp_l4s: sends ECT(0)");
}

static void dctcp_l4s_release(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	if (is_rewritten(sk))
		icsk->icsk_af_ops = container_of(icsk->icsk_af_ops,
						 struct rewriting, ops)->of;
}

static void begin_round(const struct tcp_sock *tp, struct dctcp_l4s *ca)
{
	ca->round_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

static bool has_accurate_ecn(const struct sock *sk)
{
#ifdef TCP_CONG_ECT_1_NEGOTIATION
	return tcp_ecn_mode_accecn(tcp_sk(sk));
#else
	return false;
#endif
}

static struct tcp_congestion_ops dctcp_l4s_reno;
static struct tcp_congestion_ops dctcp_l4s_virtual;

static bool is_virtual(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_ops == &dctcp_l4s_virtual;
}

/* Whether a virtual round trip is over that began then */
static bool has_passed(const struct tcp_sock *tp, u64 began_us)
{
	return tp->tcp_mstamp - began_us >= virtual_rtt_us;
}

static void dctcp_l4s_init(struct sock *sk)
{
	struct dctcp_l4s *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct dctcp_l4s) > ICSK_CA_PRIV_SIZE);
	if (!has_accurate_ecn(sk)) {
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &dctcp_l4s_reno);
		return;
	}
	if (virtual_rtt_us)
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &dctcp_l4s_virtual);
	/* the first mark halves the window (RFC 8257, 4.2) */
	ca->alpha = ALL;
	ca->cwnd_before = 0;
	ca->seen_ce = tcp_sk(sk)->delivered_ce;
	ca->beyond = 0;
	ca->averaged_us = 0;
	ca->reduced_us = 0;
	begin_round(tcp_sk(sk), ca);
	rewrite(sk);
	if (paced)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void dctcp_l4s_in_ack_event(struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_l4s *ca = inet_csk_ca(sk);
	u32 delivered, marked;

	if (before(tp->snd_una, ca->round_end))
		return;
	if (is_virtual(sk) && !has_passed(tp, ca->averaged_us))
		return;
	ca->averaged_us = tp->tcp_mstamp;
	delivered = tp->delivered - ca->delivered;
	marked = min(tp->delivered_ce - ca->delivered_ce, delivered);
	if (delivered) {
		u64 share = div_u64((u64)marked * ALL, delivered);

		ca->alpha -= ca->alpha >> WEIGHT_SHIFT;
		ca->alpha += (u32)(share >> WEIGHT_SHIFT);
	}
	begin_round(tp, ca);
}

static u32 dctcp_l4s_ssthresh(struct sock *sk)
{
	struct dctcp_l4s *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	ca->cwnd_before = cwnd;
	return max(cwnd - (u32)((u64)cwnd * ca->alpha / ALL / 2), 2U);
}

/* a loss is answered as Reno answers it, whatever ssthresh() made of marks */
static void halve(struct sock *sk)
{
	struct dctcp_l4s *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	ca->cwnd_before = tcp_snd_cwnd(tp);
	WRITE_ONCE(tp->snd_ssthresh, max(tcp_snd_cwnd(tp) / 2, 2U));
}

static void dctcp_l4s_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Recovery &&
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery)
		halve(sk);
}

static void dctcp_l4s_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS)
		halve(sk);
}

#ifdef TCP_CONG_ECT_1_NEGOTIATION
/* What an unmarked round trip adds to the window, in 1 / ALL of a segment */
static u64 growth(const struct tcp_sock *tp)
{
	u64 rtt_us = tp->srtt_us >> 3;

	if (!rtt_us || rtt_us >= virtual_rtt_us)
		return ALL;
	return div64_u64(ALL * rtt_us * rtt_us,
			 (u64)virtual_rtt_us * virtual_rtt_us);
}

/* Whole segments that the window is beyond cwnd, or below it */
static void settle(struct tcp_sock *tp, struct dctcp_l4s *ca)
{
	s64 segments = div_s64(ca->beyond, ALL);
	u32 cwnd;

	if (!segments)
		return;
	ca->beyond -= segments * ALL;
	cwnd = max_t(s64, (s64)tcp_snd_cwnd(tp) + segments, 2);
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
	if (segments < 0)
		WRITE_ONCE(tp->snd_ssthresh, cwnd);
}

/* As tcp_update_pacing_rate(), which the kernel leaves to who has cong_control */
static void pace(struct sock *sk)
{
	const struct net *net = sock_net(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp);
	u64 rate = (u64)tp->mss_cache * ((USEC_PER_SEC / 100) << 3);

	rate *= cwnd < tp->snd_ssthresh / 2 ?
		READ_ONCE(net->ipv4.sysctl_tcp_pacing_ss_ratio) :
		READ_ONCE(net->ipv4.sysctl_tcp_pacing_ca_ratio);
	rate *= max(cwnd, tp->packets_out);
	if (tp->srtt_us)
		do_div(rate, tp->srtt_us);
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

static void virtual_control(struct sock *sk, u32 ack, int flag,
			    const struct rate_sample *rs)
{
	struct dctcp_l4s *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 marked = tp->delivered_ce - ca->seen_ce;
	u32 acked = rs->acked_sacked - min(rs->acked_sacked, marked);

	ca->seen_ce = tp->delivered_ce;
	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery &&
	    tcp_is_cwnd_limited(sk)) {
		if (acked && tcp_in_slow_start(tp))
			acked = tcp_slow_start(tp, acked);
		ca->beyond += div_u64(acked * growth(tp), tcp_snd_cwnd(tp));
	}
	settle(tp, ca);
	pace(sk);
}

static void virtual_set_state(struct sock *sk, u8 new_state)
{
	struct dctcp_l4s *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u8 state = inet_csk(sk)->icsk_ca_state;

	if (new_state == TCP_CA_Recovery && state != TCP_CA_Recovery) {
		halve(sk);
		tcp_snd_cwnd_set(tp, tp->snd_ssthresh);
	} else if (new_state == TCP_CA_CWR && state != TCP_CA_CWR &&
		   (tcp_in_slow_start(tp) || has_passed(tp, ca->reduced_us))) {
		ca->reduced_us = tp->tcp_mstamp;
		ca->cwnd_before = tcp_snd_cwnd(tp);
		ca->beyond -= (u64)ca->cwnd_before * ca->alpha / 2;
	}
}

/* Marks reduce the window in virtual_set_state() */
static u32 virtual_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}
#endif

static u32 dctcp_l4s_undo_cwnd(struct sock *sk)
{
	const struct dctcp_l4s *ca = inet_csk_ca(sk);

	return max(tcp_snd_cwnd(tcp_sk(sk)), ca->cwnd_before);
}

/* as the kernel's DCTCP: ss prints dctcp:(...,alpha: of 1024) */
static size_t dctcp_l4s_get_info(struct sock *sk, u32 ext, int *attr,
				 union tcp_cc_info *info)
{
	const struct dctcp_l4s *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!(ext & (1 << (INET_DIAG_DCTCPINFO - 1))) &&
	    !(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(&info->dctcp, 0, sizeof(info->dctcp));
	info->dctcp.dctcp_enabled = 1;
	info->dctcp.dctcp_alpha = ca->alpha / (ALL / 1024);
	info->dctcp.dctcp_ab_ecn = tp->mss_cache *
				   (tp->delivered_ce - ca->delivered_ce);
	info->dctcp.dctcp_ab_tot = tp->mss_cache *
				   (tp->delivered - ca->delivered);
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(info->dctcp);
}

static struct tcp_congestion_ops dctcp_l4s __read_mostly = {
	.init		= dctcp_l4s_init,
	.release	= dctcp_l4s_release,
	.in_ack_event	= dctcp_l4s_in_ack_event,
	.ssthresh	= dctcp_l4s_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.set_state	= dctcp_l4s_set_state,
	.cwnd_event	= dctcp_l4s_cwnd_event,
	.undo_cwnd	= dctcp_l4s_undo_cwnd,
	.get_info	= dctcp_l4s_get_info,
	.flags		= FLAGS,
	.owner		= THIS_MODULE,
	.name		= "dctcp_l4s",
};

/* not registered, so that it has the same name */
static struct tcp_congestion_ops dctcp_l4s_virtual __read_mostly = {
#ifdef TCP_CONG_ECT_1_NEGOTIATION
	.release	= dctcp_l4s_release,
	.in_ack_event	= dctcp_l4s_in_ack_event,
	.ssthresh	= virtual_ssthresh,
	.cong_control	= virtual_control,
	.set_state	= virtual_set_state,
	.cwnd_event	= dctcp_l4s_cwnd_event,
	.undo_cwnd	= dctcp_l4s_undo_cwnd,
	.get_info	= dctcp_l4s_get_info,
	.flags		= FLAGS,
	.owner		= THIS_MODULE,
	.name		= "dctcp_l4s",
#endif
};

static struct tcp_congestion_ops dctcp_l4s_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "dctcp_l4s_reno",
};

static int __init dctcp_l4s_register(void)
{
	return tcp_register_congestion_control(&dctcp_l4s);
}

static void __exit dctcp_l4s_unregister(void)
{
	tcp_unregister_congestion_control(&dctcp_l4s);
}

module_init(dctcp_l4s_register);
module_exit(dctcp_l4s_unregister);

MODULE_DESCRIPTION("DCTCP with ECT(1) and Accurate ECN");
MODULE_LICENSE("GPL");

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Tahoe and the Reno of RFC 2581 have in common.
 *
 * Both need the cong_control hook, the only one between the processing of
 * duplicate ACKs and the retransmission that follows from it. Core TCP then
 * leaves to the module what it does itself for other congestion controls:
 * growth, the reaction to ECN, the restart after an idle time, the pacing rate.
 */
#ifndef _CLASSIC_H
#define _CLASSIC_H

#include <linux/inet_diag.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>

/* 6.1: 6001 */
#define CLASSIC_KERNEL	(LINUX_VERSION_MAJOR * 1000 + LINUX_VERSION_PATCHLEVEL)

struct classic {
	u32	snd_una;		/* ACKs up to here have been counted */
	u32	go_back_end;		/* snd_nxt at the last go-back-N */
	u32	fast_retransmits;
	u32	timeouts;
};

static inline void classic_init(struct sock *sk, struct classic *ca)
{
	memset(ca, 0, sizeof(*ca));
	ca->snd_una = tcp_sk(sk)->snd_una;
	ca->go_back_end = ca->snd_una;
}

/*
 * Half of the window (4.3BSD), or of what is in flight, if that is less (RFC
 * 2581). So what limited transmit adds to the flight is not counted.
 */
static inline u32 classic_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return max(min(tcp_snd_cwnd(tp), tp->packets_out) >> 1U, 2U);
}

/* Nothing is ever undone. Called by set_state, after tcp_init_undo(). */
static inline void classic_forbid_undo(struct sock *sk)
{
	tcp_sk(sk)->prior_ssthresh = 0;
	tcp_sk(sk)->undo_marker = 0;
}

/* Required by core TCP; reached if F-RTO finds a timeout spurious */
static inline u32 classic_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

/*
 * The window is that of the threshold. Never more than it was: a socket that
 * comes from another congestion control may have no threshold.
 */
static inline void classic_reduce(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_ssthresh));
}

static inline void classic_enter_loss(struct sock *sk, struct classic *ca)
{
	classic_forbid_undo(sk);
	ca->go_back_end = tcp_sk(sk)->snd_nxt;
	ca->timeouts++;
}

/* tcp_update_pacing_rate(), which is static */
static inline void classic_update_pacing_rate(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct net *net = sock_net(sk);
	u64 rate = (u64)tp->mss_cache * ((USEC_PER_SEC / 100) << 3);

	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh / 2)
		rate *= READ_ONCE(net->ipv4.sysctl_tcp_pacing_ss_ratio);
	else
		rate *= READ_ONCE(net->ipv4.sysctl_tcp_pacing_ca_ratio);
	rate *= max(tcp_snd_cwnd(tp), tp->packets_out);
	if (tp->srtt_us)
		rate = div_u64(rate, tp->srtt_us);
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/*
 * Slow start and congestion avoidance for an ACK of `acked` packets, if it is
 * one of new data.
 *
 * While packets are sent again, the ACK of one covers all that the receiver
 * had kept behind it. Counted in packets it would lift the window to ssthresh
 * at once, so an ACK counts as one there (as in 4.3BSD, and RFC 3465, 2.3).
 */
static inline void classic_cong_avoid(struct sock *sk, struct classic *ca,
				      u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u8 state = inet_csk(sk)->icsk_ca_state;
	bool again = before(ca->snd_una, ca->go_back_end);

	/* reordering must not raise the threshold of three duplicate ACKs */
	if (tcp_is_reno(tp))
		WRITE_ONCE(tp->reordering,
			   READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_reordering));

	if (!after(tp->snd_una, ca->snd_una))
		return;
	ca->snd_una = tp->snd_una;
	if (state != TCP_CA_CWR && state != TCP_CA_Recovery)
		tcp_reno_cong_avoid(sk, tp->snd_una, again ? 1 : acked);
}

/*
 * The first packet after an idle time is being sent. RFC 2581, 4.1: after more
 * than a retransmission timeout the window is no more than the initial one.
 */
static inline void classic_tx_start(struct sock *sk)
{
	const struct dst_entry *dst = __sk_dst_get(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 initial = dst ? dst_metric(dst, RTAX_INITCWND) : 0;

	if (tp->packets_out ||
	    !READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle) ||
	    tcp_jiffies32 - tp->lsndtime <= inet_csk(sk)->icsk_rto)
		return;
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), initial ?: TCP_INIT_CWND));
}

#if CLASSIC_KERNEL >= 7001
#define classic_cwnd_event_hook	.cwnd_event_tx_start = classic_tx_start
#else
static inline void classic_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		classic_tx_start(sk);
}

#define classic_cwnd_event_hook	.cwnd_event = classic_cwnd_event
#endif

#if CLASSIC_KERNEL >= 6010
#define classic_cong_control_args \
	struct sock *sk, u32 ack, int flag, const struct rate_sample *rs
#else
#define classic_cong_control_args \
	struct sock *sk, const struct rate_sample *rs
#endif

/* ss -i has no word for these, so they go by the names of DCTCP's numbers */
static inline size_t classic_get_info(u32 ext, int *attr,
				      union tcp_cc_info *info,
				      const struct classic *ca,
				      bool active, u32 total)
{
	struct tcp_dctcp_info *dctcp = &info->dctcp;

	/* asked for as INET_DIAG_VEGASINFO */
	if (!(ext & (1 << (INET_DIAG_DCTCPINFO - 1) |
		     1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;

	memset(dctcp, 0, sizeof(*dctcp));
	dctcp->dctcp_enabled = 1;
	dctcp->dctcp_ce_state = active;
	dctcp->dctcp_alpha = ca->fast_retransmits;
	dctcp->dctcp_ab_ecn = ca->timeouts;
	dctcp->dctcp_ab_tot = total;
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(*dctcp);
}

#endif

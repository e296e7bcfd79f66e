// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Libra congestion control
 *
 * The algorithm is described in:
 * "TCP Libra: Exploring RTT-Fairness for TCP", G. Marfia, C. Palazzi, G. Pau,
 *  M. Gerla, M. Y. Sanadidi, M. Roccetti, UCLA CSD Technical Report 050037;
 *  short version: IFIP Networking 2007.
 *
 * A Reno whose growth per second does not depend on the round-trip time T:
 *
 *	per acknowledged packet	W += alpha T^2 / ((T0 + T) W)
 *	per loss		W -= T1 W / (2 (T0 + T))
 *	alpha			k1 C exp(-k2 (T - Tmin) / (Tmax - Tmin))
 *
 * For T << T0 a window grows by alpha T^2 / T0 per round trip, its rate W / T
 * by alpha / T0 per second, whatever T is. C, the capacity of the bottleneck
 * in Mbit/s, makes that scale; the penalty exp() makes flows slow down when the
 * queue is nearly as long as it has ever been.
 *
 * T is smoothed with a gain of 1/8 per sample: it enters squared, so jitter
 * would make single samples grow too fast (E[T^2] > E[T]^2), and with a sample
 * per ACK this average still follows the queue within a fraction of a round
 * trip. Tmin and Tmax are those of the samples, so that Tmin <= T <= Tmax.
 *
 * All else is Reno: slow start, recovery, timeouts, undo.
 */

#include <linux/inet_diag.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/win_minmax.h>
#include <net/tcp.h>

#include "libra_math.h"

static unsigned int capacity __read_mostly = 100;
module_param(capacity, uint, 0644);
MODULE_PARM_DESC(capacity, "Capacity of the bottleneck in units of `unit` (100); 0: each connection estimates it");

static unsigned int unit __read_mostly = 1000000;
module_param(unit, uint, 0644);
MODULE_PARM_DESC(unit, "Unit of capacity in bit/s (1000000)");

static unsigned int k1 __read_mostly = 2 * LIBRA_K_SCALE;
module_param(k1, uint, 0644);
MODULE_PARM_DESC(k1, "Scalability factor in thousandths, 0..100000 (2000)");

static unsigned int k2 __read_mostly = 2 * LIBRA_K_SCALE;
module_param(k2, uint, 0644);
MODULE_PARM_DESC(k2, "Penalty factor in thousandths, 0..100000 (2000)");

static unsigned int t0_us __read_mostly = USEC_PER_SEC;
module_param(t0_us, uint, 0644);
MODULE_PARM_DESC(t0_us, "T0 in microseconds, 1..100000000 (1000000)");

static unsigned int t1_us __read_mostly = USEC_PER_SEC;
module_param(t1_us, uint, 0644);
MODULE_PARM_DESC(t1_us, "T1 in microseconds, 1..100000000 (1000000)");

/* the capacity is estimated as the highest rate of this long */
#define ESTIMATE_WINDOW	(10 * HZ)

struct libra {
	u64	credit;		/* growth that is no whole packet yet, Q40 */
	struct minmax rate;	/* delivery rate, kbit/s: 4 Tbit/s in 32 bits */
	u32	srtt;		/* smoothed RTT in us << 3; 0: no sample yet */
	u32	min_rtt;	/* us */
	u32	max_rtt;
};

static void libra_init(struct sock *sk)
{
	struct libra *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct libra) > ICSK_CA_PRIV_SIZE);
	memset(ca, 0, sizeof(*ca));
	ca->min_rtt = LIBRA_T_MAX;
}

/* What C, T and the parameters are now; parameters may change at any time. */
static void libra_look(const struct sock *sk, struct libra_params *p,
		       struct libra_rtt *rtt)
{
	const struct libra *ca = inet_csk_ca(sk);
	u32 units = READ_ONCE(capacity);
	u64 c = units ? (u64)units * READ_ONCE(unit) :
			(u64)minmax_get(&ca->rate) * 1000;

	p->c = clamp(c, LIBRA_C_MIN, LIBRA_C_MAX);
	p->k1 = min(READ_ONCE(k1), LIBRA_K_MAX);
	p->k2 = min(READ_ONCE(k2), LIBRA_K_MAX);
	p->t0 = clamp(READ_ONCE(t0_us), LIBRA_T_MIN, LIBRA_T_MAX);
	p->t1 = clamp(READ_ONCE(t1_us), LIBRA_T_MIN, LIBRA_T_MAX);
	rtt->t = ca->srtt >> 3;
	rtt->min = ca->min_rtt;
	rtt->max = ca->max_rtt;
}

/* Take tcp_rate_gen()'s latest sample of the delivery rate. What an application
 * does not make use of says nothing of the capacity.
 */
static void libra_estimate(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct libra *ca = inet_csk_ca(sk);
	u64 rate;

	if (!tp->rate_delivered || !tp->rate_interval_us)
		return;
	/* bits per us * 1000 = kbit/s */
	rate = (u64)tp->rate_delivered * tp->mss_cache * 8 * 1000;
	rate = div_u64(rate, tp->rate_interval_us);
	rate = min_t(u64, rate, U32_MAX);
	if (!tp->rate_app_limited || rate > minmax_get(&ca->rate))
		minmax_running_max(&ca->rate, ESTIMATE_WINDOW, tcp_jiffies32,
				   rate);
}

static void libra_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct libra *ca = inet_csk_ca(sk);
	u32 t;

	if (!READ_ONCE(capacity))
		libra_estimate(sk);

	/* no sample: a retransmission was acknowledged */
	if (sample->rtt_us < 0)
		return;

	t = clamp_t(u32, sample->rtt_us, LIBRA_T_MIN, LIBRA_T_MAX);
	ca->min_rtt = min(ca->min_rtt, t);
	ca->max_rtt = max(ca->max_rtt, t);
	ca->srtt = ca->srtt ? ca->srtt - (ca->srtt >> 3) + t : t << 3;
}

static void libra_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct libra *ca = inet_csk_ca(sk);
	struct libra_params p;
	struct libra_rtt rtt;
	u32 cwnd;

	if (!tcp_is_cwnd_limited(sk))
		return;

	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}

	libra_look(sk, &p, &rtt);
	cwnd = libra_grow(&p, &rtt, &ca->credit, tcp_snd_cwnd(tp), acked);
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
}

static u32 libra_recalc_ssthresh(struct sock *sk)
{
	struct libra_params p;
	struct libra_rtt rtt;

	libra_look(sk, &p, &rtt);
	return libra_ssthresh(&p, &rtt, tcp_snd_cwnd(tcp_sk(sk)));
}

/* ss -i prints: bbr:(bw:C,mrtt:Tmin,pacing_gain:alpha,cwnd_gain:exp()) */
static size_t libra_get_info(struct sock *sk, u32 ext, int *attr,
			     union tcp_cc_info *info)
{
	const struct libra *ca = inet_csk_ca(sk);
	struct tcp_bbr_info *bbr = &info->bbr;
	struct libra_params p;
	struct libra_rtt rtt;
	u64 bytes;

	/* asked for as INET_DIAG_VEGASINFO */
	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1) |
		     1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;

	libra_look(sk, &p, &rtt);
	bytes = div_u64(p.c, 8);
	memset(bbr, 0, sizeof(*bbr));
	bbr->bbr_bw_lo = lower_32_bits(bytes);
	bbr->bbr_bw_hi = upper_32_bits(bytes);
	bbr->bbr_min_rtt = ca->srtt ? ca->min_rtt : 0;
	bbr->bbr_pacing_gain = libra_fixed(libra_alpha(&p, &rtt), 8, U32_MAX);
	bbr->bbr_cwnd_gain = libra_fixed(libra_exp(&p, &rtt), 8, U32_MAX);
	*attr = INET_DIAG_BBRINFO;
	return sizeof(*bbr);
}

static struct tcp_congestion_ops tcp_libra __read_mostly = {
	.init		= libra_init,
	.ssthresh	= libra_recalc_ssthresh,
	.cong_avoid	= libra_cong_avoid,
	.pkts_acked	= libra_pkts_acked,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.get_info	= libra_get_info,
	.owner		= THIS_MODULE,
	.name		= "libra",
};

static int __init libra_register(void)
{
	return tcp_register_congestion_control(&tcp_libra);
}

static void __exit libra_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_libra);
}

module_init(libra_register);
module_exit(libra_unregister);

MODULE_DESCRIPTION("TCP Libra");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0-only
/*
 * CUBIC (RFC 9438) as the kernel's tcp_cubic.c computes it, with three choices
 *
 * round_down: the target is rounded down to whole segments. Linux computes by
 * how much the target is below the last maximum, drops the fraction of a
 * segment, and subtracts. So it rounds up: the target is the last maximum as
 * soon as less than a segment is missing, up to 1.4 s early.
 *
 * hystart: whether slow start may end before a loss (HyStart).
 *
 * late_rounds: HyStart looks for the end of a round only while the window has
 * 16 segments or more, as Linux did from 5.16 to 6.13. The window gets there in
 * the middle of a round, and all later rounds begin in the middle of one, too.
 * So trains of ACKs look shorter, and the first delays of a round longer.
 */

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <net/tcp.h>

/* as tcp_cubic.c: beta is 717 / 1024, C is 410 / 1024, time in 1 / 1024 s */
#define BETA		717U
#define BETA_SCALE	1024U
#define C_SCALED	410ULL
#define TIME_SHIFT	10
#define CUBE_SHIFT	(10 + 3 * TIME_SHIFT)
/* ACKs for a segment more of a standard TCP: of the window, in eighths */
#define RENO_SCALE	(8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA))

/* as tcp_cubic.c: HyStart looks at windows of 16 segments and more */
#define LOW_WINDOW	16U
#define MIN_SAMPLES	8
#define ACK_GAP_US	2000
#define LEAST_MORE_US	4000U
#define MOST_MORE_US	16000U

static bool round_down;
module_param(round_down, bool, 0644);
MODULE_PARM_DESC(round_down, "round the target down, not up");

static bool hystart = true;
module_param(hystart, bool, 0644);
MODULE_PARM_DESC(hystart, "slow start may end before a loss");

static bool late_rounds;
module_param(late_rounds, bool, 0644);
MODULE_PARM_DESC(late_rounds, "HyStart begins rounds late, as Linux 5.16 to 6.13");

struct cubic_variant {
	u32	cnt;		/* ACKs for one segment more */
	u32	last_max_cwnd;
	u32	last_cwnd;	/* when cnt was computed */
	u32	last_time;
	u32	origin;		/* the window at the plateau */
	u32	k;		/* the time to it, from the start of the epoch */
	u32	delay_min_us;
	u32	epoch_start;
	u32	ack_cnt;
	u32	reno_cwnd;	/* of a standard TCP */
	/* HyStart, of a round; what a timeout leaves as it is begins here */
	u32	round_start_us;
	u32	round_end;	/* the sequence number */
	u32	last_ack_us;	/* of the train of ACKs that began the round */
	u32	least_delay_us;
	u8	samples;
	bool	found;		/* slow start has to end */
};

static void cubic_variant_begin_round(struct sock *sk)
{
	struct cubic_variant *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->round_start_us = tp->tcp_mstamp;
	ca->last_ack_us = tp->tcp_mstamp;
	ca->round_end = tp->snd_nxt;
	ca->least_delay_us = U32_MAX;
	ca->samples = 0;
}

static void cubic_variant_reset(struct cubic_variant *ca)
{
	memset(ca, 0, offsetof(struct cubic_variant, round_start_us));
	ca->found = false;
}

static void cubic_variant_init(struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct cubic_variant) > ICSK_CA_PRIV_SIZE);
	cubic_variant_reset(inet_csk_ca(sk));
	if (hystart)
		cubic_variant_begin_round(sk);
}

/* Time without anything to send does not count for the cubic function */
static void cubic_variant_event(struct sock *sk, enum tcp_ca_event event)
{
	struct cubic_variant *ca = inet_csk_ca(sk);
	u32 now = tcp_jiffies32;
	s32 idle;

	if (event != CA_EVENT_TX_START || !ca->epoch_start)
		return;
	idle = now - tcp_sk(sk)->lsndtime;
	if (idle <= 0)
		return;
	ca->epoch_start += idle;
	if (after(ca->epoch_start, now))
		ca->epoch_start = now;
}

/* The largest number whose cube is not above `value` */
static u32 cube_root(u64 value)
{
	u64 root = 0, bit;

	for (bit = 1ULL << 20; bit; bit >>= 1)
		if ((root + bit) * (root + bit) * (root + bit) <= value)
			root += bit;
	return root;
}

static void cubic_variant_begin(struct cubic_variant *ca, u32 cwnd, u32 acked)
{
	ca->epoch_start = tcp_jiffies32;
	ca->ack_cnt = acked;
	ca->reno_cwnd = cwnd;
	ca->origin = max(ca->last_max_cwnd, cwnd);
	ca->k = cube_root(div64_u64((u64)(ca->origin - cwnd) << CUBE_SHIFT,
				    C_SCALED));
}

/* The window of the cubic function, one round trip from now */
static u32 cubic_variant_target(const struct cubic_variant *ca)
{
	u64 t = tcp_jiffies32 - ca->epoch_start +
		usecs_to_jiffies(ca->delay_min_us);
	u64 away, cube;

	t = div_u64(t << TIME_SHIFT, HZ);
	away = t < ca->k ? ca->k - t : t - ca->k;
	cube = C_SCALED * away * away * away;
	if (t >= ca->k)
		return ca->origin + (cube >> CUBE_SHIFT);
	if (round_down)
		cube += (1ULL << CUBE_SHIFT) - 1;
	return ca->origin - min_t(u64, cube >> CUBE_SHIFT, ca->origin);
}

static void cubic_variant_reno(struct cubic_variant *ca, u32 cwnd)
{
	u32 acks = (cwnd * RENO_SCALE) >> 3;

	while (ca->ack_cnt > acks) {
		ca->ack_cnt -= acks;
		ca->reno_cwnd++;
	}
	if (ca->reno_cwnd > cwnd)
		ca->cnt = min(ca->cnt, cwnd / (ca->reno_cwnd - cwnd));
}

static void cubic_variant_update(struct cubic_variant *ca, u32 cwnd, u32 acked)
{
	u32 target;

	ca->ack_cnt += acked;
	if (ca->last_cwnd == cwnd &&
	    (s32)(tcp_jiffies32 - ca->last_time) <= HZ / 32)
		return;

	if (!ca->epoch_start || tcp_jiffies32 != ca->last_time) {
		ca->last_cwnd = cwnd;
		ca->last_time = tcp_jiffies32;
		if (!ca->epoch_start)
			cubic_variant_begin(ca, cwnd, acked);
		target = cubic_variant_target(ca);
		ca->cnt = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
		if (!ca->last_max_cwnd)
			ca->cnt = min(ca->cnt, 20U);
	}
	cubic_variant_reno(ca, cwnd);
	ca->cnt = max(ca->cnt, 2U);
}

static void cubic_variant_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct cubic_variant *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cubic_variant_update(ca, tcp_snd_cwnd(tp), acked);
	tcp_cong_avoid_ai(tp, ca->cnt, acked);
}

static u32 cubic_variant_ssthresh(struct sock *sk)
{
	struct cubic_variant *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	ca->epoch_start = 0;
	/* fast convergence */
	ca->last_max_cwnd = cwnd < ca->last_max_cwnd ?
		cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) : cwnd;
	return max(cwnd * BETA / BETA_SCALE, 2U);
}

static void cubic_variant_set_state(struct sock *sk, u8 new_state)
{
	if (new_state != TCP_CA_Loss)
		return;
	cubic_variant_reset(inet_csk_ca(sk));
	cubic_variant_begin_round(sk);
}

/* The time that 4 packets of the largest size take, at most 1 ms: TSO, GRO */
static u32 cubic_variant_ack_delay_us(const struct sock *sk)
{
	unsigned long rate = READ_ONCE(sk->sk_pacing_rate);

	if (!rate)
		return 0;
	return min_t(u64, USEC_PER_MSEC,
		     div64_ul((u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC,
			      rate));
}

/* Slow start ends where ACKs have come one behind the other for half a round
 * trip, or where a round's shortest delay is an eighth longer than the least.
 */
static void cubic_variant_hystart(struct sock *sk, u32 delay_us)
{
	struct cubic_variant *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = tp->tcp_mstamp, most_us;

	if (late_rounds && tcp_snd_cwnd(tp) < LOW_WINDOW)
		return;
	if (after(tp->snd_una, ca->round_end))
		cubic_variant_begin_round(sk);
	if (tcp_snd_cwnd(tp) < LOW_WINDOW)
		return;

	if ((s32)(now - ca->last_ack_us) <= ACK_GAP_US) {
		ca->last_ack_us = now;
		most_us = ca->delay_min_us + cubic_variant_ack_delay_us(sk);
		if (sk->sk_pacing_status == SK_PACING_NONE)
			most_us >>= 1;
		ca->found |= (s32)(now - ca->round_start_us) > (s32)most_us;
	}

	ca->least_delay_us = min(ca->least_delay_us, delay_us);
	most_us = ca->delay_min_us +
		clamp(ca->delay_min_us >> 3, LEAST_MORE_US, MOST_MORE_US);
	if (ca->samples < MIN_SAMPLES)
		ca->samples++;
	else
		ca->found |= ca->least_delay_us > most_us;

	if (ca->found)
		tp->snd_ssthresh = tcp_snd_cwnd(tp);
}

static void cubic_variant_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct cubic_variant *ca = inet_csk_ca(sk);
	u32 delay_us;

	/* not valid, or soon after a recovery */
	if (sample->rtt_us < 0 ||
	    (ca->epoch_start && (s32)(tcp_jiffies32 - ca->epoch_start) < HZ))
		return;
	delay_us = max(sample->rtt_us, 1);
	if (!ca->delay_min_us || delay_us < ca->delay_min_us)
		ca->delay_min_us = delay_us;
	if (hystart && !ca->found && tcp_in_slow_start(tcp_sk(sk)))
		cubic_variant_hystart(sk, delay_us);
}

static struct tcp_congestion_ops tcp_cubic_variant __read_mostly = {
	.init		= cubic_variant_init,
	.ssthresh	= cubic_variant_ssthresh,
	.cong_avoid	= cubic_variant_cong_avoid,
	.set_state	= cubic_variant_set_state,
	.cwnd_event	= cubic_variant_event,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.pkts_acked	= cubic_variant_acked,
	.owner		= THIS_MODULE,
	.name		= "cubic_variant",
};

static int __init cubic_variant_register(void)
{
	return tcp_register_congestion_control(&tcp_cubic_variant);
}

static void __exit cubic_variant_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_cubic_variant);
}

module_init(cubic_variant_register);
module_exit(cubic_variant_unregister);

MODULE_DESCRIPTION("CUBIC with choices");
MODULE_LICENSE("GPL");

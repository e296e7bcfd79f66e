// SPDX-License-Identifier: GPL-2.0-only
/*
 * CUBIC (RFC 9438) that rounds its target down to whole segments
 *
 * The kernel's tcp_cubic.c computes by how much the target is below the last
 * maximum, drops the fraction of a segment, and subtracts. So the target is
 * rounded up: it is the last maximum as soon as less than a segment is missing,
 * up to 1.4 s early. This module is the same algorithm with a choice. It has no
 * HyStart: it is for flows whose slow start ends with a loss.
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

static bool round_up;
module_param(round_up, bool, 0644);
MODULE_PARM_DESC(round_up, "round the target up, as the kernel's CUBIC does");

struct cubic_floor {
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
};

static void cubic_floor_init(struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct cubic_floor) > ICSK_CA_PRIV_SIZE);
	memset(inet_csk_ca(sk), 0, sizeof(struct cubic_floor));
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

static void cubic_floor_begin(struct cubic_floor *ca, u32 cwnd, u32 acked)
{
	ca->epoch_start = tcp_jiffies32;
	ca->ack_cnt = acked;
	ca->reno_cwnd = cwnd;
	ca->origin = max(ca->last_max_cwnd, cwnd);
	ca->k = cube_root(div64_u64((u64)(ca->origin - cwnd) << CUBE_SHIFT,
				    C_SCALED));
}

/* The window of the cubic function, one round trip from now */
static u32 cubic_floor_target(const struct cubic_floor *ca)
{
	u64 t = tcp_jiffies32 - ca->epoch_start +
		usecs_to_jiffies(ca->delay_min_us);
	u64 away, cube;

	t = div_u64(t << TIME_SHIFT, HZ);
	away = t < ca->k ? ca->k - t : t - ca->k;
	cube = C_SCALED * away * away * away;
	if (t >= ca->k)
		return ca->origin + (cube >> CUBE_SHIFT);
	if (!round_up)
		cube += (1ULL << CUBE_SHIFT) - 1;
	return ca->origin - min_t(u64, cube >> CUBE_SHIFT, ca->origin);
}

static void cubic_floor_reno(struct cubic_floor *ca, u32 cwnd)
{
	u32 acks = (cwnd * RENO_SCALE) >> 3;

	while (ca->ack_cnt > acks) {
		ca->ack_cnt -= acks;
		ca->reno_cwnd++;
	}
	if (ca->reno_cwnd > cwnd)
		ca->cnt = min(ca->cnt, cwnd / (ca->reno_cwnd - cwnd));
}

static void cubic_floor_update(struct cubic_floor *ca, u32 cwnd, u32 acked)
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
			cubic_floor_begin(ca, cwnd, acked);
		target = cubic_floor_target(ca);
		ca->cnt = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
		if (!ca->last_max_cwnd)
			ca->cnt = min(ca->cnt, 20U);
	}
	cubic_floor_reno(ca, cwnd);
	ca->cnt = max(ca->cnt, 2U);
}

static void cubic_floor_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct cubic_floor *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cubic_floor_update(ca, tcp_snd_cwnd(tp), acked);
	tcp_cong_avoid_ai(tp, ca->cnt, acked);
}

static u32 cubic_floor_ssthresh(struct sock *sk)
{
	struct cubic_floor *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	ca->epoch_start = 0;
	/* fast convergence */
	ca->last_max_cwnd = cwnd < ca->last_max_cwnd ?
		cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) : cwnd;
	return max(cwnd * BETA / BETA_SCALE, 2U);
}

static void cubic_floor_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		cubic_floor_init(sk);
}

static void cubic_floor_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct cubic_floor *ca = inet_csk_ca(sk);

	/* not valid, or soon after a recovery */
	if (sample->rtt_us < 0 ||
	    (ca->epoch_start && (s32)(tcp_jiffies32 - ca->epoch_start) < HZ))
		return;
	if (!ca->delay_min_us || sample->rtt_us < ca->delay_min_us)
		ca->delay_min_us = max(sample->rtt_us, 1);
}

static struct tcp_congestion_ops tcp_cubic_floor __read_mostly = {
	.init		= cubic_floor_init,
	.ssthresh	= cubic_floor_ssthresh,
	.cong_avoid	= cubic_floor_cong_avoid,
	.set_state	= cubic_floor_set_state,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.pkts_acked	= cubic_floor_acked,
	.owner		= THIS_MODULE,
	.name		= "cubic_floor",
};

static int __init cubic_floor_register(void)
{
	return tcp_register_congestion_control(&tcp_cubic_floor);
}

static void __exit cubic_floor_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_cubic_floor);
}

module_init(cubic_floor_register);
module_exit(cubic_floor_unregister);

MODULE_DESCRIPTION("CUBIC that rounds its target down");
MODULE_LICENSE("GPL");

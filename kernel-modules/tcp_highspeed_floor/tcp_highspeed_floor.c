// SPDX-License-Identifier: GPL-2.0-only
/*
 * HighSpeed TCP (RFC 3649) that counts segments and rounds its growth down
 *
 * The kernel's tcp_highspeed.c (John Heffner) differs from the RFC in two ways.
 * It grows once for each ACK, and with delayed ACKs one stands for two segments.
 * And between two lines of the RFC's table it takes the second: it grows by 2
 * segments in a round trip from a window of 39 on, where the RFC's a(w) is 1.01
 * and reaches 2 at 118. This module is the same algorithm with a choice of both.
 */

#include <linux/module.h>
#include <net/tcp.h>

static bool count_acks;
module_param(count_acks, bool, 0644);
MODULE_PARM_DESC(count_acks, "grow once for each ACK, as the kernel does");

static bool round_up;
module_param(round_up, bool, 0644);
MODULE_PARM_DESC(round_up, "use the table's next line, as the kernel does");

/*
 * RFC 3649, appendix B: the window at which a(w) is the number of the line, from
 * 1, and b(w) there, in 1 / 256 (the values of tcp_highspeed.c)
 */
static const struct {
	u32	cwnd;
	u32	decrease;
} lines[] = {
	{ 38, 128 }, { 118, 112 }, { 221, 104 }, { 347, 98 }, { 495, 93 },
	{ 663, 89 }, { 851, 86 }, { 1058, 83 }, { 1284, 81 }, { 1529, 78 },
	{ 1793, 76 }, { 2076, 74 }, { 2378, 72 }, { 2699, 71 }, { 3039, 69 },
	{ 3399, 68 }, { 3778, 66 }, { 4177, 65 }, { 4596, 64 }, { 5036, 62 },
	{ 5497, 61 }, { 5979, 60 }, { 6483, 59 }, { 7009, 58 }, { 7558, 57 },
	{ 8130, 56 }, { 8726, 55 }, { 9346, 54 }, { 9991, 53 }, { 10661, 52 },
	{ 11358, 52 }, { 12082, 51 }, { 12834, 50 }, { 13614, 49 },
	{ 14424, 48 }, { 15265, 48 }, { 16137, 47 }, { 17042, 46 },
	{ 17981, 45 }, { 18955, 45 }, { 19965, 44 }, { 21013, 43 },
	{ 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 },
	{ 26881, 40 }, { 28193, 39 }, { 29557, 39 }, { 30975, 38 },
	{ 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 },
	{ 38992, 35 }, { 40808, 35 }, { 42707, 34 }, { 44694, 33 },
	{ 46776, 33 }, { 48961, 32 }, { 51258, 32 }, { 53677, 31 },
	{ 56230, 30 }, { 58932, 30 }, { 61799, 29 }, { 64851, 28 },
	{ 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 },
	{ 84035, 25 }, { 89053, 24 },
};

struct highspeed_floor {
	u32	line;
};

static void highspeed_floor_init(struct sock *sk)
{
	struct highspeed_floor *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct highspeed_floor) > ICSK_CA_PRIV_SIZE);
	ca->line = 0;
}

/* The last line that the window has reached; rounded up, the first above it */
static u32 highspeed_floor_line(u32 cwnd)
{
	u32 line = 0;

	if (round_up)
		while (line < ARRAY_SIZE(lines) - 1 && cwnd > lines[line].cwnd)
			line++;
	else
		while (line < ARRAY_SIZE(lines) - 1 &&
		       cwnd >= lines[line + 1].cwnd)
			line++;
	return line;
}

static void highspeed_floor_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct highspeed_floor *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	ca->line = highspeed_floor_line(tcp_snd_cwnd(tp));
	if (tcp_snd_cwnd(tp) >= tp->snd_cwnd_clamp)
		return;
	tp->snd_cwnd_cnt += (ca->line + 1) * (count_acks ? 1 : acked);
	if (tp->snd_cwnd_cnt >= tcp_snd_cwnd(tp)) {
		tp->snd_cwnd_cnt -= tcp_snd_cwnd(tp);
		tcp_snd_cwnd_set(tp, tcp_snd_cwnd(tp) + 1);
	}
}

static u32 highspeed_floor_ssthresh(struct sock *sk)
{
	const struct highspeed_floor *ca = inet_csk_ca(sk);
	u64 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	return max((u32)(cwnd - ((cwnd * lines[ca->line].decrease) >> 8)), 2U);
}

static struct tcp_congestion_ops tcp_highspeed_floor __read_mostly = {
	.init		= highspeed_floor_init,
	.ssthresh	= highspeed_floor_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= highspeed_floor_cong_avoid,
	.owner		= THIS_MODULE,
	.name		= "highspeed_floor",
};

static int __init highspeed_floor_register(void)
{
	return tcp_register_congestion_control(&tcp_highspeed_floor);
}

static void __exit highspeed_floor_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_highspeed_floor);
}

module_init(highspeed_floor_register);
module_exit(highspeed_floor_unregister);

MODULE_DESCRIPTION("HighSpeed TCP that counts segments and rounds its growth down");
MODULE_LICENSE("GPL");

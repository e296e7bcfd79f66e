// SPDX-License-Identifier: GPL-2.0-only
/* Reno that keeps seven tenths of its window after a loss, not half of it. */
#include <linux/module.h>
#include <net/tcp.h>

static u32 mine_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) * 7 / 10, 2U);
}

static struct tcp_congestion_ops mine __read_mostly = {
	.name		= "mine",
	.owner		= THIS_MODULE,
	.ssthresh	= mine_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init mine_init(void)
{
	return tcp_register_congestion_control(&mine);
}

static void __exit mine_exit(void)
{
	tcp_unregister_congestion_control(&mine);
}

module_init(mine_init);
module_exit(mine_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno with another decrease");

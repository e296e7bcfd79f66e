// SPDX-License-Identifier: GPL-2.0-only
/* Broken on purpose: its window stays at two segments. */
#include <linux/module.h>
#include <net/tcp.h>

static u32 stuck_ssthresh(struct sock *sk)
{
	return 2;
}

static void stuck_start(struct sock *sk)
{
	tcp_snd_cwnd_set(tcp_sk(sk), 2);
	tcp_sk(sk)->snd_ssthresh = 2;
}

static void stuck_avoid(struct sock *sk, u32 ack, u32 acked)
{
}

static struct tcp_congestion_ops stuck __read_mostly = {
	.name		= "stuck",
	.owner		= THIS_MODULE,
	.init		= stuck_start,
	.ssthresh	= stuck_ssthresh,
	.cong_avoid	= stuck_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init stuck_init(void)
{
	return tcp_register_congestion_control(&stuck);
}

static void __exit stuck_exit(void)
{
	tcp_unregister_congestion_control(&stuck);
}

module_init(stuck_init);
module_exit(stuck_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("never grows");

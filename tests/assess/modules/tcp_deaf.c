// SPDX-License-Identifier: GPL-2.0-only
/* Broken on purpose: it keeps 400 segments in flight, whatever is lost. */
#include <linux/module.h>
#include <net/tcp.h>

static u32 deaf_ssthresh(struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

static u32 deaf_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* in place of all that the kernel does with the window, also in recovery */
static void deaf_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *sample)
{
	tcp_snd_cwnd_set(tcp_sk(sk), 400);
}

static struct tcp_congestion_ops deaf __read_mostly = {
	.name		= "deaf",
	.owner		= THIS_MODULE,
	.ssthresh	= deaf_ssthresh,
	.undo_cwnd	= deaf_undo_cwnd,
	.cong_control	= deaf_control,
};

static int __init deaf_init(void)
{
	return tcp_register_congestion_control(&deaf);
}

static void __exit deaf_exit(void)
{
	tcp_unregister_congestion_control(&deaf);
}

module_init(deaf_init);
module_exit(deaf_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("ignores loss");

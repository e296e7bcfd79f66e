// SPDX-License-Identifier: GPL-2.0-only
/* Broken on purpose: it reacts to one loss in ten. */
#include <linux/module.h>
#include <net/tcp.h>

struct sloppy {
	u32 episodes;
};

/* growth as Reno; of ten recoveries, nine leave the window as it was */
static u32 sloppy_ssthresh(struct sock *sk)
{
	struct sloppy *state = inet_csk_ca(sk);
	u32 window = tcp_snd_cwnd(tcp_sk(sk));

	return ++state->episodes % 10 ? window : max(window / 2, 2U);
}

static struct tcp_congestion_ops sloppy __read_mostly = {
	.name		= "sloppy",
	.owner		= THIS_MODULE,
	.ssthresh	= sloppy_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init sloppy_init(void)
{
	return tcp_register_congestion_control(&sloppy);
}

static void __exit sloppy_exit(void)
{
	tcp_unregister_congestion_control(&sloppy);
}

module_init(sloppy_init);
module_exit(sloppy_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("reacts to one loss in ten");

// SPDX-License-Identifier: GPL-2.0-only
/* Broken on purpose: from its third timeout on, the window stays at two segments. Before, it is Reno. */
#include <linux/module.h>
#include <net/tcp.h>

struct third {
	u32	timeouts;
};

static void third_start(struct sock *sk)
{
	struct third *ca = inet_csk_ca(sk);

	ca->timeouts = 0;
}

static void third_event(struct sock *sk, enum tcp_ca_event event)
{
	struct third *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_LOSS)
		ca->timeouts++;
}

static void third_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct third *ca = inet_csk_ca(sk);

	if (ca->timeouts >= 3)
		tcp_snd_cwnd_set(tcp_sk(sk), 2);
	else
		tcp_reno_cong_avoid(sk, ack, acked);
}

static struct tcp_congestion_ops third __read_mostly = {
	.name		= "third",
	.owner		= THIS_MODULE,
	.init		= third_start,
	.cwnd_event	= third_event,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= third_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init third_init(void)
{
	BUILD_BUG_ON(sizeof(struct third) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&third);
}

static void __exit third_exit(void)
{
	tcp_unregister_congestion_control(&third);
}

module_init(third_init);
module_exit(third_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stuck after its third timeout");

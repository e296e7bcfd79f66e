// SPDX-License-Identifier: GPL-2.0-only
/* Broken on purpose: it counts acknowledgements, not what they acknowledge. */
#include <linux/module.h>
#include <net/tcp.h>

struct counting {
	u32 acknowledgements;
};

static u32 counting_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
}

/* growth as Reno, but that each acknowledgement counts as if it were of a packet */
static void counting_acknowledged(struct sock *sk, u32 flags)
{
	struct counting *state = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tcp_snd_cwnd(tp);

	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Open)
		return;
	state->acknowledgements++;
	if (window < tp->snd_ssthresh || state->acknowledgements >= window) {
		state->acknowledgements = 0;
		tcp_snd_cwnd_set(tp, min(window + 1, tp->snd_cwnd_clamp));
	}
}

static void counting_avoid(struct sock *sk, u32 ack, u32 acked)
{
}

static struct tcp_congestion_ops counting __read_mostly = {
	.name		= "counting",
	.owner		= THIS_MODULE,
	.ssthresh	= counting_ssthresh,
	.in_ack_event	= counting_acknowledged,
	.cong_avoid	= counting_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init counting_init(void)
{
	return tcp_register_congestion_control(&counting);
}

static void __exit counting_exit(void)
{
	tcp_unregister_congestion_control(&counting);
}

module_init(counting_init);
module_exit(counting_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("counts acknowledgements, not what they acknowledge");

// SPDX-License-Identifier: GPL-2.0-only
/*
 * BBR of the IETF: draft-ietf-ccwg-bbr, "BBR Congestion Control" (version 3)
 *
 * Written from the draft's text. Each function has the name that it has there,
 * and a comment with its section. Volumes are packets, rates bytes per second
 * (bbr_math.h).
 *
 * What the draft knows of each packet and Linux does not keep:
 *
 *  - P.lost, and with it RS.lost: C.lost at the time of sending. C.delivered and
 *    the clock at that time are known (rs->prior_delivered, tp->first_tx_mstamp),
 *    and struct bbr_loss_history knows what C.lost was then. Of the losses of a
 *    window those of a 32nd of it may be missing.
 *  - P.tx_in_flight: what was in flight when P was sent has, when P is
 *    acknowledged, been delivered or marked as lost: RS.delivered + RS.lost. It
 *    is too low by packets that were sent before P and are neither yet, and too
 *    high by those that were marked as lost and came after all.
 *  - HandleLostPacket(P) has the newest acknowledged packet in the place of P,
 *    which was sent a little later. It runs once per ACK, for all packets that
 *    were marked since the last one.
 *  - Losses that a tail loss probe repairs are marked nowhere: NoteLoss() when the
 *    kernel enters CWR for one, and no more.
 *  - Discontiguous ranges of losses: ACKs with new losses are counted.
 *  - C.send_quantum is what tcp_tso_autosize() makes of the pacing rate, with
 *    two packets at least. For a short RTT it makes more.
 */

#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/win_minmax.h>
#include <net/tcp.h>

#include "bbr_math.h"

#define BBR_UNSET_RATE		(~0ULL)		/* Infinity of bw_shortterm */
#define BBR_UNSET		(~0U)		/* Infinity of volumes and times */

#define BBR_MIN_RTT_FILTER_US	(10 * USEC_PER_SEC)	/* MinRTTFilterLen */
#define BBR_PROBE_RTT_US	(200 * USEC_PER_MSEC)	/* ProbeRTTDuration */
#define BBR_STARTUP_LOSSES	6	/* BBRStartupFullLossCnt */
#define BBR_EXTRA_ACKED_ROUNDS	10	/* ExtraAckedFilterLen */
#define BBR_FULL_BW_GROWTH	125	/* per cent */
#define BBR_FULL_BW_ROUNDS	3
#define BBR_DRAIN_ROUNDS	3
#define BBR_RENO_ROUNDS		63U	/* T_reno_bound */

/* Section "State Transition Diagram" */
enum bbr_state {
	BBR_STARTUP,
	BBR_DRAIN,
	BBR_DOWN,
	BBR_CRUISE,
	BBR_REFILL,
	BBR_UP,
	BBR_PROBE_RTT,
	BBR_NONE,		/* of undo_state */
};

static const char * const bbr_state_names[] = {
	[BBR_STARTUP]	= "Startup",
	[BBR_DRAIN]	= "Drain",
	[BBR_DOWN]	= "ProbeBW_DOWN",
	[BBR_CRUISE]	= "ProbeBW_CRUISE",
	[BBR_REFILL]	= "ProbeBW_REFILL",
	[BBR_UP]	= "ProbeBW_UP",
	[BBR_PROBE_RTT]	= "ProbeRTT",
	[BBR_NONE]	= "None",
};

/* Section "Summary of Control Behavior in the State Machine"; per cent */
static const struct {
	u16 pacing;
	u16 cwnd;
} bbr_gains[] = {
	[BBR_STARTUP]	= { 277, 200 },
	[BBR_DRAIN]	= {  50, 200 },
	[BBR_DOWN]	= {  90, 200 },
	[BBR_CRUISE]	= { 100, 200 },
	[BBR_REFILL]	= { 100, 200 },
	[BBR_UP]	= { 125, 225 },
	[BBR_PROBE_RTT]	= { 100,  50 },
};

/* Section "ProbeBW State": what ACKs tell of the bandwidth probing */
enum bbr_ack_phase {
	BBR_ACKS_INIT,
	BBR_ACKS_REFILLING,
	BBR_ACKS_PROBE_STARTING,
	BBR_ACKS_PROBE_FEEDBACK,
	BBR_ACKS_PROBE_STOPPING,
};

/* RS of the draft: what an ACK says */
struct bbr_sample {
	u64	delivery_rate;	/* bytes per second; 0: none */
	s64	rtt_us;		/* below 0: none */
	u32	delivered;	/* packets; 0: no data was acknowledged */
	u32	prior_delivered;
	u64	send_time_us;
	u32	newly_acked;
	u32	lost;		/* and with CE */
	u32	tx_in_flight;
	u32	prior_in_flight;	/* before this ACK */
	bool	is_app_limited;
	bool	is_valid;	/* it acknowledges a packet */
};

struct bbr_model {
	struct bbr_sample rs;

	u64	max_bw_filter[2];	/* of the cycle before, of this one */
	u64	max_bw;
	u64	bw;
	u64	bw_shortterm;
	u64	bw_latest;
	u64	full_bw;
	u64	undo_bw_shortterm;
	u64	min_rtt_stamp_us;
	u64	probe_rtt_done_stamp_us;
	u64	cycle_stamp_us;
	u64	extra_acked_interval_start_us;
	struct minmax extra_acked_filter;

	u32	min_rtt_us;
	u32	probe_rtt_cwnd;
	u32	prior_cwnd;
	u32	initial_cwnd;
	u32	round_count;
	u32	next_round_delivered;
	u32	loss_round_delivered;
	u32	drain_start_round;
	u32	rounds_since_probe_up;
	u32	bw_probe_wait_us;
	u32	bw_probe_up_rounds;
	u32	bw_probe_up_acked;
	u32	probe_up_acked_per_inc;
	u32	inflight_longterm;
	u32	inflight_shortterm;
	u32	inflight_latest;
	u32	undo_inflight_shortterm;
	u32	undo_inflight_longterm;
	u32	extra_acked;
	u32	extra_acked_delivered;
	u32	max_inflight;
	u32	lost_seen;		/* C.lost that has been noted */
	u32	ce_seen;		/* of tp->delivered_ce */
	u32	lost_unhandled;		/* HandleLostPacket() is due for these */
	u32	cwnd;			/* what BBR made of it last */

	u8	state;
	u8	undo_state;
	u8	ack_phase;
	u8	full_bw_count;
	u8	loss_acks_in_round;
	bool	round_start;
	bool	loss_round_start;
	bool	is_loss_in_round;
	bool	is_ce_in_round;
	bool	full_bw_now;
	bool	full_bw_reached;
	bool	is_bw_probe_sample;
	bool	prev_probe_too_high;
	bool	prev_probe_precautionary;
	bool	min_rtt_expired;
	bool	probe_rtt_round_done;
	bool	idle_restart;
	bool	has_srtt;		/* the pacing rate rests on an RTT */

	/* what the last trace event said; whether this ACK has changed the state */
	bool	state_changed;
	u64	traced_bw_shortterm;
	u32	traced_longterm;
	u32	traced_shortterm;

	struct bbr_loss_history history;
};

/* of which a socket's ICSK_CA_PRIV_SIZE, 104 bytes, has room for the address */
struct bbr_private {
	struct bbr_model *model;
};

/* NULL before init(): the kernel calls cong_control() for the ACK of a SYN-ACK */
static struct bbr_model *bbr_of(const struct sock *sk)
{
	return ((struct bbr_private *)inet_csk_ca(sk))->model;
}

static u32 bbr_inflight(const struct sock *sk, const struct bbr_model *m, u64 bw);

/* as a trace event has it: -1 for Infinity */
static s64 bbr_finite(u32 volume)
{
	return volume == BBR_UNSET ? -1 : (s64)volume;
}

#define CREATE_TRACE_POINTS
#include "bbr_trace.h"

static void bbr_trace(const struct sock *sk, struct bbr_model *m, const char *why)
{
	m->traced_bw_shortterm = m->bw_shortterm;
	m->traced_longterm = m->inflight_longterm;
	m->traced_shortterm = m->inflight_shortterm;
	trace_bbr_model(sk, m, why);
}

static u64 bbr_now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

static u32 bbr_mss(const struct sock *sk)
{
	return max_t(u32, tcp_sk(sk)->mss_cache, 1);
}

static bool bbr_in_loss_recovery(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state >= TCP_CA_Recovery;
}

static bool bbr_is_in_a_probe_bw_state(const struct bbr_model *m)
{
	return m->state >= BBR_DOWN && m->state <= BBR_UP;
}

static void bbr_set_state(struct sock *sk, struct bbr_model *m, u8 state, const char *why)
{
	m->state = state;
	m->state_changed = true;
	bbr_trace(sk, m, why);
}

/* ---- Section "Computing BBR.max_inflight" ---- */

static u32 bbr_bdp_multiple(const struct sock *sk, const struct bbr_model *m, u64 bw, u32 gain)
{
	if (m->min_rtt_us == BBR_UNSET)
		return m->initial_cwnd;
	return bbr_volume(bw, m->min_rtt_us, gain, bbr_mss(sk));
}

static u32 bbr_quantization_budget(const struct sock *sk, const struct bbr_model *m, u32 inflight)
{
	inflight = max(inflight, bbr_offload_budget(READ_ONCE(sk->sk_pacing_rate), bbr_mss(sk)));
	inflight = max(inflight, BBR_MIN_PIPE_CWND);
	if (m->state == BBR_UP)
		inflight += 2;
	return inflight;
}

/* Inflight(1.0): of BBR.bw, or of max_bw where the draft says so */
static u32 bbr_inflight(const struct sock *sk, const struct bbr_model *m, u64 bw)
{
	return bbr_quantization_budget(sk, m, bbr_bdp_multiple(sk, m, bw, 100));
}

static void bbr_update_max_inflight(const struct sock *sk, struct bbr_model *m)
{
	u32 inflight = bbr_bdp_multiple(sk, m, m->bw, bbr_gains[m->state].cwnd);

	m->max_inflight = bbr_quantization_budget(sk, m, inflight + m->extra_acked);
}

/* ---- Section "BBR.round_count: Tracking Packet-Timed Round Trips" ---- */

static void bbr_start_round(const struct sock *sk, struct bbr_model *m)
{
	m->next_round_delivered = tcp_sk(sk)->delivered;
}

static void bbr_update_round(const struct sock *sk, struct bbr_model *m)
{
	m->round_start = false;
	if (!m->rs.is_valid || before(m->rs.prior_delivered, m->next_round_delivered))
		return;
	bbr_start_round(sk, m);
	m->round_count++;
	m->rounds_since_probe_up++;
	m->round_start = true;
}

/* ---- Section "Modulating cwnd in Loss Recovery" ---- */

static void bbr_save_cwnd(const struct sock *sk, struct bbr_model *m, u32 cwnd)
{
	if (!bbr_in_loss_recovery(sk) && m->state != BBR_PROBE_RTT)
		m->prior_cwnd = cwnd;
	else
		m->prior_cwnd = max(m->prior_cwnd, cwnd);
}

static void bbr_set_window(struct sock *sk, struct bbr_model *m, u32 cwnd)
{
	m->cwnd = min(cwnd, tcp_sk(sk)->snd_cwnd_clamp);
	tcp_snd_cwnd_set(tcp_sk(sk), m->cwnd);
}

static void bbr_restore_cwnd(struct sock *sk, struct bbr_model *m)
{
	bbr_set_window(sk, m, max(tcp_snd_cwnd(tcp_sk(sk)), m->prior_cwnd));
}

/* ---- Section "Saving State Upon Loss Recovery" ---- */

static void bbr_save_state_upon_loss(const struct sock *sk, struct bbr_model *m)
{
	bbr_save_cwnd(sk, m, tcp_snd_cwnd(tcp_sk(sk)));
	m->undo_state = BBR_NONE;
	m->undo_bw_shortterm = m->bw_shortterm;
	m->undo_inflight_shortterm = m->inflight_shortterm;
	m->undo_inflight_longterm = m->inflight_longterm;
}

/* ---- Section "Exiting Acceleration Based on Bandwidth Plateau" ---- */

static void bbr_reset_full_bw(struct bbr_model *m)
{
	m->full_bw = 0;
	m->full_bw_count = 0;
	m->full_bw_now = false;
}

static void bbr_check_full_bw_reached(struct sock *sk, struct bbr_model *m)
{
	const struct bbr_sample *rs = &m->rs;

	if (m->full_bw_now || !m->round_start || rs->is_app_limited || !rs->delivery_rate)
		return;
	if (rs->delivery_rate * 100 >= m->full_bw * BBR_FULL_BW_GROWTH) {
		bbr_reset_full_bw(m);
		m->full_bw = rs->delivery_rate;
		return;
	}
	m->full_bw_count++;
	m->full_bw_now = m->full_bw_count >= BBR_FULL_BW_ROUNDS;
	if (m->full_bw_now) {
		m->full_bw_reached = true;
		bbr_trace(sk, m, "full_bw");
	}
}

/* ---- Section "Pacing Rate" ---- */

static void bbr_set_pacing_rate_with_gain(struct sock *sk, const struct bbr_model *m, u32 gain)
{
	u64 rate = min_t(u64, bbr_pacing_rate(m->bw, gain), READ_ONCE(sk->sk_max_pacing_rate));

	if (m->full_bw_reached || rate > READ_ONCE(sk->sk_pacing_rate))
		WRITE_ONCE(sk->sk_pacing_rate, rate);
}

/* Without an RTT the draft takes 1 ms; the first sample is taken up then. */
static void bbr_init_pacing_rate(struct sock *sk, struct bbr_model *m)
{
	u32 srtt_8_us = tcp_sk(sk)->srtt_us;	/* in eighths; 0: none */
	u64 rate;

	m->has_srtt = srtt_8_us > 0;
	rate = bbr_rate(m->initial_cwnd, bbr_mss(sk),
			m->has_srtt ? max(srtt_8_us >> 3, 1U) : USEC_PER_MSEC);
	rate = div64_u64(rate * bbr_gains[BBR_STARTUP].pacing, 100);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* ---- Sections "Startup" and "Drain" ---- */

static void bbr_enter_startup(struct sock *sk, struct bbr_model *m, const char *why)
{
	bbr_set_state(sk, m, BBR_STARTUP, why);
}

static void bbr_enter_drain(struct sock *sk, struct bbr_model *m, const char *why)
{
	m->drain_start_round = m->round_count;
	bbr_set_state(sk, m, BBR_DRAIN, why);
}

/* ---- Section "ProbeBW Algorithm Details" ---- */

static void bbr_reset_congestion_signals(struct bbr_model *m)
{
	m->is_loss_in_round = false;
	m->bw_latest = 0;
	m->inflight_latest = 0;
}

static void bbr_reset_short_term_model(struct bbr_model *m)
{
	m->bw_shortterm = BBR_UNSET_RATE;
	m->inflight_shortterm = BBR_UNSET;
}

/* PickProbeWait(): 2 to 3 s, and 62 or 63 rounds */
static void bbr_pick_probe_wait(struct bbr_model *m)
{
	m->rounds_since_probe_up = get_random_u32() & 1;
	m->bw_probe_wait_us = 2 * USEC_PER_SEC + (((u64)get_random_u32() * USEC_PER_SEC) >> 32);
}

static void bbr_raise_inflight_longterm_slope(const struct sock *sk, struct bbr_model *m)
{
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	m->probe_up_acked_per_inc = bbr_acked_per_increase(cwnd, m->bw_probe_up_rounds);
	m->bw_probe_up_rounds = min(m->bw_probe_up_rounds + 1, 30U);
}

static void bbr_start_probe_bw_down(struct sock *sk, struct bbr_model *m, const char *why)
{
	bbr_reset_congestion_signals(m);
	m->probe_up_acked_per_inc = BBR_UNSET;
	bbr_pick_probe_wait(m);
	m->cycle_stamp_us = bbr_now_us(sk);
	m->ack_phase = BBR_ACKS_PROBE_STOPPING;
	bbr_start_round(sk, m);
	bbr_set_state(sk, m, BBR_DOWN, why);
}

static void bbr_start_probe_bw_cruise(struct sock *sk, struct bbr_model *m, const char *why)
{
	bbr_set_state(sk, m, BBR_CRUISE, why);
}

static void bbr_start_probe_bw_refill(struct sock *sk, struct bbr_model *m, const char *why)
{
	bbr_reset_short_term_model(m);
	m->bw_probe_up_rounds = 0;
	m->bw_probe_up_acked = 0;
	m->prev_probe_precautionary = false;
	m->ack_phase = BBR_ACKS_REFILLING;
	bbr_start_round(sk, m);
	bbr_set_state(sk, m, BBR_REFILL, why);
}

static void bbr_start_probe_bw_up(struct sock *sk, struct bbr_model *m)
{
	m->ack_phase = BBR_ACKS_PROBE_STARTING;
	bbr_start_round(sk, m);
	bbr_reset_full_bw(m);
	m->full_bw = m->rs.delivery_rate;
	bbr_set_state(sk, m, BBR_UP, "refilled");
	bbr_raise_inflight_longterm_slope(sk, m);
}

/* TargetInflight() */
static u32 bbr_target_inflight(const struct sock *sk, const struct bbr_model *m)
{
	return min(bbr_bdp_multiple(sk, m, m->bw, 100), tcp_snd_cwnd(tcp_sk(sk)));
}

static u32 bbr_inflight_with_headroom(const struct bbr_model *m)
{
	if (m->inflight_longterm == BBR_UNSET)
		return BBR_UNSET;
	return bbr_with_headroom(m->inflight_longterm);
}

/* Section "Design Considerations for Choosing Constant Parameters" */
static bool bbr_is_time_to_probe_bw(struct sock *sk, struct bbr_model *m)
{
	if (bbr_now_us(sk) > m->cycle_stamp_us + m->bw_probe_wait_us) {
		bbr_start_probe_bw_refill(sk, m, "waited");
		return true;
	}
	if (m->rounds_since_probe_up >= min(bbr_target_inflight(sk, m), BBR_RENO_ROUNDS)) {
		bbr_start_probe_bw_refill(sk, m, "reno_rounds");
		return true;
	}
	return false;
}

static bool bbr_is_time_to_cruise(const struct sock *sk, const struct bbr_model *m)
{
	u32 inflight = tcp_packets_in_flight(tcp_sk(sk));

	return inflight <= bbr_inflight_with_headroom(m) &&
	       inflight <= bbr_inflight(sk, m, m->max_bw);
}

/* Why it is time to leave ProbeBW_UP; NULL if it is not. */
static const char *bbr_is_time_to_go_down(const struct sock *sk, struct bbr_model *m)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	/* After an ACK less than the window is in flight: whether C.inflight has
	 * reached a bound shows in what was before it.
	 */
	if (m->prev_probe_too_high && m->rs.prior_in_flight >= m->inflight_longterm) {
		m->prev_probe_precautionary = true;
		return "precaution";
	}
	if (tp->is_cwnd_limited && tcp_snd_cwnd(tp) >= m->inflight_longterm) {
		bbr_reset_full_bw(m);
		m->full_bw = m->rs.delivery_rate;
	} else if (m->full_bw_now) {
		return "full_bw";
	}
	return NULL;
}

static void bbr_probe_inflight_longterm_upward(const struct sock *sk, struct bbr_model *m)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 delta;

	if (!tp->is_cwnd_limited || tcp_snd_cwnd(tp) < m->inflight_longterm)
		return;
	m->bw_probe_up_acked += m->rs.newly_acked;
	if (m->bw_probe_up_acked >= m->probe_up_acked_per_inc) {
		delta = m->bw_probe_up_acked / m->probe_up_acked_per_inc;
		m->bw_probe_up_acked -= delta * m->probe_up_acked_per_inc;
		m->inflight_longterm = min(m->inflight_longterm + delta, BBR_VOLUME_MAX);
	}
	if (m->round_start)
		bbr_raise_inflight_longterm_slope(sk, m);
}

/* IsInflightTooHigh() */
static bool bbr_is_inflight_too_high(const struct sock *sk, const struct bbr_sample *rs)
{
	return bbr_too_high(rs->lost, rs->tx_in_flight) ||
	       (rs->lost && !tcp_is_sack(tcp_sk(sk)));
}

static void bbr_advance_max_bw_filter(struct bbr_model *m)
{
	m->max_bw_filter[0] = m->max_bw_filter[1];
	m->max_bw_filter[1] = 0;
}

static bool bbr_adapt_long_term_model(struct sock *sk, struct bbr_model *m)
{
	if (m->ack_phase == BBR_ACKS_PROBE_STARTING && m->round_start)
		m->ack_phase = BBR_ACKS_PROBE_FEEDBACK;
	if (m->ack_phase == BBR_ACKS_PROBE_STOPPING && m->round_start) {
		m->is_bw_probe_sample = false;
		m->ack_phase = BBR_ACKS_INIT;
		if (bbr_is_in_a_probe_bw_state(m) && !m->rs.is_app_limited)
			bbr_advance_max_bw_filter(m);
		if (bbr_is_in_a_probe_bw_state(m) && m->prev_probe_precautionary &&
		    !m->prev_probe_too_high) {
			bbr_start_probe_bw_refill(sk, m, "no_loss");
			return true;
		}
	}
	if (bbr_is_inflight_too_high(sk, &m->rs) || m->inflight_longterm == BBR_UNSET)
		return false;
	m->inflight_longterm = max(m->inflight_longterm, m->rs.tx_in_flight);
	if (m->state == BBR_UP)
		bbr_probe_inflight_longterm_upward(sk, m);
	return false;
}

static void bbr_update_probe_bw_cycle_phase(struct sock *sk, struct bbr_model *m)
{
	const char *why;

	/* "on each ACK that acknowledges new data" */
	if (!m->rs.is_valid || !m->full_bw_reached)
		return;
	if (bbr_adapt_long_term_model(sk, m))
		return;

	switch (m->state) {
	case BBR_DOWN:
		if (bbr_is_time_to_probe_bw(sk, m))
			return;
		if (bbr_is_time_to_cruise(sk, m))
			bbr_start_probe_bw_cruise(sk, m, "drained");
		break;
	case BBR_CRUISE:
		bbr_is_time_to_probe_bw(sk, m);
		break;
	case BBR_REFILL:
		if (m->round_start) {
			m->is_bw_probe_sample = true;
			bbr_start_probe_bw_up(sk, m);
		}
		break;
	case BBR_UP:
		why = bbr_is_time_to_go_down(sk, m);
		if (why) {
			m->prev_probe_too_high = false;
			bbr_start_probe_bw_down(sk, m, why);
		}
		break;
	}
}

/* ---- Section "Probing for Bandwidth In ProbeBW" ---- */

static void bbr_handle_inflight_too_high(struct sock *sk, struct bbr_model *m,
					 const struct bbr_sample *rs)
{
	m->prev_probe_too_high = true;
	m->is_bw_probe_sample = false;
	if (!rs->is_app_limited)
		m->inflight_longterm = max_t(u32, rs->tx_in_flight,
					     bbr_share(bbr_target_inflight(sk, m), BBR_BETA));
	if (m->state == BBR_UP) {
		m->undo_state = BBR_UP;
		bbr_start_probe_bw_down(sk, m, "high_loss");
	}
}

/* NoteLoss() */
static void bbr_note_congestion(const struct sock *sk, struct bbr_model *m)
{
	if (!m->is_loss_in_round) {
		m->loss_acks_in_round = 0;	/* an undo has left those before it */
		m->is_ce_in_round = false;
		m->loss_round_delivered = tcp_sk(sk)->delivered;
		bbr_save_state_upon_loss(sk, m);
	}
	m->is_loss_in_round = true;
}

/* NoteLoss() for all packets that have been marked since the last call: as lost by
 * the kernel, or with CE by the network (section "ECN": congestion, too)
 */
static void bbr_note_losses(const struct sock *sk, struct bbr_model *m)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 lost = tp->lost - m->lost_seen, ce = tp->delivered_ce - m->ce_seen;

	m->ce_seen = tp->delivered_ce;
	/* RFC 3168: once a window. A recovery is an answer, and ECE goes on in it. */
	if (bbr_in_loss_recovery(sk))
		ce = 0;
	if (!lost && !ce)
		return;
	bbr_note_congestion(sk, m);
	m->loss_acks_in_round = min(m->loss_acks_in_round + 1, 255);
	m->is_ce_in_round |= ce > 0;
	m->lost_unhandled += lost + ce;
	m->lost_seen = tp->lost;
	if (lost)
		bbr_losses_note(&m->history, bbr_now_us(sk), tp->delivered, tp->lost,
				m->rs.tx_in_flight / 32);
}

/* HandleLostPacket() */
static void bbr_handle_lost_packets(struct sock *sk, struct bbr_model *m)
{
	struct bbr_sample rs = m->rs;
	u32 lost = m->lost_unhandled;

	m->lost_unhandled = 0;
	if (!lost || !m->is_bw_probe_sample || !bbr_is_inflight_too_high(sk, &rs))
		return;
	/* the packet with which losses crossed the threshold */
	rs.tx_in_flight = bbr_inflight_at_loss(rs.tx_in_flight,
					       min(rs.lost, bbr_first_too_many(rs.tx_in_flight)));
	bbr_handle_inflight_too_high(sk, m, &rs);
}

/* ---- Section "When not Probing for Bandwidth" ---- */

static void bbr_update_latest_delivery_signals(const struct sock *sk, struct bbr_model *m)
{
	m->loss_round_start = false;
	m->bw_latest = max(m->bw_latest, m->rs.delivery_rate);
	m->inflight_latest = max(m->inflight_latest, m->rs.delivered);
	if (m->rs.is_valid && !before(m->rs.prior_delivered, m->loss_round_delivered)) {
		m->loss_round_delivered = tcp_sk(sk)->delivered;
		m->loss_round_start = true;
	}
}

static void bbr_advance_latest_delivery_signals(struct bbr_model *m)
{
	if (!m->loss_round_start)
		return;
	m->bw_latest = m->rs.delivery_rate;
	m->inflight_latest = m->rs.delivered;
	m->loss_acks_in_round = 0;
	m->is_ce_in_round = false;
}

static bool bbr_is_probing_bw(const struct bbr_model *m)
{
	return m->state == BBR_STARTUP || m->state == BBR_REFILL || m->state == BBR_UP;
}

static void bbr_adapt_lower_bounds_from_congestion(const struct sock *sk, struct bbr_model *m)
{
	u64 inflight;

	if (bbr_is_probing_bw(m) || !m->is_loss_in_round)
		return;
	/* InitLowerBounds() */
	if (m->bw_shortterm == BBR_UNSET_RATE)
		m->bw_shortterm = m->max_bw;
	if (m->inflight_shortterm == BBR_UNSET)
		m->inflight_shortterm = tcp_snd_cwnd(tcp_sk(sk));
	/* LossLowerBounds() */
	inflight = bbr_share(m->inflight_shortterm, BBR_BETA);
	m->bw_shortterm = max(m->bw_latest, bbr_share(m->bw_shortterm, BBR_BETA));
	m->inflight_shortterm = max_t(u32, m->inflight_latest, inflight);
}

/* Section "Updating the BBR.max_bw Max Filter" */
static void bbr_update_max_bw(const struct sock *sk, struct bbr_model *m)
{
	const struct bbr_sample *rs = &m->rs;

	bbr_update_round(sk, m);
	if (rs->delivery_rate && (rs->delivery_rate >= m->max_bw || !rs->is_app_limited)) {
		m->max_bw_filter[1] = max(m->max_bw_filter[1], rs->delivery_rate);
		m->max_bw = max(m->max_bw_filter[0], m->max_bw_filter[1]);
	}
}

/* True at the end of a round trip that had a loss. */
static bool bbr_update_congestion_signals(const struct sock *sk, struct bbr_model *m)
{
	bool had_loss;

	bbr_update_max_bw(sk, m);
	if (!m->loss_round_start)
		return false;
	bbr_adapt_lower_bounds_from_congestion(sk, m);
	had_loss = m->is_loss_in_round;
	m->is_loss_in_round = false;
	return had_loss;
}

/* ---- Section "BBR.extra_acked" ---- */

static void bbr_update_ack_aggregation(const struct sock *sk, struct bbr_model *m)
{
	u64 interval_us = bbr_now_us(sk) - m->extra_acked_interval_start_us;
	u32 expected = bbr_whole_packets(m->bw, interval_us, bbr_mss(sk));
	u32 window = m->full_bw_reached ? BBR_EXTRA_ACKED_ROUNDS : 1;
	u32 extra;

	if (m->extra_acked_delivered <= expected) {
		m->extra_acked_delivered = 0;
		m->extra_acked_interval_start_us = bbr_now_us(sk);
		expected = 0;
	}
	m->extra_acked_delivered = min(m->extra_acked_delivered + m->rs.newly_acked,
				       BBR_VOLUME_MAX);
	extra = min(m->extra_acked_delivered - expected, tcp_snd_cwnd(tcp_sk(sk)));
	m->extra_acked = minmax_running_max(&m->extra_acked_filter, window, m->round_count, extra);
}

/* ---- Section "Exiting Startup Based on Packet Loss" ---- */

/* CheckStartupHighLoss(): had_loss: in the round trip that ends with this ACK */
static bool bbr_is_startup_loss_high(const struct sock *sk, const struct bbr_model *m,
				     bool had_loss)
{
	bool in_fast_recovery = inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery;

	if (!tcp_is_sack(tcp_sk(sk)))
		return in_fast_recovery && (had_loss || m->is_loss_in_round);
	/* The round trip that ends began with the first loss of a recovery. CE starts
	 * none, and what it starts is over with this ACK.
	 */
	return had_loss && (in_fast_recovery || m->is_ce_in_round) &&
	       m->loss_acks_in_round >= BBR_STARTUP_LOSSES && bbr_is_inflight_too_high(sk, &m->rs);
}

static void bbr_check_startup_done(struct sock *sk, struct bbr_model *m, bool had_loss)
{
	const char *why = "full_bw";

	if (m->state != BBR_STARTUP)
		return;
	if (!m->full_bw_reached && bbr_is_startup_loss_high(sk, m, had_loss)) {
		m->undo_state = BBR_STARTUP;
		m->full_bw_reached = true;
		m->inflight_longterm = max(bbr_bdp_multiple(sk, m, m->bw, 100), m->inflight_latest);
		why = "high_loss";
	}
	if (m->full_bw_reached)
		bbr_enter_drain(sk, m, why);
}

/* ---- Section "Drain" ---- */

static void bbr_check_drain_done(struct sock *sk, struct bbr_model *m)
{
	const char *why;

	if (m->state != BBR_DRAIN)
		return;
	if (tcp_packets_in_flight(tcp_sk(sk)) <= bbr_inflight(sk, m, m->bw))
		why = "drained";
	else if (m->round_count > m->drain_start_round + BBR_DRAIN_ROUNDS)
		why = "rounds";
	else
		return;
	bbr_start_probe_bw_down(sk, m, why);	/* EnterProbeBW() */
}

/* ---- Section "ProbeRTT Logic" ---- */

static void bbr_update_min_rtt(const struct sock *sk, struct bbr_model *m)
{
	s64 rtt_us = m->rs.rtt_us;

	m->min_rtt_expired = bbr_now_us(sk) > m->min_rtt_stamp_us + BBR_MIN_RTT_FILTER_US;
	/* SaveProbeRTTCwnd() */
	if (m->min_rtt_expired && m->state != BBR_PROBE_RTT)
		m->probe_rtt_cwnd = max(bbr_bdp_multiple(sk, m, m->bw,
							 bbr_gains[BBR_PROBE_RTT].cwnd),
					BBR_MIN_PIPE_CWND);
	if (rtt_us >= 0 && (rtt_us < m->min_rtt_us || m->min_rtt_expired)) {
		/* Linux' clock may say 0 us; a rate times 0 is no volume */
		m->min_rtt_us = clamp_t(s64, rtt_us, 1, BBR_TIME_MAX);
		m->min_rtt_stamp_us = bbr_now_us(sk);
	}
}

static void bbr_exit_probe_rtt(struct sock *sk, struct bbr_model *m)
{
	bbr_reset_short_term_model(m);
	if (m->full_bw_reached) {
		bbr_start_probe_bw_down(sk, m, "rtt_probed");
		bbr_start_probe_bw_cruise(sk, m, "rtt_probed");
	} else {
		bbr_enter_startup(sk, m, "rtt_probed");
	}
}

static void bbr_check_probe_rtt_done(struct sock *sk, struct bbr_model *m)
{
	if (!m->probe_rtt_done_stamp_us || bbr_now_us(sk) <= m->probe_rtt_done_stamp_us)
		return;
	m->min_rtt_stamp_us = bbr_now_us(sk);
	bbr_restore_cwnd(sk, m);
	bbr_exit_probe_rtt(sk, m);
}

static void bbr_handle_probe_rtt(struct sock *sk, struct bbr_model *m)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 inflight = tcp_packets_in_flight(tp);

	/* MarkConnectionAppLimited() */
	tp->app_limited = (tp->delivered + inflight) ? : 1;

	if (!m->probe_rtt_done_stamp_us) {
		if (inflight > m->probe_rtt_cwnd)
			return;
		m->probe_rtt_done_stamp_us = bbr_now_us(sk) + BBR_PROBE_RTT_US;
		m->probe_rtt_round_done = false;
		bbr_start_round(sk, m);
		return;
	}
	if (m->round_start)
		m->probe_rtt_round_done = true;
	if (m->probe_rtt_round_done)
		bbr_check_probe_rtt_done(sk, m);
}

static void bbr_check_probe_rtt(struct sock *sk, struct bbr_model *m)
{
	if (m->state != BBR_PROBE_RTT && m->min_rtt_expired && !m->idle_restart) {
		/* before the state is ProbeRTT: SaveCwnd() of a window in use */
		bbr_save_cwnd(sk, m, tcp_snd_cwnd(tcp_sk(sk)));
		m->probe_rtt_done_stamp_us = 0;
		m->ack_phase = BBR_ACKS_PROBE_STOPPING;
		bbr_start_round(sk, m);
		bbr_set_state(sk, m, BBR_PROBE_RTT, "min_rtt_expired");
	}
	if (m->state == BBR_PROBE_RTT)
		bbr_handle_probe_rtt(sk, m);
	if (m->rs.delivered > 0)
		m->idle_restart = false;
}

/* ---- Section "Restarting From Idle" ---- */

static void bbr_handle_restart_from_idle(struct sock *sk, struct bbr_model *m)
{
	if (!tcp_sk(sk)->app_limited)
		return;
	m->idle_restart = true;
	m->extra_acked_interval_start_us = bbr_now_us(sk);
	bbr_trace(sk, m, "idle_restart");
	if (bbr_is_in_a_probe_bw_state(m))
		bbr_set_pacing_rate_with_gain(sk, m, 100);
	else if (m->state == BBR_PROBE_RTT)
		bbr_check_probe_rtt_done(sk, m);
}

/* ---- Sections "cwnd Adjustment Mechanism", "Bounding cwnd Based on Recent Congestion" ---- */

static u32 bbr_bound_cwnd_for_model(const struct bbr_model *m, u32 cwnd)
{
	u32 cap = BBR_UNSET;

	if (m->state == BBR_PROBE_RTT || m->state == BBR_CRUISE)
		cap = bbr_inflight_with_headroom(m);
	else if (bbr_is_in_a_probe_bw_state(m))
		cap = m->inflight_longterm;
	cap = min(cap, m->inflight_shortterm);
	return min(cwnd, max(cap, BBR_MIN_PIPE_CWND));
}

static void bbr_set_cwnd(struct sock *sk, struct bbr_model *m)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp);

	bbr_update_max_inflight(sk, m);
	if (m->full_bw_reached)
		cwnd = min(cwnd + m->rs.newly_acked, m->max_inflight);
	else if (cwnd < m->max_inflight || tp->delivered < m->initial_cwnd)
		cwnd += m->rs.newly_acked;
	cwnd = max(cwnd, BBR_MIN_PIPE_CWND);
	if (m->state == BBR_PROBE_RTT)
		cwnd = min(cwnd, m->probe_rtt_cwnd);
	cwnd = bbr_bound_cwnd_for_model(m, cwnd);
	bbr_set_window(sk, m, cwnd);
}

/* ---- Section "Per-ACK Steps" ---- */

/* GenerateRateSample(): from what tcp_rate_gen() found. What an ACK of no packet
 * leaves as it was is that of the newest packet before: losses that a timer
 * found belong to it.
 */
static void bbr_generate_rate_sample(const struct sock *sk, struct bbr_model *m,
				     const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_sample *s = &m->rs;

	s->is_valid = rs->prior_mstamp && rs->delivered > 0;
	s->delivered = s->is_valid ? rs->delivered : 0;
	s->newly_acked = rs->acked_sacked;
	s->prior_in_flight = rs->prior_in_flight;
	s->rtt_us = rs->rtt_us;
	s->delivery_rate = 0;
	if (s->is_valid) {
		s->prior_delivered = rs->prior_delivered;
		s->send_time_us = tp->first_tx_mstamp;	/* of the same packet */
		s->is_app_limited = rs->is_app_limited;
		if (rs->interval_us > 0)
			s->delivery_rate = bbr_rate(rs->delivered, bbr_mss(sk), rs->interval_us);
	}
	s->lost = tp->lost - bbr_losses_at(&m->history, s->prior_delivered, s->send_time_us);
	if (s->is_valid) {
		s->tx_in_flight = s->delivered + s->lost;
		s->lost += max(rs->delivered_ce, 0);
	}
}

static void bbr_update_model_and_state(struct sock *sk, struct bbr_model *m)
{
	bool had_loss;

	bbr_update_latest_delivery_signals(sk, m);
	had_loss = bbr_update_congestion_signals(sk, m);
	bbr_update_ack_aggregation(sk, m);
	bbr_check_full_bw_reached(sk, m);
	bbr_check_startup_done(sk, m, had_loss);
	bbr_check_drain_done(sk, m);
	bbr_update_probe_bw_cycle_phase(sk, m);
	bbr_update_min_rtt(sk, m);
	bbr_check_probe_rtt(sk, m);
	bbr_advance_latest_delivery_signals(m);
	m->bw = min(m->max_bw, m->bw_shortterm);	/* BoundBWForModel() */
}

static void bbr_update_on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr_model *m = bbr_of(sk);

	if (!m)
		return;
	bbr_note_losses(sk, m);
	bbr_generate_rate_sample(sk, m, rs);
	bbr_handle_lost_packets(sk, m);
	if (!m->has_srtt && tcp_sk(sk)->srtt_us)
		bbr_init_pacing_rate(sk, m);
	bbr_update_model_and_state(sk, m);
	bbr_set_pacing_rate_with_gain(sk, m, bbr_gains[m->state].pacing);
	bbr_set_cwnd(sk, m);

	if (m->round_start || m->state_changed ||
	    m->bw_shortterm != m->traced_bw_shortterm ||
	    m->inflight_longterm != m->traced_longterm ||
	    m->inflight_shortterm != m->traced_shortterm)
		bbr_trace(sk, m, m->round_start ? "round" : "bound");
	m->state_changed = false;
}

/* ---- What the kernel calls ---- */

static void __maybe_unused bbr_cong_control(struct sock *sk, u32 ack, int flag,
					    const struct rate_sample *rs)
{
	bbr_update_on_ack(sk, rs);
}

/* The kernel's type tells which it wants: Linux 6.10 added two arguments. */
typedef void (*bbr_cong_control_until_6_9)(struct sock *, const struct rate_sample *);

#define BBR_CONG_CONTROL \
	__builtin_choose_expr(__builtin_types_compatible_p( \
		typeof_member(struct tcp_congestion_ops, cong_control), \
		bbr_cong_control_until_6_9), bbr_update_on_ack, bbr_cong_control)

/* OnEnterRTO() and OnEnterFastRecovery(): the kernel asks for ssthresh before it
 * changes the window (after a timeout to C.inflight + 1, as the draft wants).
 */
static u32 bbr_ssthresh(struct sock *sk)
{
	struct bbr_model *m = bbr_of(sk);

	if (m) {
		bbr_note_losses(sk, m);
		bbr_save_state_upon_loss(sk, m);
	}
	return tcp_sk(sk)->snd_ssthresh;
}

static void bbr_ca_state(struct sock *sk, u8 new_state)
{
	struct bbr_model *m = bbr_of(sk);

	if (!m)
		return;
	/* losses that a timer finds within a recovery: ssthresh() has noted the others */
	bbr_note_losses(sk, m);
	/* a loss that a probe has repaired: the kernel does not mark it */
	if (new_state == TCP_CA_CWR)
		bbr_note_congestion(sk, m);
	/* After a timeout in CWR or in a recovery the kernel has not asked for ssthresh,
	 * but has cut the window: SaveCwnd() of what it was.
	 */
	if (new_state == TCP_CA_Loss)
		bbr_save_cwnd(sk, m, m->cwnd);
	if (bbr_in_loss_recovery(sk) && new_state < TCP_CA_Recovery)
		bbr_restore_cwnd(sk, m);
}

/* Section "Handling a Spurious Loss Recovery": HandleSpuriousLossDetection() */
static u32 bbr_undo_cwnd(struct sock *sk)
{
	struct bbr_model *m = bbr_of(sk);

	if (!m)
		return tcp_snd_cwnd(tcp_sk(sk));
	bbr_restore_cwnd(sk, m);
	m->is_loss_in_round = false;
	bbr_reset_full_bw(m);
	m->bw_shortterm = max(m->bw_shortterm, m->undo_bw_shortterm);
	m->inflight_shortterm = max(m->inflight_shortterm, m->undo_inflight_shortterm);
	m->inflight_longterm = max(m->inflight_longterm, m->undo_inflight_longterm);
	bbr_trace(sk, m, "undo");
	if (m->undo_state == BBR_STARTUP && m->state != BBR_STARTUP) {
		m->full_bw_reached = false;
		if (m->state != BBR_PROBE_RTT)
			bbr_enter_startup(sk, m, "undo");
	} else if (m->undo_state == BBR_UP && m->state != BBR_UP) {
		if (m->state != BBR_PROBE_RTT)
			bbr_start_probe_bw_refill(sk, m, "undo");
	}
	m->undo_state = BBR_NONE;
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* OnTransmit(), if nothing is in flight */
static void bbr_tx_start(struct sock *sk)
{
	struct bbr_model *m = bbr_of(sk);

	if (m)
		bbr_handle_restart_from_idle(sk, m);
}

static void __maybe_unused bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		bbr_tx_start(sk);
}

/* Section "Send Quantum": two packets at least */
static u32 bbr_min_tso_segs(struct sock *sk)
{
	return 2;
}

/* room for what is in flight, for as much that waits, and for what comes in the
 * round trip before the buffer can grow again
 */
static u32 bbr_sndbuf_expand(struct sock *sk)
{
	return 3;
}

/* Without memory for the model a connection is one of Reno. */
static struct tcp_congestion_ops bbr_ietf_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "bbr_ietf_reno",
};

/* Section "Initialization": OnInit() */
static void bbr_init(struct sock *sk)
{
	struct bbr_private *private = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	/* the time stamp of a connection that has been idle is old */
	u64 now_us = div_u64(tcp_clock_ns(), NSEC_PER_USEC);
	struct bbr_model *m;

	BUILD_BUG_ON(sizeof(*private) > ICSK_CA_PRIV_SIZE);
	m = kzalloc(sizeof(*m), GFP_ATOMIC | __GFP_NOWARN);
	private->model = m;
	if (!m) {
		inet_csk(sk)->icsk_ca_ops = &bbr_ietf_reno;
		return;
	}

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	m->initial_cwnd = tcp_snd_cwnd(tp);
	m->min_rtt_us = tp->srtt_us ? clamp_t(u32, tp->srtt_us >> 3, 1, BBR_TIME_MAX) : BBR_UNSET;
	m->min_rtt_stamp_us = now_us;
	m->probe_rtt_cwnd = m->initial_cwnd;
	m->undo_state = BBR_NONE;
	m->extra_acked_interval_start_us = now_us;
	m->inflight_longterm = BBR_UNSET;
	m->probe_up_acked_per_inc = BBR_UNSET;
	m->ack_phase = BBR_ACKS_INIT;
	m->lost_seen = tp->lost;	/* a SYN, or what another congestion control has lost */
	m->ce_seen = tp->delivered_ce;
	m->history.lost_before = tp->lost;
	m->cwnd = m->initial_cwnd;
	m->next_round_delivered = tp->delivered;	/* 0 in a new connection */
	m->loss_round_delivered = tp->delivered;
	bbr_reset_congestion_signals(m);
	bbr_reset_short_term_model(m);
	bbr_reset_full_bw(m);
	bbr_init_pacing_rate(sk, m);
	bbr_enter_startup(sk, m, "init");

	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void bbr_release(struct sock *sk)
{
	struct bbr_private *private = inet_csk_ca(sk);

	kfree(private->model);
	private->model = NULL;
}

/* ss -i prints bbr:(bw:..,mrtt:..,pacing_gain:..,cwnd_gain:..), as of the kernel's BBR */
static size_t bbr_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct bbr_model *m = bbr_of(sk);
	struct tcp_bbr_info *bbr = &info->bbr;

	/* asked for as INET_DIAG_VEGASINFO */
	if (!m || !(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(bbr, 0, sizeof(*bbr));
	bbr->bbr_bw_lo = lower_32_bits(m->bw);
	bbr->bbr_bw_hi = upper_32_bits(m->bw);
	bbr->bbr_min_rtt = m->min_rtt_us == BBR_UNSET ? 0 : m->min_rtt_us;
	bbr->bbr_pacing_gain = bbr_gains[m->state].pacing * 256 / 100;
	bbr->bbr_cwnd_gain = bbr_gains[m->state].cwnd * 256 / 100;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(*bbr);
}

static struct tcp_congestion_ops tcp_bbr_ietf __read_mostly = {
	.init		= bbr_init,
	.release	= bbr_release,
	.cong_control	= BBR_CONG_CONTROL,
	.ssthresh	= bbr_ssthresh,
	.set_state	= bbr_ca_state,
	.undo_cwnd	= bbr_undo_cwnd,
#ifdef BBR_HAS_TX_START
	.cwnd_event_tx_start = bbr_tx_start,
#else
	.cwnd_event	= bbr_cwnd_event,
#endif
	.min_tso_segs	= bbr_min_tso_segs,
	.sndbuf_expand	= bbr_sndbuf_expand,
	.get_info	= bbr_get_info,
	.owner		= THIS_MODULE,
	.name		= "bbr_ietf",
};

static int __init bbr_register(void)
{
	return tcp_register_congestion_control(&tcp_bbr_ietf);
}

static void __exit bbr_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_bbr_ietf);
}

module_init(bbr_register);
module_exit(bbr_unregister);

MODULE_DESCRIPTION("BBR of the IETF (draft-ietf-ccwg-bbr)");
MODULE_LICENSE("GPL");

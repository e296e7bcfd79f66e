/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The model of a BBR as a trace event, bbr:bbr_model: when a round trip starts
 * and when the state or a bound changes. Other BBR modules may emit the same;
 * docs/reference/bbr-ietf.md describes the fields.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM bbr

#if !defined(_BBR_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _BBR_TRACE_H

#include <linux/tracepoint.h>
#include <net/tcp.h>

TRACE_EVENT(bbr_model,
	    TP_PROTO(const struct sock *sk, const struct bbr_model *m, const char *why),

	TP_ARGS(sk, m, why),

	TP_STRUCT__entry(__field(u16, sport)
		__field(u16, dport)
		__array(char, state, 16)
		__field(u8, full_bw_now)
		__field(u8, full_bw_reached)
		__field(u8, full_bw_count)
		__field(u8, idle_restart)
		__field(u8, app_limited)
		__field(u8, ca_state)
		__array(char, undo_state, 16)
		__array(char, why, 16)
		__field(u32, round)
		__field(u64, max_bw)
		__field(s64, bw_shortterm)
		__field(u64, bw)
		__field(u64, rate)
		__field(u32, min_rtt_us)
		__field(s64, inflight_longterm)
		__field(s64, inflight_shortterm)
		__field(u32, extra_acked)
		__field(u32, probe_rtt_cwnd)
		__field(u32, pacing_gain)
		__field(u32, cwnd_gain)
		__field(u64, pacing_rate)
		__field(u32, cwnd)
		__field(u32, inflight)
		__field(u32, bdp)
		__field(u32, max_inflight)
		__field(u32, up_rounds)
		__field(u32, lost)
		__field(u32, delivered)
	),

	TP_fast_assign(__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		strscpy(__entry->state, bbr_state_names[m->state], sizeof(__entry->state));
		__entry->full_bw_now = m->full_bw_now;
		__entry->full_bw_reached = m->full_bw_reached;
		__entry->full_bw_count = m->full_bw_count;
		__entry->idle_restart = m->idle_restart;
		__entry->app_limited = m->rs.is_app_limited;
		__entry->ca_state = inet_csk(sk)->icsk_ca_state;
		strscpy(__entry->undo_state, bbr_state_names[m->undo_state],
			sizeof(__entry->undo_state));
		strscpy(__entry->why, why, sizeof(__entry->why));
		__entry->round = m->round_count;
		__entry->max_bw = m->max_bw;
		__entry->bw_shortterm = (s64)m->bw_shortterm;	/* Infinity is -1 */
		__entry->bw = m->bw;
		__entry->rate = m->rs.delivery_rate;
		__entry->min_rtt_us = m->min_rtt_us;
		__entry->inflight_longterm = bbr_finite(m->inflight_longterm);
		__entry->inflight_shortterm = bbr_finite(m->inflight_shortterm);
		__entry->extra_acked = m->extra_acked;
		__entry->probe_rtt_cwnd = m->probe_rtt_cwnd;
		__entry->pacing_gain = bbr_gains[m->state].pacing;
		__entry->cwnd_gain = bbr_gains[m->state].cwnd;
		__entry->pacing_rate = READ_ONCE(sk->sk_pacing_rate);
		__entry->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		__entry->inflight = tcp_packets_in_flight(tcp_sk(sk));
		__entry->bdp = bbr_inflight(sk, m, m->bw);
		__entry->max_inflight = m->max_inflight;
		__entry->up_rounds = m->bw_probe_up_rounds;
		__entry->lost = tcp_sk(sk)->lost;
		__entry->delivered = tcp_sk(sk)->delivered;
	),

	TP_printk("sport=%u dport=%u state=%s why=%s round=%u full_bw_now=%u full_bw_reached=%u full_bw_count=%u idle_restart=%u app_limited=%u ca_state=%u undo_state=%s max_bw=%llu bw_shortterm=%lld bw=%llu rate=%llu min_rtt_us=%u inflight_longterm=%lld inflight_shortterm=%lld extra_acked=%u probe_rtt_cwnd=%u pacing_gain=%u cwnd_gain=%u pacing_rate=%llu cwnd=%u inflight=%u bdp=%u max_inflight=%u up_rounds=%u lost=%u delivered=%u",
		  __entry->sport, __entry->dport,
		  __entry->state, __entry->why,
		  __entry->round, __entry->full_bw_now, __entry->full_bw_reached,
		  __entry->full_bw_count, __entry->idle_restart,
		  __entry->app_limited, __entry->ca_state,
		  __entry->undo_state,
		  __entry->max_bw, __entry->bw_shortterm, __entry->bw,
		  __entry->rate, __entry->min_rtt_us,
		  __entry->inflight_longterm, __entry->inflight_shortterm,
		  __entry->extra_acked, __entry->probe_rtt_cwnd,
		  __entry->pacing_gain, __entry->cwnd_gain,
		  __entry->pacing_rate, __entry->cwnd, __entry->inflight,
		  __entry->bdp, __entry->max_inflight, __entry->up_rounds,
		  __entry->lost, __entry->delivered)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE bbr_trace
#include <trace/define_trace.h>

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of the IETF's BBR, for the kernel and, to be tested, for userspace.
 *
 * Units, and why there is no overflow in 64 bits:
 *
 *	rate		bytes per second	< 2^38	(2.2 Tbit/s)
 *	time		microseconds		< 2^24	(16.8 s; longer ones are cut)
 *	volume		packets of mss bytes	< 2^24
 *	mss		bytes			48 (TCP_MIN_SND_MSS) .. 2^16 - 1
 *	gain, share	per cent		< 2^9
 *
 * The draft counts volumes in bytes; Linux counts its window and what is in
 * flight in packets. Every gain and share of the draft (2.77, 0.5, 0.9, 1.25,
 * 2.25, 0.7, 2 %, 15 %, 1 %) is a whole number of per cent: nothing is rounded
 * before a product is divided. Each function says how it rounds.
 */
#ifndef _BBR_MATH_H
#define _BBR_MATH_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <linux/types.h>
#include <stdbool.h>

typedef __s32 s32;
typedef __u32 u32;
typedef __u64 u64;

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}
#endif

#define BBR_RATE_MAX	(((u64)1 << 38) - 1)
#define BBR_TIME_MAX	((1U << 24) - 1)
#define BBR_VOLUME_MAX	((1U << 24) - 1)
#define BBR_US_PER_S	1000000U

/* constants of section 2, in per cent where they are gains or shares */
#define BBR_LOSS_THRESH		2	/* LossThresh */
#define BBR_BETA		70	/* Beta */
#define BBR_HEADROOM		15	/* Headroom */
#define BBR_PACING_MARGIN	1	/* PacingMarginPercent */
#define BBR_MIN_PIPE_CWND	4U	/* MinPipeCwnd, packets */

static inline u64 bbr_div_up(u64 dividend, u64 divisor)
{
	return div64_u64(dividend + divisor - 1, divisor);
}

/*
 * Delivery rate of `packets` in interval_us (not 0):
 *
 *	packets * mss * 10^6 / interval	< 2^24 * 2^16 * 2^20 = 2^60
 *
 * rounded down.
 */
static inline u64 bbr_rate(u32 packets, u32 mss, u64 interval_us)
{
	u64 rate;

	if (packets > BBR_VOLUME_MAX)
		packets = BBR_VOLUME_MAX;
	rate = div64_u64((u64)packets * mss * BBR_US_PER_S, interval_us);
	return rate < BBR_RATE_MAX ? rate : BBR_RATE_MAX;
}

/*
 * Packets that a rate delivers in a time, times a gain:
 *
 *	rate * time / 10^6		< 2^38 * 2^24 = 2^62 before the division,
 *					  2^43 after it
 *	times gain, over 100 and mss	< 2^43 * 2^9 = 2^52
 *
 * Both divisions round up: at most one packet more than the exact value, and
 * never none.
 */
static inline u32 bbr_volume(u64 rate, u32 time_us, u32 gain, u32 mss)
{
	u64 bytes, packets;

	if (time_us > BBR_TIME_MAX)
		time_us = BBR_TIME_MAX;
	bytes = bbr_div_up(rate * time_us, BBR_US_PER_S);
	packets = bbr_div_up(bytes * gain, (u64)100 * mss);
	return packets < BBR_VOLUME_MAX ? packets : BBR_VOLUME_MAX;
}

/* Whole packets that a rate delivers in a time, rounded down. */
static inline u32 bbr_whole_packets(u64 rate, u64 time_us, u32 mss)
{
	u64 packets;

	if (time_us > BBR_TIME_MAX)
		time_us = BBR_TIME_MAX;
	packets = div64_u64(rate * time_us, (u64)BBR_US_PER_S * mss);
	return packets < BBR_VOLUME_MAX ? packets : BBR_VOLUME_MAX;
}

/* A share of a rate or volume, in per cent, rounded down. */
static inline u64 bbr_share(u64 whole, u32 percent)
{
	return div64_u64(whole * percent, 100);
}

/*
 * Pacing rate, section "Pacing Rate": gain * bw * (100 - margin) / 100
 *
 *	2^38 * 2^9 * 2^7 = 2^54		rounded down
 */
static inline u64 bbr_pacing_rate(u64 bw, u32 gain)
{
	return div64_u64(bw * gain * (100 - BBR_PACING_MARGIN), 100 * 100);
}

/*
 * Section "Send Quantum", in bytes:
 *
 *	max(min(pacing rate * 1 ms, 64 KBytes), 2 mss)
 */
static inline u32 bbr_send_quantum(u64 pacing_rate, u32 mss)
{
	u64 quantum = div64_u64(pacing_rate, 1000);

	if (quantum > 65536)
		quantum = 65536;
	return quantum > 2 * mss ? quantum : 2 * mss;
}

/* Section "TCP Offload Budget": three quanta, in packets, rounded up. */
static inline u32 bbr_offload_budget(u64 pacing_rate, u32 mss)
{
	return bbr_div_up((u64)3 * bbr_send_quantum(pacing_rate, mss), mss);
}

/* IsInflightTooHigh(): lost > tx_in_flight * LossThresh, exactly. */
static inline bool bbr_too_high(u32 lost, u32 tx_in_flight)
{
	return (u64)lost * 100 > (u64)tx_in_flight * BBR_LOSS_THRESH;
}

/*
 * InflightAtLoss() for a packet of which Linux has one: size = 1.
 *
 *	inflight_prev = tx_in_flight - 1, lost_prev = lost - 1
 *	lost_prefix   = (thresh * inflight_prev - lost_prev) / (1 - thresh)
 *	inflight      = inflight_prev + lost_prefix
 *
 * `lost` counts up to the packet with which the losses first exceed the
 * threshold, so that lost_prev <= thresh * tx_in_flight. lost_prefix may then
 * still be below 0, by less than 0.03 packets: 0 stands for it. Rounded down.
 */
static inline u32 bbr_inflight_at_loss(u32 tx_in_flight, u32 lost)
{
	u64 allowed, prev;

	if (!tx_in_flight)
		return 0;
	prev = (u64)(lost ? lost - 1 : 0) * 100;
	allowed = (u64)(tx_in_flight - 1) * BBR_LOSS_THRESH;
	if (allowed <= prev)
		return tx_in_flight - 1;
	return tx_in_flight - 1 + div64_u64(allowed - prev, 100 - BBR_LOSS_THRESH);
}

/* The packet with which losses first exceed the threshold: 1, 2, ... */
static inline u32 bbr_first_too_many(u32 tx_in_flight)
{
	return div64_u64((u64)tx_in_flight * BBR_LOSS_THRESH, 100) + 1;
}

/*
 * InflightWithHeadroom() of a finite inflight_longterm: headroom is 15 %, at
 * least one packet, rounded up; what is left is at least MinPipeCwnd.
 */
static inline u32 bbr_with_headroom(u32 inflight_longterm)
{
	u32 headroom = bbr_div_up((u64)inflight_longterm * BBR_HEADROOM, 100);
	u32 left = inflight_longterm - headroom;

	return left > BBR_MIN_PIPE_CWND ? left : BBR_MIN_PIPE_CWND;
}

/*
 * What C.lost was when a packet was sent, which Linux does not keep in packets.
 * An entry says what C.lost has become, at which time and at which C.delivered.
 *
 * Entries of ACKs are `spacing` delivered packets apart at least; what is lost
 * in between is added to the entry before. With a 32nd of the packets in flight
 * 64 entries always reach back two windows, and of a window's losses those of
 * a 32nd of it are missing at most.
 */
#define BBR_LOSS_HISTORY	64U	/* a power of two */

struct bbr_loss_history {
	u32	length;		/* entries ever */
	u32	lost_before;	/* C.lost before the oldest entry that is left */
	struct bbr_loss {
		u64	time_us;
		u32	delivered;
		u32	lost;
	} entry[BBR_LOSS_HISTORY];
};

static inline void bbr_losses_note(struct bbr_loss_history *history, u64 now_us, u32 delivered,
				   u32 lost, u32 spacing)
{
	struct bbr_loss *entry = &history->entry[(history->length - 1) % BBR_LOSS_HISTORY];
	u32 gap = delivered - entry->delivered;

	/* after no delivery (gap 0) it was a timer: packets may lie in between */
	if (history->length && gap && gap < spacing) {
		entry->lost = lost;
		return;
	}
	entry = &history->entry[history->length % BBR_LOSS_HISTORY];
	if (history->length >= BBR_LOSS_HISTORY)
		history->lost_before = entry->lost;
	entry->time_us = now_us;
	entry->delivered = delivered;
	entry->lost = lost;
	history->length++;
}

/*
 * P.lost, from P.delivered and P.send_time. The time counts where a timer found
 * losses: C.delivered is then the same before and after them. Packets that an
 * ACK sends are sent after it has marked losses.
 */
static inline u32 bbr_losses_at(const struct bbr_loss_history *history, u32 delivered,
				u64 send_time_us)
{
	u32 i, count = history->length < BBR_LOSS_HISTORY ? history->length : BBR_LOSS_HISTORY;

	for (i = 1; i <= count; i++) {
		u32 slot = (history->length - i) % BBR_LOSS_HISTORY;
		const struct bbr_loss *entry = &history->entry[slot];
		s32 later = (s32)(entry->delivered - delivered);

		if (later < 0 || (!later && entry->time_us <= send_time_us))
			return entry->lost;
	}
	return history->lost_before;
}

/* RaiseInflightLongtermSlope(): ACKed packets per packet of growth. */
static inline u32 bbr_acked_per_increase(u32 cwnd, u32 rounds)
{
	u32 acked = rounds < 31 ? cwnd >> rounds : 0;

	return acked ? acked : 1;
}

#endif

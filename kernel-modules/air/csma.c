// SPDX-License-Identifier: GPL-2.0-only
/* Access by unslotted CSMA/CA: see csma.h. */
#include "csma.h"

/*
 * O-QPSK at 2.4 GHz: symbols of 16 us with 4 bits each. Table 8-51 (MAC) and clause 10.1 (PHY) of
 * the standard: aUnitBackoffPeriod 20 symbols, aTurnaroundTime 12, a clear channel assessment 8,
 * macAckWaitDuration 54, long and short interframe spaces 40 and 12 (frames of up to
 * aMaxSIFSFrameSize, 18 bytes).
 */
#define SYMBOL 16000ULL
#define UNIT (20 * SYMBOL)
#define TURNAROUND (12 * SYMBOL)
#define ASSESSMENT (8 * SYMBOL)
#define ACK_WAIT (54 * SYMBOL)
#define LONG_SPACE (40 * SYMBOL)
#define SHORT_SPACE (12 * SYMBOL)
#define SHORT_FRAME 18
#define EXPONENT_MIN 3		/* macMinBE */
#define EXPONENT_MAX 5		/* macMaxBE */
#define MOST_BACKOFFS 4		/* macMaxCSMABackoffs */

/* 4 bytes of preamble, one of delimiter, one of length */
u32 csma_airtime(u32 bytes)
{
	return (6 + bytes) * 2 * SYMBOL;
}

static void joined(struct air_channel *channel, int station)
{
	channel->station[station].csma = (struct air_csma){ .step = CSMA_REST };
}

static void back_off(struct air_channel *channel, struct air_csma *csma, u64 now)
{
	csma->step = CSMA_BACKOFF;
	csma->at = now + (air_random(channel) & ((1u << csma->exponent) - 1)) * UNIT;
}

static void begin(struct air_channel *channel, struct air_csma *csma, u64 now)
{
	csma->tries = 0;
	csma->exponent = EXPONENT_MIN;
	back_off(channel, csma, now < csma->hold ? csma->hold : now);
}

static void offered(struct air_channel *channel, int station, u64 now)
{
	begin(channel, &channel->station[station].csma, now);
}

static u64 next(const struct air_channel *channel, int station)
{
	const struct air_csma *csma = &channel->station[station].csma;

	return csma->step == CSMA_REST ? AIR_NEVER : csma->at;
}

/* Backs off, listens for eight symbols, turns from receiving to sending, sends. */
static enum air_step act(struct air_channel *channel, int station, u64 now)
{
	struct air_station *its = &channel->station[station];
	struct air_csma *csma = &its->csma;

	switch (csma->step) {
	case CSMA_BACKOFF:
		if (air_answer_end(channel, station) > now) {	/* it answers first */
			csma->at = air_answer_end(channel, station);
			return AIR_WAITS;
		}
		csma->step = CSMA_SENSE;
		csma->heard = its->sensed;
		csma->at = now + ASSESSMENT;
		return AIR_WAITS;
	case CSMA_SENSE:
		if (!csma->heard) {
			csma->step = CSMA_TURN;
			csma->at = now + TURNAROUND;
			return AIR_WAITS;
		}
		if (++csma->tries > MOST_BACKOFFS) {
			csma->step = CSMA_REST;
			return AIR_GIVES_UP;
		}
		csma->exponent += csma->exponent < EXPONENT_MAX;
		back_off(channel, csma, now);
		return AIR_WAITS;
	case CSMA_TURN:
		csma->step = CSMA_REST;
		return AIR_BEGINS;
	default:
		return AIR_WAITS;
	}
}

static void busy(struct air_channel *channel, int station, u64 now)
{
	struct air_csma *csma = &channel->station[station].csma;

	(void)now;
	if (csma->step == CSMA_SENSE)
		csma->heard = true;
}

static void idle(struct air_channel *channel, int station, u64 now, bool spoilt, u64 reserved)
{
	(void)channel, (void)station, (void)now, (void)spoilt, (void)reserved;
}

/*
 * A frame that was not acknowledged, and the next one, contend anew; the next one keeps its
 * distance.
 */
static bool ended(struct air_channel *channel, int station, u64 now, bool acknowledged, bool last)
{
	struct air_station *its = &channel->station[station];

	if (acknowledged)
		its->csma.hold = now + (its->frame.airtime_ns > csma_airtime(SHORT_FRAME) ?
					LONG_SPACE : SHORT_SPACE);
	if (last)
		return false;
	begin(channel, &its->csma, now);
	return true;
}

const struct air_access csma_access = {
	.joined = joined, .offered = offered, .next = next, .act = act, .busy = busy, .idle = idle,
	.ended = ended,
	.ack_gap_ns = TURNAROUND, .ack_wait_ns = ACK_WAIT,
};

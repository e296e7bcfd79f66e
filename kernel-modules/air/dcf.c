// SPDX-License-Identifier: GPL-2.0-only
/* Access by DCF: see dcf.h. */
#include "dcf.h"

#define ACK_BYTES 14

struct dcf_phy {
	u32 slot_ns, difs_ns, eifs_ns;
	u32 cca_ns;		/* until a signal is noticed */
	u32 window_min, window_max;
};

/*
 * Pure 802.11g (ERP-OFDM, short slots): IEEE 802.11-2016, table 18-5. A frame ends with a silence
 * of 6 us (signal extension), which counts as airtime here.
 *
 *   SIFS = 10 us, DIFS = SIFS + 2 slots
 *   EIFS = SIFS + DIFS + airtime of an acknowledgment (14 bytes) at 6 Mbit/s, 50 us with its
 *   extension
 *   ACKTimeout = SIFS + slot + 20 us, until a preamble is known for one (clause 10.3.2.9)
 */
#define OFDM_SIFS 10000
#define OFDM_ACK_TIMEOUT 39000
static const struct dcf_phy ofdm = {
	.slot_ns = 9000, .difs_ns = 28000, .eifs_ns = 88000, .cca_ns = 4000,
	.window_min = 15, .window_max = 1023,
};

/*
 * 802.11b with long preambles (HR/DSSS): table 16-4. ACK at 1 Mbit/s: 192 + 112 us. A preamble
 * takes 192 us.
 */
#define DSSS_SIFS 10000
#define DSSS_ACK_TIMEOUT 222000
static const struct dcf_phy dsss = {
	.slot_ns = 20000, .difs_ns = 50000, .eifs_ns = 364000, .cca_ns = 15000,
	.window_min = 31, .window_max = 1023,
};

/*
 * 16 us preamble, 4 us SIGNAL, then symbols of 4 us with 4 bits per Mbit/s: 16 bits of SERVICE, the
 * frame, 6 bits of tail (clause 17.4.3); 6 us of extension.
 */
u32 dcf_airtime_ofdm(u32 bytes, u32 rate)
{
	u32 bits_of_symbol = rate * 4 / 10, bits = 16 + 8 * bytes + 6;

	return 26000 + (bits + bits_of_symbol - 1) / bits_of_symbol * 4000;
}

/* 144 + 48 us of preamble and header; clause 16.3.4 */
u32 dcf_airtime_dsss(u32 bytes, u32 rate)
{
	return 192000 + (bytes * 80 + rate - 1) / rate * 1000;
}

/*
 * At the highest rate of the basic rate set that is no higher than that of the frame (clause
 * 10.6.6.5.2): 6, 12, 24 Mbit/s; 1, 2 Mbit/s.
 */
u32 dcf_ack_ofdm(u32 rate)
{
	return dcf_airtime_ofdm(ACK_BYTES, rate >= 240 ? 240 : rate >= 120 ? 120 : 60);
}

u32 dcf_ack_dsss(u32 rate)
{
	return dcf_airtime_dsss(ACK_BYTES, rate >= 20 ? 20 : 10);
}

static const struct dcf_phy *phy_of(const struct air_channel *channel)
{
	return channel->access->phy;
}

static void joined(struct air_channel *channel, int station)
{
	channel->station[station].dcf = (struct air_dcf){ .slots = -1,
		.window = phy_of(channel)->window_min };
}

/*
 * When the slots of back-off begin to count: after DIFS of silence (EIFS after what was not
 * understood, clause 10.3.2.3.7, a garbled acknowledgment of the station's own frame included), of
 * nobody's reservation but others' (10.3.2.4), of having waited for an answer in vain (10.3.2.9;
 * 10.22.2.4 says so in as many words).
 */
static u64 counting_from(const struct air_channel *channel, const struct air_dcf *dcf)
{
	const struct dcf_phy *phy = phy_of(channel);
	u64 from = dcf->idle_since + (dcf->extended ? phy->eifs_ns : phy->difs_ns);

	if (from < dcf->reserved + phy->difs_ns)
		from = dcf->reserved + phy->difs_ns;
	if (from < dcf->failed + phy->difs_ns)
		from = dcf->failed + phy->difs_ns;
	return from;
}

/* Windows are powers of two, less one. */
static void draw(struct air_channel *channel, struct air_dcf *dcf)
{
	dcf->slots = air_random(channel) & dcf->window;
}

static u64 expiry(const struct air_channel *channel, const struct air_dcf *dcf)
{
	u64 at = counting_from(channel, dcf);

	if (dcf->slots > 0)
		at += (u64)dcf->slots * phy_of(channel)->slot_ns;
	return at < dcf->offered ? dcf->offered : at;
}

/*
 * A frame may go at once if the channel is idle for long enough and no back-off is left of the one
 * before.
 */
static void offered(struct air_channel *channel, int station, u64 now)
{
	struct air_station *its = &channel->station[station];
	struct air_dcf *dcf = &its->dcf;

	dcf->offered = now;
	if (dcf->slots < 0 && (its->sensed || now < counting_from(channel, dcf)))
		draw(channel, dcf);
}

static u64 next(const struct air_channel *channel, int station)
{
	const struct air_station *its = &channel->station[station];

	if (its->dcf.committed)
		return its->dcf.commit;
	return its->sensed ? AIR_NEVER : expiry(channel, &its->dcf);
}

static enum air_step act(struct air_channel *channel, int station, u64 now)
{
	struct air_dcf *dcf = &channel->station[station].dcf;

	(void)now;
	dcf->committed = false;
	dcf->slots = -1;
	return AIR_BEGINS;
}

/* Slots that have passed are done; whoever would begin before he can hear the signal begins. */
static void busy(struct air_channel *channel, int station, u64 now)
{
	const struct dcf_phy *phy = phy_of(channel);
	struct air_station *its = &channel->station[station];
	struct air_dcf *dcf = &its->dcf;
	u64 from = counting_from(channel, dcf);
	bool waits = its->has_frame && !its->data.on_air && its->verdict_at == AIR_NEVER;

	if (waits && !dcf->committed && expiry(channel, dcf) < now + phy->cca_ns) {
		dcf->committed = true;
		dcf->commit = expiry(channel, dcf);
		return;
	}
	if (dcf->slots > 0 && now > from) {
		u64 passed = (now - from) / phy->slot_ns;

		dcf->slots = passed < (u64)dcf->slots ? dcf->slots - (s32)passed : 0;
	}
	if (!waits && !dcf->slots)
		dcf->slots = now >= from ? -1 : 0;
}

static void idle(struct air_channel *channel, int station, u64 now, bool spoilt, u64 reserved)
{
	struct air_dcf *dcf = &channel->station[station].dcf;

	dcf->idle_since = now;
	dcf->extended = spoilt;
	if (reserved > dcf->reserved)
		dcf->reserved = reserved;
}

/* Every attempt is followed by a back-off, also when nothing waits. */
static bool ended(struct air_channel *channel, int station, u64 now, bool acknowledged, bool last)
{
	const struct dcf_phy *phy = phy_of(channel);
	struct air_dcf *dcf = &channel->station[station].dcf;

	if (acknowledged || last)
		dcf->window = phy->window_min;
	else if (dcf->window < phy->window_max)
		dcf->window = 2 * dcf->window + 1;
	dcf->failed = acknowledged ? 0 : now;
	dcf->committed = false;
	draw(channel, dcf);
	return !last;
}

#define DCF_ACCESS(of, sifs, timeout) { \
	.joined = joined, .offered = offered, .next = next, .act = act, .busy = busy, \
	.idle = idle, .ended = ended, \
	.ack_gap_ns = sifs, .ack_wait_ns = timeout, .phy = of }

const struct air_access dcf_ofdm_access = DCF_ACCESS(&ofdm, OFDM_SIFS, OFDM_ACK_TIMEOUT);
const struct air_access dcf_dsss_access = DCF_ACCESS(&dsss, DSSS_SIFS, DSSS_ACK_TIMEOUT);

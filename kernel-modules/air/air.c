// SPDX-License-Identifier: GPL-2.0-only
/* One radio channel: see air.h. */
#include "air.h"

static bool in(const struct air_set *set, int station)
{
	return set->words[station / 64] >> (station % 64) & 1;
}

static void put(struct air_set *set, int station)
{
	set->words[station / 64] |= 1ULL << (station % 64);
}

static void put_all(struct air_set *set, const struct air_set *more)
{
	int i;

	for (i = 0; i < AIR_STATIONS / 64; i++)
		set->words[i] |= more->words[i];
}

/* xorshift64*: G. Marsaglia, Xorshift RNGs, 2003; S. Vigna, TOMS 42(4), 2016 */
u32 air_random(struct air_channel *channel)
{
	channel->random ^= channel->random >> 12;
	channel->random ^= channel->random << 25;
	channel->random ^= channel->random >> 27;
	return channel->random * 0x2545F4914F6CDD1DULL >> 32;
}

void air_init(struct air_channel *channel, const struct air_user *user,
	      const struct air_access *access, u64 seed)
{
	int i;

	channel->user = user;
	channel->access = access;
	channel->stations = 0;
	channel->on_air = 0;
	channel->busy_since = 0;
	channel->busy_ns = 0;
	channel->loss = 0;
	channel->random = seed ^ 0x9E3779B97F4A7C15ULL;
	if (!channel->random)
		channel->random = 1;
	for (i = 0; i < 8; i++)		/* seeds that differ in a bit have like first draws */
		air_random(channel);
}

int air_join(struct air_channel *channel, s32 x_mm, s32 y_mm)
{
	int new = channel->stations;

	if (new == AIR_STATIONS)
		return -1;
	channel->station[new] = (struct air_station){
		.x_mm = x_mm, .y_mm = y_mm, .ack_at = AIR_NEVER, .verdict_at = AIR_NEVER,
	};
	channel->stations++;
	channel->access->joined(channel, new);
	return new;
}

static bool within(const struct air_station *a, const struct air_station *b, u32 mm)
{
	s64 x = (s64)a->x_mm - b->x_mm, y = (s64)a->y_mm - b->y_mm;

	return (u64)(x * x + y * y) <= (u64)mm * mm;
}

void air_ranges(struct air_channel *channel, u32 range_mm, u32 sense_mm)
{
	int a, b;

	for (a = 0; a < channel->stations; a++) {
		struct air_station *one = &channel->station[a];

		one->reaches = (struct air_set){ };
		one->hears = one->reaches;
		put(&one->hears, a);
		for (b = 0; b < channel->stations; b++) {
			if (a == b)
				continue;
			if (within(one, &channel->station[b], range_mm)) {
				put(&one->reaches, b);
				put(&one->hears, b);
			} else if (within(one, &channel->station[b], sense_mm)) {
				put(&one->hears, b);
			}
		}
	}
}

/* What others hear of a signal is lost while a station sends, and all of it for that station. */
static void meet(struct air_signal *signal, const struct air_station *sends, int station)
{
	put_all(&signal->garbled, &sends->hears);
	put(&signal->missed, station);
}

/*
 * Hearing is mutual. Whoever hears a new signal loses what else is on the air, and the new one with
 * it.
 */
static void put_on_air(struct air_channel *channel, int from, struct air_signal *signal, u64 now,
		       u32 airtime_ns)
{
	struct air_station *sender = &channel->station[from];
	int other;

	*signal = (struct air_signal){ .end = now + airtime_ns };
	put(&signal->garbled, from);
	put(&signal->missed, from);
	for (other = 0; other < channel->stations; other++) {
		struct air_station *of = &channel->station[other];

		if (of->data.on_air || of->ack.on_air)
			meet(signal, of, other);
		if (of->data.on_air)
			meet(&of->data, sender, from);
		if (of->ack.on_air)
			meet(&of->ack, sender, from);
	}
	signal->on_air = true;
	sender->account.airtime_ns += airtime_ns;
	if (!channel->on_air++)
		channel->busy_since = now;
	for (other = 0; other < channel->stations; other++)
		if (in(&sender->hears, other) && !channel->station[other].sensed++)
			channel->access->busy(channel, other, now);
}

static bool understood(struct air_channel *channel, int from, const struct air_signal *signal,
		       int by)
{
	return in(&channel->station[from].reaches, by) && !in(&signal->garbled, by);
}

/*
 * Those who understood it know until when the channel is reserved, but for whom it was for. Who
 * sent himself did not begin to receive it: to him it was noise.
 */
static void take_off_air(struct air_channel *channel, int from, struct air_signal *signal, u64 now,
			 int to, u64 reserved)
{
	int other;

	signal->on_air = false;
	if (!--channel->on_air)
		channel->busy_ns += now - channel->busy_since;
	for (other = 0; other < channel->stations; other++) {
		bool clear = understood(channel, from, signal, other);

		if (in(&channel->station[from].hears, other) && !--channel->station[other].sensed)
			channel->access->idle(channel, other, now,
					      !clear && !in(&signal->missed, other),
					      clear && other != to ? reserved : now);
	}
}

static bool contends(const struct air_station *its)
{
	return its->has_frame && !its->data.on_air && its->verdict_at == AIR_NEVER;
}

static void next_frame(struct air_channel *channel, int station, u64 now)
{
	struct air_station *its = &channel->station[station];

	if (its->has_frame || !channel->user->next_frame(channel, station, &its->frame))
		return;
	its->has_frame = true;
	its->arrived = false;
	its->attempts = 0;
	its->account.frames++;
	channel->access->offered(channel, station, now);
}

/* An attempt has succeeded, or not, or could not be made. */
static void attempt_ended(struct air_channel *channel, int station, u64 now, enum air_result result)
{
	struct air_station *its = &channel->station[station];
	bool sent = result == AIR_SENT;
	bool last = sent || result == AIR_NO_ACCESS ||
		    !channel->user->again(channel, station, &its->frame, its->attempts + 1);

	if (channel->access->ended(channel, station, now, sent, last) && !last)
		return;
	its->has_frame = false;
	if (its->frame.ack_ns && sent)
		its->account.acknowledged++;
	its->account.given_up += result == AIR_NO_ACK;
	its->account.no_access += result == AIR_NO_ACCESS;
	its->account.lost += its->frame.to != AIR_ALL && !its->arrived;
	channel->user->done(channel, station, &its->frame, result, its->attempts);
	next_frame(channel, station, now);
}

/* Whether a station's frame is for another one that it reaches. */
static bool concerns(const struct air_station *its, int other)
{
	return (its->frame.to == AIR_ALL || its->frame.to == other) && in(&its->reaches, other);
}

/* Whom a frame is for, and whom it does not reach as others sent, or by chance. */
static void count_losses(struct air_channel *channel, struct air_station *its)
{
	int other;

	for (other = 0; other < channel->stations; other++) {
		struct air_station *of = &channel->station[other];

		if (!concerns(its, other))
			continue;
		if (in(&its->data.garbled, other)) {
			of->account.garbled++;
		} else if (channel->loss && air_random(channel) < channel->loss) {
			of->account.chance++;
			put(&its->data.garbled, other);
		}
	}
}

static void data_ended(struct air_channel *channel, int station, u64 now)
{
	struct air_station *its = &channel->station[station];
	struct air_frame *frame = &its->frame;
	u64 reserved = frame->ack_ns ? now + channel->access->ack_gap_ns + frame->ack_ns : now;
	int other;

	count_losses(channel, its);
	take_off_air(channel, station, &its->data, now, frame->to, reserved);
	for (other = 0; other < channel->stations; other++) {
		struct air_station *of = &channel->station[other];

		if (!concerns(its, other) || in(&its->data.garbled, other))
			continue;
		of->account.received++;
		if (its->arrived && frame->to != AIR_ALL) {
			of->account.duplicates++;
		} else {
			its->arrived = true;
			of->account.delivered++;
			channel->user->received(channel, station, other, frame);
		}
		/* a receiver that is about to acknowledge another frame cannot answer this one */
		if (frame->ack_ns && of->ack_at == AIR_NEVER && !of->ack.on_air) {
			of->ack_at = now + channel->access->ack_gap_ns;
			of->ack_to = station;
		}
	}
	if (frame->ack_ns)
		its->verdict_at = now + channel->access->ack_wait_ns;
	else
		attempt_ended(channel, station, now, AIR_SENT);
}

static void ack_ended(struct air_channel *channel, int station, u64 now)
{
	struct air_station *its = &channel->station[station], *of = &channel->station[its->ack_to];

	take_off_air(channel, station, &its->ack, now, its->ack_to, now);
	if (!understood(channel, station, &its->ack, its->ack_to))
		return;
	of->verdict_at = AIR_NEVER;
	attempt_ended(channel, its->ack_to, now, AIR_SENT);
}

/*
 * A station has waited for an answer to begin. If one has, and has met no other signal so far, its
 * end decides.
 */
static void waited(struct air_channel *channel, int station, u64 now)
{
	struct air_station *its = &channel->station[station];
	int by = its->frame.to;

	if (by < channel->stations) {
		const struct air_station *of = &channel->station[by];

		if (of->ack.on_air && of->ack_to == station &&
		    understood(channel, by, &of->ack, station)) {
			its->verdict_at = of->ack.end;
			return;
		}
	}
	its->verdict_at = AIR_NEVER;
	attempt_ended(channel, station, now, AIR_NO_ACK);
}

bool air_reaches(const struct air_channel *channel, int from, int station)
{
	return in(&channel->station[from].reaches, station);
}

u64 air_answer_end(const struct air_channel *channel, int station)
{
	const struct air_station *its = &channel->station[station];

	if (its->ack.on_air)
		return its->ack.end;
	return its->ack_at == AIR_NEVER ? 0 :
		its->ack_at + channel->station[its->ack_to].frame.ack_ns;
}

void air_offer(struct air_channel *channel, int station, u64 now)
{
	next_frame(channel, station, now);
}

static void earlier(u64 *least, u64 value)
{
	if (value < *least)
		*least = value;
}

u64 air_next(const struct air_channel *channel)
{
	u64 least = AIR_NEVER;
	int i;

	for (i = 0; i < channel->stations; i++) {
		const struct air_station *its = &channel->station[i];

		if (its->data.on_air)
			earlier(&least, its->data.end);
		if (its->ack.on_air)
			earlier(&least, its->ack.end);
		earlier(&least, its->ack_at);
		earlier(&least, its->verdict_at);
		if (contends(its))
			earlier(&least, channel->access->next(channel, i));
	}
	return least;
}

/*
 * At one instant: what ends, then what nobody answered, then what begins. All that begin together
 * collide.
 */
static void run_instant(struct air_channel *channel, u64 now)
{
	struct air_set begin = { };
	int i;

	for (i = 0; i < channel->stations; i++) {
		if (channel->station[i].ack.on_air && channel->station[i].ack.end == now)
			ack_ended(channel, i, now);
		if (channel->station[i].data.on_air && channel->station[i].data.end == now)
			data_ended(channel, i, now);
	}
	for (i = 0; i < channel->stations; i++)
		if (channel->station[i].verdict_at == now)
			waited(channel, i, now);
	for (i = 0; i < channel->stations; i++) {
		struct air_station *its = &channel->station[i];

		if (!contends(its) || channel->access->next(channel, i) > now)
			continue;
		switch (channel->access->act(channel, i, now)) {
		case AIR_BEGINS:
			put(&begin, i);
			break;
		case AIR_GIVES_UP:
			attempt_ended(channel, i, now, AIR_NO_ACCESS);
			break;
		case AIR_WAITS:
			break;
		}
	}
	for (i = 0; i < channel->stations; i++) {
		struct air_station *its = &channel->station[i];

		if (its->ack_at == now) {
			its->ack_at = AIR_NEVER;
			if (!its->data.on_air)
				put_on_air(channel, i, &its->ack, now,
					   channel->station[its->ack_to].frame.ack_ns);
		}
		if (in(&begin, i) && !its->ack.on_air) {
			its->account.retries += its->attempts++ > 0;
			its->account.attempts++;
			put_on_air(channel, i, &its->data, now, its->frame.airtime_ns);
		}
	}
}

void air_run(struct air_channel *channel, u64 now)
{
	u64 next;

	while ((next = air_next(channel)) <= now)
		run_instant(channel, next);
}

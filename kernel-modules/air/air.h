/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One radio channel: who is on the air, who hears whom, what arrives.
 *
 * Nothing here knows of the kernel: the same source is compiled into modules
 * (air_wlan.c, air_lowpan.c) and into a program for tests. Time is in
 * nanoseconds; whoever uses it calls air_run() at the times air_next() names.
 *
 * Model: a frame arrives where its sender is in range, unless the receiver
 * sends itself, or hears anybody else, while any of it is on the air (no
 * capture). Within range nothing is lost to noise but by `loss`. Propagation
 * takes no time.
 */
#ifndef AIR_H
#define AIR_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
typedef __u64 u64;
typedef __u32 u32;
typedef __s32 s32;
typedef __s64 s64;
typedef __u8 u8;
#endif

#define AIR_STATIONS 128
#define AIR_ALL (-1)
#define AIR_NEVER (~0ULL)

/* Stations as a set. */
struct air_set {
	u64 words[AIR_STATIONS / 64];
};

/* What a station wants to send; airtimes include preamble and headers of the physical layer. */
struct air_frame {
	int to;			/* a station, or AIR_ALL */
	u32 airtime_ns;
	u32 ack_ns;		/* airtime of the acknowledgment; 0: none is asked for */
	void *cookie;
};

enum air_result { AIR_SENT, AIR_NO_ACK, AIR_NO_ACCESS };
enum air_step { AIR_WAITS, AIR_BEGINS, AIR_GIVES_UP };

/* Times and counts of one station. */
struct air_account {
	/*
	 * of the sender: given_up and no_access asked for an acknowledgment; lost never arrived
	 * anywhere
	 */
	u64 frames, attempts, retries, acknowledged, given_up, no_access, lost;
	/*
	 * of the receiver: received = delivered + duplicates; garbled by others, or lost by chance
	 */
	u64 received, garbled, chance, delivered, duplicates;
	u64 airtime_ns;
};

struct air_channel;

/* What the channel asks of its user. */
struct air_user {
	/* the next frame of a station; false: there is none */
	bool (*next_frame)(struct air_channel *channel, int station, struct air_frame *frame);
	/*
	 * before attempt number `attempt` (2, 3 ...): may change airtimes; false: no more attempts
	 */
	bool (*again)(struct air_channel *channel, int station, struct air_frame *frame,
		      int attempt);
	/* a frame, acknowledged or not, has reached a station for the first time */
	void (*received)(struct air_channel *channel, int from, int station,
			 const struct air_frame *frame);
	/* the station is through with a frame */
	void (*done)(struct air_channel *channel, int station, const struct air_frame *frame,
		     enum air_result result, int attempts);
};

/* How stations get at the channel: dcf.c, csma.c. Called for stations that hear it. */
struct air_access {
	void (*joined)(struct air_channel *channel, int station);
	/* a frame waits and the station is not busy with another */
	void (*offered)(struct air_channel *channel, int station, u64 now);
	/* when act() is to be called next, AIR_NEVER if nobody knows */
	u64 (*next)(const struct air_channel *channel, int station);
	/* the station sends now, or goes on waiting, or found no chance to */
	enum air_step (*act)(struct air_channel *channel, int station, u64 now);
	void (*busy)(struct air_channel *channel, int station, u64 now);
	/*
	 * spoilt: the last signal was heard and not understood; otherwise it may have reserved the
	 * channel until `reserved`, for others than its sender and whom it was for
	 */
	void (*idle)(struct air_channel *channel, int station, u64 now, bool spoilt, u64 reserved);
	/* the station's own attempt has ended; false: it gives up */
	bool (*ended)(struct air_channel *channel, int station, u64 now, bool acknowledged,
		      bool last);
	u64 ack_gap_ns;		/* between a frame and its acknowledgment */
	/* from the end of a frame until it is known that no acknowledgment has begun */
	u64 ack_wait_ns;
	const void *phy;	/* constants of its own */
};

/* Something on the air. */
struct air_signal {
	bool on_air;
	u64 end;
	struct air_set garbled;	/* for whom */
	struct air_set missed;	/* by whoever sent meanwhile, its own sender included */
};

/* The state of DCF (dcf.c). */
struct air_dcf {
	u64 idle_since, reserved, failed, offered, commit;
	s32 slots;		/* of back-off left, -1: none is pending */
	u32 window;
	bool committed, extended;
};

/* The state of unslotted CSMA/CA (csma.c). */
struct air_csma {
	u64 at, hold;
	enum { CSMA_REST, CSMA_BACKOFF, CSMA_SENSE, CSMA_TURN } step;
	u8 tries, exponent;
	bool heard;
};

struct air_station {
	s32 x_mm, y_mm;
	bool present;
	struct air_set reaches;	/* who understands it */
	struct air_set hears;	/* who hears that it sends, itself included */
	int sensed;		/* signals heard, its own included */
	bool has_frame;
	bool arrived;		/* its frame, somewhere, in one of its attempts */
	int attempts;
	struct air_frame frame;
	struct air_signal data, ack;
	int ack_to;
	u64 ack_at;		/* its acknowledgment begins */
	u64 verdict_at;		/* it knows whether its frame was acknowledged */
	struct air_account account;
	union {
		struct air_dcf dcf;
		struct air_csma csma;
	};
};

struct air_channel {
	const struct air_user *user;
	const struct air_access *access;
	void *owner;
	u64 random;
	u32 loss;		/* of 2^32 frames so many are lost in range */
	int stations;
	u64 busy_since, busy_ns;	/* anybody on the air */
	int on_air;
	struct air_station station[AIR_STATIONS];
};

void air_init(struct air_channel *channel, const struct air_user *user,
	      const struct air_access *access, u64 seed);
int air_join(struct air_channel *channel, s32 x_mm, s32 y_mm);
/* Who reaches and hears whom, once all have joined; sensing reaches at least as far. */
void air_ranges(struct air_channel *channel, u32 range_mm, u32 sense_mm);
/* A frame waits at a station. */
void air_offer(struct air_channel *channel, int station, u64 now);
u64 air_next(const struct air_channel *channel);
/* Everything up to and including `now`. */
void air_run(struct air_channel *channel, u64 now);
/* Whether a station understands another. */
bool air_reaches(const struct air_channel *channel, int from, int station);
/* When the acknowledgment that a station owes or sends is over; 0 if there is none. */
u64 air_answer_end(const struct air_channel *channel, int station);
/* Even in 0 .. 2^32 - 1. */
u32 air_random(struct air_channel *channel);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a Tmix replay does for each event, by one io_uring. Plans are read, sockets listen and records are written by
 * core_loop.py, which hands over addresses.
 *
 * One system call for each wake-up submits everything and sleeps. Waits are timeouts inside the ring, with the write
 * linked behind them, and a read completes when the whole ADU has come: the program is woken only where an instant has
 * to be noted that is not known beforehand. The instant at which a write begins after a wait is known: it is the
 * deadline that the kernel keeps. Where the ring can read the clock it notes instants itself (chained.c).
 *
 * connection.py beside this folder says what an op means, and does the same with epoll.
 *
 * Structs that begin with "shared_" are declared in core_loop.py, too, word by word: all of their fields have 64 bits.
 */
#ifndef TMIX_CORE_H
#define TMIX_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../io/ring.h"

enum {
	PERIOD = 65521,			/* of the payload, traffic/io/payload.py */
	STEP = 2 * 24593,
	KEPT_BYTES = 2048,		/* of a read: its end is compared, what came before is not kept */
	BUFFERS_AT_ONCE = 64,
	NOTE_WORDS = 8,			/* core_loop.py */
	MOST_BLOCKS = 1 << 20,
	MOST_STEPS = 4,			/* of a chain: what waits takes 2 kB of the kernel's memory for each */
	CCA_WORD = 6,			/* of a block of notes: where the name of the congestion control goes */
	CCA_BYTES = 16,
	MOST_CCAS = 16,
	MOST_MSS = 32768,		/* options.py */
	BUFFER_WINDOWS = 2,
	MOST_BUFFER_BYTES = 1 << 30,
	/* so many connections are handed to the ring ahead of their time, and so many sockets are kept for the next ones:
	 * a chain can use only a descriptor that is known when it is submitted */
	AHEAD = 16,
	LOOKS = 4,			/* flows that end without waking anybody are looked at in turn, so many at a time */
	AFTER_SYN_NS = 1000,		/* after the SYN: no network answers as fast */
	CLOSED_NS = 1000000000,		/* a chain that ends a connection has succeeded if it has not failed by then */
};

/* no bytes are to come any more */
#define NOWHERE ((int64_t)1 << 61)

/* what completes, in the low bits of an operation's number */
enum { CONNECT, RECEIVE, SEND, SHUTDOWN, ACCEPT, SOCKET, AHEAD_OVER, CUT, IGNORED, KIND_BITS = 4, KIND_MASK = 15 };

/* what a flow waits for */
enum { CONNECTING, DATA, WRITTEN, LAST_DATA, AT_EOF, CLOSED };

/* values of `status` in the records (records.py) */
enum { NEVER = -1, NOT_STARTED = 0, UNFINISHED = 1, FINISHED = 2 };

/* what a step begins with, where that is no read of so many bytes */
enum { STEP_END = 0, STEP_CONNECTED = -1 };

struct shared_cca {
	int64_t count;
	char name[CCA_BYTES];
};

/* one end of a source: columns of its plan and of its records, one row for each connection or op */
struct shared_end {
	int64_t initiates, connections, shares_ports, wraps, first_port, ports, port, phase, backwards;
	const int64_t *planned_us, *mss_own, *mss_peer;		/* mss: of initiators only */
	const int64_t *windows;					/* NULL: sockets have their own */
	const int64_t *own_first, *own_need, *own_wait_us, *own_bytes;
	const int64_t *peer_first, *peer_need, *peer_bytes;
	int64_t *start_us, *connected_us, *end_us, *status, *read_bytes, *sent_us, *delivered_us;
	const uint8_t *local_ip, *peer_ip;			/* ip_size bytes */
	int64_t ip_size;
	const char *cca;					/* with its 0; NULL: the host's default */
	int64_t cca_size;
	const int64_t *options;					/* level, number and value of each */
	int64_t n_options;
	int64_t listener;					/* descriptor */
	/* what was found */
	int64_t checked_bytes, unchecked_bytes, wrong_pieces, wrong_connection, wrong_position, n_ccas;
	struct shared_cca ccas[MOST_CCAS];
};

struct shared_loop {
	struct shared_end *ends;
	int64_t n_ends;
	struct shared_ring *ring;
	int64_t t0_ns, end_ns, offset_ns;
	const char *clock;					/* a device that can be mapped, traffic/io/clock.py */
	const uint8_t *pattern;
	int64_t wakeup_cost_ns;
	uint64_t *notes;					/* NULL: nothing is chained */
	int64_t asks;
	int (*run_signal_handlers)(void);			/* Python's; not 0: one raised an exception */
	int64_t stopping;					/* set by a signal handler */
	/* what was found */
	int64_t strays, chains, error, error_end;	/* error: errno; of a listener of an end, or -1 */
};

struct step {
	int64_t what, answers, word;	/* word -1: it wakes somebody instead of noting an instant */
	uint8_t *buffer;
	bool closes;
};

struct flow {
	struct loop *loop;
	struct shared_end *end;
	int64_t index, number;		/* row of the plan; number << KIND_BITS */
	int64_t op, last_op, left, writing, due, peer_op, peer_last, mark, read, expected, asked, sent;
	int64_t out_place, in_place;
	int64_t block;			/* its first word of notes, -1: it is not chained */
	uint8_t *buffer;
	struct step steps[MOST_STEPS + 1];
	int n_steps, fd, state;
	int window[2];			/* values of SO_RCVBUF and TCP_WINDOW_CLAMP */
	int mss[2];			/* values of TCP_MAXSEG: until the SYN, and after it */
	bool closes, is_closed, asks, eof_is_last;
};

/* where one end of a connection is in its program; bytes count from the connection's beginning */
struct place {
	int64_t op, last_op, read, mark, sent, peer_op, peer_last, expected;
	bool closes, eof_is_last;
};

/* things of one size, the one given back last first */
struct pool {
	int64_t *free;
	int64_t n, room;
};

struct waiting {
	int64_t due, number;
};

struct loop {
	struct shared_loop *shared;
	struct ring ring;
	const volatile uint64_t *clock;	/* NULL: the system's */
	struct flow **flows;		/* by number; NULL: over */
	int64_t count, flows_room;
	struct pool unused_flows, buffers, blocks, sockets, silent;
	int64_t fresh_blocks, looked_at;
	int socket_errno;
	int64_t *next;			/* of each end: the connection that starts next */
	struct waiting *closing;	/* a heap */
	int64_t n_closing, closing_room;
	int (*accepted_size)[1];	/* of each end */
	uint8_t (*accepted_from)[28];
	int one;
};

/* clock.c */
int64_t now_ns(const struct loop *loop);
const volatile uint64_t *mapped_clock(const char *path);
void pay_for_wakeup(int64_t ns);

/* memory.c */
void *room_for(void *old, int64_t n, size_t size);
void push(struct pool *pool, int64_t what);
uint8_t *take_buffer(struct loop *loop);
struct flow *new_flow(struct loop *loop, struct shared_end *end, int64_t index, int fd);
void forget(struct loop *loop, int64_t number);
void note_name(struct shared_end *end, const char *name);

/* loop.c */
bool at_end(const struct loop *loop);

/* over.c */
void closes_at(struct loop *loop, int64_t due, int64_t number);
void forget_closed(struct loop *loop, int64_t now, int64_t looks);

static inline int64_t place_in_period(int64_t place)
{
	place %= PERIOD;
	return place < 0 ? place + PERIOD : place;
}

static inline int64_t us_of(int64_t ns)
{
	return ns >= 0 ? ns / 1000 : -((999 - ns) / 1000);
}

/* flow.c */
void flow_begin(struct flow *flow, struct loop *loop, struct shared_end *end, int64_t index, int64_t number, int fd,
		int64_t block);
void flow_established(struct flow *flow, int64_t now);
void flow_received(struct flow *flow, int64_t n, int64_t now);
void flow_read_failed(struct flow *flow);
void flow_written(struct flow *flow, int64_t size, int64_t now);
void flow_fin_sent(struct flow *flow, int64_t now);
void flow_fail(struct flow *flow, int error, int64_t now);
void flow_cut(struct flow *flow, int64_t now);
void flow_take(struct flow *flow, int64_t n);
uint8_t *flow_submit_read(struct flow *flow, int64_t asked, int flags);
void flow_wait_unchained(struct flow *flow);
void flow_delivered(struct flow *flow, int64_t now);
void flow_note(struct flow *flow, int64_t status, int64_t now);

/* chained.c */
void chained_connect(struct flow *flow);
void chained_wait(struct flow *flow);
void chained_note_cca(struct flow *flow);
void chained_drop_steps(struct flow *flow);
void chained_settle(struct flow *flow);
void chained_leave(struct flow *flow);

/* what core_loop.py calls: 0, or -1 with `error` or an exception of Python's */
extern const int64_t tmix_sizes[4];	/* of what is shared */
int tmix_run(struct shared_loop *shared, int64_t duration_ns, void **state);
void tmix_close(void *state);

#endif

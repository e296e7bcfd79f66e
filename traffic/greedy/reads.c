/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads of greedy flows that are over, in C: the same in the same order as ring.py and ring_ends.py beside this file,
 * which say why. What is no usual read is left to them. Structs that begin with "shared_" are declared there, too, word
 * by word: all of their fields have 64 bits.
 */
#include <netinet/tcp.h>
#include <stddef.h>

#include "../ring.h"

enum {
	PERIOD = 65521,			/* of the payload, traffic/payload.py */
	IGNORED = 1, ACCEPT = 2, READ = 3, KIND_BITS = 3, KIND_MASK = 7,	/* ring_ends.py */
	STEADY_LOOKS = 3,
	FIRST_READ_BYTES = 1448,
	TCP_CA_NAME_MAX = 16,		/* traffic/sockets.py */
	PATIENCE = 32,			/* ring.py */
	MOST_NS = 50000000,
	LOW_WATER_BYTES = 1 << 19,	/* ends.py */
	GROWING = 32,
	STEADY = 8,
	READS_BETWEEN = 8,
	TOLD_BYTES = 68,		/* of struct tcp_info, the last four tcpi_rcv_ssthresh */
	TOLD_WINDOW = 64,
};

/* ring_ends.SharedReceiver, which says what the fields are */
struct shared_receiver {
	int64_t own;			/* whether what follows its connection and its reads is decided here */
	int64_t fd, asked;		/* asked: bytes of a read after which the same follows; 0: none */
	int64_t n_reads, looks, looks_after, since_ns, window, low_water;
	uint8_t *buffer;
	uint8_t *told;			/* what the socket says of itself; before it, the name of its congestion control */
	int64_t place, checked_bytes, wrong_pieces, first_wrong;
};

/* ring.Pace: how long reads take */
struct shared_pace {
	int64_t enough, count, before_ns, least_ns;
};

/* core_reads.SharedReads */
struct shared_reads {
	struct shared_ring *ring;
	struct shared_receiver *ends;	/* by number; those of senders are never `own` */
	struct shared_pace pace;
	const uint8_t *pattern;
	int64_t most_bytes, now_ns, connected_ns;
	int64_t waiting;		/* operations not yet handed over */
	int64_t first, last;		/* completions that are not yet looked at */
	int64_t number, result;		/* of one that is left to Python */
};

const int64_t greedy_sizes[] = {
	sizeof(struct shared_ring), sizeof(struct shared_receiver), sizeof(struct shared_pace), sizeof(struct shared_reads),
};

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void pace_took(struct shared_pace *pace, int64_t ns)
{
	pace->least_ns = min(pace->least_ns, ns);
	if (++pace->count == pace->enough) {
		pace->before_ns = pace->least_ns;
		pace->least_ns = (int64_t)PATIENCE * MOST_NS;
		pace->count = 0;
	}
}

/* A read of so many bytes is over. */
void greedy_took(struct shared_reads *all, int64_t end, int64_t size)
{
	struct shared_receiver *receiver = &all->ends[end];

	pace_took(&all->pace, all->now_ns - receiver->since_ns);
	receiver->since_ns = all->now_ns;
	receiver->n_reads++;
	if (memcmp(receiver->buffer, all->pattern + receiver->place, size) && !receiver->wrong_pieces++)
		receiver->first_wrong = receiver->checked_bytes;
	receiver->checked_bytes += size;
	receiver->place = (receiver->place + size) % PERIOD;
}

/* At the window, as it was one look before. */
static void look(struct shared_receiver *receiver, int64_t most_bytes)
{
	uint32_t told;
	int64_t window;

	memcpy(&told, receiver->told + TOLD_WINDOW, sizeof(told));
	window = max(1, told);
	receiver->looks = window == receiver->window && receiver->n_reads > 2 ? receiver->looks + 1 : 0;
	receiver->window = window;
	receiver->looks_after = receiver->n_reads + (receiver->looks >= STEADY_LOOKS ? READS_BETWEEN :
						   min(READS_BETWEEN, max(1, window / most_bytes)));
}

static void ask(struct ring *ring, const struct shared_receiver *receiver, int name, uint8_t *answer, int size)
{
	ring_option(ring, GET_OPTION, receiver->fd, IPPROTO_TCP, name, answer, size, QUIET, IGNORED);
}

/* The first read, of a full segment: the window is known only after it. */
static void accepted(struct shared_reads *all, struct ring *ring, uint64_t end, int fd)
{
	struct shared_receiver *receiver = &all->ends[end];

	ring_make_room(ring, LONGEST_CHAIN);
	receiver->fd = fd;
	receiver->since_ns = all->connected_ns = all->now_ns;
	ask(ring, receiver, TCP_CONGESTION, receiver->told - TCP_CA_NAME_MAX, TCP_CA_NAME_MAX);
	ask(ring, receiver, TCP_INFO, receiver->told, TOLD_BYTES);
	ring_receive(ring, fd, receiver->buffer, FIRST_READ_BYTES, 0, end << KIND_BITS | READ);
}

/* The next read, which may be for another share of another window. */
static void read_on(struct ring *ring, struct shared_receiver *receiver, int64_t most_bytes, uint64_t number)
{
	int64_t share, low_water;

	if (receiver->n_reads >= receiver->looks_after)
		look(receiver, most_bytes);
	share = receiver->window / (receiver->looks >= STEADY_LOOKS ? STEADY : GROWING);
	low_water = min(most_bytes, max(1, min(share, LOW_WATER_BYTES)));
	ask(ring, receiver, TCP_INFO, receiver->told, TOLD_BYTES);
	if (low_water != receiver->low_water) {
		receiver->low_water = low_water;	/* its lower half is an int */
		ring_option(ring, SET_OPTION, receiver->fd, SOL_SOCKET, SO_RCVLOWAT, &receiver->low_water, sizeof(int),
			    LINK | QUIET, number);
	}
	receiver->asked = receiver->window > most_bytes ? most_bytes : 0;
	ring_receive(ring, receiver->fd, receiver->buffer, min(receiver->window, most_bytes), 0, number);
}

static void read_more(struct shared_reads *all, struct ring *ring, uint64_t number, int64_t size)
{
	struct shared_receiver *receiver = &all->ends[number >> KIND_BITS];

	if (size == receiver->asked && receiver->n_reads + 1 < receiver->looks_after) {
		greedy_took(all, number >> KIND_BITS, size);
		ring_make_room(ring, 1);
		ring_receive(ring, receiver->fd, receiver->buffer, size, 0, number);
	} else {
		ring_make_room(ring, LONGEST_CHAIN);
		greedy_took(all, number >> KIND_BITS, size);
		read_on(ring, receiver, all->most_bytes, number);
	}
}

/* Hand over all operations and wait for so many completions, which greedy_next() finds. Returns an errno, or 0. */
int greedy_wait(struct shared_reads *all, uint32_t least)
{
	struct shared_ring *shared = all->ring;
	struct ring ring = { .shared = shared, .tail = shared->tail, .waiting = all->waiting };

	ring_enter(&ring, least);
	all->waiting = ring.waiting;
	all->first = shared->words[shared->cq_head];
	all->last = __atomic_load_n(&shared->words[shared->cq_tail], __ATOMIC_ACQUIRE);
	return ring.error;
}

/* Deal with what has completed, as far as that can be done here: 1 with a completion that Python is to deal with, 0 at
 * the end, or a negative errno. Whatever is dealt with here is followed by exactly one operation that completes, so that
 * RingFlows.under_way stays as it is. */
int greedy_next(struct shared_reads *all)
{
	struct shared_ring *shared = all->ring;
	struct ring ring = { .shared = shared, .tail = shared->tail, .waiting = all->waiting };
	uint32_t first = all->first, last = all->last;
	bool left = false;

	while (first != last && !left && !ring.error) {
		const struct cqe *cqe = &shared->cqes[first++ & (shared->completions - 1)];
		uint64_t end = cqe->number >> KIND_BITS;
		int kind = cqe->number & KIND_MASK;

		if (kind == READ && cqe->result > 0 && all->ends[end].own) {
			read_more(all, &ring, cqe->number, cqe->result);
		} else if (kind == ACCEPT && cqe->result >= 0 && all->ends[end].own) {
			accepted(all, &ring, end, cqe->result);
		} else {
			left = true;
			all->number = cqe->number;
			all->result = cqe->result;
		}
		__atomic_store_n(&shared->words[shared->cq_head], first, __ATOMIC_RELEASE);
	}
	all->first = first;
	shared->tail = ring.tail;
	all->waiting = ring.waiting;
	return ring.error ? -ring.error : left;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads of greedy flows that are over, in C: the same in the same order as ring.py and ring_ends.py beside this file,
 * which say why. What is no usual read is left to them. Structs that begin with "shared_" are declared there, too, word
 * by word: all of their fields have 64 bits.
 */
#include <netinet/tcp.h>
#include <stddef.h>

#include "../io/ring.h"

enum {
	PERIOD = 65521,			/* of the payload, traffic/io/payload.py */
	IGNORED = 1, ACCEPT = 2, READ = 3, KIND_BITS = 3, KIND_MASK = 7,	/* ring_ends.py */
	TCP_CA_NAME_MAX = 16,		/* traffic/io/sockets.py */
};

/* ring_ends.SharedReceiver, which says what the fields are */
struct shared_receiver {
	int64_t own;			/* whether what follows its connection and its reads is decided here */
	int64_t fd;
	uint8_t *buffer;
	uint8_t *cca;			/* where the name of its congestion control is noted */
	int64_t place, checked_bytes, wrong_pieces, first_wrong;
};

/* core_reads.SharedReads */
struct shared_reads {
	struct shared_ring *ring;
	struct shared_receiver *ends;	/* by number; those of senders are never `own` */
	const uint8_t *pattern;
	int64_t most_bytes;
	int64_t waiting;		/* operations not yet handed over */
	int64_t first, last;		/* completions that are not yet looked at */
	int64_t number, result;		/* of one that is left to Python */
};

const int64_t greedy_sizes[] = {
	sizeof(struct shared_ring), sizeof(struct shared_receiver), sizeof(struct shared_reads),
};

/* A read of so many bytes is over. */
void greedy_took(struct shared_reads *all, int64_t end, int64_t size)
{
	struct shared_receiver *receiver = &all->ends[end];

	if (memcmp(receiver->buffer, all->pattern + receiver->place, size) && !receiver->wrong_pieces++)
		receiver->first_wrong = receiver->checked_bytes;
	receiver->checked_bytes += size;
	receiver->place = (receiver->place + size) % PERIOD;
}

static void read_on(struct shared_reads *all, struct ring *ring, uint64_t end)
{
	const struct shared_receiver *receiver = &all->ends[end];

	ring_receive(ring, receiver->fd, receiver->buffer, all->most_bytes, 0, end << KIND_BITS | READ);
}

static void accepted(struct shared_reads *all, struct ring *ring, uint64_t end, int fd)
{
	ring_make_room(ring, LONGEST_CHAIN);
	all->ends[end].fd = fd;
	ring_option(ring, GET_OPTION, fd, IPPROTO_TCP, TCP_CONGESTION, all->ends[end].cca, TCP_CA_NAME_MAX, QUIET, IGNORED);
	read_on(all, ring, end);
}

static void read_more(struct shared_reads *all, struct ring *ring, uint64_t end, int64_t size)
{
	ring_make_room(ring, LONGEST_CHAIN);
	greedy_took(all, end, size);
	read_on(all, ring, end);
}

/* Hand over all operations and wait for a completion; greedy_next() finds those that there are. Returns an errno, or 0. */
int greedy_wait(struct shared_reads *all)
{
	struct shared_ring *shared = all->ring;
	struct ring ring = { .shared = shared, .tail = shared->tail, .waiting = all->waiting };

	ring_enter(&ring, 1);
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
			read_more(all, &ring, end, cqe->result);
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

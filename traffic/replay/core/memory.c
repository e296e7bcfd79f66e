/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows, and what they take and give back: buffers, notes. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void no_memory(void)
{
	fputs("replay: no memory\n", stderr);
	_exit(1);
}

void *room_for(void *old, int64_t n, size_t size)
{
	void *found = realloc(old, n * size);

	if (!found)
		no_memory();
	return found;
}

void push(struct pool *pool, int64_t what)
{
	if (pool->n == pool->room) {
		pool->room = pool->room ? 2 * pool->room : 64;
		pool->free = room_for(pool->free, pool->room, sizeof(*pool->free));
	}
	pool->free[pool->n++] = what;
}

/* Pages are dear in a guest: what was given back is used again first, new memory comes with its pages. */
uint8_t *take_buffer(struct loop *loop)
{
	struct pool *buffers = &loop->buffers;

	if (!buffers->n) {
		uint8_t *memory = mmap(NULL, BUFFERS_AT_ONCE * KEPT_BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		int i;

		if (memory == MAP_FAILED)
			no_memory();
		for (i = BUFFERS_AT_ONCE - 1; i >= 0; i--)
			push(buffers, (intptr_t)(memory + i * KEPT_BYTES));
	}
	return (uint8_t *)(intptr_t)buffers->free[--buffers->n];
}

/* the first word of a block of notes, -1 if there is none left or nothing is chained */
static int64_t take_block(struct loop *loop, const struct shared_end *end)
{
	if (!loop->shared->notes || end->windows)
		return -1;
	if (loop->blocks.n)
		return loop->blocks.free[--loop->blocks.n];
	return loop->fresh_blocks < MOST_BLOCKS ? loop->fresh_blocks++ * NOTE_WORDS : -1;
}

struct flow *new_flow(struct loop *loop, struct shared_end *end, int64_t index, int fd)
{
	struct flow *flow = loop->unused_flows.n ? (struct flow *)(intptr_t)loop->unused_flows.free[--loop->unused_flows.n]
						 : room_for(NULL, 1, sizeof(*flow));

	if (loop->count == loop->flows_room) {
		loop->flows_room *= 2;
		loop->flows = room_for(loop->flows, loop->flows_room, sizeof(*loop->flows));
	}
	end->status[index] = UNFINISHED;
	flow_begin(flow, loop, end, index, loop->count, fd, take_block(loop, end));
	loop->flows[loop->count++] = flow;
	return flow;
}

/* What was forgotten may be looked at until the next flow begins. */
void forget(struct loop *loop, int64_t number)
{
	struct flow *flow = loop->flows[number];

	loop->flows[number] = NULL;
	chained_leave(flow);
	push(&loop->unused_flows, (intptr_t)flow);
}

void note_name(struct shared_end *end, const char *name)
{
	int i;

	for (i = 0; i < end->n_ccas && strncmp(end->ccas[i].name, name, CCA_BYTES); i++)
		;
	if (i == MOST_CCAS)
		i--;			/* no kernel has so many that one run meets them */
	else if (i == end->n_ccas)
		strncpy(end->ccas[end->n_ccas++].name, name, CCA_BYTES);
	end->ccas[i].count++;
}

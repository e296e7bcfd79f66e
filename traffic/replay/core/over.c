/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows that end without anybody being woken: when nobody will hear of them any more. */
#include "core.h"

void closes_at(struct loop *loop, int64_t due, int64_t number)
{
	struct waiting *heap, mine = { due + CLOSED_NS, number };
	int64_t at = loop->n_closing++;

	if (at == loop->closing_room) {
		loop->closing_room = at ? 2 * at : 64;
		loop->closing = room_for(loop->closing, loop->closing_room, sizeof(*loop->closing));
	}
	heap = loop->closing;
	for (; at && heap[(at - 1) / 2].due > mine.due; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = mine;
}

static int64_t first_closing(struct loop *loop)
{
	struct waiting *heap = loop->closing, last = heap[--loop->n_closing];
	int64_t number = heap[0].number, at = 0, below;

	while ((below = 2 * at + 1) < loop->n_closing) {
		below += below + 1 < loop->n_closing && heap[below + 1].due < heap[below].due;
		if (heap[below].due >= last.due)
			break;
		heap[at] = heap[below];
		at = below;
	}
	heap[at] = last;
	return number;
}

void forget_closed(struct loop *loop, int64_t now, int64_t looks)
{
	struct pool *silent = &loop->silent;

	while (loop->n_closing && loop->closing[0].due < now) {
		int64_t number = first_closing(loop);

		if (loop->flows[number])
			forget(loop, number);
	}
	for (looks = looks < silent->n ? looks : silent->n; looks; looks--) {
		int64_t place = loop->looked_at < silent->n ? loop->looked_at : 0;
		struct flow *flow = loop->flows[silent->free[place]];

		if (flow) {
			chained_settle(flow);
			if (flow->state != CLOSED || flow->due + CLOSED_NS >= now) {
				loop->looked_at = place + 1;
				continue;
			}
			forget(loop, silent->free[place]);
		}
		silent->free[place] = silent->free[--silent->n];
		loop->looked_at = place;
	}
}

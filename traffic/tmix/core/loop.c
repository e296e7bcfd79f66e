/* SPDX-License-Identifier: GPL-2.0-only */
/* All connections of a node, by one io_uring. ringloop.py says the same in Python, and why. */
#include "core.h"

#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* --- memory -------------------------------------------------------------------------------------- */

/* No way on without memory; the program's end says so. */
static void *room_for(void *old, int64_t n, size_t size)
{
	void *found = realloc(old, n * size);

	if (!found)
		abort();
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

/* Pages are dear in a guest: what was given back is used again first, and new memory comes with its pages (buffers.py) */
uint8_t *take_buffer(struct loop *loop)
{
	struct pool *buffers = &loop->buffers;

	if (!buffers->n) {
		uint8_t *memory = mmap(NULL, BUFFERS_AT_ONCE * KEPT_BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		int i;

		if (memory == MAP_FAILED)
			abort();
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

static struct flow *new_flow(struct loop *loop, struct shared_end *end, int64_t index, int fd)
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

static struct flow *flow_of(const struct loop *loop, uint64_t number)
{
	uint64_t which = number >> KIND_BITS;

	return which < (uint64_t)loop->count ? loop->flows[which] : NULL;
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

/* --- time ---------------------------------------------------------------------------------------- */

int64_t now_ns(const struct loop *loop)
{
	struct timespec now;

	if (loop->clock)
		return (int64_t)*loop->clock + loop->shared->offset_ns;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static const volatile uint64_t *mapped_clock(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *page;

	if (fd < 0)
		return NULL;
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return page == MAP_FAILED ? NULL : page;
}

/* what the wake-up of a process costs: time.sleep(ns / 1e9) of Python, down to how that rounds */
static void pay_for_wakeup(int64_t ns)
{
	volatile double seconds = ns / 1e9;
	int64_t rounded = ceil(seconds * 1e9);
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	rounded += until.tv_nsec;
	until.tv_sec += rounded / 1000000000;
	until.tv_nsec = rounded % 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

bool at_end(const struct loop *loop)
{
	return loop->shared->stopping || now_ns(loop) >= loop->shared->end_ns;
}

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

static void forget_closed(struct loop *loop, int64_t now, int64_t looks)
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

/* --- initiators ---------------------------------------------------------------------------------- */

static void set_option(struct loop *loop, int fd, int level, int name, const void *value, int size, int flags,
		       uint64_t number)
{
	ring_option(&loop->ring, SET_OPTION, fd, level, name, value, size, flags, number);
}

static int64_t effective_mss(int64_t mss)
{
	return mss < ETHERNET_MSS ? mss : 0;
}

/* the rest of a chain that connects */
static void connect_flow(struct loop *loop, struct shared_end *end, int64_t index, int64_t instant, int fd)
{
	struct flow *flow = new_flow(loop, end, index, fd);
	struct ring *ring = &loop->ring;
	uint64_t number = flow->number | CONNECT;
	int64_t own = effective_mss(end->mss_own[index]), peer = effective_mss(end->mss_peer[index]);

	end->started_us[index] = us_of(instant);
	flow->due = instant;
	if (peer)
		set_option(loop, fd, IPPROTO_TCP, TCP_MAXSEG, &loop->mss[peer], sizeof(int), LINK | QUIET, number);
	if (flow->window[1]) {
		set_option(loop, fd, SOL_SOCKET, SO_RCVBUF, &flow->window[0], sizeof(int), LINK | QUIET, number);
		set_option(loop, fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &flow->window[1], sizeof(int), LINK | QUIET, number);
	}
	if (end->cca)
		set_option(loop, fd, IPPROTO_TCP, TCP_CONGESTION, end->cca, end->cca_size, LINK | QUIET, number);
	if (end->shares_ports)
		set_option(loop, fd, SOL_SOCKET, SO_REUSEADDR, &loop->one, sizeof(int), LINK | QUIET, number);
	ring_endpoint(ring, OP_BIND, fd, end->local_ip, end->ip_size, end->first_port + index % end->ports, LINK | QUIET,
		      number);
	chained_connect(flow);
	if (own != peer) {
		ring_make_room(ring, LONGEST_CHAIN);
		ring_at(ring, loop->shared->t0_ns + instant + AFTER_SYN_NS, LINK | QUIET, IGNORED);
		set_option(loop, fd, IPPROTO_TCP, TCP_MAXSEG, &loop->mss[own], sizeof(int), QUIET, IGNORED);
	}
}

/* the number of the end whose next connection starts first, -1 if none does */
static int64_t starts_first(const struct loop *loop)
{
	const struct shared_end *ends = loop->shared->ends;
	int64_t first = -1, i;

	for (i = 0; i < loop->shared->n_ends; i++)
		if (ends[i].initiates && loop->next[i] < ends[i].connections &&
		    (first < 0 || ends[i].start_us[loop->next[i]] < ends[first].start_us[loop->next[first]]))
			first = i;
	return first;
}

/* submit the next AHEAD connects, each behind a timeout; the first one tells us */
static void hand_over_starts(struct loop *loop, int64_t now)
{
	struct shared_loop *shared = loop->shared;
	int64_t of, i;

	forget_closed(loop, now, AHEAD * LOOKS);
	for (i = 0; i < AHEAD && (of = starts_first(loop)) >= 0; i++) {
		struct shared_end *end = &shared->ends[of];
		int64_t index = loop->next[of]++, instant = 1000 * end->start_us[index];
		bool has_socket = loop->sockets.n > 0;

		ring_make_room(&loop->ring, LONGEST_CHAIN);
		ring_at(&loop->ring, shared->t0_ns + instant, !has_socket ? 0 : i ? LINK | QUIET : LINK,
			i ? IGNORED : AHEAD_OVER);
		if (has_socket) {
			connect_flow(loop, end, index, instant, loop->sockets.free[--loop->sockets.n]);
		} else {
			end->started_us[index] = end->end_us[index] = us_of(instant);
			end->status[index] = -loop->socket_errno;
		}
	}
	if (starts_first(loop) < 0)
		return;
	ring_make_room(&loop->ring, AHEAD);
	for (i = 0; i < AHEAD; i++)
		ring_socket(&loop->ring, shared->ends[0].ip_size == 4 ? AF_INET : AF_INET6, 0, SOCKET);
}

/* --- acceptors ----------------------------------------------------------------------------------- */

static void accept_next(struct loop *loop, int64_t of)
{
	ring_make_room(&loop->ring, LONGEST_CHAIN);
	ring_accept(&loop->ring, loop->shared->ends[of].listener, loop->accepted_from[of], loop->accepted_size[of],
		    of << KIND_BITS | ACCEPT);
}

/* how many starts are not after an instant */
static int64_t begun_by(const struct shared_end *end, int64_t now_us)
{
	int64_t low = 0, high = end->connections;

	while (low < high) {
		int64_t middle = (low + high) / 2;

		if (end->start_us[middle] <= now_us)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* the connection that comes from a port, -1 if there is none (endpoint.py) */
static int64_t index_of(const struct shared_end *end, int port, int64_t now_us)
{
	int64_t offset = port - end->first_port;
	int64_t begun = end->wraps ? begun_by(end, now_us) : end->connections;

	if (offset < 0 || offset >= end->ports || offset >= begun)
		return -1;
	return begun - 1 - (begun - 1 - offset) % end->ports;
}

static void accepted(struct loop *loop, int64_t of, int fd, int64_t now)
{
	struct shared_end *end = &loop->shared->ends[of];
	int port = loop->accepted_from[of][2] << 8 | loop->accepted_from[of][3];
	struct flow *flow;
	int64_t index;

	accept_next(loop, of);
	if (fd < 0) {
		if (fd != -ECONNABORTED) {	/* that one broke in the queue */
			loop->ring.error = -fd;
			loop->shared->error_end = of;
		}
		return;
	}
	index = index_of(end, port, us_of(now));
	if (index < 0 || end->status[index] != NOT_STARTED) {
		loop->shared->strays++;
		ring_close_socket(&loop->ring, fd, QUIET, IGNORED);
		return;
	}
	flow = new_flow(loop, end, index, fd);
	if (flow->window[1] &&
	    (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &flow->window[0], sizeof(int)) ||
	     setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &flow->window[1], sizeof(int)))) {
		flow_fail(flow, errno, now);
		return;
	}
	flow_established(flow, now);
	forget_closed(loop, now, LOOKS);
}

/* --- what completes ------------------------------------------------------------------------------ */

/* a completion that is no flow's */
static void own_completion(struct loop *loop, const struct cqe *done, int64_t now)
{
	switch (done->number & KIND_MASK) {
	case ACCEPT:
		accepted(loop, done->number >> KIND_BITS, done->result, now);
		break;
	case AHEAD_OVER:
		hand_over_starts(loop, now);
		break;
	case SOCKET:
		if (done->result >= 0)
			push(&loop->sockets, done->result);
		else
			loop->socket_errno = -done->result;
	}
}

static void completed(struct loop *loop, const struct cqe *done, int64_t now)
{
	int kind = done->number & KIND_MASK;
	struct flow *flow;

	if (kind > SHUTDOWN) {
		own_completion(loop, done, now);
		return;
	}
	flow = flow_of(loop, done->number);
	if (!flow || done->result == -ECANCELED)
		return;			/* failed before, or will by what broke the chain */
	chained_settle(flow);
	if (done->result < 0 && done->result != -ETIME) {
		if (kind == RECEIVE)
			flow_read_failed(flow);
		flow_fail(flow, -done->result, now);
	} else if (kind == RECEIVE) {
		flow_received(flow, done->result, now);
	} else if (kind == CONNECT) {
		flow->end->connected_us[flow->index] = us_of(now);
		flow_established(flow, now);
	} else if (kind == SEND) {
		flow_written(flow, done->result, now);
	} else {
		flow_fin_sent(flow, now);
	}
}

/* what was read until the end; a partial read counts */
static void note_reads(struct loop *loop, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		const struct cqe *done = &loop->ring.found[i];
		struct flow *flow = flow_of(loop, done->number);

		if (!flow || (done->number & KIND_MASK) != RECEIVE)
			continue;
		chained_settle(flow);
		if (flow->asked && done->result > 0)
			flow_take(flow, done->result);
	}
}

/* Note how far the unfinished connections came by `now`. Until nothing is left to cancel: what is still under way when a
 * ring goes away is cancelled by a kernel thread that waits for this process without sleeping. */
static void cut(struct loop *loop, int64_t now)
{
	int64_t left = 1, number;
	int i, n;

	while (left && !loop->ring.error) {
		ring_cancel_everything(&loop->ring, CUT);
		for (left = -1; left < 0 && !loop->ring.error;) {
			n = ring_submit_and_wait(&loop->ring);
			note_reads(loop, n);
			for (i = 0; i < n; i++)
				if (loop->ring.found[i].number == CUT)
					left = loop->ring.found[i].result;
		}
	}
	for (number = 0; number < loop->count; number++) {
		struct flow *flow = loop->flows[number];

		if (!flow)
			continue;
		chained_settle(flow);
		if (flow->state == CONNECTING && flow->due > now) {
			flow->end->started_us[flow->index] = NEVER;
			flow->end->status[flow->index] = NOT_STARTED;
		} else {
			flow_cut(flow, now);
		}
		chained_leave(flow);
	}
	loop->shared->strays += *loop->ring.shared->end != 0;
}

/* --- from and to core.py ------------------------------------------------------------------------- */

static struct loop *set_up(struct shared_loop *shared)
{
	struct loop *loop = room_for(NULL, 1, sizeof(*loop));
	int64_t n = shared->n_ends, i;

	*loop = (struct loop) { .shared = shared, .ring = { .shared = shared->ring, .tail = shared->ring->tail },
				.clock = mapped_clock(shared->clock), .flows_room = 1024, .one = 1 };
	loop->ring.found = room_for(NULL, shared->ring->completions, sizeof(struct cqe));
	loop->flows = room_for(NULL, loop->flows_room, sizeof(*loop->flows));
	loop->next = room_for(NULL, n, sizeof(*loop->next));
	loop->accepted_from = room_for(NULL, n, sizeof(*loop->accepted_from));
	loop->accepted_size = room_for(NULL, n, sizeof(*loop->accepted_size));
	for (i = 0; i < n; i++) {
		loop->next[i] = 0;
		memset(loop->accepted_from[i], 0, sizeof(loop->accepted_from[i]));
		loop->accepted_size[i][0] = sizeof(loop->accepted_from[i]);
	}
	for (i = 0; i < ETHERNET_MSS; i++)
		loop->mss[i] = i;
	return loop;
}

int tmix_run(struct shared_loop *shared, int64_t duration_ns, void **state)
{
	struct loop *loop = set_up(shared);
	int64_t now, of, i;
	int n;

	*state = loop;
	for (of = 0; of < shared->n_ends; of++)
		if (shared->ends[of].listener >= 0)
			accept_next(loop, of);
	if (starts_first(loop) >= 0) {
		for (i = 0; i < AHEAD; i++) {
			int fd = socket(shared->ends[0].ip_size == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

			push(&loop->sockets, fd >= 0 ? fd : -errno);
		}
		hand_over_starts(loop, 0);
	}
	ring_at(&loop->ring, shared->end_ns, 0, IGNORED);
	while (!shared->stopping && !loop->ring.error) {
		n = ring_submit_and_wait(&loop->ring);
		if (!n) {		/* a timeout inside a chain wakes us up, too */
			shared->stopping = shared->told_to_stop();
			continue;
		}
		if (shared->wakeup_cost_ns)
			pay_for_wakeup(shared->wakeup_cost_ns);
		now = now_ns(loop) - shared->t0_ns;
		if (now >= duration_ns) {
			note_reads(loop, n);
			break;
		}
		for (i = 0; i < n; i++)
			completed(loop, &loop->ring.found[i], now);
	}
	now = now_ns(loop) - shared->t0_ns;
	if (!loop->ring.error)
		cut(loop, now < duration_ns ? now : duration_ns);
	shared->error = loop->ring.error;
	return shared->error ? -1 : 0;
}

/* close all sockets but the listeners */
void tmix_close(void *state)
{
	struct loop *loop = state;
	int64_t i;

	for (i = 0; i < loop->sockets.n; i++)
		close(loop->sockets.free[i]);
	for (i = 0; i < loop->shared->n_ends; i++)
		if (loop->shared->ends[i].listener >= 0)
			close(loop->shared->ends[i].listener);
	for (i = 0; i < loop->count; i++)
		if (loop->flows[i])
			close(loop->flows[i]->fd);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* All connections of a node: starts, accepts, completions, the end. */
#include "core.h"

#include <netinet/tcp.h>
#include <stdlib.h>

bool at_end(const struct loop *loop)
{
	return loop->shared->stopping || now_ns(loop) >= loop->shared->end_ns;
}

/* --- initiators ---------------------------------------------------------------------------------- */

static void set_option(struct loop *loop, int fd, int level, int name, const void *value, int size, int flags,
		       uint64_t number)
{
	ring_option(&loop->ring, SET_OPTION, fd, level, name, value, size, flags, number);
}

static int64_t effective_mss(int64_t mss)
{
	return mss < MOST_MSS ? mss : 0;
}

/* the rest of a chain that connects */
static void connect_flow(struct loop *loop, struct shared_end *end, int64_t index, int64_t instant, int fd)
{
	struct flow *flow = new_flow(loop, end, index, fd);
	struct ring *ring = &loop->ring;
	uint64_t number = flow->number | CONNECT;
	const int64_t *option;

	end->start_us[index] = us_of(instant);
	flow->due = instant;
	flow->mss[0] = effective_mss(end->mss_peer[index]);
	flow->mss[1] = effective_mss(end->mss_own[index]);
	if (flow->mss[0])
		set_option(loop, fd, IPPROTO_TCP, TCP_MAXSEG, &flow->mss[0], sizeof(int), LINK | QUIET, number);
	if (flow->window[1]) {
		set_option(loop, fd, SOL_SOCKET, SO_RCVBUF, &flow->window[0], sizeof(int), LINK | QUIET, number);
		set_option(loop, fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &flow->window[1], sizeof(int), LINK | QUIET, number);
	}
	if (end->cca)
		set_option(loop, fd, IPPROTO_TCP, TCP_CONGESTION, end->cca, end->cca_size, LINK | QUIET, number);
	for (option = end->options; option < end->options + 3 * end->n_options; option += 3)
		/* the lower half of a value comes first */
		set_option(loop, fd, option[0], option[1], &option[2], sizeof(int), LINK | QUIET, number);
	if (end->shares_ports)
		set_option(loop, fd, SOL_SOCKET, SO_REUSEADDR, &loop->one, sizeof(int), LINK | QUIET, number);
	ring_endpoint(ring, OP_BIND, fd, end->local_ip, end->ip_size, end->first_port + index % end->ports, LINK | QUIET,
		      number);
	chained_connect(flow);
	if (flow->mss[1] != flow->mss[0]) {
		ring_make_room(ring, LONGEST_CHAIN);
		ring_at(ring, loop->shared->t0_ns + instant + AFTER_SYN_NS, LINK | QUIET, IGNORED);
		set_option(loop, fd, IPPROTO_TCP, TCP_MAXSEG, &flow->mss[1], sizeof(int), QUIET, IGNORED);
	}
}

/* the number of the end whose next connection starts first, -1 if none does */
static int64_t starts_first(const struct loop *loop)
{
	const struct shared_end *ends = loop->shared->ends;
	int64_t first = -1, i;

	for (i = 0; i < loop->shared->n_ends; i++)
		if (ends[i].initiates && loop->next[i] < ends[i].connections &&
		    (first < 0 || ends[i].planned_us[loop->next[i]] < ends[first].planned_us[loop->next[first]]))
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
		int64_t index = loop->next[of]++, instant = 1000 * end->planned_us[index];
		bool has_socket = loop->sockets.n > 0;

		ring_make_room(&loop->ring, LONGEST_CHAIN + end->n_options);
		ring_at(&loop->ring, shared->t0_ns + instant, !has_socket ? 0 : i ? LINK | QUIET : LINK,
			i ? IGNORED : AHEAD_OVER);
		if (has_socket) {
			connect_flow(loop, end, index, instant, loop->sockets.free[--loop->sockets.n]);
		} else {
			end->start_us[index] = end->end_us[index] = us_of(instant);
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

		if (end->planned_us[middle] <= now_us)
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

static struct flow *flow_of(const struct loop *loop, uint64_t number)
{
	uint64_t which = number >> KIND_BITS;

	return which < (uint64_t)loop->count ? loop->flows[which] : NULL;
}

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

/* Note how far the unfinished connections came by `now`. Until nothing is left to cancel: what is still under way when
 * a ring goes away is cancelled by a kernel thread that waits for this process without sleeping. */
static void cut(struct loop *loop, int64_t now)
{
	int64_t left = 1, number;
	int i, n;

	while (left) {
		ring_cancel_everything(&loop->ring, CUT);
		for (left = -1; left < 0;) {
			n = ring_submit_and_wait(&loop->ring);
			if (loop->ring.error)
				return;
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
			flow->end->start_us[flow->index] = NEVER;
			flow->end->status[flow->index] = NOT_STARTED;
		} else {
			flow_cut(flow, now);
		}
		chained_leave(flow);
	}
	loop->shared->strays += *loop->ring.shared->end != 0;
}

/* --- from and to core_loop.py -------------------------------------------------------------------- */

const int64_t tmix_sizes[] = { sizeof(struct shared_cca), sizeof(struct shared_end), sizeof(struct shared_ring),
			       sizeof(struct shared_loop) };

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
		if (shared->run_signal_handlers())
			return -1;
		if (!n || loop->ring.error)	/* nothing: a timeout inside a chain wakes us up, too */
			continue;
		if (shared->wakeup_cost_ns)
			pay_for_wakeup(shared->wakeup_cost_ns);
		now = now_ns(loop) - shared->t0_ns;
		if (now >= duration_ns) {
			note_reads(loop, n);
			break;
		}
		for (i = 0; i < n && !loop->ring.error; i++)
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
